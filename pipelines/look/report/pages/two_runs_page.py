"""Page of a comparison of two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from answermill.pipelines.look.report.changes import Amounts, Kind, TwoRuns
from answermill.pipelines.look.report.pages.templates import NOTHING, money, number, page

_TITLES: dict[Kind, str] = {
    "lost": "Lost: right in A, not in B",
    "gained": "Gained: right in B, not in A",
    "other": "Other changes",
}


def two_runs_page(compared: TwoRuns) -> Iterator[str]:
    """Pieces of the document."""
    changes = [
        (
            title if compared.metrics else "Changed first answers",
            kind,
            compared.changed[kind],
            [answer for answer in compared.shown if answer.kind == kind],
        )
        for kind, title in _TITLES.items()
    ]

    amounts = [
        ("", _amounts(compared.counts, number)),
        ("clock seconds of workers", _amounts(compared.seconds, lambda seconds: number(seconds, 1))),
        ("cost", _amounts(compared.dollars, money)),
    ]

    return page(
        "two_runs.html.j2",
        compared=compared,
        first_figures=list(_first_figures(compared)),
        metrics=list(_metrics(compared)),
        amounts=amounts,
        changes=changes,
    )


def _first_figures(compared: TwoRuns) -> Iterator[tuple[str, str]]:
    """Figures for the top of the page, with their names."""
    yield number(compared.questions), "questions of both"
    yield number(compared.unchanged), "same first answer"
    yield number(sum(compared.changed.values())), "changed"

    if compared.metrics:
        yield number(compared.changed["lost"]), "lost"
        yield number(compared.changed["gained"]), "gained"
        yield f"{100 * compared.metrics['P@1'].difference:+.2f}", "P@1, of 100"


def _metrics(compared: TwoRuns) -> Iterator[tuple[str, ...]]:
    """Rows of the table of metrics."""
    for metric, c in compared.metrics.items():
        values = f"{100 * c.a:.2f}", f"{100 * c.b:.2f}", f"{100 * c.difference:+.2f}"
        interval = f"{100 * c.low:+.2f} to {100 * c.high:+.2f}"
        yield metric, *values, interval, f"{c.p:.4f}", number(c.wins), number(c.ties), number(c.losses)


def _amounts(amounts: Sequence[Amounts], text: Callable[[float | None], str]) -> list[tuple[str, ...]]:
    """Rows of a table of amounts. `text`: an amount as text."""
    return [(pair.what, text(pair.a), text(pair.b), _change(pair)) for pair in amounts]


def _change(pair: Amounts) -> str:
    """Change from A to B in percent.

    >>> [_change(Amounts("", a, b)) for a, b in ((4, 5), (4, 4), (0, 4))]
    ['+25.0 %', 'same', '–']
    """
    if pair.a == pair.b:
        return "same"
    return NOTHING if not pair.a or pair.b is None else f"{100 * (pair.b / pair.a - 1):+.1f} %"
