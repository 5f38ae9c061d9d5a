"""Pieces of a page. Text becomes markup in one place, `element`, which escapes whatever is not markup already: answers come
from the web, and may hold any."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_PAGE = re.compile(r"https?://", re.IGNORECASE)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Of what a browser may do with a page: load nothing, run nothing."""
NOTHING = "–"


class Html(str):
    """Markup, in which all text is escaped."""

    __slots__ = ()


def escaped(text: str) -> Html:
    """Text as markup; control characters, which HTML does not allow, as a replacement character."""
    return text if isinstance(text, Html) else Html(html.escape(_CONTROL.sub("\ufffd", text)))


def joined(pieces: Iterable[str]) -> Html:
    """Pieces one after the other."""
    return Html("".join(map(escaped, pieces)))


def element(tag: str, *children: str, **attributes: str | None) -> Html:
    """`<tag attribute="…">children</tag>`: `class_` is class, `view_box` is viewBox; None leaves an attribute out."""
    names = {"class_": "class", "view_box": "viewBox", "preserve": "preserveAspectRatio"}
    written = "".join(f' {names.get(name, name)}="{escaped(value)}"' for name, value in attributes.items() if value is not None)
    return Html(f"<{tag}{written}>{joined(children)}</{tag}>")


def page(title: str, sections: Iterable[Html]) -> Iterator[str]:
    """A whole document, in pieces."""
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
    )
    for section in sections:
        yield section + "\n"
    yield "</main>\n</body>\n</html>\n"


def section(title: str, name: str, *children: str, about: str = "") -> Html:
    """A section with its heading; `about` says how to read it, with code between backticks."""
    words = [element("code", piece) if n % 2 else piece for n, piece in enumerate(about.split("`"))]
    lead = [element("p", *words, class_="about")] if about else []
    return element("section", element("h2", title), *lead, *children, id=name)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> Html:
    """A table that scrolls by itself where the page is too narrow; the first `texts` columns are text, the others numbers."""
    head = element("tr", *(element("th", cell, scope="col", class_=_kind(n, texts)) for n, cell in enumerate(heads)))
    body = (element("tr", *(element("td", cell, class_=_kind(n, texts)) for n, cell in enumerate(row))) for row in rows)
    return element("div", element("table", element("thead", head), element("tbody", *body)), class_="wide")


def _kind(column: int, texts: int) -> str | None:
    return None if column < texts else "number"


def bars(rows: Sequence[tuple[str, float, str, str]], kind: str = "", largest: float | None = None) -> Html:
    """A list of bars: (what, value, the value as it is shown, a note). Widths are in proportion to the largest value."""
    scale = largest or max((value for _, value, _, _ in rows), default=0) or 1
    items = []
    for what, value, shown, note in rows:
        fill = element("i", style=f"width:{100 * value / scale:.2f}%") if value else ""
        more = [element("small", note)] if note else []
        items.append(
            element(
                "li",
                element("span", what, class_="what", dir="auto"),
                element("span", fill, class_="track"),
                element("span", element("b", shown), *more, class_="count"),
            )
        )
    return element("ul", *items, class_=f"bars {kind}".strip())


def tiles(figures: Iterable[tuple[str, str]]) -> Html:
    """The figures that a reader looks for first: (figure, what it is)."""
    return element(
        "dl", *(element("div", element("dt", what), element("dd", figure)) for figure, what in figures), class_="tiles"
    )


def link(url: str, text: str) -> Html:
    """A link to a page of the web; the text alone where the URL is of another kind, which a browser might run."""
    if not _PAGE.match(url):
        return element("span", text, dir="auto")
    return element("a", text, href=url, rel="noopener noreferrer nofollow", dir="auto")


def number(value: float | None, decimals: int = 0) -> str:
    """'1,234.5'; a dash for what is not known."""
    return NOTHING if value is None else f"{value:,.{decimals}f}"


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f} %"


def money(value: float | None) -> str:
    return NOTHING if value is None else f"$ {value:,.4f}" if value < 1 else f"$ {value:,.2f}"


def short(value: float) -> str:
    """A number for an axis."""
    return f"{value:.4g}"
