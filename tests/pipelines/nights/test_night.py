"""A night on this machine and in an object store: published, refused, accepted, stopped, and removed when it
is old."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.files.atomic_files import write_text
from answermill.pipelines.errors import (
    BAD_DATA,
    INPUT_MISSING,
    INTERRUPTED,
    OUTPUT_EXISTS,
    TERMINATED,
    USAGE,
    WORSE,
    JobError,
)
from answermill.pipelines.nights.night import STAGES, Night
from answermill.pipelines.nights.night_folder import GOOD, NIGHT_FILE, Nights
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.runs.watch import log_lines
from answermill.pipelines.specs.ingest import DOCUMENTS
from testing.command import call
from testing.object_store import ObjectStore
from tests.pipelines.look.report.written_run import passage, write_run
from tests.pipelines.runs.watch.test_monitoring import samples

PAGE = "Page {n} tells of the quick brown fox that jumps over {n} lazy dogs by the river."


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job that reads pages, and has no questions."""
    (tmp_path / "job.toml").write_text(
        '[ingest]\ninput = ["pages.jsonl"]\nmin_words = 5\nlanguage = ""\n[workers]\nprocesses = 1\n'
    )
    return tmp_path / "job.toml"


def crawl(job: Path, pages: int) -> None:
    """The pages that the job finds tonight."""
    lines = [json.dumps({"id": f"p{n}", "text": PAGE.format(n=n)}) for n in range(pages)]
    job.with_name("pages.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def text_again() -> Iterator[None]:
    yield
    log_lines.choose("text")


def night(job: Path, runs: Path, *words: object) -> int:
    with pytest.raises(SystemExit) as e:
        main(["night", str(job), "--runs", str(runs), "--no-report", *map(str, words)])
    return int(e.value.code or 0)


def test_a_good_night_is_published_and_a_refused_one_is_not_until_it_is_accepted(
    job: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nights, metrics = Nights(runs), tmp_path / "night.prom"
    crawl(job, 10)
    assert night(job, runs, "--night", "2026-01-01") == 0
    assert nights.good() == "2026-01-01" and "no good run yet" in capsys.readouterr().out

    # Most of the pages are gone: no labels are needed to see that.
    crawl(job, 3)
    words = ("--night", "2026-01-02", "--metrics", metrics, "--log-format", "json")
    assert night(job, runs, *words) == WORSE
    assert nights.good() == "2026-01-01"
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in (out + err).splitlines()]
    assert {"gate       over the bar: documents 10 → 3, -70.0%"} <= {line["message"] for line in lines}
    assert lines[-1]["code"] == WORSE and "is refused, and 2026-01-01 stays good" in lines[-1]["message"]
    assert "--night 2026-01-02 --accept` makes it the good run" in lines[-1]["message"]

    values = samples(metrics)
    assert values[f"exit_code {job}"] == WORSE and values[f"stage {job} gate"] == 1
    assert values[f"stage {job} publish"] == 0 and values[f"gate fall.documents {job}"] == pytest.approx(0.7)
    record = nights.read("2026-01-02")
    assert record is not None and (record.stage, record.code) == ("gate", WORSE)

    assert night(job, runs, "--night", "2026-01-02", "--accept") == 0
    assert nights.good() == "2026-01-02" and DOCUMENTS.open(runs / "2026-01-02").rows == 3
    capsys.readouterr()
    assert night(job, runs, "--night", "2026-01-02") == 0
    assert "2026-01-02 is the good run already" in capsys.readouterr().out


def test_an_old_night_that_is_typed_again_does_not_take_the_place_of_a_later_one(
    job: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl(job, 10)
    for name in ("a", "b"):
        assert night(job, runs, "--night", name) == 0
    assert night(job, runs, "--night", "a") == 0 and Nights(runs).good() == "b"
    assert "b stays good, a night that began later" in capsys.readouterr().out
    assert night(job, runs, "--night", "a", "--accept") == 0 and Nights(runs).good() == "a"


def test_a_damaged_record_of_another_night_does_not_hide_why_this_one_fails(
    job: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl(job, 10)
    assert night(job, runs, "--night", "a") == 0
    (runs / "old").mkdir()
    (runs / "old/night.json").write_text("{")
    crawl(job, 2)
    assert night(job, runs, "--night", "b") == WORSE
    assert "night b is refused" in capsys.readouterr().err


def test_refused_nights_are_removed_like_others_but_for_the_good_one(job: Path, runs: Path) -> None:
    crawl(job, 10)
    assert night(job, runs, "--night", "first", "--keep", 2) == 0
    crawl(job, 2)
    for name in ("second", "third", "fourth"):
        assert night(job, runs, "--night", name, "--keep", 2) == WORSE
    there = {path.name for path in runs.iterdir()}
    assert there == {"first", "third", "fourth", GOOD}


def test_a_night_takes_over_from_the_run_that_was_good_when_it_began(job: Path, runs: Path) -> None:
    words = ("--since", "ingest", "--night")
    for pages, name in ((4, "a"), (3, "b")):
        crawl(job, pages)
        assert night(job, runs, *words, name) == 0
    assert not (runs / "a" / "vanished.tsv").exists(), "the first one has nothing to take over from"
    assert "p3" in (runs / "b" / "vanished.tsv").read_text()
    assert night(job, runs, *words, "b") == 0, "which is the good run itself by now"


def test_in_an_object_store_an_object_has_the_name_of_the_good_run(
    job: Path, s3: ObjectStore, tmp_path: Path
) -> None:
    nights = Nights(s3.folder(tmp_path.name))
    crawl(job, 2)
    assert night(job, nights.folder, "--night", "a") == 0
    assert nights.good() == "a" and (nights.folder / GOOD).read_text() == "a\n"
    for name in ("b", "c"):
        nights.begin(name, job)
    assert nights.surplus(1, "c") == ["b"], "not the good one, though it is the oldest"
    nights.remove("b")
    assert {path.name for path in nights.folder.iterdir()} == {"a", "c", GOOD}


def test_a_dry_run_says_what_a_night_would_do_and_does_nothing(
    job: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl(job, 10)
    assert night(job, runs, "--night", "a", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "dry run    ingest reads 1 file" in out and "no good run yet" in out and not runs.exists()

    assert night(job, runs, "--night", "a") == 0
    capsys.readouterr()
    before = sorted(runs.rglob("*"))
    assert night(job, runs, "--night", "a", "--dry-run") == 0
    assert "dry run    ingest is complete, and skipped" in capsys.readouterr().out
    assert night(job, runs, "--night", "b", "--keep", 1, "--dry-run") == 0
    out = capsys.readouterr().out
    assert "dry run    gate, against a: P@1" in out and "retain: removes nothing" in out
    crawl(job, 9)
    assert night(job, runs, "--night", "a", "--dry-run") == OUTPUT_EXISTS, "as the night itself would be"
    assert sorted(runs.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--keep", 0), "--keep 0: give how many nights stay"),
        (("--night", "../other"), "--night ../other: give a name"),
        (("--night", GOOD), "--night good: give a name"),
        (("--margin", 3), "--margin 3: give a number from 0 to 1"),
    ],
)
def test_what_is_typed_wrong_is_refused_before_any_work(
    job: Path, tmp_path: Path, words: tuple[object, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl(job, 1)
    assert night(job, tmp_path / "runs", *words) == USAGE
    assert says in capsys.readouterr().err and not (tmp_path / "runs").exists()


def test_of_two_nights_in_a_folder_the_second_is_refused_and_leaves_the_metrics(
    job: Path, tmp_path: Path
) -> None:
    crawl(job, 1)
    with claimed(tmp_path / "runs"):
        assert night(job, tmp_path / "runs", "--metrics", tmp_path / "a.prom") == OUTPUT_EXISTS
    assert not (tmp_path / "a.prom").exists()


def test_a_night_that_fails_says_at_which_stage(job: Path, tmp_path: Path) -> None:
    metrics = tmp_path / "a.prom"
    assert night(job, tmp_path / "runs", "--night", "a", "--metrics", metrics) == INPUT_MISSING
    values = samples(metrics)
    assert values[f"exit_code {job}"] == INPUT_MISSING and values[f"stage {job} run"] == 1


# By stages alone, with a run that is written at once.


def made_night(
    nights: Nights, name: str, run_job: Callable[[Path, Path | None], object], keep: int = 7
) -> Night:
    return Night(nights, nights.begin(name, Path("job.toml")), run_job, "answermill night", keep=keep)


def test_a_night_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    nights, seen = Nights(tmp_path), list[Path | None]()
    nights.begin("a", Path("job.toml"))
    nights.publish("a")

    def killed(run: Path, former: Path | None) -> None:
        raise KeyboardInterrupt

    began = made_night(nights, "b", killed)
    with pytest.raises(KeyboardInterrupt):
        list(began.lines())
    record = nights.read("b")
    assert record is not None and (record.stage, record.code) == ("run", None)

    # Another night is good meanwhile; this one is still compared with the run that was good when it began.
    nights.publish("c")
    again = made_night(nights, "b", lambda run, former: seen.append(former))
    with pytest.raises(JobError, match="no complete step of a run"):
        list(again.lines())
    assert seen == [tmp_path / "a"] and again.record.began == record.began
    assert again.record.stage == "verify", "which is the stage that the exit code is of"


@pytest.mark.parametrize("code", [None, INTERRUPTED, TERMINATED, 0])
def test_the_status_of_a_night_that_was_stopped_between_two_steps_is_stopped(
    tmp_path: Path, code: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    nights = Nights(tmp_path)
    record = nights.begin("a", Path("job.toml"))
    write_run(tmp_path / "a", "Why?", passage("So."))
    nights.write(replace(record, code=code))
    assert call("status", tmp_path / "a") == 0
    line = "complete: all that was begun" if code == 0 else "stopped: the same command"
    assert capsys.readouterr().out.startswith(line)


def test_the_status_of_a_night_that_was_stopped_before_its_first_step_is_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nights = Nights(tmp_path)
    record = nights.begin("a", Path("job.toml"))
    nights.write(replace(record, code=INTERRUPTED))
    assert call("status", tmp_path / "a") == 0
    line, _, *folders = capsys.readouterr().out.splitlines()
    assert line == "stopped: the same command goes on where it was"
    assert all(folder.endswith("not there") for folder in folders)

    # A night that failed there has no run, and the same command would fail again.
    nights.write(replace(record, code=INPUT_MISSING))
    assert call("status", tmp_path / "a") == INPUT_MISSING


def test_a_run_whose_rows_do_not_fit_is_not_published(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    refused = made_night(nights, "a", lambda run, former: write_run(run, "Why?", passage("So.")))
    with pytest.raises(JobError) as e:
        list(refused.lines())
    assert e.value.code == BAD_DATA and refused.record.stage == "verify" and nights.good() is None


def test_a_night_whose_removal_was_killed_is_removed_the_next_time(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    for name in ("a", "b"):
        nights.begin(name, Path("job.toml"))
        write_text(nights.run(name) / "scored" / "part", name)
    (tmp_path / "a" / "scored" / "part").unlink()
    assert nights.surplus(1, "b") == ["a"]
    nights.remove("a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]
    (tmp_path / "mine").mkdir()
    assert nights.surplus(1, "c") == [] and NIGHT_FILE == "night.json", "a folder without it is not ours"


def test_where_a_disk_has_no_links_a_file_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    Nights(tmp_path).publish("a")
    assert (tmp_path / GOOD).read_text() == "a\n" and Nights(tmp_path).good() == "a"


def test_the_stages_are_those_that_the_pages_and_the_metrics_name() -> None:
    page = (Path(__file__).parents[3] / "docs" / "schedulers.md").read_text(encoding="utf-8")
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert rows[: len(STAGES)] == list(STAGES)
