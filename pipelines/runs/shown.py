"""Results as notebooks show them, and as pandas takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any


class Shown:
    """A result with lines for people, which a notebook shows as a terminal does, and rows of a table.

    A class that has it declares both `lines` and `rows`."""

    __slots__ = ()

    def lines(self) -> Iterator[str]:
        """Lines for people."""
        raise NotImplementedError

    def rows(self) -> Iterable[Mapping[str, Any]]:
        """Rows of the table, each with the same columns."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        from pandas import DataFrame

        return DataFrame(list(self.rows()))

    def _repr_html_(self) -> str:
        return html_of(self.lines())


def html_of(lines: Iterable[str]) -> str:
    """Lines in a block of fixed width.

    >>> html_of(["a  <b>", "c"])
    '<pre>a  &lt;b&gt;\\nc</pre>'
    """
    return f"<pre>{escape(chr(10).join(lines), quote=False)}</pre>"
