"""Waiting time for answers that need no model: seconds of whole commands, from start to end.

Each command is a new process, as a user starts it; the rounds are interleaved, so that a busy minute is
shared by all. A command with another exit code than it should have ends the benchmark.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.errors import INPUT_MISSING, SETTINGS, USAGE
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.schemas.corpus import Question
from testing.harness import arguments, finish, say, seconds

TAKES = "on a quiet machine"

ROOT = Path(__file__).parents[1]
SMOKE = ("version", "wrong_usage")
"""The commands that --smoke tries."""


def write_run(run: Path) -> None:
    """A run folder with one committed folder of a row."""
    with PartWriter(run / "questions", Question, 0) as writer:
        writer.write([Question("q0", "Which number is 0?")])

    Manifest(
        maker=QUESTIONS.maker,
        record="Question",
        schema=Question.fingerprint(),
        fingerprint="f",
        settings={},
        inputs={},
        version="1",
        rows=1,
        counts={},
        parts=(writer.part,),
        folder="questions",
    ).write(run / "questions")


def commands(folder: Path) -> dict[str, tuple[list[str], int]]:
    """Name → arguments, and the exit code that they should end with. Writes a job and a run into the
    folder."""
    write_run(folder / "run")

    job, run, absent = str(copy_to(folder / "job")), str(folder / "run"), str(folder / "absent")
    job_in_run = ["run", job, "--out", str(folder / "out"), "--set"]
    return {
        "help": (["--help"], 0),
        "version": (["--version"], 0),
        "status": (["status", run], 0),
        "columns": (["columns"], 0),
        "job_file_missing": (["run", absent, "--out", run], INPUT_MISSING),
        "input_missing": ([*job_in_run, f"ingest.input=['{absent}']"], INPUT_MISSING),
        "key_misspelt": ([*job_in_run, "retrieve.questoins=x"], SETTINGS),
        "wrong_usage": (["run", "--oot", "x"], USAGE),
    }


def run_once(words: list[str], code: int) -> None:
    """Run a command. Raises RuntimeError with its stderr if it ends with another exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "answermill", *words],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != code:
        raise RuntimeError(
            f"{' '.join(words)} ended with {done.returncode}, not {code}: {done.stderr.decode()}"
        )


def main() -> None:
    options = arguments(
        "startup", "seconds until a command that needs no model has answered", needs_data=False
    )
    rounds = options.rounds if options.smoke else max(5, options.rounds)

    with tempfile.TemporaryDirectory() as folder:
        typed = commands(Path(folder))
        names = SMOKE if options.smoke else tuple(typed)
        waited: dict[str, list[float]] = {name: [] for name in names}
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for name in names:
                with seconds(waited[name]):
                    run_once(*typed[name])

    result = {f"{name}_s": statistics.median(times) for name, times in waited.items()}
    finish("startup", {"rounds": rounds, **result}, options.save)


if __name__ == "__main__":
    main()
