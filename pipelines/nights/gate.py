"""Gate: the last good run and a new one -> figures, each with the bar that it must not exceed.

Quality is measured on judged candidates alone, so that answers of a new crawl that nobody has judged cost
nothing; a loss counts where it is more than the bar and no chance: its interval lies below 0, and the
randomisation test agrees. The other figures need no labels: first answers that changed, rows that fell,
reasons of rejects that grew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from answermill.pipelines.errors import USAGE, JobError
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.learn.evaluate.join import NothingJudged
from answermill.pipelines.look.report.run_report import own_labels
from answermill.pipelines.look.report.two_runs import read_comparison, write_pages
from answermill.pipelines.specs.ingest import DOCUMENTS, PASSAGES
from answermill.pipelines.specs.registry import job_steps
from answermill.pipelines.specs.rerank import ANSWERS, SCORED
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED
from answermill.pipelines.specs.run import Run
from answermill.ranking.evaluation.metrics import check_metric
from answermill.ranking.evaluation.significance import EQUAL, compare_shared

ANSWERED = "answered questions"
ALPHA = 0.05
"""p above which a loss may be chance."""


@dataclass(frozen=True, slots=True)
class Bars:
    """The most that each figure may be, from 0 to 1; 1 lets everything pass."""

    metric: str = "P@1"
    margin: float = 0.02
    changed: float = 0.5
    fall: float = 0.5
    rejects: float = 0.2

    def check(self) -> None:
        """Raise JobError (2) if the metric is unknown, or a bar is no share."""
        try:
            check_metric(self.metric)
        except ValueError as e:
            raise JobError(f"--metric: {e}", USAGE) from e
        for name in ("margin", "changed", "fall", "rejects"):
            option = name if name == "margin" else f"max-{name}"
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise JobError(f"--{option} {value:g}: give a number from 0 to 1", USAGE)

    def line(self) -> str:
        """The bars, for people."""
        return (
            f"{self.metric} of judged candidates may fall by {self.margin:.1%}, and further by chance; "
            f"{self.changed:.1%} of the first answers may change, rows fall by {self.fall:.1%}, and the "
            f"share of a reason for rejects grow by {self.rejects:.1%}"
        )


@dataclass(frozen=True, slots=True)
class GateFigure:
    """A figure of two runs. `name`: 'loss', 'changed', 'fall.FOLDER', 'rejects.STEP.REASON'."""

    name: str
    value: float
    is_over: bool
    text: str
    """The figure with its values, for people."""


def measure(former: Path, path: Path, bars: Bars) -> list[GateFigure]:
    """Figures of a run against the former one, loss first; those that the runs have no folders for are left
    out. Where both have answers, compared.html and .json are written into the run.

    Raises JobError as `Run.open` and `read_comparison`.
    """
    a, b = Run.open(former), Run.open(path)
    for run in (a, b):
        run.refuse_unreadable()
    figures = list(_loss(a, b, bars))
    answered: tuple[float, float] | None = None

    if a.get(ANSWERS) is not None and b.get(ANSWERS) is not None:
        compared = read_comparison(former, path)
        write_pages(compared, path)
        changed = sum(compared.changed.values())
        share = changed / compared.questions if compared.questions else 1.0
        text = f"{changed:,} of {compared.questions:,} first answers are another text, {share:.1%}"
        if not compared.questions:
            text = "the runs have no question in common"
        figures.append(GateFigure("changed", share, share > bars.changed, text))
        (amounts,) = [amounts for amounts in compared.counts if amounts.what == ANSWERED]
        answered = (amounts.a or 0, amounts.b or 0)

    figures += _falls(a, b, answered, bars)
    return [*figures, *_rejects(a, b, bars)]


def _loss(a: Run, b: Run, bars: Bars) -> Iterator[GateFigure]:
    """The loss of quality over the questions that have a correct candidate in the labels of both runs."""
    values_a, values_b = (_judged(run, bars.metric) for run in (a, b))
    if not values_a.keys() & values_b.keys():
        return

    compared = compare_shared(values_a, values_b)
    is_sure = compared.high < 0 and compared.p <= ALPHA
    questions = compared.wins + compared.ties + compared.losses
    text = (
        f"{bars.metric} of judged candidates {compared.a:.1%} → {compared.b:.1%} over {questions:,} "
        f"questions, {compared.difference:+.1%} ({compared.low:+.1%} to {compared.high:+.1%}, "
        f"p {compared.p:.3f})"
    )
    loss = compared.a - compared.b
    yield GateFigure("loss", loss, loss > bars.margin + EQUAL and is_sure, text)


def _judged(run: Run, metric: str) -> dict[str, float]:
    """Question → the metric among its judged candidates, by the run's own labels; for questions with a
    correct candidate."""
    labels = own_labels(run)
    if labels is None or run.get(SCORED) is None:
        return {}
    try:
        rows = evaluate(str(run.path / SCORED.name), labels, protocol="raw", metrics=[metric]).questions
    except NothingJudged:
        return {}
    return {row.question_id: row.condensed for row in rows if row.correct}


def _falls(a: Run, b: Run, answered: tuple[float, float] | None, bars: Bars) -> Iterator[GateFigure]:
    rows = {
        spec.name: (float(former.rows), float(new.rows))
        for spec in (DOCUMENTS, PASSAGES, QUESTIONS, RETRIEVED, SCORED)
        if (former := a.get(spec)) is not None and (new := b.get(spec)) is not None
    }
    if answered is not None:
        rows[ANSWERED] = answered
    for name, (before, now) in rows.items():
        fall = 1 - now / before if before else 0.0
        text = f"{name} {before:,.0f} → {now:,.0f}, {0 - fall:+.1%}"
        yield GateFigure(f"fall.{name}", fall, fall > bars.fall, text)


def _rejects(a: Run, b: Run, bars: Bars) -> Iterator[GateFigure]:
    """Growth of each reason's share of the records of its step."""
    for spec in job_steps().values():
        whole = next((total for total, parts in spec.counts.sums.items() if "rejects" in parts), None)
        counts_a, counts_b = a.counts(spec), b.counts(spec)
        if whole is None or not getattr(counts_a, whole) or not getattr(counts_b, whole):
            continue
        for reason in sorted({*counts_a.rejected, *counts_b.rejected}):
            before, now = (
                counts.rejected.get(reason, 0) / getattr(counts, whole) for counts in (counts_a, counts_b)
            )
            text = f"{reason} refuses {before:.1%} → {now:.1%} of the {whole} of {spec.name}"
            grown = now - before
            yield GateFigure(f"rejects.{spec.name}.{reason}", grown, grown > bars.rejects, text)
