"""Cosinet (Bonadiman & Moschitti, COLING 2020) and the compare-aggregate baseline."""

from __future__ import annotations

from answermill.ranking.entry import Entry
from answermill.ranking.rerankers.cosinet.list_settings import TRAINING

ENTRIES = (
    Entry(
        "cosinet",
        "answermill.ranking.rerankers.cosinet.cosinet:Cosinet",
        checkpoint="cosinet",
        training=TRAINING,
    ),
    Entry(
        "cosinet_passages",
        "answermill.ranking.rerankers.cosinet.cosinet:CosinetPassages",
        checkpoint="cosinet",
        training=TRAINING,
    ),
    Entry(
        "compare_aggregate",
        "answermill.ranking.rerankers.cosinet.compare_aggregate:CompareAggregate",
        checkpoint="compare_aggregate",
        training=TRAINING,
    ),
)
