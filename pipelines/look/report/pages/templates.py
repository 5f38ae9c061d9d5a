"""Pages from templates. Values hold text of the web, so all of them are escaped, and control characters,
which HTML does not allow, become replacement characters."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from answermill.pipelines.look.report.pages.pictures import scaled, score_bars

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_WEB_PAGE = re.compile(r"https?://", re.IGNORECASE)
NOTHING = "–"
FOLDERS = (
    Path(__file__).parent,
    *(Path(__file__).parents[2] / name for name in ("answers", "annotation")),
)
"""Of templates, style sheets and scripts."""


def page(template: str, **values: Any) -> Iterator[str]:
    """Pieces of the document that a template of FOLDERS makes of `values`."""
    for piece in TEMPLATES.get_template(template).generate(values):
        yield _CONTROL.sub("\ufffd", piece)


def number(value: float | None, decimals: int = 0) -> str:
    """Number with commas; a dash for None.

    >>> number(1234.56, 1), number(None)
    ('1,234.6', '–')
    """
    return NOTHING if value is None else f"{value:,.{decimals}f}"


def percent(share: float | None) -> str:
    """Share in percent, to one decimal."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def hundredths(share: float) -> str:
    """A metric as the field prints it: of 100, to two decimals."""
    return f"{100 * share:.2f}"


def moment(seconds: float) -> str:
    """A time, given in seconds since 1970.

    >>> moment(0.0)
    '1970-01-01 00:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def duration(seconds: float) -> str:
    """Seconds, below a minute with a decimal, else hours, minutes and seconds.

    >>> duration(5.25), duration(3_725.6)
    ('5.2 s', '1:02:06')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def money(value: float | None) -> str:
    """Dollars: cents, and parts of them below one dollar."""
    return NOTHING if value is None else f"$ {value:,.4f}" if value < 1 else f"$ {value:,.2f}"


def short(value: float) -> str:
    """Number for an axis."""
    return f"{value:.4g}"


def is_web_page(url: str) -> bool:
    """True if a URL may become a link; a browser might run one of another kind."""
    return _WEB_PAGE.match(url) is not None


def last_word(text: str) -> str:
    """The last word of a text: 'passages' of 'retrieved passages'."""
    return text.rpartition(" ")[2]


def indented(settings: Mapping[str, Any]) -> str:
    """Settings as JSON for people."""
    return json.dumps(settings, indent=1, ensure_ascii=False)


def script_digest() -> str:
    """Digest of the script of pages with a table, by which their policy lets it run, and no other."""
    script = TEMPLATES.get_template("table.js").render()
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


TEMPLATES = Environment(
    loader=FileSystemLoader(FOLDERS),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters |= {
    function.__name__: function
    for function in (number, percent, money, short, last_word, indented, scaled, score_bars)
}
TEMPLATES.tests["web_page"] = is_web_page
TEMPLATES.globals["script_digest"] = script_digest
