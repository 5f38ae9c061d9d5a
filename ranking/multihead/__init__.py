"""The multiple-heads student (MHS)."""

from __future__ import annotations

from ranking.cascade import CascadeStage
from ranking.entry import Entry

ENTRIES = (Entry("multihead", "ranking.multihead.multihead:MultiHead", settings=CascadeStage, checkpoint="multihead"),)
