"""The domains that a crawl is cut down to (WQA §3.3: the 5,000 most popular): counted, or read from a list."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping

from indexing.crawl.raw_page import RawPage
from indexing.documents.parse import domain_of
from schemas.corpus import Rejected

Counted = tuple[str, int]
"""A registered domain and its pages."""


def count(pages: Iterable[RawPage | Rejected]) -> dict[str, int]:
    """Pages per registered domain, of pages whose content could be read; those without a domain are not counted."""
    found: dict[str, int] = {}
    for page in pages:
        if isinstance(page, RawPage) and (domain := domain_of(page.url)):
            found[domain] = found.get(domain, 0) + 1
    return found


def rank(counted: Counted) -> tuple[int, str]:
    """Sorts domains by popularity: pages, ties by name."""
    return -counted[1], counted[0]


def listed(lines: Iterable[str], most: int = 0) -> list[str]:
    """The first `most` domains of a list, all where it is 0, each once: the first cell of a line that is no rank.

    Cells stand between tabs or commas; a host counts as its registered domain; empty lines, lines that begin with '#' and a
    header line do not count. Raises ValueError with the line where there is no domain.
    """
    found: dict[str, None] = {}
    for number, cell in _cells(lines):
        if most and len(found) == most:
            break
        domain = domain_of(cell.lower())
        if domain:
            found[domain] = None
        elif number > 1 or "." in cell:
            raise ValueError(f"line {number}: no registered domain in {cell!r}; give one such as example.org")
    return list(found)


def _cells(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(line from 1, its first cell that is not a number) of every line that has one."""
    for number, line in enumerate(lines, 1):
        text = line.removeprefix("\ufeff").strip()
        if text and not text.startswith("#"):
            cells = next(csv.reader([text], delimiter="\t" if "\t" in text else ","))
            yield number, next((cell.strip() for cell in cells if not cell.strip().isdecimal()), "")


def table(counted: Mapping[str, int]) -> str:
    """Domains and pages between tabs, most pages first, as `listed` reads it."""
    return "# domain\tpages\n" + "".join(f"{domain}\t{pages}\n" for domain, pages in sorted(counted.items(), key=rank))
