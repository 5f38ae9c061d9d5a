"""Equal rows in any order of the input: a tiny job of all steps, with pages, questions and labels in other
orders and files, and other numbers of shards, blocks and worker processes.

`mismatches` counts folders of a permuted run whose rows, sorted, are not those of the first run. The columns
that name the input file and the place in it are left out, since a page lies elsewhere then. No page is there
twice: of two, the first would stay.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from answermill.pipelines.config.job_file import load
from answermill.pipelines.steps.chain import run_steps, steps_of
from testing import tiny_job
from testing.harness import arguments, finish, say
from testing.smoke_data import small_encoder

TAKES = "five minutes"

PERMUTATIONS = 20
WITH_WORKERS = 5
"""Every fifth permutation is run by several worker processes, which take long to start."""


def rows_of(job_file: Path, run: Path) -> dict[str, str]:
    """Run the job; returns folder → digest of its rows."""
    job = load(job_file)
    list(run_steps(job, run, steps_of(job), ()))
    return tiny_job.digests(run)


def measure(folder: Path, permutations: int, with_workers: int) -> dict[str, int]:
    encoder = small_encoder()
    expected = rows_of(tiny_job.write(folder / "job", encoder), folder / "run")
    assert len(set(expected.values())) > len(expected) // 2, "the folders are not empty"
    mismatches = 0

    for n in range(permutations):
        dice = random.Random(n)
        processes = 2 + n // with_workers % 2 if with_workers and n % with_workers == with_workers - 1 else 1
        place = folder / f"{n:03d}"
        rows = rows_of(tiny_job.write(place / "job", encoder, dice, processes), place / "run")
        different = sorted(name for name in expected if rows[name] != expected[name])
        mismatches += len(different)
        say(
            f"permutation {n}: {processes} processes, "
            f"{'the same rows' if not different else f'others in {different}'}"
        )

    return {"permutations": permutations, "folders": len(expected), "mismatches": mismatches}


def main() -> None:
    options = arguments(
        "determinism",
        __doc__ or "",
        needs_data=False,
        numbers={"permutations": f"how many; {PERMUTATIONS} if absent"},
    )
    with tempfile.TemporaryDirectory() as folder:
        permutations = 1 if options.smoke else int(options.permutations or PERMUTATIONS)
        result = measure(Path(folder).resolve(), permutations, 0 if options.smoke else WITH_WORKERS)
    finish("determinism", result, options.save)


if __name__ == "__main__":
    main()
