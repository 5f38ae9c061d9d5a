"""What a message advises is done here, and ends well: the command in its backquotes, with the job file in
JOB.toml's place."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import answermill
from answermill.__main__ import main
from answermill.pipelines.runs.manifests.run_folder import committed

Capture = pytest.CaptureFixture[str]


def call(*arguments: object) -> int:
    """Exit code of a command; a run writes no report, which is not what it is about."""
    more = ["--no-report"] if arguments[0] == "run" else []
    with pytest.raises(SystemExit) as e:
        main([*map(str, arguments), *more])
    return int(e.value.code or 0)


@pytest.fixture
def job(small_run: Path) -> Path:
    return small_run.parent / "job.toml"


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> Path:
    """A copy of the small run, to be damaged."""
    return shutil.copytree(small_run, tmp_path / "run", ignore=shutil.ignore_patterns("report.*"))


def advice(message: str, job: Path) -> list[str]:
    """The arguments of the one command that a message advises."""
    commands = set(re.findall(r"`answermill (run [^`]*|[a-z]+ JOB[^`]*)`", message))
    assert len(commands) == 1, message
    return shlex.split(commands.pop().replace("JOB.toml", str(job)))


def content(run: Path) -> dict[str, object]:
    """What must be the same again: all rows but of the shards, whose bytes Lucene chooses, and the
    answers."""
    parts = {
        name: [part.sha256 for part in manifest.parts]
        for name, manifest in committed(run).items()
        if name != "shards"
    }
    return {**parts, "rows": committed(run)["shards"].rows, "answers": (run / "answers.jsonl").read_bytes()}


def one(folder: Path, pattern: str = "part-*.parquet") -> Path:
    return sorted(folder.glob(pattern))[0]


def flip(path: Path) -> None:
    """Change one byte in the middle; the size stays."""
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)


def test_what_a_run_notices_is_made_again_by_the_same_command(run: Path, job: Path, capsys: Capture) -> None:
    before = content(run)
    lost = one(run / "scored")
    lost.unlink()
    shard = one(run / "shards", "*/shard.json")
    assert '"format": 1,' in shard.read_text()
    shard.write_text(shard.read_text().replace('"format": 1,', '"format": 2,'))
    other = one(run / "shards", "00001*/shard.json").stat().st_mtime_ns
    cut = one(run / "labels/passages")
    cut.write_bytes(cut.read_bytes()[:-1])

    assert call("status", run) == 65
    shown = capsys.readouterr()
    for path in (lost, shard, cut):
        assert f"damaged: {path}" in shown.out
    assert call(*advice(shown.err, job)) == 0
    shown = capsys.readouterr()
    done = {line.split()[0]: line.endswith("(complete)") for line in shown.out.splitlines()[:5]}
    assert done == {"ingest": True, "index": False, "retrieve": True, "rerank": False, "propagate": False}
    assert f"{lost} is missing; rerank makes it again" in shown.err

    assert content(run) == before and '"format": 1,' in one(run / "shards", "00000*/shard.json").read_text()
    assert one(run / "shards", "00001*/shard.json").stat().st_mtime_ns == other, (
        "the whole shard was built again"
    )
    assert call("status", run) == 0


def test_answers_that_were_cut_are_written_again(run: Path, job: Path, capsys: Capture) -> None:
    before = content(run)
    (run / "answers.jsonl").write_bytes((run / "answers.jsonl").read_bytes()[:100])
    assert call("status", run) == 65
    assert call(*advice(capsys.readouterr().err, job)) == 0
    assert content(run) == before


def _flip_passages(run: Path) -> tuple[str, ...]:
    flip(one(run / "retrieved"))
    shutil.rmtree(run / "scored")
    return ("rerank",)


def _flip_vectors(run: Path) -> tuple[str, ...]:
    flip(one(run / "shards", "*/dense.faiss"))
    shutil.rmtree(run / "retrieved")
    return ("run",)


def _empty_a_manifest_of_labels(run: Path) -> tuple[str, ...]:
    (run / "labels/sentences/_manifest.json").write_text("{}")
    return ("propagate",)


def _lose_a_shard(run: Path) -> tuple[str, ...]:
    shutil.rmtree(one(run / "shards", "00000*"))
    shutil.rmtree(run / "retrieved")
    return ("retrieve",)


def _empty_a_manifest(run: Path) -> tuple[str, ...]:
    (run / "retrieved/_manifest.json").write_text('{"format": 2}')
    return ("run",)


def _lose_passages(run: Path) -> tuple[str, ...]:
    shutil.rmtree(run / "passages")
    shutil.rmtree(run / "shards")
    return ("index",)


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_empty_a_manifest_of_labels, 65),
        *(
            pytest.param(damage, code, marks=pytest.mark.nightly)
            for damage, code in (
                (_flip_passages, 65),
                (_flip_vectors, 65),
                (_lose_a_shard, 65),
                (_empty_a_manifest, 65),
                (_lose_passages, 66),
            )
        ),
    ],
)
def test_what_a_step_refuses_it_says_how_to_mend(
    run: Path, job: Path, capsys: Capture, damage: Callable[[Path], tuple[str, ...]], code: int
) -> None:
    before = content(run)
    command = (*damage(run), job, "--out", run)
    assert call(*command) == code
    assert call(*advice(capsys.readouterr().err, job)) == 0
    assert call("run", job, "--out", run) == 0
    assert content(run) == before


def test_a_changed_byte_costs_its_unit_alone(run: Path, job: Path, capsys: Capture) -> None:
    before = content(run)
    damaged = one(run / "shards", "00000*/dense.faiss")
    flip(damaged)
    flip(run / "answers.jsonl")
    other, scored = (
        file.stat().st_mtime_ns for file in (one(run / "shards", "00001*/shard.json"), one(run / "scored"))
    )
    assert call("run", job, "--out", run, "--verify", "index") == 0
    err = capsys.readouterr().err
    assert f"{damaged} was changed since it was written (SHA-256); removed" in err

    assert one(run / "shards", "00001*/shard.json").stat().st_mtime_ns == other, (
        "the whole shard was built again"
    )
    assert call("rerank", job, "--out", run, "--verify") == 0
    assert f"{run / 'answers.jsonl'} was changed" in capsys.readouterr().err
    assert one(run / "scored").stat().st_mtime_ns >= scored and content(run) == before
    assert call("run", job, "--out", run, "--verify", "index") == 0
    assert capsys.readouterr().out.count("(complete)") == 5


def test_what_another_job_has_written_is_not_removed_for_a_changed_byte(
    small_run: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = shutil.copytree(small_run.parent, tmp_path / "job")
    job, run = folder / "job.toml", folder / "run"
    flip(one(run / "shards", "00000*/dense.faiss"))
    before = {path: path.read_bytes() for path in (run / "shards").rglob("*") if path.is_file()}
    job.write_text(job.read_text().replace("[index]", '[index]\nlanguage = "de"'))

    for command in (
        ("run", job, "--out", run, "--verify", "index"),
        ("index", job, "--out", run, "--verify"),
    ):
        assert call(*command) == 73
        err = capsys.readouterr().err
        assert "settings language = 'en' there, 'de' here" in err and "removed" not in err
        assert {path: path.read_bytes() for path in (run / "shards").rglob("*") if path.is_file()} == before


@pytest.mark.nightly
def test_one_step_is_done_again_by_its_own_command_and_from_python(
    run: Path, job: Path, capsys: Capture
) -> None:
    before = content(run)
    assert call("rerank", job, "--out", run, "--redo") == 0
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("redo       rerank; removes scored (") and "(complete)" not in second
    lines: list[str] = []
    answermill.run(job, run, steps=["propagate"], redo="rerank", on_step=lines.append)
    assert [line.split()[0] for line in lines] == [
        "redo",
        "rerank",
        "propagate",
    ] and "(complete)" not in lines[1]

    with pytest.raises(answermill.JobError, match="--verify rank: the steps are"):
        answermill.run(job, run, verify="rank")
    assert content(run) == before


def test_one_more_question_is_one_message_and_one_command(
    small_run: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = shutil.copytree(small_run.parent, tmp_path / "job")
    job, run = folder / "job.toml", folder / "run"
    with (folder / "questions.jsonl").open("a") as file:
        file.write('{"question_id": "new", "text": "What is tea?"}\n')
    assert call("run", job, "--out", run) == 73
    err = capsys.readouterr().err
    assert "input questions has other content" in err and len(err) < 600
    both = "answers (its input retrieved), scored (its input retrieved)"
    assert f"in the way: questions, retrieved, questions_rejects, {both}." in err

    assert call(*advice(err, job)) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("redo       retrieve, rerank; removes questions (15 rows), retrieved (")
    assert first.endswith(" rows), answers.jsonl")
    assert [line.split()[0] for line in lines if line.endswith("(complete)")] == [
        "ingest",
        "index",
        "propagate",
    ]

    assert len((run / "answers.jsonl").read_text().splitlines()) == 16


@pytest.mark.nightly
def test_a_run_of_a_former_version_is_one_message_and_one_command(
    run: Path, job: Path, capsys: Capture
) -> None:
    before = content(run)
    for manifest in [*run.glob("*/_manifest.json"), *run.glob("labels/*/_manifest.json")]:
        manifest.write_text('{"format": 4}')
    assert call("run", job, "--out", run) == 65
    err = capsys.readouterr().err
    assert "format 4, this version reads 5" in err
    assert call(*advice(err, job)) == 0
    assert "(complete)" not in capsys.readouterr().out and content(run) == before


def test_a_step_is_done_again_where_it_was_stopped(run: Path, job: Path) -> None:
    before = content(run)
    (run / "_work/rerank-0123abcd").mkdir(parents=True)
    (run / "_work/rerank-0123abcd/unit-00000.json").write_text("{}")
    (run / "scored/_manifest.json").unlink()
    assert call("run", job, "--out", run, "--redo", "rerank") == 0
    assert content(run) == before and not (run / "_work").exists()


def test_a_step_that_is_none_is_refused(run: Path, job: Path, capsys: Capture) -> None:
    assert call("run", job, "--out", run, "--redo", "rank") == 2
    assert "--redo rank: the steps are ingest, index" in capsys.readouterr().err


def test_a_folder_without_a_run_is_said_to_be_none(tmp_path: Path, capsys: Capture) -> None:
    assert call("status", tmp_path) == 66
    assert (
        f"no run in {tmp_path}; `answermill run JOB.toml --out {tmp_path}` makes one"
        in capsys.readouterr().err
    )
