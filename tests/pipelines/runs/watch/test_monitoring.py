"""What others see of a command at work: another terminal, a collector of metrics, one of logs; and how it
stops."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from answermill.pipelines.cli.streams import write_lines
from answermill.pipelines.errors import INPUT_MISSING
from answermill.pipelines.runs.watch import live, log_lines
from answermill.pipelines.runs.watch.live import RUNNING, WORK, Live, Running, line_of
from answermill.pipelines.runs.watch.metrics import MetricsFile
from answermill.pipelines.runs.watch.progress import Done, Progress, print_line, progress
from testing.command import call
from testing.object_store import ObjectStore

ROOT = Path(__file__).parents[4]
AT_WORK = Progress("rerank", 1, 3, 3, 9, "passages", None, 1.0, None)


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> Path:
    """A run whose shards are not built yet."""
    run = Path(shutil.copytree(small_run, tmp_path / "run"))
    shutil.rmtree(run / "shards")
    return run


@pytest.fixture
def as_json() -> Iterator[None]:
    log_lines.choose("json")
    yield
    log_lines.choose("text")


def samples(file: Path) -> dict[str, float]:
    """'metric label …', without `answermill_` → value of each line, as a collector reads them; labels by
    their names."""
    lines = [line for family in text_string_to_metric_families(file.read_text()) for line in family.samples]
    words = [
        [line.name.removeprefix("answermill_"), *(line.labels[name] for name in sorted(line.labels))]
        for line in lines
    ]
    return {" ".join(name): line.value for name, line in zip(words, lines, strict=True)}


def test_another_terminal_sees_who_works_and_how_it_was_stopped(
    run: Path, small_run: Path, tmp_path: Path
) -> None:
    metrics = tmp_path / "run.prom"
    words = [
        "index",
        str(small_run.parent / "job.toml"),
        "--out",
        str(run),
        "--set",
        "index.passages_per_shard=1",
    ]
    command = [sys.executable, "-m", "answermill", *words, "--log-format", "json", "--metrics", str(metrics)]

    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    job = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT, env=variables
    )
    while (running := Running.read(run)) is None or not running.step:
        assert job.poll() is None, job.stderr and job.stderr.read()
        time.sleep(0.02)

    line = line_of(run, is_complete=False)
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=120)
    assert line.startswith("running: index") and f"pid {job.pid} of " in line and " since 20" in line
    assert job.returncode == 143
    last = json.loads(err.splitlines()[-1])
    assert (last["level"], last["code"]) == ("warning", 143) and "the same command goes on" in last["message"]
    assert not (run / RUNNING).exists() and line_of(run, is_complete=False).startswith("stopped: ")
    assert samples(metrics)[f"exit_code {small_run.parent / 'job.toml'}"] == 143


def test_a_run_that_is_there_says_so(small_run: Path, capsys) -> None:
    assert call("status", small_run) == 0
    assert capsys.readouterr().out.startswith("complete: all that was begun\nstep ")


def test_the_file_of_a_live_run_follows_its_progress(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.01)
    with (
        Live(tmp_path) as working,
        progress("rerank", 900, lambda: Done(300, 0, 3), what="passages", interval_s=0.01),
    ):
        working.begin("rerank")
        while (running := Running.read(tmp_path)) is None or running.progress is None:
            time.sleep(0.01)
        assert "rerank, 300 of 900 passages" in line_of(tmp_path, is_complete=False)
    assert list(tmp_path.iterdir()) == []


def test_the_next_command_removes_the_file_of_one_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / RUNNING).write_text("{}")
    with Live(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_stops_nobody(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.01)
    run = tmp_path / "gone"
    with Live(run) as working:
        working.update(AT_WORK)
        time.sleep(0.1)  # in which it has tried, and not been able to
        run.mkdir()
        await_file(run)


def test_what_two_say_at_a_time_stands_both(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.01)
    clock, steps = time.time, iter(["rerank"])

    with Live(tmp_path) as working:
        working.begin("index")

        def time_goes_on() -> float:  # asked for while the file is written, in its own thread
            for step in steps:
                working.begin(step)
                working.update(AT_WORK)
            return clock()

        monkeypatch.setattr(live.time, "time", time_goes_on)
        working.update(AT_WORK)
        await_file(tmp_path)
        time.sleep(0.1)  # it is written again
        state = Running.read(tmp_path)
        assert state is not None and (state.step, state.progress) == ("rerank", AT_WORK)


def test_a_complete_run_is_not_touched_however_long_it_is_looked_at(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.01)
    with Live(tmp_path) as working:
        working.begin("rerank")
        time.sleep(0.2)
        assert list(tmp_path.iterdir()) == []
        (tmp_path / WORK).mkdir()  # as a step does that begins, and may have nothing to show for long
        await_file(tmp_path)
        assert line_of(tmp_path, is_complete=False).startswith("running: rerank; ")


def await_file(run: Path) -> None:
    for _ in range(500):
        if Running.read(run) is not None:
            return
        time.sleep(0.01)
    pytest.fail(f"nothing is written into {run}")


def test_in_a_store_too(s3: ObjectStore) -> None:
    run = s3.folder("live")
    with Live(run) as working:
        working.begin("rerank")
        assert Running.read(run) is None, "a run that is complete is not touched"
        working.update(AT_WORK)
        while Running.read(run) is None:
            time.sleep(0.01)
        assert line_of(run, is_complete=False).startswith("running: ")
    assert Running.read(run) is None


def test_metrics_are_the_manifests_counts_and_the_exit_code(small_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.prom"
    job = small_run.parent / "job.toml"
    run = shutil.copytree(small_run, tmp_path / "run")
    assert call("propagate", job, "--out", run, "--metrics", file) == 0
    values = samples(file)
    assert values[f"exit_code {job}"] == 0 and values[f"step_seconds {job} propagate"] >= 0
    assert values[f"count pages {job} ingest"] == 70 and values[f"rejects {job} not_html ingest"] == 1
    assert values[f"rows passages {job} ingest"] > 0
    assert values[f"begin_time_seconds {job}"] <= values[f"end_time_seconds {job}"]
    assert values[f"run_info {job} {run}"] == 1, "the run, whose name differs each night, is no other label"
    assert file.read_text().count("# TYPE answermill_count gauge\n") == 1 and list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("lacks", ["job.toml", "questions.jsonl"])
def test_a_job_that_is_refused_before_its_steps_has_metrics_too(
    small_run: Path, tmp_path: Path, lacks: str
) -> None:
    for name in {"job.toml", "questions.jsonl", "web.warc.gz"} - {lacks}:
        shutil.copy(small_run.parent / name, tmp_path)
    file, job = tmp_path / "run.prom", tmp_path / "job.toml"
    file.write_text(f'answermill_exit_code{{job="{job}"}} 0.0\n')  # of the night before
    assert call("run", job, "--out", tmp_path / "run", "--metrics", file) == INPUT_MISSING
    assert samples(file)[f"exit_code {job}"] == INPUT_MISSING


def test_metrics_say_how_far_a_step_is_at_most_every_half_minute(tmp_path: Path) -> None:
    now, file, job = [1_000.0], tmp_path / "a.prom", tmp_path / 'say "job".toml'
    metrics = MetricsFile(file, job, tmp_path / "run", clock=lambda: now[0])
    metrics.write()
    for items in (10, 20):
        metrics.update(replace(AT_WORK, items_done=items))
        assert "answermill_items_done{" not in file.read_text()

    now[0] += 31
    metrics.update(replace(AT_WORK, step="compare input"))
    metrics.update(replace(AT_WORK, items_done=4))
    now[0] += 31
    metrics.update(replace(AT_WORK, items_done=5))
    values = {name: value for name, value in samples(file).items() if name.startswith("items")}
    assert values == {f"items_done passages {job} rerank": 5, f"items passages {job} rerank": 9}
    metrics.end(0)
    assert set(samples(file)) == {
        *(f"{name} {job}" for name in ("begin_time_seconds", "end_time_seconds", "exit_code")),
        f"run_info {job} {tmp_path / 'run'}",
    }


def test_a_file_of_metrics_in_no_folder_is_refused_before_any_work(
    small_run: Path, tmp_path: Path, capsys
) -> None:
    job = small_run.parent / "job.toml"
    assert call("run", job, "--out", tmp_path / "run", "--metrics", tmp_path / "no/run.prom") == INPUT_MISSING
    assert "--metrics" in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_every_line_of_a_log_is_an_object(as_json: None, capsys) -> None:
    print_line("index makes it again")
    with progress("index", 9, lambda: 3, interval_s=0.01):
        time.sleep(0.1)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines][:2] == ["index makes it again", "progress"]
    assert all(line["level"] == "info" and line["time"].endswith("Z") for line in lines)
    assert lines[1]["step"] == "index" and lines[1]["items_done"] == 3


def test_results_are_objects_too(as_json: None, capsys) -> None:
    write_lines(["ingest     70 pages = 60 documents + 10 rejects"])
    line = json.loads(capsys.readouterr().out)
    assert (line["level"], line["message"]) == ("info", "ingest     70 pages = 60 documents + 10 rejects")


def test_an_error_is_an_object_too(as_json: None, tmp_path: Path, capsys) -> None:
    assert (
        call("run", tmp_path / "no.toml", "--out", tmp_path / "run", "--log-format", "json") == INPUT_MISSING
    )
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["code"]) == ("error", INPUT_MISSING) and "no.toml" in line["message"]
