"""Propagate: labels of sentences in; labels of sentences, passages, documents and windows out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.spec import FolderSpec, Maker, StepSpec

if TYPE_CHECKING:
    from answermill.schemas.corpus import Rejected
    from answermill.schemas.labels import (
        DocumentLabel,
        LabelConflict,
        PassageLabel,
        SentenceLabel,
        WindowLabel,
    )

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
    """Sentences with as many labels correct as wrong."""

    sums: ClassVar[Mapping[str, tuple[str, ...]]] = {"labels": ("used", "rejects")}


def _labels(count: str, record: str, key: tuple[str, ...] = (), **links: str) -> FolderSpec[Any]:
    """A folder of labels, named after the count of its rows; `links` are column → folder."""
    kind = f"answermill.schemas.labels:{record}"
    return FolderSpec(f"labels/{count}", kind, MAKER, key=key, links=links, rows=count)


SENTENCE_LABELS: FolderSpec[SentenceLabel] = _labels(
    "sentences", "SentenceLabel", ("question_id", "sentence_id"), doc_id="documents"
)
PASSAGE_LABELS: FolderSpec[PassageLabel] = _labels(
    "passages", "PassageLabel", ("question_id", "passage_id"), passage_id="passages"
)
DOCUMENT_LABELS: FolderSpec[DocumentLabel] = _labels(
    "documents", "DocumentLabel", ("question_id", "doc_id"), doc_id="documents"
)
WINDOW_LABELS: FolderSpec[WindowLabel] = _labels("windows", "WindowLabel", doc_id="documents")
LABEL_CONFLICTS: FolderSpec[LabelConflict] = _labels("conflicts", "LabelConflict")
LABEL_REJECTS: FolderSpec[Rejected] = FolderSpec(
    "labels/rejects", "answermill.schemas.corpus:Rejected", MAKER, rows="rejects"
)

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
