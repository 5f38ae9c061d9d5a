"""What each stage of a plan made of one question's list: who came in, in which order they left it, and who
stayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from answermill.pipelines.runs.manifests.run_folder import stage_name
from answermill.ranking.rerankers.registry import RERANKERS
from answermill.schemas.ranked import ScoredCandidate, StageScore, Unit


@dataclass(frozen=True, slots=True)
class StageView:
    """One stage and the candidates that came into it, named by their id: of a stage that reads passages, the
    passage's."""

    name: str
    reranker: str
    unit: Unit
    """What the stage reads."""
    places: Mapping[str, int]
    """Candidate → its place, from 1, among those that came in: first those that stayed, then those that left,
    the last to leave before the others."""
    kept: int
    last_kept: StageScore | None
    """The lowest ranked of those that stayed; None if nobody did, or none of them has a rank."""

    @property
    def entered(self) -> int:
        return len(self.places)

    def key(self, row: ScoredCandidate) -> str:
        """The name of a row here."""
        return row.passage_id if self.unit == "passage" else row.candidate_id


def stage_views(stages: Sequence[Mapping[str, Any]], rows: Sequence[ScoredCandidate]) -> list[StageView]:
    """The views of a plan's stages, whose settings are those of the manifest of scored/. `rows`: a
    question's, in the order of scored/."""
    return [_view(stage_name(stage), str(stage["reranker"]), rows) for stage in stages]


def _view(name: str, reranker: str, rows: Sequence[ScoredCandidate]) -> StageView:
    reads: Unit = RERANKERS[reranker].reranker.reads if reranker in RERANKERS else "sentence"
    if any(row.unit == "passage" and row.dropped_by == name for row in rows):
        reads = "passage"  # of a plan that no manifest has yet, what a stage is called may say nothing
    view = StageView(name, reranker, reads, {}, 0, None)
    scores = [(row, score_by(row, name)) for row in rows]

    # A passage has the scores of its best sentence, of a stage that read sentences before it.
    entered = [
        (row, score)
        for row, score in scores
        if (score is not None or row.dropped_by == name) and (reads == "passage" or row.unit == "sentence")
    ]
    stayed = dict.fromkeys(view.key(row) for row, _ in entered if row.dropped_by != name)
    left = dict.fromkeys(view.key(row) for row, _ in entered if view.key(row) not in stayed)
    ranked = [
        score
        for row, score in entered
        if view.key(row) in stayed and score is not None and score.rank is not None
    ]
    last = max(ranked, key=lambda score: score.rank or 0, default=None)

    places = {key: place for place, key in enumerate((*stayed, *left), 1)}
    return StageView(name, reranker, reads, places, len(stayed), last)


def score_by(row: ScoredCandidate, stage: str) -> StageScore | None:
    """What the stage gave a candidate."""
    return next((score for score in row.stages if score.stage == stage), None)
