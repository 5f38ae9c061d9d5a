"""Comparison of two runs of the same questions, A and B: settings, counts, quality, and each first answer.

Memory holds a digest of A's answer to each question, and texts only of the changed answers that are shown.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from answermill.files.atomic_files import whole_text, write_text
from answermill.files.remote import as_path
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError, counted
from answermill.pipelines.look.report.changes import KINDS, Amounts, ChangedAnswer, Kind, Side, TwoRuns
from answermill.pipelines.look.report.correct_answers import QuestionValues
from answermill.pipelines.look.report.figures import RunReport
from answermill.pipelines.look.report.manifest_figures import complete_steps
from answermill.pipelines.look.report.pages.two_runs_page import two_runs_page
from answermill.pipelines.look.report.run_report import read_with_values
from answermill.pipelines.runs.manifests.run_folder import differences
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.specs.rerank import ANSWERS
from answermill.pipelines.specs.run import Run
from answermill.ranking.evaluation.significance import Comparison, compare_shared, moved
from answermill.schemas.ranked import Answer

PAGE, FIGURES = "compared.html", "compared.json"
_INPUTS = 3
"""Most inputs of a step whose differences are listed; of more their number, and the first names."""


def write_comparison(
    a: Path,
    b: Path,
    *,
    labels: Path | None = None,
    price_per_hour: float | None = None,
    show: int = 50,
    out: Path | None = None,
    form: Form = None,
) -> str:
    """Write the comparison into `out`, or B's folder; returns a line for people. Raises JobError: 65 if the
    runs have answers and share no question; as `read_comparison`."""
    compared = read_comparison(as_path(a), as_path(b), labels, price_per_hour, show, form=form)
    if compared.has_answers and not compared.questions:
        raise JobError(
            f"{a} and {b} have no question in common, by id and text; give two runs of the same questions",
            BAD_DATA,
        )
    folder = out or as_path(b)
    write_pages(compared, folder)

    changed = sum(compared.changed.values())
    kinds = (
        f" ({compared.changed['lost']:,} lost, {compared.changed['gained']:,} gained)"
        if compared.metrics
        else ""
    )

    if not compared.has_answers:
        return f"report     neither run has answers yet: settings, counts and seconds; {folder / PAGE}"
    return (
        f"report     {counted(compared.questions, 'question')}, {changed:,} first answers changed{kinds}; "
        f"{folder / PAGE}"
    )


def write_pages(compared: TwoRuns, folder: Path) -> None:
    """Write compared.html and compared.json into a folder."""
    write_text(folder / FIGURES, json.dumps(asdict(compared), indent=1, ensure_ascii=False) + "\n")
    with whole_text(folder / PAGE) as write:
        for piece in two_runs_page(compared):
            write(piece)


def read_comparison(
    a: Path,
    b: Path,
    labels: Path | None = None,
    price_per_hour: float | None = None,
    show: int = 50,
    *,
    form: Form = None,
) -> TwoRuns:
    """Compare two runs, their answers if they have some. `labels`, `form` and `price_per_hour` are those of
    `read_report`, for both.

    Raises JobError: 66 if one has answers and the other has none, 2 if `show` is negative; else as
    `read_report`.
    """
    if show < 0:
        raise JobError(f"--show {show}: give how many changed answers are shown, 0 or more", USAGE)

    runs = Run.open(a), Run.open(b)
    has_answers = any(run.get(ANSWERS) is not None or ANSWERS.name in run.unreadable for run in runs)
    answers = [run[ANSWERS] for run in runs] if has_answers else []
    (report_a, values_a), (report_b, values_b) = (
        read_with_values(run, labels, price_per_hour, form) for run in runs
    )
    p1_a, p1_b = (values.p1 if values is not None else {} for values in (values_a, values_b))
    pairs = _Pairs(answers[:1], moved(p1_a, p1_b))
    shown = [*pairs.compare_with(answers[1:], show)]

    return TwoRuns(
        a=str(a),
        b=str(b),
        settings=tuple(_settings(*runs)),
        counts=tuple(_paired(_counts(report_a), _counts(report_b))),
        seconds=tuple(_paired(_seconds(report_a), _seconds(report_b))),
        dollars=tuple(_paired(_dollars(report_a), _dollars(report_b))) if price_per_hour is not None else (),
        has_answers=has_answers,
        questions=pairs.questions,
        only_a=len(pairs.digests) - pairs.questions,
        only_b=pairs.only_b,
        unchanged=pairs.questions - pairs.changed.total(),
        changed={kind: pairs.changed[kind] for kind in KINDS},
        labelled=len(p1_a.keys() & p1_b.keys()),
        metrics=dict(_metrics(values_a, values_b)),
        shown=tuple(shown),
    )


class _Pairs:
    """Questions of A with digests of their answers, for comparison with B's. Answers are one folder, or none
    if the runs have none."""

    def __init__(self, a: Sequence[Folder[Answer]], moved: Mapping[str, Kind]) -> None:
        self._a, self._moved = a, moved
        self.digests = {
            _digest(answer.question_id, answer.question): _digest(answer.answer or "")
            for folder in a
            for answer in folder.read()
        }
        self.questions = self.only_b = 0
        self.changed: Counter[Kind] = Counter()

    def compare_with(self, b: Sequence[Folder[Answer]], show: int) -> Iterator[ChangedAnswer]:
        """Compare all answers, then yield the first `show` changed ones of each kind, in the order of B's
        questions."""
        chosen: dict[Kind, list[Answer]] = {kind: [] for kind in KINDS}
        for answer in (answer for folder in b for answer in folder.read()):
            digest_a = self.digests.get(_digest(answer.question_id, answer.question))
            if digest_a is None:
                self.only_b += 1
                continue

            self.questions += 1
            if digest_a != _digest(answer.answer or ""):
                kind = self._moved.get(answer.question_id, "other")
                self.changed[kind] += 1
                if len(chosen[kind]) < show:
                    chosen[kind].append(answer)

        ids = {answer.question_id for answers in chosen.values() for answer in answers}
        changed = (answer for folder in self._a if ids for answer in folder.where("question_id", ids))
        former = {answer.question_id: answer for answer in changed}
        return (
            ChangedAnswer(
                answer.question_id, answer.question, kind, _side(former[answer.question_id]), _side(answer)
            )
            for kind, answers in chosen.items()
            for answer in answers
        )


def _side(answer: Answer) -> Side:
    place = (answer.source_file or "", answer.source_offset)
    return Side(answer.answer or "", answer.score, answer.title or "", answer.url or "", *place)


def _digest(*texts: str) -> bytes:
    return hashlib.sha256("\0".join(texts).encode()).digest()[:16]


def _settings(a: Run, b: Run) -> Iterator[str]:
    """Clauses on settings, inputs and versions that differ, step by step; of many inputs one clause."""
    sides = ("in A", "in B")
    manifests_b = {spec.name: next(iter(written.values())) for spec, written in complete_steps(b)}
    for spec, written in complete_steps(a):
        step, manifest_a = spec.name, next(iter(written.values()))
        if (manifest_b := manifests_b.pop(step, None)) is None:
            yield f"{step} is complete in A alone"
            continue

        yield from differences(manifest_a.settings, manifest_b.settings, step, sides)
        inputs_a, inputs_b = dict(manifest_a.inputs), dict(manifest_b.inputs)
        names = [name for name in sorted({*inputs_a, *inputs_b}) if inputs_a.get(name) != inputs_b.get(name)]
        if len(names) > _INPUTS:
            yield f"{step}: {len(names):,} inputs differ, {', '.join(names[:_INPUTS])} and others"
        else:
            yield from differences(inputs_a, inputs_b, f"{step}: input", sides)
        yield from differences(manifest_a.version, manifest_b.version, f"{step}: version", sides)
        yield from differences(manifest_a.revision, manifest_b.revision, f"{step}: revision", sides)

    yield from (f"{step} is complete in B alone" for step in manifests_b)


def _counts(report: RunReport) -> dict[str, float | None]:
    counts: dict[str, float | None] = {
        amount.what: amount.count for amount in (*report.corpus, *report.candidates)
    }
    if report.answers is not None:
        counts |= {"questions": report.answers.questions, "answered questions": report.answers.answered}
    return counts


def _seconds(report: RunReport) -> dict[str, float | None]:
    return {work.what: work.seconds for work in report.work} | {
        stage.name: stage.seconds for stage in report.stages
    }


def _dollars(report: RunReport) -> dict[str, float | None]:
    return {work.what: work.dollars for work in report.work} | {
        stage.name: stage.dollars for stage in report.stages
    }


def _paired(a: Mapping[str, float | None], b: Mapping[str, float | None]) -> Iterator[Amounts]:
    """Amounts of both runs, in A's order; those of B alone follow."""
    for what in dict.fromkeys([*a, *b]):
        yield Amounts(what, a.get(what), b.get(what))


def _metrics(a: QuestionValues | None, b: QuestionValues | None) -> Iterator[tuple[str, Comparison]]:
    if a is not None and b is not None and a.p1.keys() & b.p1.keys():
        yield "P@1", compare_shared(dict(sorted(a.p1.items())), b.p1)
        yield "MRR", compare_shared(dict(sorted(a.mrr.items())), b.mrr)
