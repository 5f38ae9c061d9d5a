"""Rerank: retrieved passages in; scored candidates, with the scores of each stage, and the best answers
out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from answermill.pipelines.runs.counts import Counts, Peak, StepCounts, by_name
from answermill.pipelines.runs.spec import FolderSpec, Maker, StepSpec

if TYPE_CHECKING:
    from answermill.schemas.corpus import Rejected
    from answermill.schemas.ranked import Answer, ScoredCandidate

MAKER = Maker("rerank")
ANSWERS_FILE = "answers.jsonl"
"""The best answer of each question, a line each."""
_WITHOUT = "without_"


@dataclass(frozen=True)
class StageCounts(Counts):
    """Counts of one stage of the plan."""

    incoming: int = 0
    """Candidates that it read."""
    outgoing: int = 0
    """Candidates that it kept, for the next stage or as the plan's result."""
    microseconds: int = 0
    card_microseconds: int = 0
    """Microseconds, among these, in which a graphics card was at work."""
    card_peak_bytes: Peak = 0
    """Peak of a process's memory on the card, its models' weights included."""
    costs: Mapping[str, int] = by_name()
    """Costs by the names that the reranker gives them (`ranking.reranker.Costed`)."""

    @property
    def layer_tokens(self) -> int:
        """Layers × tokens that they encoded; 0 if the reranker does not report it."""
        return self.costs.get("layer_tokens", 0)

    @property
    def full_layer_tokens(self) -> int:
        """Layers × tokens that the monolithic model of the same depth would have encoded."""
        return self.costs.get("full_layer_tokens", 0)

    @property
    def seconds(self) -> float:
        """Seconds of its reranker, over all workers; those of a card are included."""
        return self.microseconds / 1e6

    @property
    def missing(self) -> dict[str, int]:
        """Part of a candidate that the stage reads, such as 'title' → candidates without it."""
        return {
            name.removeprefix(_WITHOUT): n
            for name, n in self.costs.items()
            if name.startswith(_WITHOUT) and n
        }


@dataclass(frozen=True)
class RerankCounts(StepCounts):
    """Counts of rerank."""

    questions: int = 0
    passages: int = 0
    rejected_passages: int = 0
    candidates: int = 0
    kept: int = 0
    grouped: int = 0
    """Candidates whose passage, or whose sentence, took their place."""
    dropped: int = 0
    several_pages: int = 0
    """First answers that several pages give."""
    several_sites: int = 0
    answered: int = 0
    """Questions with an answer."""
    declined: int = 0
    """Questions whose best candidate is below the bar of rerank.answers."""
    stages: Mapping[str, StageCounts] = by_name()
    """Key of a stage → its counts, in the plan's order."""

    sums: ClassVar[Mapping[str, tuple[str, ...]]] = {"candidates": ("kept", "grouped", "dropped")}
    """Candidates by their fates, as `ScoredCandidate.fate` has them."""

    @property
    def seconds(self) -> float:
        """Seconds of all stages."""
        return sum(stage.seconds for stage in self.stages.values())

    @property
    def emptied(self) -> str:
        """Clause on the stage that kept none of what it read; '' if there is none."""
        empty = ((key, stage.incoming) for key, stage in self.stages.items() if not stage.outgoing)
        return next((f": {key} kept none of the {read:,} that it read" for key, read in empty if read), "")

    @property
    def layer_tokens(self) -> int:
        """Layers × tokens of all stages."""
        return sum(stage.layer_tokens for stage in self.stages.values())


SCORED: FolderSpec[ScoredCandidate] = FolderSpec(
    "scored",
    "answermill.schemas.ranked:ScoredCandidate",
    MAKER,
    list_of="question_id",
    candidate=("unit", "candidate_id"),
    fate="fate",
    filled={"kept": "rank", "dropped": "dropped_by"},
    links={"question_id": "questions", "passage_id": "passages"},
    rows="candidates",
)
ANSWERS: FolderSpec[Answer] = FolderSpec(
    "answers",
    "answermill.schemas.ranked:Answer",
    MAKER,
    key=("question_id",),
    links={"question_id": "questions"},
    same_rows_as="questions",
    beside=(ANSWERS_FILE,),
)
SCORED_REJECTS: FolderSpec[Rejected] = FolderSpec(
    "scored_rejects", "answermill.schemas.corpus:Rejected", MAKER, rows="rejects", optional=True
)

RERANK = StepSpec(
    MAKER,
    "Read retrieved/; write scored/ and answers.jsonl.",
    (SCORED, ANSWERS, SCORED_REJECTS),
    RerankCounts,
    settings="answermill.pipelines.config.job_file:Rerank",
    reads=("retrieved",),
    item="candidates",
    code="answermill.pipelines.steps.rerank.rerank:STEP",
    revision=12,
    units_stand_alone=True,
    is_main=True,
)
