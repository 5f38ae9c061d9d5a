"""Cosinet (Bonadiman & Moschitti, COLING 2020) and the compare-aggregate baseline."""

from __future__ import annotations

from ranking.cosinet.list_settings import TRAINING
from ranking.entry import Entry

ENTRIES = (
    Entry("cosinet", "ranking.cosinet.cosinet:Cosinet", checkpoint="cosinet", training=TRAINING),
    Entry("cosinet_passages", "ranking.cosinet.cosinet:CosinetPassages", checkpoint="cosinet", training=TRAINING),
    Entry(
        "compare_aggregate",
        "ranking.cosinet.compare_aggregate:CompareAggregate",
        checkpoint="compare_aggregate",
        training=TRAINING,
    ),
)
