"""The multiple-heads student (MHS)."""

from __future__ import annotations

from answermill.ranking.entry import Entry
from answermill.ranking.rerankers.cascade import ExitStage
from answermill.ranking.rerankers.multihead.student_settings import TRAINING

ENTRIES = (
    Entry(
        "multihead",
        "answermill.ranking.rerankers.multihead.multihead:MultiHead",
        settings=ExitStage,
        checkpoint="multihead",
        training=TRAINING,
    ),
)
