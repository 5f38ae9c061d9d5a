"""Faults of the machine around a command: a full disk, a closed or narrow stdout, a locked folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from benchmarks.fault_list.damage import removed
from benchmarks.fault_list.fault import Ended, Fault, How, Place, in_process, nothing
from benchmarks.fault_list.processes import LONGEST_S, ROOT, ended, started


def closed_stdout(place: Place, words: Sequence[str]) -> Ended:
    """Run a command whose reader of stdout leaves after one line, as `head -1` does."""
    process = started(place, words)
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    return Ended(process.wait(LONGEST_S), line, err)


def narrow_stdout(place: Place, words: Sequence[str]) -> Ended:
    """Run a command whose stdout can show only ASCII."""
    return ended(started(place, words, PYTHONIOENCODING="ascii"))


def full_stdout(place: Place, words: Sequence[str]) -> Ended:
    """Run a command whose stdout is a file on a full disk."""
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "answermill", *words]
        done = subprocess.run(
            command,
            cwd=place.work,
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    return Ended(done.returncode, "", done.stderr)


def in_a_process(place: Place, words: Sequence[str]) -> Ended:
    """Run a command in a new process, whose stdout is a descriptor."""
    return ended(started(place, words))


def descriptor(place: Place) -> None:
    """Make a name for stdout in the place's folder, like /dev/stdout."""
    (place.folder / "stdout.json").symlink_to("/proc/self/fd/1")


def link_stays(place: Place, sound: Place) -> bool:
    """True if the name still stands for stdout."""
    return (place.folder / "stdout.json").is_symlink()


def small_disk(kilobytes: int) -> How:
    """Run a command while the folder work/new is a file system of this size; afterwards there is more room.
    Raises CalledProcessError if this machine cannot mount one."""

    def run(place: Place, words: Sequence[str]) -> Ended:
        disk = place.work / "new"
        disk.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", disk],
            check=True,
            capture_output=True,
        )
        try:
            return in_process(place, words)
        finally:
            subprocess.run(["umount", disk], check=True)

    return run


def read_only_disk(place: Place, words: Sequence[str]) -> Ended:
    """Run a command while the folder work/new cannot be written to."""
    disk = place.work / "new"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", disk], check=True, capture_output=True)
    try:
        return in_process(place, words)
    finally:
        subprocess.run(["umount", disk], check=True)


def locked(place: Place, words: Sequence[str]) -> Ended:
    """Run a command while another process writes into the run folder."""
    code = "import sys\nfrom pathlib import Path\nfrom answermill.pipelines.runs.lock import claimed\n"
    code += "with claimed(Path(sys.argv[1])):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(ROOT)}

    with subprocess.Popen(
        [sys.executable, "-c", code, place.run], stdin=pipe, stdout=pipe, env=environment
    ) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        holder.stdout.readline()
        try:
            return in_process(place, words)
        finally:
            with suppress(BrokenPipeError):
                holder.stdin.close()


def may_mount() -> bool:
    """True if this process may mount a file system, as root may; further faults are tried then."""
    return os.geteuid() == 0 and sys.platform == "linux"


NO_SCORES = removed("run/scored")
RUN, NEW = "run JOB --out RUN", "run JOB --out WORK/new"
DISKS = (
    Fault("a full disk: ingest", nothing, NEW, 74, "No space left", how=small_disk(60)),
    Fault("a full disk: index", nothing, NEW, 74, "No space left", how=small_disk(400)),
    Fault("a read-only folder: run", nothing, NEW, 74, "Read-only", how=read_only_disk),
    Fault(
        "a read-only folder: sample", nothing, "sample --out WORK/new", 74, "Read-only", how=read_only_disk
    ),
    Fault(
        "a read-only folder: recipe",
        nothing,
        "recipe wqa --out WORK/new",
        74,
        "wqa.toml: Read-only",
        how=read_only_disk,
    ),
)
FAULTS = (
    Fault("stdout closed after a line", NO_SCORES, RUN, 0, "ingest", how=closed_stdout),
    Fault("stdout of ASCII", NO_SCORES, RUN, 0, "\\xd7", how=narrow_stdout),
    Fault("stdout on a full disk", NO_SCORES, RUN, 74, "standard output", "again", how=full_stdout),
    Fault("another process writes there", NO_SCORES, RUN, 73, "another process", "again", how=locked),
    Fault(
        "figures to a name of stdout",
        descriptor,
        "evaluate RUN/scored --labels RUN/labels/sentences --json DIR/stdout.json",
        0,
        '"protocol": ',
        right=link_stays,
        how=in_a_process,
    ),
    *(DISKS if may_mount() else ()),
)
