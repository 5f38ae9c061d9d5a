"""Paragraphs of many pages of a domain leave documents: decided by the pages alone, counted, and no offset
moves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from answermill.indexing.documents.boilerplate import Paragraphs
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST, PASSAGES, REJECTS
from answermill.pipelines.steps.ingest import ingest
from answermill.pipelines.steps.ingest.repeated.boilerplate import Domains, FileParagraphs, on_enough_of_them
from tests.pipelines.steps.ingest.test_ingest import killed_after_one

MENU = "Read the other reports of our harbour, too."
TEASER = "Ten reasons to see the sea."


def story(n: int) -> str:
    return (
        f"Report {n} says that the tide of day {n} was {n} feet high. Nobody in harbour {n} had seen {n} "
        "such days before."
    )


def page(n: int, domain: str, *more: str) -> dict[str, str]:
    return {
        "id": f"{domain}{n}",
        "url": f"https://{domain}/{n}",
        "text": "\n".join([MENU, story(n), *more]),
        "language": "en",
    }


PAGES = [
    # The menu on 6 of 6, the teaser on 2 of 6.
    *(page(n, "a.example", *[TEASER] * (n < 2)) for n in range(6)),
    *(page(n, "b.example", *[TEASER] * (n < 2)) for n in range(20, 22)),  # the menu on 2 of 2
]


def job(folder: Path, files: list[list[dict[str, str]]], **settings: object) -> Job:
    folder.mkdir()
    for n, pages in enumerate(files):
        (folder / f"{n}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pages))
    values = {
        "input": [str(folder / "*.jsonl")],
        "min_words": 10,
        "boilerplate": 0.5,
        "boilerplate_pages": 3,
        **settings,
    }
    return Job.model_validate({"ingest": values})


def texts(run: Path) -> dict[str, str]:
    return {document.doc_id: document.text for document in DOCUMENTS.open(run).read()}


def test_a_paragraph_of_enough_pages_of_its_domain_is_left_out_and_counted(tmp_path: Path) -> None:
    line = ingest.ingest(job(tmp_path / "in", [PAGES]), tmp_path / "run")
    kept = texts(tmp_path / "run")
    assert kept["a.example3"] == story(3) and kept["a.example1"] == f"{story(1)}\n{TEASER}"
    assert kept["b.example20"].startswith(MENU)
    counts = INGEST.counts_of(DOCUMENTS.open(tmp_path / "run").manifest)
    assert (counts.boilerplate_paragraphs, counts.boilerplate_characters) == (6, 6 * len(MENU))
    assert "; 6 paragraphs of boilerplate left out" in line


def test_the_share_of_the_pages_decides_too(tmp_path: Path) -> None:
    ingest.ingest(job(tmp_path / "in", [PAGES], boilerplate=0.3, boilerplate_pages=2), tmp_path / "run")
    kept = texts(tmp_path / "run")
    assert kept["a.example1"] == story(1) and kept["b.example20"] == story(20)  # 2 of 6, 2 of 2
    ingest.ingest(job(tmp_path / "again", [PAGES], boilerplate=0.34, boilerplate_pages=2), tmp_path / "other")
    assert texts(tmp_path / "other")["a.example1"] == f"{story(1)}\n{TEASER}"


def test_nothing_is_left_out_unless_the_job_says_so(tmp_path: Path) -> None:
    line = ingest.ingest(job(tmp_path / "in", [PAGES], boilerplate=0.0), tmp_path / "run")
    assert (
        all(text.startswith(MENU) for text in texts(tmp_path / "run").values()) and "boilerplate" not in line
    )


def test_passages_and_sentences_are_where_they_say_in_what_is_left(tmp_path: Path) -> None:
    ingest.ingest(job(tmp_path / "in", [PAGES]), tmp_path / "run")
    kept = texts(tmp_path / "run")
    passages = list(PASSAGES.open(tmp_path / "run").read())
    assert {passage.doc_id for passage in passages} == kept.keys()
    for passage in passages:
        assert kept[passage.doc_id][passage.start : passage.end] == passage.text
        assert all(kept[passage.doc_id][each.start : each.end] == each.text for each in passage.sentences)


def test_a_page_that_came_twice_counts_once(tmp_path: Path) -> None:
    twice = [page(n, "a.example") for n in range(2)]
    copies = [each | {"id": f"copy of {each['id']}", "url": f"{each['url']}?copy"} for each in twice]
    ingest.ingest(job(tmp_path / "in", [twice, copies]), tmp_path / "run")
    assert all(text.startswith(MENU) for text in texts(tmp_path / "run").values())


def test_a_page_that_is_left_with_too_little_is_refused(tmp_path: Path) -> None:
    short = page(9, "a.example") | {"text": f"{MENU}\nIt rained all day long."}
    ingest.ingest(job(tmp_path / "in", [[*PAGES, short]]), tmp_path / "run")
    (reject,) = REJECTS.open(tmp_path / "run").read()
    assert (reject.url, reject.reason) == (short["url"], "boilerplate")
    assert reject.detail == "5 words without 1 paragraph of other pages of its domain; at least 10"


def test_a_killed_run_ends_with_the_same_rows(tmp_path: Path) -> None:
    several = job(tmp_path / "in", [PAGES[:2], PAGES[2:5], PAGES[5:]])
    ingest.ingest(several, tmp_path / "whole")
    assert len(killed_after_one(several, tmp_path / "killed")) == 1
    ingest.ingest(several, tmp_path / "killed")
    assert texts(tmp_path / "killed") == texts(tmp_path / "whole")


def test_a_share_that_is_reached_exactly_is_enough() -> None:
    keys, domains = np.array([7, 8], np.uint64), np.array([1], np.uint64)
    paragraphs = FileParagraphs(0, "digest", Paragraphs(keys, domains.repeat(2), np.array([3, 2])))
    (unit, boilerplate), *others = on_enough_of_them(
        ("domains", 1), [paragraphs, Domains(domains, np.array([30]))], 0.1
    )
    assert (unit, boilerplate.part, boilerplate.keys.tolist(), others) == (0, "digest", [7], [])


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_neither_files_nor_workers_matter(tmp_path: Path, processes: int) -> None:
    ingest.ingest(job(tmp_path / "one", [PAGES]), tmp_path / "run")
    several = job(tmp_path / "several", [PAGES[5:], PAGES[:2], PAGES[2:5]])
    several = several.model_copy(
        update={"workers": several.workers.model_copy(update={"processes": processes})}
    )
    ingest.ingest(several, tmp_path / "other")
    assert texts(tmp_path / "other") == texts(tmp_path / "run")
