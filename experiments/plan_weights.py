"""Weights of the sample's plans, fitted on L-dev and written to the files that their stages name in
`weights_file`.

For each such stage in turn, the stages before it run over L-dev's lists that hold an answer, and the weights
of the scores in NAMES are fitted on the candidates that they leave, by `rerankers.blend.fitting` or, if exits
decide, `rerankers.cascade`. So a second stage is fitted behind the first one's new weights. Keys: P@1 and MRR
of each
blend, held out in five folds, in percent, with 95 % intervals, `…_questions` that taught it, and the same of
the best single score. Nothing here reads L-test.

--plans fast or base fits the weights of that plan instead, behind the default plan's first, and --save writes
`plan_weights_fast.json` or `plan_weights_base.json`; base needs `answermill[base]`. --questions takes some of
L-dev, drawn by hash, for a machine without a card.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.revision import code_version
from answermill.pipelines.steps.job_plan import CheckedPlan, load_stages, stage_models
from answermill.pipelines.steps.models import model_inputs, passage_encoder
from answermill.ranking.entry import StageSettings
from answermill.ranking.plan import Stage, run_stages
from answermill.ranking.rerankers.blend import WeighedStage
from answermill.ranking.rerankers.blend.fitting import fit, held_out
from answermill.ranking.rerankers.blend.score_columns import RETRIEVED
from answermill.ranking.rerankers.blend.weights import Fit, WeightsFile
from answermill.ranking.rerankers.cascade import ExitStage
from answermill.ranking.rerankers.cascade.cascade import Cascade, fit_prior
from answermill.schemas.ranked import CandidateKind
from experiments.chain_rows import layer_tokens
from experiments.long_lists import LongList, read_lists, small_lists
from experiments.percents import ends
from experiments.question_sets.gold import drawn
from experiments.question_sets.memory import RememberedEncoder, remember
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_plan

MEASURED_MODELS = {
    "plan_weights": ("cascade", "cosinet", "peasi"),
    "plan_weights_fast": ("cascade", "cosinet"),
    "plan_weights_base": ("cascade_base", "cosinet"),
}
DECIDED = "The weights of the sample's plans, whose files it writes."
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/data/sample"
NAMES = {
    "first": ("cosinet", "bm25", "dense", "log_rank"),
    "cascade": ("cosinet", "bm25", "dense"),
    "last": ("cascade", "hashing", "peasi", "similarity", "cosinet", "bm25", "dense"),
    "last_of_extracted": ("peasi.pr", "peasi.easi", "similarity", "bm25", "dense"),
}
"""Key of a stage → names of the scores that it weighs, if its plan gives them."""
PLANS: dict[str, Sequence[str]] = {
    "sample": ("job.toml", "full.toml"),
    "fast": ("fast.toml",),
    "base": ("base.toml",),
}
"""Value of --plans → files of the sample's plans. The fast and the base plan have the default plan's first
weights."""


class Fitting:
    """Fits the weights of a job's stages, one after the other, each behind those before it."""

    def __init__(self, job: Job, lists: Sequence[LongList], work: Path) -> None:
        assert job.rerank is not None
        self._job, self._work, self._plan = job, work, job.rerank
        self._encoder = RememberedEncoder(passage_encoder(job), work)
        self._gold = {question.asked.question_id: question.gold for question in lists}
        self._lists, self._done = [question.passages for question in lists], 0
        self._kind: CandidateKind = "passage"
        self.layer_tokens = 0
        """Layers × tokens of the stages that have run."""

    def files(self) -> Iterator[tuple[int, WeighedStage, Path]]:
        """(number, settings, file) of the stages that name a file of weights."""
        for n, stage in enumerate(self._plan.stages):
            if isinstance(stage, WeighedStage) and stage.weights_file is not None:
                yield n, stage, self._job.path(stage.weights_file)

    def write(self, done: set[Path]) -> Iterator[tuple[str, list[Fit]]]:
        """Fit each stage and write its file, unless the file is in `done`; yields the stage's key and its
        tables."""
        for number, stage, file in self.files():
            if file in done:
                continue
            fits = self.fit(number, stage)
            self.file(stage, fits).write(file)
            done.add(file)
            weights = ", ".join(f"{score} {weight:.3f}" for score, weight in fits[-1].weights.items())
            say(f"{file.name:<16}{weights}")
            yield stage.key, fits

    def fit(self, number: int, stage: WeighedStage) -> list[Fit]:
        """Tables of weights of stage `number`."""
        labels = self._labels(number)
        if not isinstance(stage, ExitStage):
            return [fit(self._lists, labels, self._names(stage))]
        cascade = self._loaded([stage.model_copy(update={"weights_file": None})])[0].reranker
        assert isinstance(cascade, Cascade)
        return fit_prior(cascade, self._lists, labels, self._names(stage), stage.drop)

    def held_out(
        self, number: int, stage: WeighedStage, without: str | None = None
    ) -> dict[str, dict[str, float]]:
        """Held-out values of a blend that is stage `number`, see `rerankers.blend.fitting.held_out`.
        `without`: a score that it does not weigh."""
        labels = self._labels(number)
        return held_out(self._lists, labels, [name for name in self._names(stage) if name != without])

    def _names(self, stage: StageSettings) -> list[str]:
        keys = {stage.key for stage in self._plan.stages}
        return [name for name in NAMES[stage.key] if name in RETRIEVED or name in keys]

    def _labels(self, number: int) -> list[list[int]]:
        """Labels of the lists that stage `number` reads: 1 for each right candidate, else 0."""
        self._run_until(number)
        return [
            [int(c.candidate_id in self._gold[r.question.question_id]) for c in r.candidates]
            for r in self._lists
        ]

    def file(self, stage: WeighedStage, fits: list[Fit]) -> WeightsFile:
        rerankers = {stage.key: stage.reranker for stage in self._plan.stages}
        models = stage_models(rerankers, model_inputs(self._job, self._plan.stages))
        exit_of = stage.key if isinstance(stage, ExitStage) else None
        return WeightsFile.of(fits, rerankers, models, code_version(), exit_of=exit_of)

    def _run_until(self, number: int) -> None:
        for stage in self._loaded(self._plan.stages[:number])[self._done :]:
            self._lists = [outcome.kept for outcome in run_stages(self._lists, [stage], self._kind)]
            self._kind = stage.reranker.writes
            self.layer_tokens += layer_tokens([stage])
        self._done = number

    def _loaded(self, stages: Sequence[StageSettings]) -> list[Stage]:
        job = self._job.model_copy(update={"rerank": self._plan.model_copy(update={"stages": list(stages)})})
        return remember(load_stages(CheckedPlan.of(job), lambda: self._encoder), self._work) if stages else []


def figures(key: str, fit: Fit) -> dict[str, float | int | str]:
    """Figures of a stage's last table."""
    result: dict[str, float | int | str] = {f"{key}_questions": fit.questions}
    for metric, short in (("P@1", "p1"), ("MRR", "mrr")):
        blend = fit.blend[metric]
        result |= {f"{short}_{key}": 100 * blend.value, **ends(f"{short}_{key}", blend)}
        result[f"{short}_{key}_best_alone"] = 100 * fit.alone[fit.best][metric].value
    return result


def main() -> None:
    options = arguments(
        "plan_weights",
        __doc__ or "",
        paths={"work": "folder that keeps lists and scores; out/long_lists"},
        choices={"plans": tuple(PLANS)},
        numbers={"questions": "questions of L-dev; all if absent"},
    )
    if options.smoke:
        small_lists()
        shrink(globals(), SAMPLE=small_plan(fitted=False).parent, PLANS={"sample": ("job.toml",)})

    torch.set_num_threads(1)
    result: dict[str, float | int | str] = {}

    with work_folder(options, "long_lists") as work:
        lists = [question for question in read_lists(options.data.resolve(), work, "dev") if question.gold]
        if options.questions:
            names = set(drawn((q.asked.question_id for q in lists), int(options.questions)))
            lists = [question for question in lists if question.asked.question_id in names]
        done: set[Path] = set()
        if options.plans != "sample":
            done.add(SAMPLE / "weights/first.json")
        for name in PLANS[options.plans]:
            for key, fits in Fitting(load(SAMPLE / name), lists, work).write(done):
                result |= figures(key, fits[-1])

    name = "plan_weights" if options.plans == "sample" else f"plan_weights_{options.plans}"
    finish(name, result, options.save, MEASURED_MODELS[name])


if __name__ == "__main__":
    main()
