"""Views of a plan's stages on one question's list: its candidates on entry, their order at the end, and the
kept ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from answermill.pipelines.runs.manifests.run_folder import stage_name
from answermill.ranking.rerankers.registry import find
from answermill.schemas.ranked import CandidateKind, ScoredCandidate, StageScore


@dataclass(frozen=True, slots=True)
class StageView:
    """One stage and its incoming candidates, named by id: by the passage's if the stage reads passages."""

    name: str
    reranker: str
    kind: CandidateKind
    """Kind of the candidates that the stage reads."""
    places: Mapping[str, int]
    """Incoming candidate → its place, from 1: kept ones first, then dropped ones, the last to leave first."""
    kept: int
    last_kept: StageScore | None
    """Score of the lowest ranked candidate that was kept; None if no kept one has a rank."""

    @property
    def entered(self) -> int:
        return len(self.places)

    def key(self, row: ScoredCandidate) -> str:
        """The name of a row here."""
        return row.passage_id if self.kind == "passage" else row.candidate_id


def stage_views(stages: Sequence[Mapping[str, Any]], rows: Sequence[ScoredCandidate]) -> list[StageView]:
    """Views of a plan's stages. `stages`: their settings in the manifest of scored/; `rows`: a question's, in
    the order of scored/."""
    return [_view(stage, rows) for stage in stages]


def _view(stage: Mapping[str, Any], rows: Sequence[ScoredCandidate]) -> StageView:
    name, reranker = stage_name(stage), str(stage["reranker"])
    try:
        reads: CandidateKind = find(reranker).reranker_of(stage).reads
    except ValueError:  # before the plan has a manifest, the stage's name may not be a reranker's
        reads = "sentence"
    if any(row.unit == "passage" and row.dropped_by == name for row in rows):
        reads = "passage"
    view = StageView(name, reranker, reads, {}, 0, None)
    scores = [(row, score_by(row, name)) for row in rows]

    # A passage also has its best sentence's scores by earlier stages that read sentences.
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
    """The stage's score of a candidate; None if it has none."""
    return next((score for score in row.stages if score.stage == stage), None)
