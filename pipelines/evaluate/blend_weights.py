"""Weights: a run's scored/ and labels in; weights of its scores, beside what each score is worth alone, out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from pipelines.evaluate.candidate_values import CandidateValues, Value
from pipelines.evaluate.join import join
from pipelines.evaluate.reference_labels import read_labels
from pipelines.execution.parquet_folder import Folder
from pipelines.execution.step import code_version
from pipelines.steps.job_plan import stage_models
from ranking.fusion.fitting import FOLDS, METRICS, PENALTY, LabelledColumns, fit_columns
from ranking.fusion.score_columns import RETRIEVAL
from ranking.fusion.weights import Figure, WeightsFile
from schemas.corpus import Passage, Question
from schemas.ranked import Candidate, Hit, RankedList, ScoredCandidate


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How weights are fitted."""

    penalty: float = PENALTY
    folds: int = FOLDS
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Fitted:
    """The weights file, and what it was made of."""

    file: WeightsFile
    left_out: int
    """Candidates of the run that one of the stages has not scored."""

    def lines(self) -> Iterator[str]:
        (fit,) = self.file.fits
        yield (
            f"{fit.questions:,} questions with a correct candidate among {fit.candidates:,}; {fit.without_answer:,} without "
            f"one, {self.left_out:,} candidates not scored by all stages"
        )
        yield f"in percent, with the 95 % interval; the blend held out in {fit.folds} folds, penalty {fit.penalty:g}"
        yield ""
        width = max(len(name) for name in (*fit.weights, f"blend - {fit.best}")) + 2
        yield " " * width + "".join(f"{metric:<24}" for metric in METRICS) + "weight"
        for name, weight in fit.weights.items():
            yield f"{name:<{width}}{_cells(fit.alone[name])}{weight:.4f}"
        yield f"{'blend':<{width}}{_cells(fit.blend)}".rstrip()
        yield f"{f'blend - {fit.best}':<{width}}{_cells(fit.gain)}".rstrip()


def fit_run(scored: Path, labels: Path, names: Sequence[str], options: FitOptions = FitOptions()) -> Fitted:
    """Fit weights of the named scores of a run. The lists are the candidates that all named stages have scored, of the unit
    in which the plan ends; one that nobody has judged counts as wrong.

    Raises JobError: 66 if something is missing, 65 if it is unusable, or has too few questions, 2 for a score that the run
    does not have or an option out of bounds.
    """
    if not scored.is_dir():
        raise JobError(f"{scored}: no folder; give the scored/ folder of a run", INPUT_MISSING)
    folder = Folder.open(scored, ScoredCandidate, "rerank")
    plan = {str(stage["name"] or stage["reranker"]): str(stage["reranker"]) for stage in folder.manifest.settings["stages"]}
    known = [*plan, *RETRIEVAL]
    if unknown := [name for name in names if name not in known]:
        raise JobError(f"--names {unknown[0]}: no such score in {scored}; known: {', '.join(known)}", USAGE)
    stages = [name for name in names if name in plan]
    lists, left_out = _lists(folder, stages)
    columns = _labelled(scored, lists, labels, names)
    try:
        fit = fit_columns(columns, penalty=options.penalty, folds=options.folds, seed=options.seed)
    except ValueError as e:
        raise JobError(f"{scored} against {labels}: {e}", BAD_DATA) from e
    models = stage_models(plan, folder.manifest.inputs)
    return Fitted(WeightsFile.of([fit], plan, models, code_version()), left_out)


def _lists(folder: Folder[ScoredCandidate], stages: Sequence[str]) -> tuple[list[RankedList], int]:
    """The lists of a run, of what all these stages have scored, and how many candidates were left out for that."""
    lists, left_out = [], 0
    for _, group in groupby(folder.read(), key=lambda row: row.question_id):
        rows = list(group)
        unit = next((row.unit for row in rows if row.rank is not None), rows[0].unit)
        of_unit = [row for row in rows if row.unit == unit]
        scored = [row for row in of_unit if {score.stage for score in row.stages if score.rank is not None}.issuperset(stages)]
        left_out += len(of_unit) - len(scored)
        lists.append(RankedList(Question(rows[0].question_id, rows[0].question), tuple(_candidate(row) for row in scored)))
    return lists, left_out


def _candidate(row: ScoredCandidate) -> Candidate:
    """A row as the candidate that it was, as far as weights are concerned: its id, its scores and its ranks."""
    passage = Passage(row.candidate_id, row.doc_id, row.url, row.title, row.start, row.end, row.text, ())
    ranks = (row.retrieved_rank, row.fused_score, row.bm25_score, row.bm25_rank, row.dense_score, row.dense_rank)
    return Candidate(Hit(row.question_id, row.question, *ranks, passage), None, row.position, row.stages)


def _labelled(scored: Path, lists: Sequence[RankedList], labels: Path, names: Sequence[str]) -> LabelledColumns:
    """The lists of the questions that have labels, joined as `evaluate` joins them."""
    rows: list[Value] = []
    for ranked in lists:
        for candidate in ranked.candidates:
            rows.append((len(rows), ranked.question.question_id, candidate.candidate_id, float(len(rows))))
    joined = join(CandidateValues.from_rows(scored, rows), read_labels(labels))
    ranked_rows = joined.judged.pick(joined.judged.ranked)
    label = dict(zip(ranked_rows.score.astype(np.int64).tolist(), ranked_rows.label.tolist(), strict=True))
    known = set(joined.question_ids)
    of_lists: list[list[int]] = []
    number = 0
    for ranked in lists:
        size = len(ranked.candidates)
        of_lists.append([label.get(n, 0) for n in range(number, number + size)])
        number += size
    pairs = [(ranked, of_list) for ranked, of_list in zip(lists, of_lists, strict=True) if ranked.question.question_id in known]
    try:
        return LabelledColumns.of([ranked for ranked, _ in pairs], [of_list for _, of_list in pairs], names)
    except ValueError as e:
        raise JobError(f"{scored}: {e}", USAGE) from e


def _cells(figures: dict[str, Figure]) -> str:
    cells = (figures[metric] for metric in METRICS)
    return "".join(f"{100 * f.value:>6.2f}  {f'{100 * f.low:.2f} .. {100 * f.high:.2f}':<16}" for f in cells)
