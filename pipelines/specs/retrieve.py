"""Retrieve: questions and shards in; the questions that were asked, and the passages that were found for
each, out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from answermill.pipelines.runs.counts import StepCounts, milliseconds
from answermill.pipelines.runs.spec import FolderSpec, Maker, StepSpec

if TYPE_CHECKING:
    from answermill.schemas.corpus import Question, Rejected
    from answermill.schemas.ranked import Hit

MAKER = Maker("retrieve")


@dataclass(frozen=True)
class RetrieveCounts(StepCounts):
    """Counts of retrieve."""

    questions_given: int = 0
    questions: int = 0
    """Questions that were searched."""
    questions_numbered: int = 0
    """Questions given whose id is their line, since their file has nothing but their texts."""
    without_hits: int = 0
    """Questions for which nothing was found."""
    hits: int = 0
    bm25: int = 0
    """Hits that BM25 found, alone or with the dense index."""
    dense: int = 0
    # Of the passes, not of units. They are 0 where blocks were lost from a complete step, and searched again.
    bm25_ms: int = milliseconds("BM25", "questions")
    dense_ms: int = milliseconds("dense vectors", "questions")
    dense_card_ms: int = 0
    """Milliseconds, among these, in which a graphics card encoded or searched, the host's part included."""
    lists_ms: int = milliseconds("lists and passages", "questions")

    sums: ClassVar[Mapping[str, tuple[str, ...]]] = {"questions_given": ("questions", "rejects")}


@dataclass(frozen=True)
class PassCounts(StepCounts):
    """Counts of a unit of a pass within retrieve."""

    documents: int = 0
    """Passages of the shards whose words were counted."""
    tokens: int = 0
    titles: int = 0
    title_tokens: int = 0
    bm25_ms: int = 0
    dense_ms: int = 0
    dense_card_ms: int = 0
    lists_ms: int = 0


RETRIEVED: FolderSpec[Hit] = FolderSpec(
    "retrieved",
    "answermill.schemas.ranked:Hit",
    MAKER,
    list_of="question_id",
    candidate=("passage.passage_id",),
    links={"question_id": "questions", "passage.passage_id": "passages"},
    rows="hits",
)
QUESTIONS: FolderSpec[Question] = FolderSpec(
    "questions", "answermill.schemas.corpus:Question", MAKER, key=("question_id",), rows="questions"
)
QUESTIONS_REJECTS: FolderSpec[Rejected] = FolderSpec(
    "questions_rejects", "answermill.schemas.corpus:Rejected", MAKER, rows="rejects"
)

RETRIEVE = StepSpec(
    MAKER,
    "Read questions and shards/; write questions/ and retrieved/.",
    (QUESTIONS, RETRIEVED, QUESTIONS_REJECTS),
    RetrieveCounts,
    settings="answermill.pipelines.config.job_file:Retrieve",
    reads=("shards",),
    item="questions",
    code="answermill.pipelines.steps.retrieve.retrieve:STEP",
    revision=8,
    units_stand_alone=True,
    is_main=True,
)
