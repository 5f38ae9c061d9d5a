"""Cosinet (Bonadiman & Moschitti, COLING 2020) and the compare-aggregate baseline."""

from __future__ import annotations

from ranking.entry import Entry

ENTRIES = (
    Entry("cosinet", "ranking.cosinet.cosinet:Cosinet", checkpoint="cosinet"),
    Entry("cosinet_passages", "ranking.cosinet.cosinet:CosinetPassages", checkpoint="cosinet"),
    Entry("compare_aggregate", "ranking.cosinet.compare_aggregate:CompareAggregate", checkpoint="compare_aggregate"),
)
