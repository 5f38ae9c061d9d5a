"""Calibrate: a run's scored/ and labels -> the probability that an answer of its plan is right.

The lists are those that the plan has left; a question of the labels that has no correct candidate has no
answer. What the labels do not know is left out, and a candidate that nobody has judged counts as wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from answermill.pipelines.config.rerank_section import stage_of
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.learn.evaluate.blend_weights import (
    candidate_of,
    judged_lists,
    opened,
    stages_of,
)
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.pipelines.revision import code_version
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.steps.job_plan import stage_models
from answermill.ranking.entry import decisive_settings
from answermill.ranking.evaluation.risk_coverage import reliability
from answermill.ranking.rerankers.probability import ProbabilityStage
from answermill.ranking.rerankers.probability.bar import CONFIDENCE
from answermill.ranking.rerankers.probability.calibrating import BINS, LabelledList, calibrate, held_out
from answermill.ranking.rerankers.probability.calibration_file import CalibrationFile, PlanStage
from answermill.schemas.corpus import Question
from answermill.schemas.ranked import RankedList, ScoredCandidate

RISKS = (0.05, 0.1, 0.2)
"""Shares of wrong answers for which the bar is printed."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration, and the labelled lists that it is fitted on."""

    file: CalibrationFile
    lists: Sequence[LabelledList]

    def lines(self) -> Iterator[str]:
        """Figures for people; shares in percent."""
        file = self.file
        yield (
            f"{file.questions:,} labelled questions, {file.without_answer:,} of them without an answer: "
            f"{len(file.fitted.right):,} to fit, {len(file.held_back.right):,} held back for promises"
        )
        if not file.without_answer:
            yield "no promise can be given: the labels have no question without an answer"
        yield (
            f"first answers, held out in {file.folds} folds, with the 95 % interval: calibration error "
            f"{file.ece.value:.4f} ({file.ece.low:.4f} .. {file.ece.high:.4f}), Brier {file.brier.value:.4f} "
            f"({file.brier.low:.4f} .. {file.brier.high:.4f})"
        )
        for risk in RISKS if file.without_answer else ():
            try:
                yield f"max_wrong = {risk:g}: {file.bar(risk, CONFIDENCE).statement()}"
            except ValueError as e:
                yield f"max_wrong = {risk:g}: {e}"

    def plot(self, files: Sequence[Path]) -> None:
        """Draw the reliability of the held-out probabilities."""
        if files:
            from answermill.pipelines.learn.evaluate.plot import plot_reliability

            for file in files:
                file.parent.mkdir(parents=True, exist_ok=True)
            bins = reliability(*held_out(self.lists, self.file.stages), BINS)
            plot_reliability(files, {self.file.labels: bins})


def calibrate_run(scored: Path, labels: Path, *, form: Form = None, seed: int = 0) -> Calibrated:
    """Calibrate the plan of a run; a last stage `probability` of it is left out.

    Raises JobError: 66 if something is missing, 65 if it is unusable, or the labels are too few or all alike.
    """
    folder = opened(scored)
    plan = plan_of(folder)
    ranked = list(_kept_lists(folder))
    reference = read_labels(labels, form).values
    answerable = set(reference.question_id.filter(pa.array(reference.value > 0)).to_pylist())
    try:
        lists = [
            LabelledList(one, tuple(label > 0 for label in own), one.question.question_id in answerable)
            for one, own in zip(*judged_lists(scored, ranked, labels, form), strict=True)
        ]
        return Calibrated(calibrate(lists, plan, labels.name, code_version(), seed), lists)
    except ValueError as e:
        raise JobError(f"{scored} against {labels}: {e}", BAD_DATA) from e


def plan_of(folder: Folder[ScoredCandidate]) -> list[PlanStage]:
    """Stages of the run's plan, without a last one that gives probabilities."""
    inputs = folder.manifest.inputs
    settings = {key: stage_of(table) for key, table in stages_of(folder).items()}
    models = stage_models({key: stage.reranker for key, stage in settings.items()}, inputs)
    return [
        PlanStage(
            key=key, reranker=stage.reranker, model=models[key], settings=decisive_settings(stage, inputs)
        )
        for key, stage in settings.items()
        if not isinstance(stage, ProbabilityStage)
    ]


def _kept_lists(folder: Folder[ScoredCandidate]) -> Iterator[RankedList]:
    """Lists that the plan left, best first."""
    for _, group in groupby(folder.read(), key=lambda row: row.question_id):
        rows = list(group)
        kept = (candidate_of(row) for row in rows if row.rank is not None)
        yield RankedList(Question(rows[0].question_id, rows[0].question), tuple(kept))
