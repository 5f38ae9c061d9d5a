"""How a command ends: errors, signals and streams as a user and a scheduler meet them."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from answermill.pipelines.cli.ending import STOPPED, Command, message_of, run_to_the_end
from answermill.pipelines.errors import BAD_DATA, IO, UNEXPECTED, JobError
from testing.command import call

ROOT = Path(__file__).parents[3]
QUIET = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def ended(work) -> int:
    """The exit code of a command that does `work`."""
    with pytest.raises(SystemExit) as e:
        run_to_the_end(work, is_process=False)
    return int(e.value.code or 0)


def raises(error: BaseException, folder: Path | None = None):
    def work(command: Command) -> int:
        command.folder = folder
        raise error

    return work


def test_an_unexpected_error_is_three_lines_and_its_traceback_a_file_in_the_run_folder(tmp_path, capsys):
    assert ended(raises(KeyError("colour"), tmp_path)) == UNEXPECTED
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "answermill: unexpected error, KeyError: 'colour'"
    (file,) = tmp_path.iterdir()
    assert second == f"The traceback is in {file}"
    assert "please report it" in third
    assert (
        "Traceback (most recent call last)" in file.read_text() and "KeyError: 'colour'" in file.read_text()
    )


def test_without_a_run_folder_the_traceback_is_in_the_current_one(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (
        ended(
            raises(RuntimeError("Traceback (most recent call last)\nValueError: odd [while running 'Work']"))
        )
        == UNEXPECTED
    )
    assert "unexpected error, ValueError: odd\n" in capsys.readouterr().err
    assert [path.name.partition("-2")[0] for path in tmp_path.iterdir()] == ["answermill-error"]


def from_another(error: Exception) -> Exception:
    try:
        raise ValueError("wrapped") from error
    except ValueError as e:
        return e


@pytest.mark.parametrize(
    ("error", "says", "code"),
    [
        (OSError(errno.ENOSPC, "x", "run/shards/.00000-of-00002.0123456789abcdef0123456789abcdef.tmp/dense.faiss"),
         "run/shards/00000-of-00002/dense.faiss: No space left on device; free some space, and type the same", IO),
        (OSError(errno.EROFS, "x", "ro/.wqa.toml.0123456789abcdef0123456789abcdef.tmp"), "ro/wqa.toml: "
                                                                                         "Read-only file", IO),
        (OSError(errno.EDQUOT, "x"), "run: Disk quota exceeded; free some space", IO),
        (OSError("[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device"),
         "run: No space left on device; free", IO),
        (RuntimeError("Error in write_index: 3 != 9 (No space left on device)"), "run: No space left on "
                                                                                 "device; free", IO),
        (RuntimeError("JVM exception: java.io.IOException: Read-only file system"), "run: Read-only file "
                                                                                    "system", IO),
        (PermissionError(errno.EACCES, "x", "secret.tsv"), "secret.tsv: Permission denied", IO),
        (from_another(JobError("labels.tsv:3: no label", BAD_DATA)), "labels.tsv:3: no label", BAD_DATA),
    ],
)  # fmt: skip
def test_an_error_of_the_disk_names_the_user_s_file_or_folder(error, says, code):
    message, exit_code = message_of(error, Path("run")) or ("", 0)
    assert message.startswith(says) and exit_code == code
    assert ".tmp" not in message


def test_an_error_of_ours_is_none_of_the_disk():
    assert message_of(ValueError("No such luck"), Path("run")) is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_one_line_whatever_becomes_of_it_on_the_way(number, code, capsys):
    def work(command: Command) -> int:
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        except KeyboardInterrupt as e:
            raise RuntimeError("what Beam makes of it") from e
        return 0

    before = signal.getsignal(number)
    assert ended(work) == code
    assert capsys.readouterr().err == STOPPED
    assert signal.getsignal(number) is before


def test_a_second_signal_ends_the_process_at_once():
    code = """
import os, signal, sys
from answermill.pipelines.cli.ending import run_to_the_end
def work(command):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
run_to_the_end(work, True)
"""

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, STOPPED)


def test_output_that_nobody_reads_stops_nothing(tmp_path):
    code = f"""
import sys
from pathlib import Path
from answermill.pipelines.cli.ending import run_to_the_end
def work(command):
    for line in range(100_000):
        sys.stdout.write(f"{{line}}\\n")
    Path({str(tmp_path / "finished")!r}).touch()
    return 0
run_to_the_end(work, True)
"""

    for shell, status in (
        ('"$0" -c "$1" | head -1; exit ${PIPESTATUS[0]}', 0),
        ('"$0" -c "$1" >&-', 0),
        ('"$0" -c "$1" >/dev/full', IO),
    ):
        command = ["bash", "-c", shell, sys.executable, code]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
        assert done.returncode == status
        assert done.stderr == ("answermill: standard output: No space left on device\n" if status else "")
        (tmp_path / "finished").unlink()


@pytest.mark.parametrize(
    "settings",
    [{"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
)
def test_a_character_that_stdout_lacks_is_written_as_an_escape(settings):
    code = "import sys\nfrom answermill.pipelines.cli import ending as e\n"
    code += "e.run_to_the_end(lambda c: sys.stdout.write('a \\xd7 \\u03c1'), True)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, **settings},
        check=False,
    )
    assert done.returncode == 5 and done.stdout.endswith(b"\\u03c1") and done.stderr == b""


# A whole command.


@pytest.fixture
def run(small_run, tmp_path):
    """A copy of the small run without what `index` and later steps wrote."""
    shutil.copytree(small_run.parent, tmp_path / "small")
    for name in ("shards", "questions", "questions_rejects", "retrieved", "scored", "labels"):
        shutil.rmtree(tmp_path / "small" / "run" / name)
    return tmp_path / "small" / "run"


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_file_that_may_not_grow_is_one_line_and_74(run, capfd, processes):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    settings = ("retrieve.block=5", "index.shards=2")
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))

    try:
        code = call(
            "index",
            run.parent / "job.toml",
            "--out",
            run,
            "--set",
            f"workers.processes={processes}",
            *settings,
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    err = capfd.readouterr().err
    assert code == IO and "File too large" in err and "small/run" in err
    assert "Traceback" not in err and ".tmp" not in err and "while running" not in err
    if processes == 1:  # where the other worker is stopped in its work, the next run removes what it leaves
        assert list(run.rglob(".*.tmp")) == []
    assert call("index", run.parent / "job.toml", "--out", run, "--set", *settings) == 0
    assert list(run.rglob(".*.tmp")) == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 200 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], check=False
        ).returncode
    ):
        pytest.skip("a file system can be mounted by root only")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_full_disk_is_one_line_and_74(small_run, small_disk, capfd, processes):
    settings = ("--set", f"workers.processes={processes}")
    assert call("ingest", small_run.parent / "job.toml", "--out", small_disk / "run", *settings) == IO
    (line,) = capfd.readouterr().err.splitlines()
    assert (
        line.startswith(f"answermill: ingest, unit 0: {small_disk}/run")
        and "No space left on device; free some space" in line
    )
    assert ".tmp" not in line


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly)],
)
def test_a_signal_in_a_job_with_workers_leaves_no_process_and_the_same_command_goes_on(run, number, code):
    command = [sys.executable, "-m", "answermill", "index", str(run.parent / "job.toml"), "--out", str(run)]
    settings = ["--set", "workers.processes=2", "index.shards=2"]
    job = subprocess.Popen(
        [*command, *settings], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=QUIET
    )
    while not children(job.pid) and job.poll() is None:
        time.sleep(0.005)
    workers = children(job.pid)
    os.kill(job.pid, number)

    _, err = job.communicate(timeout=60)
    assert (job.returncode, err) == (code, STOPPED)
    assert workers

    for _ in range(600):  # they end by themselves when the command has ended
        if not any(Path(f"/proc/{worker}").exists() for worker in workers):
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"still there: {workers}")

    assert call("index", run.parent / "job.toml", "--out", run, "--set", "index.shards=2") == 0


def children(process: int) -> list[int]:
    """The worker processes of a process."""
    tasks = Path(f"/proc/{process}/task")
    try:
        processes = [child for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    except FileNotFoundError:
        return []
    return [
        int(child) for child in processes if b"worker_process" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
