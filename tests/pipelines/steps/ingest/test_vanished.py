"""The table of what an earlier run has and this crawl has not: every document of it once, whatever files,
parts and workers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST
from answermill.pipelines.steps.ingest import ingest, vanished
from answermill.pipelines.steps.ingest.vanished import VANISHED, Pages, not_there


def page(name: str, words: str = "") -> dict[str, str]:
    text = (
        words or f"The harbour {name} lies by the sea, and all who live in {name} know when the tide comes."
    )
    return {"id": name, "url": f"https://a.example/{name}", "text": text, "language": "en"}


def job(folder: Path, files: list[list[dict[str, str]]], **settings: object) -> Job:
    folder.mkdir()
    for n, pages in enumerate(files):
        (folder / f"{n}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pages))
    return Job.model_validate({"ingest": {"input": [str(folder / "*.jsonl")], "min_words": 5, **settings}})


def rows(run: Path) -> list[list[str]]:
    head, *lines = (run / VANISHED).read_text().splitlines()
    assert head == "# doc_id\turl\treason"
    return [line.split("\t") for line in lines]


WITHOUT_URL = [{"id": name, "text": page(name)["text"], "language": "en"} for name in ("kept-id", "lost-id")]
EARLIER = [[page("same"), page("lost"), page("short")], [page("changed"), page("moved"), *WITHOUT_URL]]
"""In two parts."""
NEW = [
    page("new"),
    page("same"),
    page("short", "Closed."),
    page("changed", "A wholly other text stands here now."),
    WITHOUT_URL[0],
]
GONE = [
    ["lost", "https://a.example/lost", "absent"],
    ["short", "https://a.example/short", "too_short"],
    ["moved", "https://a.example/moved", "absent"],
    ["lost-id", "", "absent"],
]


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_documents_whose_page_is_gone_are_listed_with_the_reason_and_counted(
    tmp_path: Path, processes: int
) -> None:
    ingest.ingest(job(tmp_path / "old", EARLIER), tmp_path / "earlier")
    new = job(tmp_path / "new", [NEW[:2], NEW[2:]], since=str(tmp_path / "earlier"))
    new = new.model_copy(update={"workers": new.workers.model_copy(update={"processes": processes})})
    line = ingest.ingest(new, tmp_path / "run")
    assert rows(tmp_path / "run") == GONE and "; 4 documents of the earlier run vanished" in line
    manifest = DOCUMENTS.open(tmp_path / "run").manifest
    assert INGEST.counts_of(manifest).vanished == 4 and [part.file for part in manifest.beside] == [VANISHED]
    assert manifest.rows == 4, "nothing is refused by `since` alone"


def test_pages_that_are_duplicates_now_have_not_vanished(tmp_path: Path) -> None:
    ingest.ingest(job(tmp_path / "old", EARLIER), tmp_path / "earlier")
    same_text = page("moved", page("same")["text"])
    new = job(tmp_path / "new", [[*NEW, same_text]], since=str(tmp_path / "earlier"), near_duplicates=0.8)
    ingest.ingest(new, tmp_path / "run")
    assert rows(tmp_path / "run") == [each for each in GONE if each[0] != "moved"]


def test_without_an_earlier_run_there_is_no_table(tmp_path: Path) -> None:
    ingest.ingest(job(tmp_path / "new", [NEW]), tmp_path / "run")
    assert not (tmp_path / "run" / VANISHED).exists()


def test_a_run_that_was_stopped_before_the_table_has_it_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest.ingest(job(tmp_path / "old", EARLIER), tmp_path / "earlier")
    new = job(tmp_path / "new", [NEW], since=str(tmp_path / "earlier"))

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Commit, "finish", stopped)
    with pytest.raises(KeyboardInterrupt):
        ingest.ingest(new, tmp_path / "run")
    (tmp_path / "run" / VANISHED).unlink()
    monkeypatch.undo()
    ingest.ingest(new, tmp_path / "run")
    assert rows(tmp_path / "run") == GONE


def test_a_crawl_of_which_files_could_not_be_read_has_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ingest.ingest(job(tmp_path / "old", EARLIER), tmp_path / "earlier")
    monkeypatch.setattr(vanished, "unparsed", lambda _: {0})
    line = ingest.ingest(job(tmp_path / "new", [NEW], since=str(tmp_path / "earlier")), tmp_path / "run")
    assert not (tmp_path / "run" / VANISHED).exists() and "vanished" not in line
    assert "vanished.tsv is not written: 1 input file could not be read" in capsys.readouterr().err


def test_the_order_in_which_pages_meet_does_not_matter() -> None:
    keys = np.array([1, 2, 3], np.uint64)
    members = [
        Pages(-1, keys[:2], [0, 1], ["too_short", "language"]),
        Pages(0, keys, [4, 5, 6], ["", "", ""]),
        Pages(-1, keys[:2], [0, 1], ["", "http_status"]),
    ]
    assert (
        list(not_there(0, members))
        == list(not_there(0, members[::-1]))
        == [(0, ([5, 6], ["http_status", "absent"]))]
    )
