"""A second batch of tasks is added to a run: the first one's tasks and packs stay, none is asked twice, and
nothing that people work on is removed."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS
from answermill.pipelines.look.status import status
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.specs.annotate import ANNOTATE, TASKS
from answermill.pipelines.specs.collect import LABELS
from answermill.pipelines.steps.collect.asked_tasks import AskedTasks
from testing.command import call

SENTENCES = 6
JOB = '[[rerank.stages]]\nreranker = "overlap"\n[annotate]\ntop = 2\nrandom = 1\ntools = ["csv"]\n'


def annotate(run: Path, *settings: str, redo: bool = False) -> int:
    overrides = [f"annotate.{setting}" for setting in settings]
    options = [*(["--redo"] if redo else []), *(["--set", *overrides] if overrides else [])]
    return call("annotate", run.parent / "job.toml", "--out", run, *options)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job, and a run of three questions whose sentences are scored."""
    folder = tmp_path_factory.mktemp("scored")
    rows = [
        f"q{q}\tWho sang song {q}?\t{'song ' * n}of singer {n} in {q}.\t{int(n == 1)}\n"
        for q in range(3)
        for n in range(SENTENCES)
    ]
    (folder / "set.tsv").write_text("question_id\tquestion\tsentence\tlabel\n" + "".join(rows))
    (folder / "job.toml").write_text(JOB)
    assert call("candidates", folder / "set.tsv", "--out", folder / "run") == 0
    assert call("rerank", folder / "job.toml", "--out", folder / "run") == 0
    return folder


@pytest.fixture
def run(scored: Path, tmp_path: Path) -> Path:
    """That run with its first batch of tasks."""
    shutil.copytree(scored, tmp_path / "job")
    assert annotate(tmp_path / "job/run") == 0
    return tmp_path / "job/run"


def content(run: Path, folders: Collection[str] = ("tasks", "packs", "scored")) -> Mapping[str, bytes]:
    paths = (path for folder in folders for path in (run / folder).rglob("*") if path.is_file())
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in paths}


def asked(place: Path) -> list[str]:
    """Ids of the tasks in a pack for spreadsheets."""
    with (place / "packs/csv/tasks-00001.csv").open(encoding="utf-8-sig", newline="") as file:
        return [row["task_id"] for row in csv.DictReader(file)]


def judge(place: Path, who: Path) -> Path:
    """A copy of a pack in which somebody has said 'correct' to every task."""
    with (place / "packs/csv/tasks-00001.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with who.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows({**row, "label": "correct"} for row in rows)
    return who


def test_a_greater_top_asks_what_the_first_batch_has_not_and_leaves_that_as_it_is(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(run)
    capsys.readouterr()
    assert annotate(run, "batch=2", "top=4") == 0
    assert "; 6 of them new; batches/2/packs/ for csv" in capsys.readouterr().out
    assert content(run) == before
    second = run / "batches/2"
    assert len(asked(run)) == 9 and len(asked(second)) == 6
    assert not {*asked(run)} & {*asked(second)}
    assert {*asked(run), *asked(second)} == {task.task_id for task in TASKS.open(second).read()}
    assert annotate(run, "batch=2", "top=4") == 0 and annotate(run) == 0  # both are complete
    assert "(complete)" in capsys.readouterr().out


def test_collect_reads_the_tasks_of_all_batches_and_the_later_one_says_how_they_were_chosen(
    run: Path, tmp_path: Path
) -> None:
    assert annotate(run, "batch=2", "top=5", "random=0") == 0
    tasks = AskedTasks.of(run)
    ids = [task.task_id for task in tasks.read()]
    assert tasks.rows == len(ids) == len(set(ids)) == len({*asked(run), *asked(run / "batches/2")})
    assert [*tasks.values("task_id")] == [(task_id,) for task_id in ids]
    strata = {task.task_id: task.stratum for task in tasks.read()}
    assert all(strata[task.task_id] == "top" for task in TASKS.open(run / "batches/2").read())

    files = judge(run, tmp_path / "anna.csv"), judge(run / "batches/2", tmp_path / "bob.csv")
    assert call("collect", run, *files) == 0
    assert LABELS.open(run).rows == len(ids)
    assert call("verify", run) == 0
    assert ("annotate", "batches/2/tasks", "15", "complete, 1 part") in list(status(run))


def test_verify_finds_a_change_in_a_further_batch_and_removes_nothing_of_it(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert annotate(run, "batch=2", "top=4") == 0
    pack = run / "batches/2/packs/csv/tasks-00001.csv"
    pack.write_text("filled in")
    capsys.readouterr()
    assert call("verify", run, "--repair", "--yes") != 0
    output = capsys.readouterr()
    assert "wrong      batches/2/packs/csv/tasks-00001.csv was changed" in output.out
    assert pack.read_text() == "filled in"


@pytest.mark.parametrize("damage", ["a part that is cut", "a part of other bytes", "a manifest that is cut"])
def test_a_command_that_finds_damage_in_a_further_batch_says_what_mends_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    judged = judge(run, tmp_path / "anna.csv")
    assert annotate(run, "batch=2", "top=4") == 0
    before, tasks = content(run, ["tasks", "packs", "batches"]), run / "batches/2/tasks"
    part = next(tasks.glob("part-*"))
    if damage == "a part that is cut":
        part.write_bytes(part.read_bytes()[:-1])
    elif damage == "a part of other bytes":
        part.write_bytes(b"PAR2" + part.read_bytes()[4:])
    else:
        (tasks / MANIFEST).write_text("{", encoding="utf-8")

    again = f"`answermill annotate JOB.toml --out {run} --set annotate.batch=2`"
    deletes = damage != "a part that is cut"
    advice = f"{'delete that folder, then ' if deletes else ''}{again}, with the other settings of that batch"
    is_seen_by_size = damage != "a part of other bytes"
    for command in (("collect", run, judged), ("report", run), *([("status", run)] * is_seen_by_size)):
        capsys.readouterr()
        assert call(*command) == BAD_DATA
        output = capsys.readouterr()
        assert advice in output.err, command
    if is_seen_by_size:
        assert f"damaged: {tasks}" in output.out

    if deletes:
        shutil.rmtree(tasks)
    assert annotate(run, "batch=2", "top=4") == 0
    assert content(run, ["tasks", "packs", "batches"]) == before


def test_a_redo_that_would_ask_otherwise_looks_first_and_removes_nothing(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(run)
    for settings in (["top=4"], ["tools=['prodigy']"]):
        assert annotate(run, *settings, redo=True) == OUTPUT_EXISTS
        assert content(run) == before
        assert "annotate.batch=N" in capsys.readouterr().err
    plan = ["--set", "rerank.stages=[{reranker='overlap',keep=3}]"]
    assert (
        call("run", run.parent / "job.toml", "--out", run, "--redo", "rerank", *plan, "--no-report")
        == OUTPUT_EXISTS
    )
    assert content(run) == before
    assert annotate(run, redo=True) == 0 and content(run) == before  # the same job makes the same tasks


def test_other_scores_may_come_if_a_further_batch_takes_them(run: Path, tmp_path: Path) -> None:
    before = content(run, ["tasks", "packs"])
    judged = judge(run, tmp_path / "anna.csv")
    assert (
        call(
            "run",
            run.parent / "job.toml",
            "--out",
            run,
            *("--redo", "rerank", "--no-report", "--set"),
            *("rerank.stages=[{reranker='overlap',keep=3}]", "annotate.batch=2", "annotate.top=4"),
        )
        == 0
    )
    assert content(run, ["tasks", "packs"]) == before and len(ANNOTATE.places(run)) == 2
    assert call("collect", run, judged) == 0
    assert call("verify", run) == 0
    assert annotate(run, "batch=2", redo=True) == OUTPUT_EXISTS


def test_a_batch_follows_the_one_before_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert annotate(run, "batch=3") == INPUT_MISSING
    assert "annotate.batch = 3: the tasks of batch 2 are not in" in capsys.readouterr().err
    assert annotate(run, "top=4") == OUTPUT_EXISTS
    error = capsys.readouterr().err
    assert "or `--set annotate.batch=N`, with the next number, asks for more" in error
    assert f"people may have worked in {run / 'packs'}: move it away, then `answermill run" in error
