"""The page of a run's report, section by section."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from answermill.pipelines.look.report.correct_answers import Outcome, Quality
from answermill.pipelines.look.report.figures import Amount, RunReport, StageFigures, StepFigures
from answermill.pipelines.look.report.pages.answer_cards import loss_section, question_section
from answermill.pipelines.look.report.pages.markup import (
    NOTHING,
    Html,
    bars,
    element,
    money,
    number,
    page,
    percent,
    section,
    table,
    tiles,
)
from answermill.pipelines.look.report.pages.score_pictures import score_section


def run_page(report: RunReport) -> Iterator[str]:
    """The document, in pieces."""
    sections = [_head(report), _funnel(report)]
    if report.stages:
        sections += [_stages(report), score_section(report)]
    if report.predictions:
        sections.append(_predictions(report))
    if report.quality is not None:
        sections.append(_quality(report.quality))
    if report.answers is not None:
        sections += [_answers(report), _agreement(report)]
    if report.units:
        sections.append(_units(report))
    if report.questions:
        sections.append(question_section(report))
    if report.losses:
        sections.append(loss_section(report))
    sections.append(_settings(report))
    yield from page(f"Run {report.run}", sections)


def _head(report: RunReport) -> Html:
    figures = [(number(amount.count), amount.what) for amount in report.corpus]
    if report.answers is not None:
        figures += [(number(report.answers.questions), "questions"), (number(report.answers.answered), "answered")]
    if report.quality is not None:
        last = report.quality.orders[-1]
        figures += [(percent(last.p1), "P@1"), (f"{last.mrr:.3f}", "MRR")]
    versions = sorted({f"AnswerMill {step.version}" for step in report.steps})
    state = "all steps complete" if not report.missing else "not all steps are complete"
    lines = [element("p", f"{', '.join([*versions, state])}", class_="about")]
    if report.missing:
        rows = [element("li", element("b", each.step), f": {each.state}") for each in report.missing]
        lines.append(
            element(
                "div", element("p", "Missing here, because these steps are not complete:"), element("ul", *rows), class_="note"
            )
        )
    for step, failed in report.failed_units.items():
        lines.append(element("p", f"{failed:,} units of {step} failed; what they held is among the rejects.", class_="note"))
    return element("header", element("h1", "Run ", element("span", report.run, dir="auto")), *lines, tiles(figures))


def _funnel(report: RunReport) -> Html:
    refused = []
    for rejects in report.rejects:
        rows = [(reason, count, number(count), percent(count / rejects.rows)) for reason, count in rejects.reasons.items()]
        refused.append(element("div", element("h3", f"{rejects.folder}: {rejects.rows:,}"), bars(rows, "lost")))
    columns = [element("div", _amounts("Corpus", report.corpus), *refused, class_="stack")]
    columns.append(_amounts("Candidates", report.candidates))
    return section(
        "From pages to answers",
        "funnel",
        element("div", *(column for column in columns if column), class_="columns"),
        about="What came in, what each step left, and what was refused, with the reason. Bars of a list have one scale.",
    )


def _amounts(title: str, amounts: Sequence[Amount]) -> Html:
    rows = [(amount.what, amount.count, number(amount.count), amount.note) for amount in amounts]
    return element("div", element("h3", title), bars(rows)) if rows else Html()


def _stages(report: RunReport) -> Html:
    with_money = report.price_per_hour is not None
    heads = ["stage", "reranker", "in", "out", "dropped", "seconds", "candidates/s", "layers × tokens", "of all layers"]
    rows = [[*_stage_row(stage), *([money(stage.dollars)] if with_money else [])] for stage in report.stages]
    total = sum(stage.seconds or 0.0 for stage in report.stages)
    dollars = sum(stage.dollars or 0.0 for stage in report.stages)
    rows.append(["all stages", "", "", "", "", number(total, 1), "", "", "", *([money(dollars)] if with_money else [])])
    for work in report.work:
        cells = [
            work.what,
            "",
            number(work.items),
            "",
            "",
            number(work.seconds, 1),
            f"{work.per_second:,.0f} {work.item}",
            "",
            "",
        ]
        rows.append([*cells, *([money(work.dollars)] if with_money else [])])
    shares = ", ".join(f"{stage.name} {percent(stage.card_share)}" for stage in report.stages if stage.card_share is not None)
    card = f" Share of its seconds in which a graphics card was at work: {shares}." if shares else ""
    peaks = ", ".join(f"{each.name} {each.card_peak_bytes / 1e9:,.1f} GB" for each in report.stages if each.card_peak_bytes)
    card += f" The most of its card's memory that a worker had at once: {peaks}." if peaks else ""
    price = f" An hour of one worker costs {money(report.price_per_hour)}." if with_money else ""
    return section(
        "What each stage did",
        "stages",
        table([*heads, *(["cost"] if with_money else [])], rows, texts=2),
        about="Seconds are the workers', added up: two that compute for a second are two. A stage that reads passages after "
        f"sentences, or sentences after passages, counts what it reads.{card}{price}",
    )


def _stage_row(stage: StageFigures) -> list[str]:
    share = stage.layer_tokens / stage.full_layer_tokens if stage.layer_tokens and stage.full_layer_tokens else None
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
    ]


def _predictions(report: RunReport) -> Html:
    rows = []
    for each in report.predictions:
        decimals = 1 if each.what.startswith("seconds") else 0
        ratio = f"{each.actual / each.predicted:.2f}" if each.predicted else NOTHING
        rows.append((each.what, number(each.predicted, decimals), number(each.actual, decimals), ratio))
    return section(
        "Predicted and actual",
        "predictions",
        table(("", "predicted", "actual", "of the predicted"), rows),
        about="What `answermill plan` said before the run, and what came. Seconds are those of processors, of all workers.",
    )


def _quality(quality: Quality) -> Html:
    rows = [
        (
            order.order,
            number(order.alive),
            percent(order.alive / quality.questions),
            f"{100 * order.p1:.2f}",
            f"{100 * order.mrr:.2f}",
        )
        for order in quality.orders
    ]
    outcomes = [
        (_fate(each), each.questions, number(each.questions), percent(each.questions / quality.questions))
        for each in quality.outcomes
        if each.questions or not each.stage
    ]
    return section(
        "Against the labels",
        "quality",
        element(
            "div",
            element(
                "div",
                element("h3", "After each stage"),
                table(("after", "still there", "", "P@1", "MRR"), rows),
            ),
            element("div", element("h3", "Where the last correct candidate ended"), bars(outcomes)),
            class_="columns",
        ),
        about=f"{quality.questions:,} questions have a correct candidate in {quality.labels}; all of them count, whether it "
        "was retrieved or not (protocol `answerable` of `answermill evaluate`).",
    )


def _fate(outcome: Outcome) -> str:
    if outcome.fate == "dropped":
        return f"dropped by {outcome.stage}"
    return {"not first": "kept, not first", "grouped": "passage gave another"}.get(outcome.fate, outcome.fate)


def _answers(report: RunReport) -> Html:
    figures = report.answers
    assert figures is not None
    ranks = [(rank, count, number(count), "") for rank, count in figures.retrieved_rank.items()]
    sources = [
        (name, count, number(count), percent(count / max(1, figures.answered))) for name, count in figures.sources.items()
    ]
    return section(
        "Where the answers were in retrieval's order",
        "answers",
        element(
            "div",
            element("div", element("h3", "Rank of the answer's passage"), bars(ranks)),
            element("div", element("h3", "Index that returned it"), bars(sources)),
            class_="columns",
        ),
        about="First answers whose passage stands far down are what a smaller `retrieve.depth` would lose.",
    )


def _agreement(report: RunReport) -> Html:
    names = list(dict.fromkeys(name for each in report.agreement for name in (each.a, each.b)))
    same = {(each.a, each.b): each.same_first for each in report.agreement}
    rho = {(each.b, each.a): each.spearman for each in report.agreement}
    rows = []
    for a in names:
        cells = [element("th", a, scope="row")]
        for b in names:
            if a == b:
                cells.append(element("td", "", class_="self"))
                continue
            upper = (a, b) in same
            value = same[a, b] if upper else rho[a, b]
            shown = percent(value) if upper else NOTHING if value is None else f"{round(value, 2) + 0.0:.2f}"
            shade = f"--shade:{max(0.0, value or 0.0):.2f}"
            cells.append(element("td", shown, class_="upper" if upper else "lower", style=shade))
        rows.append(element("tr", *cells))
    head = element("tr", element("th", ""), *(element("th", name, scope="col") for name in names))
    matrix = element("table", element("thead", head), element("tbody", *rows), class_="matrix")
    return section(
        "How far the orders agree",
        "agreement",
        element("div", matrix, class_="wide"),
        about="Above the diagonal: how often the first candidate of the one is the first of the other. Below it: the mean rank "
        "correlation (Spearman's ρ) over the candidates that both have ranked.",
    )


def _units(report: RunReport) -> Html:
    rows = [
        (each.step, number(each.unit), f"{each.items:,} {each.item}", number(each.seconds, 1), f"{each.times_mean:.1f} ×")
        for each in report.units
    ]
    return section(
        "Slowest units",
        "units",
        table(("step", "unit", "size", "seconds", "of the mean unit"), rows),
        about="Units of work, by the time that their models and indexes took. One far above the mean holds up a cluster.",
    )


def _settings(report: RunReport) -> Html:
    return section("Settings, versions, machine", "settings", element("div", *map(_step, report.steps), class_="columns"))


def _step(step: StepFigures) -> Html:
    rows = [
        ("fingerprint", step.fingerprint),
        ("version", f"{step.version}, revision {step.revision} of the step"),
        *((folder, f"{rows:,} rows") for folder, rows in step.rows.items()),
        ("size", f"{step.bytes:,} bytes"),
        *((f"input {name}", value) for name, value in step.inputs.items()),
        *([("inputs", f"and {step.more_inputs:,} more")] if step.more_inputs else []),
        *step.environment.items(),
    ]
    cells = [element("div", element("dt", name), element("dd", value)) for name, value in rows]
    settings = json.dumps(step.settings, indent=1, ensure_ascii=False)
    return element(
        "div",
        element("h3", step.step),
        element("dl", *cells, class_="pairs"),
        element("details", element("summary", "settings"), element("pre", settings)),
    )
