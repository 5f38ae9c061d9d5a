"""The page of what changed between two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from answermill.pipelines.look.report.changes import Amounts, Changed, Kind, Side, TwoRuns
from answermill.pipelines.look.report.pages.answer_cards import card, place
from answermill.pipelines.look.report.pages.markup import NOTHING, Html, element, money, number, page, section, table, tiles

_TITLES: dict[Kind, str] = {
    "lost": "Lost: right in A, not in B",
    "gained": "Gained: right in B, not in A",
    "other": "Other changes",
}


def two_runs_page(compared: TwoRuns) -> Iterator[str]:
    """The document, in pieces."""
    sections = [_head(compared)]
    if compared.metrics:
        sections.append(_metrics(compared))
    sections += [_settings(compared), _amounts(compared)]
    for kind, title in _TITLES.items():
        if compared.changed[kind]:
            name = title if compared.metrics else "Changed first answers"
            sections.append(
                _changed(name, kind, compared.changed[kind], [each for each in compared.shown if each.kind == kind])
            )
    yield from page("Two runs", sections)


def _head(compared: TwoRuns) -> Html:
    figures = [
        (number(compared.questions), "questions of both"),
        (number(compared.unchanged), "same first answer"),
        (number(sum(compared.changed.values())), "changed"),
    ]
    if compared.metrics:
        difference = compared.metrics["P@1"].difference
        figures += [(number(compared.changed["lost"]), "lost"), (number(compared.changed["gained"]), "gained")]
        figures.append((f"{100 * difference:+.1f}", "P@1, points"))
    names = [
        element("p", element("b", f"{side} "), element("code", name)) for side, name in (("A", compared.a), ("B", compared.b))
    ]
    odd = [
        element("p", f"{count:,} questions are in {side} alone, by id and text; they are left out.", class_="note")
        for side, count in (("A", compared.only_a), ("B", compared.only_b))
        if count
    ]
    return element("header", element("h1", "What changed from A to B"), *names, *odd, tiles(figures))


def _metrics(compared: TwoRuns) -> Html:
    rows = [
        (
            metric,
            *(f"{100 * value:.2f}" for value in (c.a, c.b)),
            f"{100 * c.difference:+.2f}",
            f"{100 * c.low:+.2f} to {100 * c.high:+.2f}",
            f"{c.p:.4f}",
            *(number(count) for count in (c.wins, c.ties, c.losses)),
        )
        for metric, c in compared.metrics.items()
    ]
    return section(
        "Against the labels",
        "quality",
        table(("", "A", "B", "B - A", "95 % interval", "p", "B better", "equal", "A better"), rows),
        about=f"Over {compared.labelled:,} questions with a correct candidate in the labels of both. The interval is the "
        "bootstrap's over questions; one that holds 0 shows no difference. p is of a paired randomisation test.",
    )


def _settings(compared: TwoRuns) -> Html:
    clauses = [element("li", clause) for clause in compared.settings]
    return section(
        "Settings and inputs that differ",
        "settings",
        element("ul", *clauses) if clauses else element("p", "None.", class_="none"),
    )


def _amounts(compared: TwoRuns) -> Html:
    tables = [
        _table("", compared.counts, number),
        _table("seconds of workers", compared.seconds, lambda seconds: number(seconds, 1)),
        _table("cost", compared.dollars, money),
    ]
    return section("Counts and seconds", "counts", element("div", *filter(None, tables), class_="columns"))


def _table(title: str, amounts: Sequence[Amounts], shown: Callable[[float | None], str]) -> Html:
    rows = [(each.what, shown(each.a), shown(each.b), _change(each)) for each in amounts]
    return table((title, "A", "B", "change"), rows) if rows else Html()


def _change(each: Amounts) -> str:
    if each.a == each.b:
        return "same"
    return NOTHING if not each.a or each.b is None else f"{100 * (each.b / each.a - 1):+.1f} %"


def _changed(title: str, kind: Kind, count: int, shown: Sequence[Changed]) -> Html:
    cards = []
    for each in shown:
        sides = (element("div", element("h4", name), _side(side)) for name, side in (("A", each.a), ("B", each.b)))
        cards.append(card(each.question, each.question_id, element("div", *sides, class_="columns")))
    about = f"{count:,} questions" + (f", the first {len(shown):,} of which are below" if len(shown) < count else "")
    return section(title, kind, *cards, about=f"{about}.")


def _side(side: Side) -> Html:
    if not side.text:
        return element("p", "No answer was kept.", class_="none")
    score = [element("span", f"score {side.score:.3f}")] if side.score is not None else []
    source = element("p", *place(side.url, side.title, side.source_file, side.source_offset), *score, class_="source")
    return element("div", element("p", side.text, dir="auto"), source)
