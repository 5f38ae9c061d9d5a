"""Registered domains, and the choice of those that a crawl is reduced to (WQA §3.3: the 5,000 most popular):
counted, or from a list."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from answermill.indexing.crawl.raw_page import RawPage
from answermill.schemas.corpus import Rejected

if TYPE_CHECKING:
    from tldextract import TLDExtract

DomainCount = tuple[str, int]
"""A registered domain and its number of pages."""
_SITES = 100_000  # whose domains are remembered


@functools.cache
def _suffixes() -> TLDExtract:
    import tldextract  # a twentieth of a second, which every command that reads a job would wait for

    # The list in the package: no network, no files.
    return tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)


def domain_of(url: str) -> str:
    """The registered domain of a URL; '' if it has none, as with an IP address.

    Under a suffix that the list does not have, the host's last two names, as the list's own algorithm says.
    """
    scheme, mark, rest = url.partition("://")
    return _domain_of_site(f"{scheme}{mark}{rest.partition('/')[0]}")


@functools.lru_cache(_SITES)
def _domain_of_site(url: str) -> str:
    """`domain_of` a URL without its path: a crawl has many pages of one site."""
    host = _suffixes()(url)
    if host.suffix or not host.subdomain or host.ipv4 or host.ipv6:
        return ascii_host(host.top_domain_under_public_suffix)
    last = host.subdomain.rpartition(".")[2]
    return ascii_host(f"{last}.{host.domain}") if last and host.domain else ""


def _is_suffix(host: str) -> bool:
    """True if names are registered below the host, as below 'gov.uk'."""
    parts = _suffixes()(host)
    return bool(parts.suffix) and not parts.domain


def ascii_host(host: str) -> str:
    """A host in lower case, as URLs of a crawl have it: 'xn--mnchen-3ya.de' of 'München.de'. Only in lower
    case if it cannot be encoded."""
    if not host.isascii():
        with suppress(UnicodeError):
            host = host.encode("idna").decode("ascii")
    return host.lower()


def count(pages: Iterable[RawPage | Rejected]) -> dict[str, int]:
    """Registered domain → number of its pages whose content could be read; pages without a domain are not
    counted."""
    counts: dict[str, int] = {}
    for page in pages:
        if isinstance(page, RawPage) and (domain := domain_of(page.url)):
            counts[domain] = counts.get(domain, 0) + 1
    return counts


def popularity(domain: DomainCount) -> tuple[int, str]:
    """Sort key: the domain with the most pages first, ties by name."""
    name, pages = domain
    return -pages, name


def listed(lines: Iterable[str], most: int = 0) -> list[str]:
    """The first `most` domains of a list (0 = all of them), each once, in the order of the list.

    A line's domain is its first cell that is not a number; cells are separated by tabs or commas, and a host
    stands for its registered domain. Empty lines, lines that begin with '#', a header line and public
    suffixes, such as 'gov.uk', are skipped. Raises ValueError with the number of a line that has no domain.

    >>> listed(["1,www.example.org", "2,gov.uk"])
    ['example.org']
    """
    domains: dict[str, None] = {}
    for number, cell in _name_cells(lines):
        if most and len(domains) == most:
            break
        domain = domain_of(cell.lower())
        if domain:
            domains[domain] = None
        elif not _is_suffix(cell) and (number > 1 or not cell or "." in cell):
            raise ValueError(f"line {number}: no registered domain in {cell!r}; give one such as example.org")
    return list(domains)


def _name_cells(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(line from 1, its first cell that is not a number, or '') of every line that is neither empty nor a
    comment."""
    for number, line in enumerate(lines, 1):
        text = line.removeprefix("\ufeff").strip()
        if text and not text.startswith("#"):
            cells = next(csv.reader([text], delimiter="\t" if "\t" in text else ","))
            yield number, next((cell.strip() for cell in cells if not _is_number(cell)), "")


def _is_number(cell: str) -> bool:
    """True if a cell is a number, as ranks and counts are.

    >>> [_is_number(cell) for cell in ("7", " 1.0", "2e-4", "1e100.net")]
    [True, True, True, False]
    """
    with suppress(ValueError):
        float(cell)
        return True
    return False


def table(counts: Mapping[str, int]) -> str:
    """A list of domains and pages, separated by tabs, most pages first; `listed` reads it."""
    return "# domain\tpages\n" + "".join(
        f"{domain}\t{pages}\n" for domain, pages in sorted(counts.items(), key=popularity)
    )
