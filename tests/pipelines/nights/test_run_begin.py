"""Dates in job files, and the last good run: chosen once, and kept by a run that goes on."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import answermill as am
from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.nights.night_folder import Nights
from answermill.pipelines.nights.run_begin import BEGUN, RunBegin, last_good
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.clock import record
from answermill.pipelines.specs.index import INDEX
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST, IngestCounts
from testing.command import call
from testing.object_store import ObjectStore
from tests.pipelines.look.report.written_run import commit

PAGE = "Page {n} tells of the quick brown fox that jumps over {n} lazy dogs by the river."
SETTINGS_OF_INGEST = 'min_words = 5\nlanguage = ""\nsince = "latest"\n[workers]\nprocesses = 1\n'


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job that reads the pages of a date, and takes over from the last good run."""
    file = tmp_path / "job.toml"
    file.write_text('[ingest]\ninput = ["crawl/{date:%Y%m%d}.jsonl"]\n' + SETTINGS_OF_INGEST)
    for day, pages in (("20260101", 4), ("20260102", 3), ("20260103", 2)):
        lines = [json.dumps({"id": f"p{n}", "text": PAGE.format(n=n)}) for n in range(pages)]
        (tmp_path / "crawl").mkdir(exist_ok=True)
        (tmp_path / f"crawl/{day}.jsonl").write_text("\n".join(lines) + "\n")
    return file


def test_a_date_stands_in_every_text_of_a_job(job: Path) -> None:
    loaded = load(job, ["date=2026-01-31", "index.encoder=models/{date}"])
    assert loaded.ingest is not None and loaded.ingest.input == ["crawl/20260131.jsonl"]
    assert loaded.index.encoder == "models/2026-01-31" and loaded.date == date(2026, 1, 31)
    assert load(job, today=lambda: date(2026, 2, 1)).ingest.input == ["crawl/20260201.jsonl"]
    today = datetime.now(UTC).date()
    assert load(job).ingest.input[0] in {
        f"crawl/{day:%Y%m%d}.jsonl" for day in (today, datetime.now(UTC).date())
    }
    for wrong in ("2026-13-01", "tomorrow", "2026-01-31T10:00:00"):
        with pytest.raises(JobError, match="date: give a date without quotes") as e:
            load(job, [f"date={wrong}"])
        assert e.value.code == SETTINGS


def test_nights_read_the_pages_of_their_dates_and_take_over_from_the_good_run(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    for night in ("2026-01-01", "2026-01-02b"):
        assert call("night", job, "--runs", runs, "--no-report", "--night", night) == 0
    assert [DOCUMENTS.open(runs / night).rows for night in ("2026-01-01", "2026-01-02b")] == [4, 3]
    assert not (runs / "2026-01-01/vanished.tsv").exists()
    assert "p3" in (runs / "2026-01-02b/vanished.tsv").read_text()
    assert Nights(runs).good() == "2026-01-02b"


def test_a_run_takes_over_from_the_one_that_it_began_with(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    for day, says in (
        ("01", "no good run in"),
        ("02", "since      2026-01-01 is the last"),
        ("03", "2026-01-02 is"),
    ):
        words = ("--out", f"{runs}/{{date}}", "--set", f"date=2026-01-{day}", "--no-report")
        assert call("run", job, *words) == 0
        assert says in capsys.readouterr().out
    begun = json.loads((runs / "2026-01-02" / BEGUN).read_text())
    assert begun == {"day": None, "has_chosen": True, "former": "2026-01-01"}, "the date was typed"

    # By now 03 is the last one, and the second run stays with its own.
    assert call("run", job, "--out", runs / "2026-01-02", "--set", "date=2026-01-02", "--no-report") == 0
    assert "2026-01-01 is the last good run" in capsys.readouterr().out
    assert call("run", job, "--out", runs / "new", "--set", "date=2026-01-03", "--dry-run") == 0
    assert "2026-01-03 is the last good run" in capsys.readouterr().out and not (runs / "new").exists()


def ingested(run: Path, ended: float) -> None:
    commit(run, INGEST, {}, IngestCounts())
    record(run, "ingest", 1.0, lambda: ended)


def test_the_last_good_run_is_the_published_one_or_the_complete_one_that_ended_last(tmp_path: Path) -> None:
    assert last_good(tmp_path / "none", "x") is None and last_good(tmp_path, "x") is None
    for name, ended in (("a", 200.0), ("b", 100.0), ("refused", 300.0)):
        ingested(tmp_path / name, ended)
    nights = Nights(tmp_path)
    nights.begin("refused", tmp_path / "job.toml")
    Commit(Step(tmp_path / "open", INDEX, {}, {})).begin()
    assert last_good(tmp_path, "x") == "a" and last_good(tmp_path, "a") == "b"
    nights.publish("b")
    assert last_good(tmp_path, "x") == "b" and last_good(tmp_path, "b") is None


def test_the_last_good_run_of_a_store_is_named_by_an_object(s3: ObjectStore, tmp_path: Path) -> None:
    folder = s3.folder(tmp_path.name)
    ingested(folder / "a", 100.0)
    assert RunBegin(folder / "b").latest() == str(folder / "a")
    Nights(folder).publish("a")
    begin = RunBegin(folder / "b")
    assert begin.latest() == str(folder / "a")
    begin.keep()
    ingested(folder / "c", 200.0)
    Nights(folder).publish("c")
    assert RunBegin(folder / "b").latest() == str(folder / "a")


def test_a_run_goes_on_with_the_date_that_it_began_with(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    begin = RunBegin(run, today=date(2026, 1, 2))
    assert begin.day() == date(2026, 1, 2) and not list(begin.lines())
    begin.keep()
    assert call("run", job, "--out", run, "--no-report") == 0
    assert "date       2026-01-02, with which the run began" in capsys.readouterr().out
    assert DOCUMENTS.open(run).rows == 3

    # As the repair of a night would.
    am.run(job, run, redo="ingest")
    assert DOCUMENTS.open(run).rows == 3


def test_a_job_without_dates_and_earlier_runs_leaves_no_file(job: Path, tmp_path: Path) -> None:
    job.write_text('[ingest]\ninput = ["crawl/20260101.jsonl"]\nmin_words = 5\nlanguage = ""\n')
    assert call("run", job, "--out", tmp_path / "run", "--no-report") == 0
    assert not (tmp_path / "run" / BEGUN).exists()
