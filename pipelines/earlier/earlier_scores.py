"""The scores of an earlier run, for the stages of a plan that score each pair by itself: `rerank.since`.

A score is taken over if the question's text is the same, what the stage reads of the candidate is the same (its text, and title
and neighbours where they are read), and model and settings are those of the earlier run's stage. So the rows are those of a
run without it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.execution.parquet_folder import Folder, read_batches, read_part
from ranking.context import Reading, ReadsContext
from ranking.entry import StageSettings
from ranking.known_scores import KnownScores
from ranking.plan import Stage
from ranking.registry import find
from schemas.ranked import Hit, ScoredCandidate

_NO_MATTER = {"name", "keep", "checkpoint", "missing_context"}
"""Settings of a stage that decide no score; a checkpoint is known by its digest."""
_PARTS = 2
"""Of the earlier run, whose scores are in memory at once."""

Scores = Mapping[tuple[str, ...], float]


class StepPlan(NamedTuple):
    """What decides the scores of a plan."""

    stages: Sequence[StageSettings]
    models: Mapping[str, str | None]
    """Stage → digest of its model."""
    models_of: Callable[[Mapping[str, str], Mapping[str, str]], Mapping[str, str | None]]
    """(stage → reranker, inputs of a manifest of scored/) → the same of an earlier run."""
    encoder: Mapping[str, Any]
    """Settings of the dense encoder."""
    revision: int
    """Of the step."""


class Former(NamedTuple):
    """An earlier run, and which stage of it has the scores of which stage of the plan."""

    run: Path
    same: Mapping[str, str]
    """Stage of the plan → stage of the run."""


def same_stages(plan: StepPlan, scored: Folder[ScoredCandidate]) -> dict[str, str]:
    """Stage of the plan → the stage of the earlier run, whose rows are `scored`, that gave the same scores."""
    manifest = scored.manifest
    if manifest.revision != plan.revision:
        return {}
    former = {str(each["name"] or each["reranker"]): each for each in manifest.settings["stages"]}
    former_models = plan.models_of({key: each["reranker"] for key, each in former.items()}, manifest.inputs)
    same = {}
    for stage in plan.stages:
        entry, model = find(stage.reranker), plan.models[stage.key]
        if not entry.pairwise or model is None:
            continue
        if entry.uses_encoder and manifest.settings.get("encoder") != plan.encoder:
            continue
        for key, each in former.items():
            if _decisive(each) == _decisive(stage.model_dump(mode="json")) and former_models[key] == model:
                same[stage.key] = key
    return same


def _decisive(stage: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stage.items() if key not in _NO_MATTER}


def taking_over(plan: Sequence[Stage], former_run: Former) -> list[Stage]:
    """The plan, in which stages take over the scores of the earlier run's."""
    run = EarlierRun(former_run.run)

    def known(stage: Stage) -> Stage:
        if stage.name not in former_run.same or not isinstance(stage.reranker, ReadsContext):
            return stage
        (reading,) = stage.reranker.readings
        former = former_run.same[stage.name]
        return replace(stage, reranker=KnownScores(stage.reranker, lambda question: run.scores(question, former, reading)))

    return [known(stage) for stage in plan]


class EarlierRun:
    """Scored candidates of a complete run, by the text of their question."""

    def __init__(self, run: Path) -> None:
        self._scored = Folder.open(run / "scored", ScoredCandidate, "rerank")
        self._retrieved = Folder.open(run / "retrieved", Hit, "retrieve")
        self._parts = self._parts_of_questions()
        self._read = lru_cache(_PARTS * 4)(self._scores_of_part)

    def scores(self, question: str, stage: str, reading: Reading) -> Scores:
        """What the stage gave to candidates of that question, by the parts that the reading takes of them."""
        scores: dict[tuple[str, ...], float] = {}
        for number in self._parts.get(question, ()):
            scores |= self._read(number, stage, reading).get(question, {})
        return scores

    def _parts_of_questions(self) -> dict[str, tuple[int, ...]]:
        """Text of a question → numbers of the parts of scored/ that have rows of it."""
        parts: dict[str, dict[int, None]] = defaultdict(dict)
        for number, part in enumerate(self._scored.parts):
            for batch in read_batches(self._scored.path, part, ["question"]):
                for question in batch.column("question").unique().to_pylist():
                    parts[question][number] = None
        return {question: tuple(numbers) for question, numbers in parts.items()}

    def _scores_of_part(self, number: int, stage: str, reading: Reading) -> dict[str, dict[tuple[str, ...], float]]:
        part = self._scored.parts[number]
        around = dict(self._around(part.unit, reading)) if {"previous", "next"} & set(reading.context) else {}
        scores: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
        for row in read_part(self._scored.path, part, ScoredCandidate):
            score = next((each for each in row.stages if each.stage == stage), None)
            if score is None or row.unit != "sentence":
                continue
            place = (row.passage_id, row.candidate_id)
            parts = around[place] if around else reading.arrange(row.text, row.title)
            scores[row.question][parts] = score.score
        return scores

    def _around(self, unit: int, reading: Reading) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
        """(passage, sentence) → the parts that are read of it, of all passages of a part of retrieved/."""
        for part in self._retrieved.parts:
            if part.unit == unit:
                for hit in read_part(self._retrieved.path, part, Hit):
                    for sentence, parts in zip(hit.passage.sentences, reading.of_passage(hit.passage), strict=True):
                        yield (hit.passage.passage_id, sentence.sentence_id), parts
