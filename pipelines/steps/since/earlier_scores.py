"""The scores of an earlier run, for the stages of a plan that score each pair by itself: `rerank.since`.

A score is taken over if the question's text is the same, what the stage reads of the candidate is the same
(its text, and title and neighbours where they are read; for PEASI the whole passage), and model and settings
are those of the earlier run's stage. So the rows equal those of a run without `since`, on machines that
compute in one precision: what `precision = "auto"` means, each machine decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from answermill.pipelines.runs.manifests.run_folder import stage_name
from answermill.pipelines.runs.parquet_folder import Folder, read_batches, read_part
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.since.known_scores import KnownScores, deciding_texts
from answermill.ranking.context import Reading, ReadsContext, neighbours
from answermill.ranking.entry import REFUSING, StageSettings, defaults
from answermill.ranking.plan import Stage
from answermill.ranking.rerankers.registry import find
from answermill.schemas.corpus import Passage
from answermill.schemas.ranked import CandidateKind, Hit, ScoredCandidate

_NO_MATTER = {"name", "keep", "checkpoint"} | REFUSING
"""Settings of a stage that decide no score; a checkpoint is known by its digest."""
_PARTS = 2
"""Parts of the earlier run whose scores are in memory at once."""

Scores = Mapping[tuple[str, ...], float]


class StepPlan(NamedTuple):
    """All that decides the scores of a plan."""

    stages: Sequence[StageSettings]
    models: Mapping[str, str | None]
    """Stage → digest of its model."""
    models_of: Callable[[Mapping[str, str], Mapping[str, str]], Mapping[str, str | None]]
    """(stage → reranker, inputs of a manifest of scored/) → `models` of an earlier run."""
    encoder: Mapping[str, Any]
    """Settings of the dense encoder."""
    revision: int
    """Revision of the step."""


class Former(NamedTuple):
    """An earlier run, and its stages that have the scores of stages of the plan."""

    run: Path
    same: Mapping[str, str]
    """Stage of the plan → stage of the run."""


def same_stages(plan: StepPlan, scored: Folder[ScoredCandidate]) -> dict[str, str]:
    """Stage of the plan → the stage of the earlier run, whose rows are `scored`, that gave the same
    scores."""
    manifest = scored.manifest
    if manifest.revision != plan.revision:
        return {}

    former = {stage_name(stage): stage for stage in manifest.settings["stages"]}
    rerankers = {key: str(settings["reranker"]) for key, settings in former.items()}
    reads = [find(rerankers[key]).reranker_of(settings).reads for key, settings in former.items()]
    former_models = plan.models_of(rerankers, manifest.inputs)
    mixed = _before_passages(reads)
    same = {}

    for stage in plan.stages:
        entry, model = find(stage.reranker), plan.models[stage.key]
        if model is None or not _scores_pairs(stage):
            continue
        if entry.uses_encoder and manifest.settings.get("encoder") != plan.encoder:
            continue
        for (key, settings), is_mixed in zip(former.items(), mixed, strict=True):
            if is_mixed or former_models[key] != model:
                continue
            known = defaults(entry.settings) | dict(settings)
            if _decisive(known) == _decisive(stage.model_dump(mode="json")):
                same[stage.key] = key

    return same


def computed_again(stages: Sequence[StageSettings]) -> str:
    """Clause on the stages with a model whose scores are never taken over, whatever the earlier run, and why;
    '' if there are none."""
    names = [stage.key for stage in stages if _has_model(stage) and not _scores_pairs(stage)]
    if not names:
        return ""
    verb = "take" if len(names) > 1 else "takes"
    return (
        f"{' and '.join(names)} never {verb} scores over: they depend on the list, on what is dropped "
        "between layers, or on other sentences of the passage, not on the pair alone"
    )


def _has_model(stage: StageSettings) -> bool:
    entry = find(stage.reranker)
    return entry.checkpoint is not None or entry.pretrained is not None or entry.uses_encoder


def _scores_pairs(stage: StageSettings) -> bool:
    """True if a score depends on the question and the parts that are read of the candidate alone."""
    entry = find(stage.reranker)
    # A long passage's score depends on how it is split into sentences too.
    return entry.pairwise and entry.reranker_of(stage) is entry.reranker


def _before_passages(reads: Sequence[CandidateKind]) -> list[bool]:
    """[stages]: True if the stage scores sentences and a later one reads passages, since a sentence that is
    extracted then may have the scores of another one of its passage."""
    return [own == "sentence" and "passage" in reads[n + 1 :] for n, own in enumerate(reads)]


def _decisive(stage: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stage.items() if key not in _NO_MATTER}


def taking_over(plan: Sequence[Stage], former_run: Former) -> list[Stage]:
    """The plan, in which stages take over scores of the earlier run."""
    run = EarlierRun(former_run.run)

    def with_known_scores(stage: Stage) -> Stage:
        if stage.name not in former_run.same or not isinstance(stage.reranker, ReadsContext):
            return stage
        (reading,) = stage.reranker.readings
        former = WantedScores(former_run.same[stage.name], reading, stage.reranker.reads)
        return replace(
            stage, reranker=KnownScores(stage.reranker, lambda question: run.scores(question, former))
        )

    return [with_known_scores(stage) for stage in plan]


class WantedScores(NamedTuple):
    """A stage of an earlier run whose scores are wanted."""

    stage: str
    """Its name in that run."""
    reading: Reading
    reads: CandidateKind

    @property
    def whole_passages(self) -> bool:
        return "passage" in self.reading.context

    @property
    def needs_passage(self) -> bool:
        """True if a row of scored/ does not hold all that the stage has read."""
        return self.whole_passages or not {"previous", "next"}.isdisjoint(self.reading.context)

    def deciding_texts(self, row: ScoredCandidate, passage: Passage) -> tuple[str, ...]:
        """The deciding texts of a row of that run, which was a candidate of the stage."""
        if self.whole_passages:
            own = passage.text if self.reads == "passage" else row.text
            return deciding_texts(self.reading, self.reading.arrange(own, passage.title), passage)
        return self.reading.arrange(row.text, row.title, *neighbours(passage)[row.candidate_id])


class EarlierRun:
    """Scored candidates of a complete run, by the text of their question."""

    def __init__(self, run: Path) -> None:
        self._scored = SCORED.open(run)
        self._retrieved = RETRIEVED.open(run)
        self._parts = self._parts_of_questions()
        self._read = lru_cache(_PARTS * 4)(self._scores_of_part)

    def scores(self, question: str, wanted: WantedScores) -> Scores:
        """Scores of the stage for candidates of that question, by their deciding texts."""
        scores: dict[tuple[str, ...], float] = {}
        for number in self._parts.get(question, ()):
            scores |= self._read(number, wanted).get(question, {})
        return scores

    def _parts_of_questions(self) -> dict[str, tuple[int, ...]]:
        """Text of a question → numbers of the parts of scored/ that have rows of it."""
        parts: dict[str, dict[int, None]] = defaultdict(dict)
        for number, part in enumerate(self._scored.parts):
            for batch in read_batches(self._scored.path, part, ["question"]):
                for question in batch.column("question").unique().to_pylist():
                    parts[question][number] = None
        return {question: tuple(numbers) for question, numbers in parts.items()}

    def _scores_of_part(self, number: int, wanted: WantedScores) -> dict[str, dict[tuple[str, ...], float]]:
        part = self._scored.parts[number]
        passages = self._passages(part.unit) if wanted.needs_passage else {}
        scores: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)

        for row in read_part(self._scored.path, part, ScoredCandidate):
            stage_score = next((score for score in row.stages if score.stage == wanted.stage), None)
            if stage_score is None or (row.unit != wanted.reads and not wanted.whole_passages):
                continue
            if wanted.needs_passage:
                texts = wanted.deciding_texts(row, passages[row.passage_id])
            else:
                texts = wanted.reading.arrange(row.text, row.title)
            scores[row.question][texts] = stage_score.score

        return scores

    def _passages(self, unit: int) -> dict[str, Passage]:
        """The passages of a part of retrieved/, by id."""
        return {
            hit.passage.passage_id: hit.passage
            for part in self._retrieved.parts
            if part.unit == unit
            for hit in read_part(self._retrieved.path, part, Hit)
        }
