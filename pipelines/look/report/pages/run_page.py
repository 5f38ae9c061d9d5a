"""The page of a run's report: its figures as the rows and bars that the template shows."""

from __future__ import annotations

from collections.abc import Iterator

from answermill.pipelines.look.report.correct_answers import Fates
from answermill.pipelines.look.report.figures import Amount, Rejects, RunReport, StageFigures, StepFigures
from answermill.pipelines.look.report.pages.templates import NOTHING, money, number, page, percent


def run_page(report: RunReport) -> Iterator[str]:
    """The document, in pieces."""
    return page(
        "run.html.j2",
        report=report,
        versions=sorted({step.version for step in report.steps}),
        first_figures=list(_first_figures(report)),
        rejects=[(f"{each.folder}: {each.rows:,}", _reasons(each)) for each in report.rejects],
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
    )


def _first_figures(report: RunReport) -> Iterator[tuple[str, str]]:
    """Figures for the top of the page, with their names."""
    for amount in report.corpus:
        yield number(amount.count), amount.what
    if report.answers is not None:
        yield number(report.answers.questions), "questions"
        yield number(report.answers.answered), "answered"
    if report.quality is not None:
        last = report.quality.orders[-1]
        yield percent(last.p1), "P@1"
        yield f"{last.mrr:.3f}", "MRR"


def _reasons(rejects: Rejects) -> list[Amount]:
    """Reasons for which rows were refused, with their shares."""
    return [Amount(reason, count, percent(count / rejects.rows)) for reason, count in rejects.reasons.items()]


def _stages(report: RunReport) -> Iterator[list[str]]:
    """Rows of the table of stages: each stage, all of them, then the work of other steps; costs last where
    there is a price."""
    cells = 9 if report.price_per_hour is None else 10
    for stage in report.stages:
        yield _stage_row(stage)[:cells]

    seconds = sum(stage.seconds or 0.0 for stage in report.stages)
    dollars = sum(stage.dollars or 0.0 for stage in report.stages)
    yield ["all stages", "", "", "", "", number(seconds, 1), "", "", "", money(dollars)][:cells]

    for work in report.work:
        rate = f"{work.per_second:,.0f} {work.item}"
        yield [
            work.what,
            "",
            number(work.items),
            "",
            "",
            number(work.seconds, 1),
            rate,
            "",
            "",
            money(work.dollars),
        ][:cells]


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
    """Sentences for where a graphics card was at work, or a price was given."""
    shares = ", ".join(
        f"{each.name} {percent(each.card_share)}" for each in report.stages if each.card_share is not None
    )
    if shares:
        yield f"Share of its seconds in which a graphics card was at work: {shares}."
    peaks = ", ".join(
        f"{each.name} {each.card_peak_bytes / 1e9:,.1f} GB" for each in report.stages if each.card_peak_bytes
    )
    if peaks:
        yield f"The most of its card's memory that a worker had at once: {peaks}."
    if report.price_per_hour is not None:
        yield f"An hour of one worker costs {money(report.price_per_hour)}."


def _predictions(report: RunReport) -> Iterator[tuple[str, ...]]:
    """Rows of what was predicted and what came."""
    for each in report.predictions:
        decimals = 1 if each.what.startswith("seconds") else 0
        ratio = f"{each.actual / each.predicted:.2f}" if each.predicted else NOTHING
        yield each.what, number(each.predicted, decimals), number(each.actual, decimals), ratio


def _orders(report: RunReport) -> Iterator[tuple[str, ...]]:
    """Rows of the table of orders against the labels."""
    if report.quality is not None:
        for order in report.quality.orders:
            share = percent(order.alive / report.quality.questions)
            yield order.order, number(order.alive), share, f"{100 * order.p1:.2f}", f"{100 * order.mrr:.2f}"


def _outcomes(report: RunReport) -> Iterator[Amount]:
    """Questions by what became of their correct candidates; a stage that dropped the last of none is left
    out."""
    if report.quality is not None:
        for each in report.quality.outcomes:
            if each.questions or not each.stage:
                yield Amount(_fate(each), each.questions, percent(each.questions / report.quality.questions))


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
    """The matrix of agreement: an order → its cells (class, text, depth of colour), which have the orders'
    order."""
    names = list(dict.fromkeys(name for each in report.agreement for name in (each.a, each.b)))
    cells = {(name, name): ("self", "", "") for name in names}
    for each in report.agreement:
        rho = each.spearman
        # 0.0 more, as round() gives -0.0 too.
        written = NOTHING if rho is None else f"{round(rho, 2) + 0.0:.2f}"
        cells[each.a, each.b] = "upper", percent(each.same_first), f"{max(0.0, each.same_first):.2f}"
        cells[each.b, each.a] = "lower", written, f"{max(0.0, rho or 0.0):.2f}"
    return {a: [cells[a, b] for b in names] for a in names}


def _units(report: RunReport) -> Iterator[tuple[str, ...]]:
    """Rows of the table of slowest units."""
    for each in report.units:
        size = f"{each.items:,} {each.item}"
        yield each.step, number(each.unit), size, number(each.seconds, 1), f"{each.times_mean:.1f} ×"


def _pairs(step: StepFigures) -> Iterator[tuple[str, str]]:
    """Names and values of what a step is made of."""
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
