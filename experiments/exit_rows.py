"""Rows of a results table, from a model's scores at its exits: with drops, at one exit, or blended with other
known scores.

A row has a metric's value for each question, so that rows can be compared and seeds averaged question by
question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.steps.models import dense_encoder, device_of
from answermill.ranking.checkpoint import kind_of
from answermill.ranking.context import Reading
from answermill.ranking.evaluation.metrics import METRICS, Judged, measure
from answermill.ranking.evaluation.significance import compare
from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.baselines.similarity import Similarity
from answermill.ranking.rerankers.blend.fitting import LabelledColumns, fit_columns
from answermill.ranking.rerankers.blend.score_columns import standardised
from answermill.ranking.rerankers.blend.weights import FitOptions
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import load
from answermill.ranking.rerankers.cascade.exits import ExitScores
from answermill.ranking.rerankers.cascade.schedule import survivors
from answermill.schemas.arrays import Floats, Ints
from experiments.percents import difference
from experiments.question_sets.learnable import Questions


class Row(NamedTuple):
    """Metric → its value for each question; and the cost, layers × candidates relative to a whole pass of the
    full depth."""

    values: Mapping[str, Floats]
    cost: float = 0.0


def exit_scores(checkpoint: Path, lists: Questions, depth: int | None = None) -> ExitScores:
    """Scores of a cross-encoder or a cascade at each exit; costs are relative to `depth` layers, its own if
    absent."""
    cascade = Cascade(*load(checkpoint, kind_of(checkpoint), find_model), device=device_of("auto"))
    scores = cascade.exit_scores([ranked_list(rows) for rows in lists])
    labels = [[row.label for row in rows] for rows in lists]
    return ExitScores.of(
        cascade.exits, depth or cascade.depth, [rows[0].question_id for rows in lists], labels, scores
    )


def at_exit(table: ExitScores, column: int) -> ExitScores:
    """Table of the model cut behind one of its exits."""
    return replace(table, exits=table.exits[column : column + 1], scores=table.scores[:, [column]])


def row(table: ExitScores, alpha: float = 0.0, shared: bool = True) -> Row:
    """Row of the ranking by the last exit after the share α has left at each earlier exit; departed
    candidates rank last, all tied. If not `shared`, each exit is another model, which begins at layer 1
    again."""
    here, cost, before = np.arange(len(table.question)), 0, 0
    for exit, layer in enumerate(table.exits):
        cost, before = cost + (layer - before) * len(here), layer if shared else 0
        if exit < len(table.exits) - 1 and alpha:
            stay = survivors(table.question[here], table.scores[here, exit], table.position[here], alpha)
            here = here[stay]
    score = np.full(len(table.question), table.scores[:, -1].min() - 1)
    score[here] = table.scores[here, -1]
    return Row(values(table.question, table.label, score), cost / (table.depth * len(table.question)))


def cascade_rows(name: str, table: ExitScores, alphas: Sequence[float]) -> dict[str, Row]:
    """Rows of a cascade: cut behind each exit but the last, without drops, and at each α."""
    rows = {f"{name}_exit{layer}": row(at_exit(table, n)) for n, layer in enumerate(table.exits[:-1])}
    return rows | {f"{name}_a{10 * alpha:.0f}": row(table, alpha) for alpha in (0.0, *alphas)}


def sequential_rows(tables: Sequence[ExitScores], alphas: Sequence[float]) -> dict[str, Row]:
    """Rows of the sequential ranker at each α, from the monolithic models' tables, the shallowest first. Each
    model encodes its candidates again, which its cost counts."""
    exits = tuple(table.exits[-1] for table in tables)
    scores = np.concatenate([table.scores for table in tables], axis=1)
    in_a_row = replace(tables[-1], exits=exits, scores=scores)
    return {f"sequential_a{10 * alpha:.0f}": row(in_a_row, alpha, shared=False) for alpha in alphas}


def values(question: Ints, label: Ints, score: Floats) -> dict[str, Floats]:
    """Metric, by its name in keys → its value for each question, exact under ties. `score` orders the
    candidates; all are [n]."""
    judged = Judged(
        int(question.max()) + 1, question, score, np.maximum(label, 0), np.ones(len(score), np.bool_)
    )
    return {
        name.lower().replace("@", ""): result.expected
        for name, result in measure(judged, tuple(METRICS)).items()
    }


def beside(lists: Questions, encoder: str) -> Floats:
    """[n, 2]: the dense encoder's cosine of question and title with sentence, and -log of the place in the
    list."""
    reranker = Similarity(dense_encoder(encoder), Reading(("title", "sentence")))
    known: list[tuple[float, float]] = []
    for rows, ranked in zip(lists, reranker.rerank([ranked_list(rows) for rows in lists]), strict=True):
        cosine = {c.candidate_id: c.score for c in ranked.candidates}
        known += [(cosine[row.candidate_id], -np.log1p(row.position)) for row in rows]
    return np.array(known)


def blended(dev: ExitScores, dev_columns: Floats, test: ExitScores, columns: Floats) -> tuple[Row, Floats]:
    """Row of a weighted sum of columns [n, names], as `blend` computes it, with weights fitted on dev; and
    the weights."""
    names = tuple(str(n) for n in range(columns.shape[1]))
    fitted = fit_columns(
        LabelledColumns(names, dev_columns, dev.question, dev.label, dev.question_ids), FitOptions(folds=2)
    ).weights
    weights = np.array([fitted[name] for name in names])
    total = sum(
        weight * standardised(column, test.question)
        for weight, column in zip(weights, columns.T, strict=True)
    )
    return Row(values(test.question, test.label, np.asarray(total))), weights


def figures(test: str, name: str, seeds: Sequence[Row]) -> Iterator[tuple[str, float]]:
    """Keys and figures of a row: means over the seeds, in percent, with the deviation."""
    for metric in seeds[0].values:
        means = [100 * float(seed.values[metric].mean()) for seed in seeds]
        yield f"{test}_{metric}_{name}", float(np.mean(means))
        if len(means) > 1:
            yield f"{test}_{metric}_{name}_deviation", float(np.std(means, ddof=1))
    if seeds[0].cost:
        yield f"{test}_cost_{name}", float(np.mean([seed.cost for seed in seeds]))


def compared(
    test: str, name: str, over: str, rows: Mapping[str, Sequence[Row]], metric: str = "map"
) -> Iterator[tuple[str, float]]:
    """Comparison of row `name` with row `over`: difference of each question's mean over the seeds, its 95 %
    interval, and p."""
    a, b = (np.mean([seed.values[metric] for seed in rows[which]], axis=0) for which in (over, name))
    yield from difference(f"{test}_{name}_over_{over}", compare(a, b)).items()
