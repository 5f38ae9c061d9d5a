from __future__ import annotations

import numpy as np

from answermill.indexing.documents.boilerplate import (
    domain_key,
    looked_up,
    paragraph_key,
    paragraphs_of,
    totals,
    without,
)
from answermill.indexing.documents.exact_duplicates import text_hash
from answermill.indexing.documents.quality import PageText
from tests.documents import document_of

MENU = "Home | Shop | About"
PAGES = [
    ("a.example", f"{MENU}\nFirst.\n{MENU.upper()}"),
    ("b.example", MENU),
    ("a.example", f"Second.\n{MENU}"),
]


def test_a_page_counts_once_for_each_of_its_paragraphs_and_domains_apart() -> None:
    paragraphs, domains, pages = paragraphs_of(PAGES)
    assert paragraphs.keys.tolist() == sorted(paragraphs.keys.tolist())
    assert dict(zip(paragraphs.keys.tolist(), paragraphs.pages.tolist(), strict=True)) == {
        paragraph_key("a.example", MENU): 2,
        paragraph_key("b.example", MENU): 1,
        paragraph_key("a.example", "First."): 1,
        paragraph_key("a.example", "second. "): 1,
    }
    domain_of = dict(zip(paragraphs.keys.tolist(), paragraphs.domains.tolist(), strict=True))
    assert (
        domain_of[paragraph_key("b.example", MENU)]
        == domain_key("b.example")
        != domain_of[paragraph_key("a.example", MENU)]
    )

    assert dict(zip(domains.tolist(), pages.tolist(), strict=True)) == {
        domain_key("a.example"): 2,
        domain_key("b.example"): 1,
    }


def test_without_pages_there_are_no_paragraphs() -> None:
    paragraphs, domains, _ = paragraphs_of([])
    assert len(paragraphs.keys) == len(domains) == 0


def test_counts_of_files_are_added_up_and_looked_up() -> None:
    keys, sums = totals(np.array([7, 3, 7], np.uint64), np.array([1, 2, 4]))
    assert (keys.tolist(), sums.tolist()) == ([3, 7], [2, 5])
    assert looked_up(np.array([7, 5, 3, 9], np.uint64), keys, sums).tolist() == [5, 0, 2, 0]
    assert looked_up(np.array([7], np.uint64), keys[:0], sums[:0]).tolist() == [0]


def test_a_document_without_its_boilerplate_is_one_of_the_text_that_is_left() -> None:
    document = document_of(f"{MENU}\nThe Moon rose.\n{MENU.lower()}\nThe tide came.", domain="a.example")
    left, paragraphs, characters = without(
        document, {paragraph_key("a.example", MENU), paragraph_key("a.example", "Other")}
    )
    assert left.text == "The Moon rose.\nThe tide came." and (paragraphs, characters) == (2, 2 * len(MENU))
    assert (left.doc_id, left.text_hash) == (
        document.doc_id,
        text_hash(left.text),
    ) and left.metrics == PageText(left.text).metrics()
    assert without(document, {paragraph_key("b.example", MENU)}) == (document, 0, 0)
