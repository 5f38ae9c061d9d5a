"""The same bytes by every engine of this machine: the sample, from its pages to answers.

The plan is short and the dense encoder small, since most of the time goes into starting workers. `runs`: how
often the job was run, first in this process, then by each other way once, and with four threads
`runs_threads_4` times (--threads). `mismatches`: files (parts, indexes, answers) of the others that have
other bytes than the first's, or are missing. `seconds_...`: the whole command, the median of its runs. Ways
whose name begins with s3 have job, input and run in an object store (moto's): in the command's own process;
by two workers on an island, whose temporary folder is its own; and by Flink with a TaskManager and a pool on
each of two machines (see machines.py). With --smoke two ways, and few passages; --only names the others to
try.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from answermill.pipelines.data.sample import copy_to
from benchmarks.sample import write_small_job
from testing.engines import ROOT, digests, flink, job_service, spark, worker_pool
from testing.flink_machines import flink_on_two_machines
from testing.harness import arguments, finish, run_command, say, seconds
from testing.machines import BUCKET, POOL_OPTIONS, Machine, Store, island
from testing.smoke_data import small_encoder

TAKES = "half an hour; needs Flink, Spark, root; [--threads RUNS]; [--only WAY]"
MEASURED_MODELS = ("cosinet",)

SETTINGS = ("retrieve.block=30", "rerank.stages=[{reranker='cosinet', keep=25}, {reranker='complete'}]")
"""Three blocks of questions."""
THREADS = ("--direct_running_mode=multi_threading", "--direct_num_workers=4")


@dataclass(frozen=True)
class Site:
    """Site of a command: Beam's options, and the machine whose network it uses, with the store that holds all
    files."""

    options: Sequence[str] = ()
    machine: Machine | None = None
    store: Store | None = None

    def run(self, job: Path, run: Path, settings: Sequence[str], taken: list[float], inline: bool) -> None:
        """Run the job of a folder; afterwards the run is in the folder `run`."""
        words = ["--set", *settings, "--", *self.options]
        if self.machine is None or self.store is None:
            with seconds(taken):
                run_command("run", job, "--out", run, *words, inline=inline)
            return
        self.store.put(job.parent, "job")
        place = f"s3://{BUCKET}"
        command = self.machine.command(["run", f"{place}/job/{job.name}", "--out", f"{place}/run", *words])
        with seconds(taken):
            environment = {**os.environ, **self.store.environment}
            subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        self.store.get("run", run)


@contextmanager
def here(*options: str) -> Iterator[Site]:
    yield Site(options)


@contextmanager
def by(engine: AbstractContextManager[tuple[str, ...]]) -> Iterator[Site]:
    with engine as options:
        yield Site(options)


@contextmanager
def by_flink(task_managers: int, slots: int, form: str) -> Iterator[Site]:
    with flink(task_managers, slots) as engine:
        yield Site(engine.options(form))


@contextmanager
def on_an_island(pool: bool) -> Iterator[Site]:
    with island() as (machine, store):
        yield Site(POOL_OPTIONS if pool else (), machine, store)


@contextmanager
def by_flink_on_two_machines() -> Iterator[Site]:
    with flink_on_two_machines() as cluster:
        yield Site(cluster.options(), cluster.machines[0], cluster.store)


WAYS: dict[str, tuple[Callable[[], AbstractContextManager[Site]], Sequence[str]]] = {
    "in_process": (here, ()),
    "beam_in_process": (lambda: here("--runner=DirectRunner"), ()),
    "threads_4": (lambda: here(*THREADS), ()),
    "processes_2": (here, ("workers.processes=2",)),
    "job_service": (lambda: by(job_service()), ()),
    "pool_2": (lambda: by(worker_pool()), ("workers.processes=2",)),
    "flink_1x2": (lambda: by_flink(1, 2, "pool"), ()),
    "flink_2x2": (lambda: by_flink(2, 2, "process"), ()),
    "spark_2": (lambda: by(spark(2)), ()),
    "s3": (lambda: on_an_island(pool=False), ()),
    "s3_island_2": (lambda: on_an_island(pool=True), ("workers.processes=2",)),
    "s3_flink_2_machines": (by_flink_on_two_machines, ()),
}
"""Way → context that starts its engine, and settings of the job."""


def main() -> None:
    numbers = {"threads": "runs with four threads; 1 if absent"}
    options = arguments(
        "engines_equal", __doc__ or "", needs_data=False, numbers=numbers, choices={"only": ["all", *WAYS]}
    )
    ways = (
        list(WAYS)[:2]
        if options.smoke
        else list(WAYS)
        if options.only == "all"
        else ["in_process", options.only]
    )
    rounds = dict.fromkeys(ways, 1) | {"threads_4": int(options.threads or 1)}
    result: dict[str, float | int | str] = {"runs": 0, "mismatches": 0, "runs_threads_4": rounds["threads_4"]}

    with tempfile.TemporaryDirectory() as folder:
        sample = Path(folder) / "sample"
        sample.mkdir()
        if options.smoke:
            write_small_job(sample)
        job, expected = copy_to(sample), dict[str, str]()
        text, _, _ = job.read_text(encoding="utf-8").partition("[propagate]")
        if not options.smoke:
            shutil.copytree(small_encoder(), sample / "encoder")
            text = text.replace("[index]", '[index]\nencoder = "encoder"')

        job.write_text(text, encoding="utf-8")
        for way in ways:
            start, settings = WAYS[way]
            taken: list[float] = []
            settings = (*(SETTINGS if not options.smoke else SETTINGS[:1]), *settings)

            for n in range(rounds[way]):
                run = Path(folder) / f"{way}-{n}"
                with start() as site:
                    site.run(job, run, settings, taken, inline=options.smoke)
                files = digests(run)
                expected = expected or files
                different = [name for name in {*expected, *files} if expected.get(name) != files.get(name)]
                say(f"{way}: {taken[-1]:.0f} s, {len(expected)} files, {len(different)} of them differ")
                result["runs"] = int(result["runs"]) + 1
                result["mismatches"] = int(result["mismatches"]) + len(different)
                shutil.rmtree(run)

            result["files"] = len(expected)
            result[f"seconds_{way}"] = statistics.median(taken)

    finish("engines_equal", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
