"""A tiny job of all steps, killed (SIGKILL) at random moments, again and again: does the same command end
with the same bytes?

Each command is a forked process, which has all libraries loaded already; it is killed at a moment drawn from
the time that an undisturbed one takes. When one comes to its end, its run is compared with the undisturbed
one, and the next run begins. `runs` came to their end; `mismatches` counts those of them that have other
files or bytes (Lucene's aside, whose ids are drawn), in which `verify` finds something wrong or `clean`
something left over, and commands that ended with an error.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from testing import tiny_job
from testing.engines import digests
from testing.harness import arguments, finish, processes, say
from testing.smoke_data import small_encoder

TAKES = "an hour on a busy machine; [--kills 2000]"

KILLS = 200
SEED = 11
LIBRARIES = (
    "torch",
    "transformers",
    "spacy",
    "jnius_config",
    "pyarrow.parquet",
    "answermill.pipelines.steps.chain",
)


class Failed(RuntimeError):
    """A command ended with an error."""


def forked(work: Callable[[], object], log: Path) -> int:
    """Start work in a forked process, which has our libraries but none of our threads; returns its id."""
    process = os.fork()
    if process:
        return process

    try:
        for descriptor in (1, 2):
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
        work()
        os._exit(0)
    except BaseException as e:  # what else it is, it must not go on as a copy of the benchmark
        os.write(2, f"{type(e).__name__}: {e}\n".encode())
        os._exit(1)


def command(job_file: Path, run: Path) -> int:
    """Start the job in a forked process; returns its id."""
    from answermill.pipelines.config.job_file import load
    from answermill.pipelines.steps.chain import run_steps, steps_of

    job = load(job_file)
    return forked(lambda: list(run_steps(job, run, steps_of(job), ())), run.with_suffix(".log"))


def has_ended(process: int, seconds: float) -> bool:
    """True if the process has ended before the time is over; else it is killed. Raises Failed."""
    until = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            if status:
                raise Failed(f"a command ended with status {status}")
            return True
        if time.monotonic() >= until:
            os.kill(process, signal.SIGKILL)
            return os.waitpid(process, 0)[1] == 0
        time.sleep(0.002)


def differs(run: Path, undisturbed: Path) -> str:
    """Difference between a completed run and the undisturbed one; '' if there is none."""
    from answermill.pipelines.look.verify.leftovers import leftovers
    from answermill.pipelines.look.verify.verify import Verification

    files, expected = digests(run), digests(undisturbed)
    names = sorted(name for name in files.keys() | expected.keys() if files.get(name) != expected.get(name))
    wrong = [str(finding) for finding in Verification(run).findings()]
    return "; ".join([*names, *wrong, *(f"{leftover.path.name} is left over" for leftover in leftovers(run))])


def load_libraries() -> None:
    """Import what the job needs, so that forked processes have it."""
    from answermill.pipelines.config.step_code import code_of
    from answermill.pipelines.specs.registry import job_steps

    for library in LIBRARIES:
        import_module(library)
    for spec in job_steps().values():
        code_of(spec)


def measure(folder: Path, kills: int) -> dict[str, float | int]:
    load_libraries()
    dice, undisturbed = random.Random(SEED), folder / "undisturbed"
    job = tiny_job.write(folder / "job", small_encoder())
    began = time.monotonic()
    has_ended(command(job, undisturbed), 1e9)
    seconds = time.monotonic() - began

    killed = runs = mismatches = 0
    while killed < kills:
        run = folder / f"run-{runs:04d}"
        wrong = ""
        try:
            while not has_ended(command(job, run), dice.uniform(0, 1.2 * seconds)):
                killed += 1
            wrong = differs(run, undisturbed)
        except Failed as e:
            wrong = f"{e}; {run.with_suffix('.log').read_text(encoding='utf-8')[-500:]}"
        runs += 1
        mismatches += bool(wrong)
        say(f"run {runs} came to its end; {killed} kills so far{f'; IT DIFFERS: {wrong}' if wrong else ''}")

    return {"kills": killed, "runs": runs, "mismatches": mismatches, "seconds_undisturbed": seconds}


def main() -> None:
    numbers = {"kills": f"how many; {KILLS} if absent, and 2000 of a night"}
    options = arguments("kills", __doc__ or "", needs_data=False, numbers=numbers)
    kills = 1 if options.smoke else int(options.kills or KILLS)
    with tempfile.TemporaryDirectory() as folder, processes(1) as pool:  # which has no thread, and no JVM
        result = pool.submit(measure, Path(folder).resolve(), kills).result()
    finish("kills", result, options.save)


if __name__ == "__main__":
    main()
