"""A file that is cut into several units of work gives the rows that it gives as one."""

from __future__ import annotations

import pytest

from answermill.pipelines.specs.ingest import DOMAINS
from answermill.pipelines.specs.registry import folder_specs
from answermill.pipelines.steps.ingest import crawl_files, ingest
from tests.pipelines.steps.ingest.test_ingest import DOCUMENTS, killed_after_one, make_job, rows, text

MENU = "Home and about us and all the other pages of this site"


def same_rows(run, other):
    """True if two runs have the same rows. The rejects of a unit come together, so their order differs."""
    rows_of_run, rows_of_other = rows(run), rows(other)
    for tables in (rows_of_run, rows_of_other):
        tables["rejects"].sort(key=repr)
    return rows_of_run == rows_of_other


@pytest.fixture
def cut_small(monkeypatch):
    """Cuts files into units of 200 bytes."""
    return lambda: monkeypatch.setattr(crawl_files, "UNIT_BYTES", 200)


def test_a_killed_run_of_units_goes_on_and_gives_what_one_unit_a_file_gives(tmp_path, cut_small):
    job = make_job(tmp_path, DOCUMENTS)
    ingest.ingest(job, tmp_path / "whole")
    cut_small()
    killed_after_one(job, tmp_path / "units")
    ingest.ingest(job, tmp_path / "units")

    assert same_rows(tmp_path / "units", tmp_path / "whole")
    assert len({reject.reason for reject in rows(tmp_path / "units")["rejects"]}) == 4
    manifests = [folder_specs()["documents"].open(tmp_path / run).manifest for run in ("whole", "units")]
    assert len(manifests[1].parts) > len(manifests[0].parts) == 3
    assert manifests[0].digests == manifests[1].digests and len(manifests[0].digests) == 3


def test_what_is_counted_over_all_pages_does_not_depend_on_units(tmp_path, cut_small):
    pages = [
        {"id": str(n), "url": f"http://{'ab'[n % 4 == 3]}.com/{n}", "text": f"{MENU}\n{text(n)}\n{n} {n * n}"}
        for n in range(40)
    ]
    pages += [{**pages[7], "id": "again", "url": "http://a.com/again", "text": pages[8]["text"] + " More."}]
    settings = {"boilerplate": 0.5, "boilerplate_pages": 5, "near_duplicates": 0.9, "domains": 1}
    job = make_job(tmp_path, {"a.jsonl.gz": pages}, **settings)
    ingest.ingest(job, tmp_path / "whole")
    cut_small()
    ingest.ingest(job, tmp_path / "units")

    assert same_rows(tmp_path / "units", tmp_path / "whole")
    tables = rows(tmp_path / "units")
    assert len(list((tmp_path / "units/documents").glob("part-*"))) > 2
    assert MENU not in tables["documents"][0].text
    assert {reject.reason for reject in tables["rejects"]} == {"domain", "near_duplicate"}
    assert (tmp_path / "units" / DOMAINS).read_text() == (tmp_path / "whole" / DOMAINS).read_text()


def test_a_stopped_run_whose_units_are_cut_otherwise_begins_again(tmp_path, monkeypatch, cut_small, capsys):
    job = make_job(tmp_path, DOCUMENTS)
    ingest.ingest(job, tmp_path / "whole")
    monkeypatch.setattr(ingest, "cut_file", lambda *arguments: 1 / 0)
    with pytest.raises(BaseException):  # noqa: B017  # Beam wraps what a worker raises
        ingest.ingest(job, tmp_path / "run")
    monkeypatch.undo()
    cut_small()
    ingest.ingest(job, tmp_path / "run")
    assert "ingest begins again: this version cuts its input" in "".join(capsys.readouterr())
    assert same_rows(tmp_path / "run", tmp_path / "whole")
