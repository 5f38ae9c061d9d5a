"""Paragraphs that stand on many pages of one domain: menus, notices and teasers that the extraction of main
text left.

A paragraph is a line of a document's text, letter case and white space folded. A key of 8 bytes stands for it
and its domain, so that no text is moved. It is boilerplate if it stands on at least a share of the domain's
pages, and on at least a number of them; that depends on the pages alone, not on their order. A page counts
once for each of its paragraphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from answermill.indexing.documents.exact_duplicates import text_hash
from answermill.indexing.documents.quality import PageText
from answermill.indexing.passages.text import fold
from answermill.schemas.corpus import Document

Hashes = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]


class Paragraphs(NamedTuple):
    """Different paragraphs, in the order of their keys, and on how many pages each stands."""

    keys: Hashes
    domains: Hashes
    """`domain_key` of each paragraph's domain."""
    pages: Counts


def domain_key(domain: str) -> int:
    return xxhash.xxh3_64_intdigest(domain.encode())


def paragraph_key(domain: str, line: str) -> int:
    return xxhash.xxh3_64_intdigest(f"{domain}\n{fold(line)}".encode())


def paragraphs_of(pages: Iterable[tuple[str, str]]) -> tuple[Paragraphs, Hashes, Counts]:
    """(paragraphs, keys of the domains, pages of each domain) of pages, each (domain, text)."""
    on_pages: list[Hashes] = [np.empty(0, np.uint64)]
    domains: list[Hashes] = [np.empty(0, np.uint64)]
    domain_pages: dict[str, int] = {}

    for domain, text in pages:
        domain_pages[domain] = domain_pages.get(domain, 0) + 1
        keys = np.array(sorted({paragraph_key(domain, line) for line in text.splitlines()}), np.uint64)
        on_pages.append(keys)
        domains.append(np.full(len(keys), domain_key(domain), np.uint64))

    keys, first, counts = np.unique(np.concatenate(on_pages), return_index=True, return_counts=True)
    paragraphs = Paragraphs(keys, np.concatenate(domains)[first], counts)
    return (
        paragraphs,
        np.array([domain_key(domain) for domain in domain_pages], np.uint64),
        np.array([*domain_pages.values()], np.int64),
    )


def totals(keys: Hashes, counts: Counts) -> tuple[Hashes, Counts]:
    """The different keys in their order, and the sum of each one's counts.

    >>> keys, sums = totals(np.array([7, 3, 7], np.uint64), np.array([1, 2, 3]))
    >>> keys.tolist(), sums.tolist()
    ([3, 7], [2, 4])
    """
    different, places = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(different), np.int64)
    np.add.at(sums, places, counts)
    return different, sums


def looked_up(wanted: Hashes, keys: Hashes, numbers: Counts) -> Counts:
    """The number of each wanted key; 0 if it is not among the `keys`, which are in their order.

    >>> looked_up(np.array([3, 5], np.uint64), np.array([3, 7], np.uint64), np.array([2, 4])).tolist()
    [2, 0]
    """
    if not len(keys):
        return np.zeros(len(wanted), np.int64)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    result: Counts = np.where(keys[places] == wanted, numbers[places], 0)
    return result


def without(document: Document, boilerplate: Set[int]) -> tuple[Document, int, int]:
    """(the document without the paragraphs whose keys are boilerplate, their number, their characters)."""
    if not boilerplate:
        return document, 0, 0
    lines = document.text.splitlines()
    removed = [line for line in lines if paragraph_key(document.domain, line) in boilerplate]
    if not removed:
        return document, 0, 0
    text = "\n".join(line for line in lines if paragraph_key(document.domain, line) not in boilerplate)
    rest = replace(document, text=text, text_hash=text_hash(text), metrics=PageText(text).metrics())
    return rest, len(removed), sum(map(len, removed))
