"""Compare: two evaluations of the same questions -> differences with their uncertainty, and flipped
questions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

import pyarrow as pa

from answermill.files.atomic_files import write_text
from answermill.files.parquet_files import DAMAGE, open_parquet, raise_unless_damage
from answermill.files.remote import as_path
from answermill.files.store import fetch
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError, counted
from answermill.pipelines.learn.evaluate.evaluate import Evaluation, evaluate
from answermill.pipelines.learn.evaluate.reference_labels import texts_of
from answermill.pipelines.runs.shown import Shown
from answermill.ranking.evaluation.metrics import METRICS, Protocol
from answermill.ranking.evaluation.significance import Comparison, compare_shared, moved
from answermill.schemas.evaluation import QuestionScore

FLIPS_BY = "P@1"
_SHOWN = 160  # characters of an answer
_NEEDED = {*QuestionScore.schema().names} - {"answer"}
"""Columns by which a file of `answermill evaluate --questions` is known."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A question whose P@1 differs: `gained` where B is better. `answer_a` and `answer_b` are the texts of
    the first candidates; '' where the labels do not have them."""

    question_id: str
    question: str
    a: float
    b: float
    answer_a: str = ""
    answer_b: str = ""

    @property
    def gained(self) -> bool:
        return self.b > self.a


@dataclass(frozen=True, slots=True)
class Compared(Shown):
    """A and B over the same questions."""

    a: str
    b: str
    protocol: str
    questions: int
    metrics: Mapping[str, Comparison]
    gaps: Mapping[str, Sequence[str]]
    """'A' and 'B' → a line for each kind of question or candidate that its scores or the labels lack."""
    flips: tuple[Flip, ...]
    """Losses first, then by the change of P@1, the largest first; empty where P@1 was not measured."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each metric, from 0 to 1."""
        return ({"metric": metric, **asdict(c)} for metric, c in self.metrics.items())

    def lines(self, show: int = 10) -> Iterator[str]:
        """The table for people, with at most `show` gained and `show` lost questions; metrics in percent."""
        yield f"A = {self.a}"
        yield f"B = {self.b}"
        legend = (
            "B - A with its 95 % bootstrap interval; p of a paired randomisation test, and Wilcoxon's; "
            "Spearman's ρ"
        )
        yield f"protocol {self.protocol}, {counted(self.questions, 'question')}; {legend}"
        for side, gaps in self.gaps.items():
            yield from (f"{side}: {gap}" for gap in gaps)
        yield ""
        heads = ("A", "B", "B - A", "from", "to", "p", "wins", "ties", "losses", "Wilcoxon", "ρ", "p of ρ")
        yield f"{'metric':<10}" + "".join(f"{head:>9}" for head in heads)

        for metric, c in self.metrics.items():
            cells = [f"{100 * v:>9.2f}" for v in (c.a, c.b, c.difference, c.low, c.high)]
            counts = f"{c.wins:>9,}{c.ties:>9,}{c.losses:>9,}"
            others = f"{c.wilcoxon_p:>9.4f}{_or_none(c.spearman)}{_or_none(c.spearman_p)}"
            yield f"{metric:<10}" + "".join(cells) + f"{c.p:>9.4f}{counts}{others}"

        for gained, change in ((False, "lost"), (True, "gained")):
            flips = [flip for flip in self.flips if flip.gained is gained]
            if flips:
                yield ""
                yield f"{counted(len(flips), 'question')} {change} at {FLIPS_BY}" + (
                    f", the first {show}:" if len(flips) > show else ":"
                )
                for flip in flips[:show]:
                    yield f"  {100 * flip.a:6.1f} → {100 * flip.b:5.1f}  {flip.question_id}  {flip.question}"
                    for side, answer in (("A", flip.answer_a), ("B", flip.answer_b)):
                        if answer:
                            yield f"{'':18}{side}: {shorten(answer, _SHOWN, placeholder=' …')}"

    def write(self, file: Path) -> None:
        """Write everything as JSON; metrics from 0 to 1."""
        values = {
            "a": self.a,
            "b": self.b,
            "protocol": self.protocol,
            "questions": self.questions,
            "gaps": dict(self.gaps),
            "metrics": {metric: asdict(c) for metric, c in self.metrics.items()},
            "flips": [asdict(flip) for flip in self.flips],
        }
        write_text(file, json.dumps(values, indent=1, ensure_ascii=False) + "\n")

    def worse_by(self, metric: str) -> float:
        """Loss from A to B, 0 to 1; negative where B is better. Raises JobError (2) if the metric was not
        measured."""
        if metric not in self.metrics:
            raise JobError(f"{metric} was not measured; measured: {', '.join(self.metrics)}", USAGE)
        return -self.metrics[metric].difference


@dataclass(frozen=True, slots=True)
class MeasuredBy:
    """Labels by which two or more runs are measured, and what of their figures is compared; None is the usual
    protocol, the usual metrics, or all that a finished evaluation has."""

    labels: Path | None = None
    protocol: Protocol | None = None
    metrics: Sequence[str] | None = None
    form: Form = None


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """An evaluation that is compared with others."""

    name: str
    rows: Sequence[QuestionScore]
    firsts: Mapping[str, str]
    """Question id → its first candidate; empty for a finished evaluation, which has its text instead."""
    gaps: Sequence[str]
    """Lines of `Evaluation.gaps`; of a finished evaluation, on questions without a score alone."""

    @classmethod
    def of(cls, name: str, measure: MeasuredBy) -> ComparedSide:
        """The evaluation in a file of `evaluate --questions`, or else of what `evaluate` takes.

        Raises JobError: 2 if the file was measured by another protocol, or lacks a metric; else as `evaluate`
        does.
        """
        finished = _finished(as_path(name))
        if finished is not None:
            rows = _chosen(name, finished, measure)
            return cls(name, rows, {}, list(_empty(rows)))
        if measure.labels is None:
            raise JobError(
                f"{name} is not what `answermill evaluate --questions` writes; give --labels to evaluate it",
                USAGE,
            )

        result = evaluate(
            name,
            measure.labels,
            protocol=measure.protocol or "answerable",
            metrics=METRICS if measure.metrics is None else measure.metrics,
            form=measure.form,
        )
        return cls(name, result.questions, result.firsts, list(result.gaps()))


def compare_files(
    a: str,
    b: str,
    *,
    labels: Path | None = None,
    protocol: Protocol | None = None,
    metrics: Sequence[str] | None = None,
    form: Form = None,
    rounds: int = 10_000,
    seed: int = 0,
) -> Compared:
    """Compare two outputs of `answermill evaluate --questions` or, with `labels`, anything that it evaluates.

    `protocol` and `metrics` as of `MeasuredBy`. Raises JobError as `ComparedSide.of` and `compare_sides`.
    """
    measure = MeasuredBy(labels, protocol, metrics, form)
    return compare_sides(ComparedSide.of(a, measure), ComparedSide.of(b, measure), measure, rounds, seed)


def compare_sides(
    side_a: ComparedSide, side_b: ComparedSide, measure: MeasuredBy, rounds: int, seed: int
) -> Compared:
    """Compare two evaluations. Raises JobError: 65 where they are not of the same questions, protocol and
    metrics."""
    a, b = side_a.name, side_b.name
    sides, firsts = (side_a.rows, side_b.rows), (side_a.firsts, side_b.firsts)
    keys_a, keys_b = ({(row.metric, row.question_id) for row in rows} for rows in sides)
    if unmatched := sorted(keys_a ^ keys_b):
        metric, question = unmatched[0]
        raise JobError(
            f"{a} and {b} are not of the same questions and metrics: {len(unmatched)} differ, e.g. {metric} "
            f"of question {question} is in {a if unmatched[0] in keys_a else b} alone",
            BAD_DATA,
        )

    protocols = {row.protocol for rows in sides for row in rows}
    if len(protocols) > 1:
        raise JobError(f"{a} and {b} are of different protocols: {', '.join(sorted(protocols))}", BAD_DATA)

    values_a, values_b = map(_by_metric, sides)
    compared = {
        metric: compare_shared(values, values_b[metric], rounds, seed) for metric, values in values_a.items()
    }
    p1_a, p1_b = values_a.get(FLIPS_BY, {}), values_b.get(FLIPS_BY, {})
    texts = {row.question_id: row.question for row in sides[0]}
    answers_a, answers_b = ({row.question_id: row.answer or "" for row in rows} for rows in sides)
    flips = [
        Flip(name, texts[name], p1_a[name], p1_b[name], answers_a[name], answers_b[name])
        for name in moved(p1_a, p1_b)
    ]
    if measure.labels is not None and any(firsts):
        flips = list(_with_texts(flips, firsts, measure.labels, measure.form))
    flips.sort(key=lambda flip: (flip.gained, -abs(flip.b - flip.a), flip.question_id))

    gaps = {"A": side_a.gaps, "B": side_b.gaps}
    return Compared(a, b, protocols.pop(), len(texts), compared, gaps, tuple(flips))


def with_answers(result: Evaluation, labels: Path, form: Form = None) -> Evaluation:
    """The evaluation with the texts of each question and of its first candidate in its rows, as far as the
    labels have them, so that `compare` of two files of rows can show both."""
    questions, texts = texts_of(labels, form, result.firsts.items()) if result.firsts else ({}, {})
    return replace(
        result,
        questions=tuple(
            replace(
                row,
                question=row.question or questions.get(row.question_id, ""),
                answer=texts.get((row.question_id, result.firsts.get(row.question_id, ""))),
            )
            for row in result.questions
        ),
    )


def _with_texts(
    flips: Sequence[Flip], firsts: Sequence[Mapping[str, str]], labels: Path, form: Form
) -> Iterator[Flip]:
    """The flips with the texts of their questions and of both first candidates, if the labels have them."""
    pairs = [{flip.question_id: side.get(flip.question_id, "") for flip in flips} for side in firsts]
    wanted = {pair for side in pairs for pair in side.items()}
    questions, texts = texts_of(labels, form, wanted) if wanted else ({}, {})
    for flip in flips:
        a, b = (texts.get((flip.question_id, side[flip.question_id]), "") for side in pairs)
        question = flip.question or questions.get(flip.question_id, "")
        yield replace(flip, question=question, answer_a=flip.answer_a or a, answer_b=flip.answer_b or b)


def _empty(rows: Iterable[QuestionScore]) -> Iterator[str]:
    """A line on the questions without a score, if there are some."""
    if empty := len({row.question_id for row in rows if not row.candidates}):
        yield f"{empty:,} of the questions kept have no score and count 0"


def _by_metric(rows: Iterable[QuestionScore]) -> dict[str, dict[str, float]]:
    """Metric → question → value."""
    values: dict[str, dict[str, float]] = {}
    for row in rows:
        values.setdefault(row.metric, {})[row.question_id] = row.value
    return values


def _with_all_columns(table: pa.Table) -> pa.Table:
    """The table with nulls for the answers, if it was written before it had them."""
    if "answer" in table.column_names:
        return table
    return table.append_column("answer", pa.nulls(len(table), pa.string()))


def _or_none(value: float | None) -> str:
    return f"{'-':>9}" if value is None else f"{value:>9.4f}"


def _finished(path: Path) -> list[QuestionScore] | None:
    """The rows of a file of `evaluate --questions`; None if it is none. Raises JobError (65) if it is not
    readable, or empty."""
    if not (path.name.endswith(".parquet") and path.is_file()):
        return None
    try:
        with open_parquet(fetch(path)) as file:
            if not set(file.schema_arrow.names) >= _NEEDED:
                return None
            rows = QuestionScore.rows(_with_all_columns(file.read()))
    except DAMAGE as e:
        raise_unless_damage(e)
        raise JobError(f"{path}: not readable as Parquet: {e}", BAD_DATA) from e

    if not rows:
        raise JobError(f"{path}: no question in it", BAD_DATA)
    return rows


def _chosen(name: str, rows: Sequence[QuestionScore], measure: MeasuredBy) -> list[QuestionScore]:
    """The rows of a finished evaluation by the metrics to compare. Raises JobError (2) if it lacks one, or is
    of another protocol."""
    protocols = {row.protocol for row in rows}
    if measure.protocol is not None and protocols != {measure.protocol}:
        raise JobError(
            f"{name} was measured by protocol {', '.join(sorted(protocols))}, not {measure.protocol}; leave "
            "it out, or evaluate anew",
            USAGE,
        )
    measured = list(dict.fromkeys(row.metric for row in rows))
    if measure.metrics is None:
        return list(rows)
    if not measure.metrics:
        raise JobError("no metric; name one or more, such as P@1", USAGE)
    for metric in measure.metrics:
        if metric not in measured:
            raise JobError(f"{name} has no {metric}, but {', '.join(measured)}; evaluate anew", USAGE)
    return [row for row in rows if row.metric in measure.metrics]
