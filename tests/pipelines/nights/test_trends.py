"""`answermill runs`: what became of each run of a folder, and what changed from one to the next."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.pipelines.errors import INPUT_MISSING, INTERRUPTED, TERMINATED, USAGE, WORSE
from answermill.pipelines.nights.night_folder import Nights
from answermill.pipelines.nights.trends import bars
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.clock import record
from answermill.pipelines.specs.index import INDEX
from answermill.pipelines.specs.ingest import INGEST, IngestCounts
from answermill.schemas.corpus import Rejected
from testing.command import call
from tests.pipelines.look.report.written_run import commit

REJECT = Rejected("web.warc.gz", 7, "", "https://a.example/", "too_short", "3 words")


def ingested(run: Path, rejects: int, ended: float) -> None:
    """A run that has read pages and refused all of them."""
    rows = [REJECT] * rejects
    commit(run, INGEST, {"rejects": rows}, IngestCounts(pages=rejects, rejected={"too_short": rejects}))
    record(run, "ingest", 10.0 * rejects, lambda: ended)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A good run, a refused one, one that was stopped, and a folder that is none."""
    folder = tmp_path / "runs"
    nights = Nights(folder)
    for name, rejects, code in (("2026-01-01", 4, 0), ("2026-01-02", 3, WORSE)):
        nights.write(nights.begin(name, tmp_path / "job.toml"))
        ingested(folder / name, rejects, 1_700_000_000.0 + 86_400 * (5 - rejects))
        night = nights.read(name)
        assert night is not None
        nights.write(replace(night, code=code))
    nights.publish("2026-01-01")
    Commit(Step(folder / "open", INDEX, {}, {})).begin()
    (folder / "notes").mkdir()
    return folder


def test_runs_have_their_states_figures_and_changes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("runs", runs) == 0
    head, good, refused, stopped, trend = capsys.readouterr().out.splitlines()
    assert head.split() == [
        *("run", "state", "ended", "(UTC)", "pages", "rejects", "questions", "answered", "seconds")
    ]
    assert good.split()[:2] == ["2026-01-01", "good"] and good.split()[-5:] == ["4", "4", "–", "–", "40"]
    assert refused.split()[1] == "refused" and refused.count("-25.0%") == 3
    assert stopped.split() == ["open", "stopped", "–", "–", "–", "–", "–"]
    assert trend.split()[:3] == ["trend", "█▁", "█▁"]

    assert call("runs", runs, "--json", "--last", 2) == 0
    first, last = json.loads(capsys.readouterr().out)
    assert (first["run"], first["state"], first["changes"]["pages"]) == ("2026-01-02", "refused", None)
    assert last["run"] == "open" and last["pages"] is None
    assert first["pages"] == first["rejects"] == 3 and first["seconds"] == 30.0


@pytest.mark.parametrize("code", [INTERRUPTED, TERMINATED])
def test_a_night_that_was_stopped_has_not_failed(
    runs: Path, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    nights = Nights(runs)
    nights.write(replace(nights.begin("2026-01-03", runs.parent / "job.toml"), code=code))
    assert call("runs", runs) == 0
    assert "2026-01-03  stopped" in capsys.readouterr().out


@pytest.mark.parametrize("file", ["_manifest.json", "part-*.parquet"])
@pytest.mark.parametrize("is_good", [True, False])
def test_a_damaged_run_is_a_line_among_the_others(
    runs: Path, capsys: pytest.CaptureFixture[str], file: str, is_good: bool
) -> None:
    (damaged,) = (runs / "2026-01-01/rejects").glob(file)
    damaged.write_text("{")
    shutil.rmtree(runs / "open")
    if not is_good:
        (runs / "good").unlink()
    assert call("runs", runs) == 0
    output = capsys.readouterr().out
    assert "2026-01-01  damaged" in output and "2026-01-02  refused" in output


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("runs",), INPUT_MISSING, "no run in"),
        (("nowhere",), INPUT_MISSING, "no such folder"),
        (("job.toml",), INPUT_MISSING, "job.toml is a file; give a folder"),
        (("runs", "--last", 0), USAGE, "--last 0"),
    ],
)
def test_a_folder_without_runs_is_refused(
    words: tuple[object, ...], code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "job.toml").write_text("")
    assert call("runs", tmp_path / str(words[0]), *words[1:]) == code
    assert says in capsys.readouterr().err


def test_bars_of_equal_values_are_equal() -> None:
    assert bars([3, 3, None]) == "▁▁ " and bars([]) == ""
