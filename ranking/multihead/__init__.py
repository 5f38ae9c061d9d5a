"""The multiple-heads student (MHS)."""

from __future__ import annotations

from ranking.cascade import ExitStage
from ranking.entry import Entry
from ranking.multihead.student_settings import TRAINING

ENTRIES = (
    Entry(
        "multihead",
        "ranking.multihead.multihead:MultiHead",
        settings=ExitStage,
        checkpoint="multihead",
        training=TRAINING,
    ),
)
