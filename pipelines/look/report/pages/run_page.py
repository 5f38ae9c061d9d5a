"""Page of a run's report: its figures as the rows and bars that the template shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answermill.pipelines.look.annotation.annotation_page import first_figures, people_rows
from answermill.pipelines.look.report.correct_answers import Fates
from answermill.pipelines.look.report.figures import Amount, Rejects, RunReport, StageFigures, StepFigures
from answermill.pipelines.look.report.funnel import RETRIEVED_PASSAGES
from answermill.pipelines.look.report.pages.pictures import spans
from answermill.pipelines.look.report.pages.reasons import meaning
from answermill.pipelines.look.report.pages.templates import (
    NOTHING,
    duration,
    hundredths,
    moment,
    money,
    number,
    page,
    percent,
)

_PAGES = ("pages", "documents")
"""Amounts of the corpus that are pages."""


def run_page(report: RunReport, files: Sequence[str] = ()) -> Iterator[str]:
    """Pieces of the document. `files`: names of the files beside it: all answers, and the annotation."""
    return page(
        "run.html.j2",
        report=report,
        versions=sorted({step.version for step in report.steps}),
        times=_times(report),
        files=files,
        timeline=_timeline(report),
        first_figures=list(_first_figures(report)),
        # Amounts of one kind have one scale: passages and sentences are not pages.
        pages=[amount for amount in report.corpus if amount.what in _PAGES],
        passages=[amount for amount in report.corpus if amount.what not in _PAGES],
        retrieved=[amount for amount in report.candidates if amount.what == RETRIEVED_PASSAGES],
        candidates=[amount for amount in report.candidates if amount.what != RETRIEVED_PASSAGES],
        rejects=[
            (f"{rejects.folder}: {rejects.rows:,}", _reasons(rejects), _meanings(rejects))
            for rejects in report.rejects
        ],
        stages=list(_stages(report)),
        stage_notes=list(_stage_notes(report)),
        predictions=list(_predictions(report)),
        orders=list(_orders(report)),
        outcomes=list(_outcomes(report)),
        ranks=_ranks(report),
        sources=_sources(report),
        agreement=_agreement(report),
        units=list(_units(report)),
        steps=[(step, list(_pairs(step))) for step in report.steps],
        annotation_figures=[] if report.annotation is None else first_figures(report.annotation),
        people=[] if report.annotation is None else people_rows(report.annotation),
    )


def _first_figures(report: RunReport) -> Iterator[tuple[str, str]]:
    """Figures for the top of the page, with their names."""
    for amount in report.corpus:
        yield number(amount.count), amount.what
    if report.answers is not None:
        yield number(report.answers.questions), "questions"
        yield number(report.answers.answered), "answered"
        yield number(report.answers.several_pages), "answers on several pages"
    if report.quality is not None:
        last = report.quality.orders[-1]
        yield hundredths(last.p1), "P@1, of 100"
        yield hundredths(last.mrr), "MRR, of 100"


def _times(report: RunReport) -> str:
    """When the run ended, and its duration by the clock; '' if the run does not say."""
    steps = [step for step in report.steps if step.ended is not None]
    if not steps:
        return ""
    seconds = sum(step.clock_seconds or 0.0 for step in steps)
    some = "" if len(steps) == len(report.steps) else f" for {', '.join(step.step for step in steps)}"
    return f"ended {moment(max(step.ended or 0.0 for step in steps))}, {duration(seconds)} by the clock{some}"


def _timeline(report: RunReport) -> list[tuple[str, str, str, str, str]]:
    """Rows of the timeline: (step, begin, duration, x, width) of each step whose time is known, by its
    begin."""
    times = sorted(
        (step.ended - (step.clock_seconds or 0.0), step.ended, step.step)
        for step in report.steps
        if step.ended is not None
    )
    bars = spans([(begin, end) for begin, end, _ in times])
    return [
        (step, moment(begin), duration(end - begin), *bar)
        for (begin, end, step), bar in zip(times, bars, strict=True)
    ]


def _meanings(rejects: Rejects) -> list[tuple[str, str]]:
    """Reasons whose words do not say all, with their meanings."""
    meanings = ((reason, meaning(rejects.folder, reason)) for reason in rejects.reasons)
    return [(reason, words) for reason, words in meanings if words]


def _reasons(rejects: Rejects) -> list[Amount]:
    """Reasons of refusals, with their shares."""
    return [Amount(reason, count, percent(count / rejects.rows)) for reason, count in rejects.reasons.items()]


def _stages(report: RunReport) -> Iterator[list[str]]:
    """Rows of the table of stages: each stage, all of them, then the work of other steps. Costs are the last
    column, if there is a price."""
    cells = 9 if report.price_per_hour is None else 10
    for stage in report.stages:
        yield _stage_row(stage)[:cells]

    seconds = sum(stage.seconds or 0.0 for stage in report.stages)
    dollars = sum(stage.dollars or 0.0 for stage in report.stages)
    yield ["all stages", "", "", "", "", number(seconds, 1), "", "", "", money(dollars)][:cells]

    for work in report.work:
        rate = f"{work.per_second:,.0f} {work.item}"
        seconds_text, cost = number(work.seconds, 1), money(work.dollars)
        yield [work.what, "", number(work.items), "", "", seconds_text, rate, "", "", cost][:cells]


def _stage_row(stage: StageFigures) -> list[str]:
    share = (
        stage.layer_tokens / stage.full_layer_tokens
        if stage.layer_tokens and stage.full_layer_tokens
        else None
    )

    return [
        stage.name,
        stage.reranker if stage.reranker != stage.name else "",
        number(stage.came),
        number(stage.went),
        number(stage.dropped),
        number(stage.seconds, 1),
        number(stage.candidates_per_second),
        number(stage.layer_tokens),
        percent(share),
        money(stage.dollars),
    ]


def _stage_notes(report: RunReport) -> Iterator[str]:
    """Sentences on graphics cards, if one was at work, and on the price, if one was given."""
    shares = ", ".join(
        f"{stage.name} {percent(stage.card_share)}" for stage in report.stages if stage.card_share is not None
    )
    if shares:
        yield f"Share of its seconds in which a graphics card was at work: {shares}."
    peaks = ", ".join(
        f"{stage.name} {stage.card_peak_bytes / 1e9:,.1f} GB"
        for stage in report.stages
        if stage.card_peak_bytes
    )
    if peaks:
        yield f"The most of its card's memory that a worker had at once: {peaks}."
    if report.price_per_hour is not None:
        yield f"An hour of one worker costs {money(report.price_per_hour)}."


def _predictions(report: RunReport) -> Iterator[tuple[str, ...]]:
    """Rows of predicted and actual figures, with their ratio."""
    for figure in report.predictions:
        decimals = 1 if figure.what.startswith("seconds") else 0
        ratio = f"{figure.actual / figure.predicted:.2f}" if figure.predicted else NOTHING
        yield figure.what, number(figure.predicted, decimals), number(figure.actual, decimals), ratio


def _orders(report: RunReport) -> Iterator[tuple[str, ...]]:
    """Rows of the table of orders against the labels."""
    if report.quality is not None:
        for order in report.quality.orders:
            share = percent(order.alive / report.quality.questions)
            yield order.order, number(order.alive), share, hundredths(order.p1), hundredths(order.mrr)


def _outcomes(report: RunReport) -> Iterator[Amount]:
    """Questions by the fate of their correct candidates, without stages that dropped no question's last."""
    if report.quality is not None:
        for outcome in report.quality.outcomes:
            if outcome.questions or not outcome.stage:
                share = percent(outcome.questions / report.quality.questions)
                yield Amount(_fate(outcome), outcome.questions, share)


def _fate(outcome: Fates) -> str:
    if outcome.fate == "dropped":
        return f"dropped by {outcome.stage}"
    return {"not first": "kept, not first", "grouped": "passage gave another"}.get(outcome.fate, outcome.fate)


def _ranks(report: RunReport) -> list[Amount]:
    """First answers by the rank of their passages."""
    return (
        [Amount(rank, count) for rank, count in report.answers.retrieved_rank.items()]
        if report.answers
        else []
    )


def _sources(report: RunReport) -> list[Amount]:
    """First answers by the index that returned their passages."""
    if report.answers is None:
        return []
    answered = max(1, report.answers.answered)
    return [Amount(name, count, percent(count / answered)) for name, count in report.answers.sources.items()]


def _agreement(report: RunReport) -> dict[str, list[tuple[str, str, str]]]:
    """Matrix of agreement: an order → its cells (class, text, depth of colour), in the order of the rows."""
    names = list(dict.fromkeys(name for pair in report.agreement for name in (pair.a, pair.b)))
    cells = {(name, name): ("self", "", "") for name in names}
    for pair in report.agreement:
        rho = pair.spearman
        # round() may give -0.0; adding 0.0 makes it 0.0.
        rho_text = NOTHING if rho is None else f"{round(rho, 2) + 0.0:.2f}"
        cells[pair.a, pair.b] = "upper", percent(pair.same_first), f"{max(0.0, pair.same_first):.2f}"
        cells[pair.b, pair.a] = "lower", rho_text, f"{max(0.0, rho or 0.0):.2f}"
    return {a: [cells[a, b] for b in names] for a in names}


def _units(report: RunReport) -> Iterator[tuple[str, ...]]:
    """Rows of the table of slowest units."""
    for unit in report.units:
        size = f"{unit.items:,} {unit.item}"
        yield unit.step, number(unit.unit), size, number(unit.seconds, 1), f"{unit.times_mean:.1f} ×"


def _pairs(step: StepFigures) -> Iterator[tuple[str, str]]:
    """Names and values of a step's fingerprint, version, folders, inputs and environment."""
    if step.ended is not None:
        yield "ended", moment(step.ended)
        yield "by the clock", duration(step.clock_seconds or 0.0)
    yield "fingerprint", step.fingerprint
    yield "version", f"{step.version}, revision {step.revision} of the step"
    for folder, rows in step.rows.items():
        yield folder, f"{rows:,} rows"
    yield "size", f"{step.bytes:,} bytes"
    for name, value in step.inputs.items():
        yield f"input {name}", value
    if step.more_inputs:
        yield "inputs", f"and {step.more_inputs:,} more"
    yield from step.environment.items()
