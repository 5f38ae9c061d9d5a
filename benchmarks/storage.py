"""The light job with all its files in an object store, and on the disk: seconds, requests, equal bytes.

Some pages, six questions, labels and packs, two shards; the store is moto's server on this machine, so that
our work and the number of requests are measured, not a network. `kills` runs are killed at random
moments, and one goes on to the end. `mismatches` counts files whose SHA-256 is not that of the run on the
disk; Lucene's are not compared, whose ids are drawn.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from answermill.files.remote import Remote
from answermill.files.store import put
from benchmarks.attempts import write_job
from testing.engines import digests
from testing.harness import arguments, finish, run_command, say, seconds
from testing.object_store import serving

KILLS = 20
SEED = 7
SETTINGS = ("--set", "ingest.language=''", "ingest.input=['pages-*.jsonl']")


def main() -> None:
    options = arguments(
        "storage",
        __doc__ or "",
        needs_data=False,
        numbers={"kills": f"runs that are killed; {KILLS} if absent"},
    )
    kills = int(KILLS if options.kills is None else options.kills) if not options.smoke else 0
    times: dict[str, list[float]] = {"disk": [], "s3": []}
    requests: list[int] = []

    mismatches = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        serving() as store,
        temporary_files(Path(folder) / "temporary"),
    ):
        os.environ.update(store.environment)
        local, job = Path(folder), write_job(Path(folder) / "job")
        stored = upload(job.parent, store.folder("job")) / job.name

        for n in range(options.rounds):
            with seconds(times["disk"]):
                run_command(
                    "run", str(job), "--out", str(local / f"run-{n}"), *SETTINGS, inline=options.smoke
                )

            before = len(store.requests)
            with seconds(times["s3"]):
                run_command(
                    "run",
                    str(stored),
                    "--out",
                    str(store.folder(f"run-{n}")),
                    *SETTINGS,
                    inline=options.smoke,
                )

            requests.append(len(store.requests) - before)
            mismatches += differences(local / "run-0", store.folder(f"run-{n}"))
            say(
                f"round {n}: disk {times['disk'][-1]:.1f} s; store {times['s3'][-1]:.1f} s, {requests[-1]} "
                "requests"
            )

        if kills:
            killed = store.folder("killed")
            kill(kills, statistics.median(times["s3"]), ("run", str(stored), "--out", str(killed), *SETTINGS))
            mismatches += differences(local / "run-0", killed) + leftovers(killed)

    result = {
        "seconds_disk": statistics.median(times["disk"]),
        "seconds_s3": statistics.median(times["s3"]),
        "requests": statistics.median(requests),
        "kills": kills,
        "mismatches": mismatches,
    }
    finish("storage", result, options.save)


@contextmanager
def temporary_files(folder: Path) -> Iterator[None]:
    """Use a folder for temporary files, such as copies of objects, in this process and the commands."""
    folder.mkdir()
    before = tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
        del os.environ["TMPDIR"]


def upload(folder: Path, place: Remote) -> Remote:
    """Upload the files of a folder to a store."""
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        put(file, place / file.relative_to(folder))
    return place


def kill(times: int, longest_s: float, command: tuple[str, ...]) -> None:
    """Run the command and kill it, again and again, at random moments of its first `longest_s` seconds; then
    let it end."""
    moments = random.Random(SEED)
    for n in range(times):
        moment = moments.uniform(0, longest_s)
        child = subprocess.Popen([sys.executable, "-m", "answermill", *command], stdout=sys.stderr)
        time.sleep(moment)
        child.kill()
        say(f"kill {n}: after {moment:.1f} s, it had {'ended' if child.wait() == 0 else 'not ended'}")
    run_command(*command)


def differences(run: Path, other: Path) -> int:
    """Files of two runs that only one has, or that are not the same."""
    files, others = digests(run), digests(other)
    return sum(files.get(name) != others.get(name) for name in files.keys() | others.keys())


def leftovers(run: Remote) -> int:
    """Files that no manifest names: of the work folder, and second parts of a unit."""
    names = [path.relative_to(run).as_posix() for path in run.files()]
    units = [name.rpartition("-")[0] for name in names if "/part-" in name]
    return sum(name.startswith("_work/") for name in names) + len(units) - len(set(units))


if __name__ == "__main__":
    main()
