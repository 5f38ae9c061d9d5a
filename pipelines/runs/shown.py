"""Results as notebooks show them, and as pandas takes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any


class Shown(ABC):
    """A result with lines for people, which a notebook shows as a terminal does, and rows of a table."""

    __slots__ = ()

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Lines for people."""

    @abstractmethod
    def rows(self) -> Iterable[Mapping[str, Any]]:
        """Rows of the table, each with the same columns."""

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
