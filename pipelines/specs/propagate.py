"""Propagate: labels of sentences in; labels of sentences, passages, documents and windows out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.spec import FolderSpec, Maker, StepSpec

if TYPE_CHECKING:
    from answermill.schemas.corpus import Rejected
    from answermill.schemas.labels import DocumentLabel, LabelConflict, PassageLabel, SentenceLabel, WindowLabel

MAKER = Maker("propagate")


@dataclass(frozen=True)
class PropagateCounts(StepCounts):
    """Counts of propagate."""

    labels: int = 0
    """Labels that were given."""
    used: int = 0
    sentences: int = 0
    passages: int = 0
    documents: int = 0
    windows: int = 0
    conflicts: int = 0
    ties: int = 0
    """Sentences of which as many labels say correct as say wrong."""

    sums: ClassVar[Mapping[str, tuple[str, ...]]] = {"labels": ("used", "rejects")}


SENTENCE_LABELS: FolderSpec[SentenceLabel] = FolderSpec(
    "labels/sentences",
    "answermill.schemas.labels:SentenceLabel",
    MAKER,
    key=("question_id", "sentence_id"),
    links={"doc_id": "documents"},
    rows="sentences",
)
PASSAGE_LABELS: FolderSpec[PassageLabel] = FolderSpec(
    "labels/passages",
    "answermill.schemas.labels:PassageLabel",
    MAKER,
    key=("question_id", "passage_id"),
    links={"passage_id": "passages"},
    rows="passages",
)
DOCUMENT_LABELS: FolderSpec[DocumentLabel] = FolderSpec(
    "labels/documents",
    "answermill.schemas.labels:DocumentLabel",
    MAKER,
    key=("question_id", "doc_id"),
    links={"doc_id": "documents"},
    rows="documents",
)
WINDOW_LABELS: FolderSpec[WindowLabel] = FolderSpec(
    "labels/windows", "answermill.schemas.labels:WindowLabel", MAKER, links={"doc_id": "documents"}, rows="windows"
)
LABEL_CONFLICTS: FolderSpec[LabelConflict] = FolderSpec(
    "labels/conflicts", "answermill.schemas.labels:LabelConflict", MAKER, rows="conflicts"
)
LABEL_REJECTS: FolderSpec[Rejected] = FolderSpec("labels/rejects", "answermill.schemas.corpus:Rejected", MAKER, rows="rejects")

PROPAGATE = StepSpec(
    MAKER,
    "Read sentence labels and passages/; write labels/.",
    (SENTENCE_LABELS, PASSAGE_LABELS, DOCUMENT_LABELS, WINDOW_LABELS, LABEL_CONFLICTS, LABEL_REJECTS),
    PropagateCounts,
    settings="answermill.pipelines.config.job_file:Propagate",
    reads=("passages",),
    item="labels",
    code="answermill.pipelines.steps.propagate.propagate:STEP",
    revision=3,
)
