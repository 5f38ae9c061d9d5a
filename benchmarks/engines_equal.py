"""The same bytes whatever carries the work: the sample from its pages to answers, by each engine of this machine.

The plan is short and the dense encoder small, since most of the time goes into starting workers. `runs`: how often the job was
run, first in this process, then by each other way once, and with four threads `runs_threads_4` times (--threads). `mismatches`:
files (parts, indexes, answers) of the others that have other bytes than the first's, or are missing. `seconds_...`: the whole
command, the median of its runs. With --smoke two ways, and few passages.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from benchmarks.engines import digests, flink, job_service, worker_pool
from benchmarks.harness import arguments, finish, run_command, say, seconds
from benchmarks.sample import write_small_job
from benchmarks.smoke_data import small_encoder
from pipelines.sample import copy_to

SETTINGS = ("retrieve.block=30", "rerank.stages=[{reranker='cosinet', keep=25}, {reranker='complete'}]")
"""Three blocks of questions."""
THREADS = ("--direct_running_mode=multi_threading", "--direct_num_workers=4")
Options = AbstractContextManager[tuple[str, ...]]


@contextmanager
def by_flink(task_managers: int, slots: int, form: str) -> Iterator[tuple[str, ...]]:
    with flink(task_managers, slots) as engine:
        yield engine.options(form)


WAYS: dict[str, tuple[Callable[[], Options], Sequence[str]]] = {
    "in_process": (lambda: nullcontext(()), ()),
    "threads_4": (lambda: nullcontext(THREADS), ()),
    "processes_2": (lambda: nullcontext(()), ("workers.processes=2",)),
    "job_service": (job_service, ()),
    "pool_2": (worker_pool, ("workers.processes=2",)),
    "flink_1x2": (lambda: by_flink(1, 2, "pool"), ()),
    "flink_2x2": (lambda: by_flink(2, 2, "process"), ()),
}
"""Way → what starts its engine and gives Beam's options, and settings of the job."""


def main() -> None:
    numbers = {"threads": "runs with four threads; 1 if absent"}
    options = arguments("engines_equal", __doc__ or "", needs_data=False, numbers=numbers)
    ways = list(WAYS)[:2] if options.smoke else list(WAYS)
    rounds = dict.fromkeys(ways, 1) | {"threads_4": int(options.threads or 1)}
    result: dict[str, float | int | str] = {"runs": 0, "mismatches": 0, "runs_threads_4": rounds["threads_4"]}
    with tempfile.TemporaryDirectory() as folder:
        if options.smoke:
            write_small_job(Path(folder))
        job, wanted = copy_to(Path(folder)), dict[str, str]()
        text, _, _ = job.read_text(encoding="utf-8").partition("[propagate]")
        if not options.smoke:
            text = text.replace("[index]", f"[index]\nencoder = {json.dumps(small_encoder())}")
        job.write_text(text, encoding="utf-8")
        for way in ways:
            start, settings = WAYS[way]
            taken: list[float] = []
            settings = (*(SETTINGS if not options.smoke else SETTINGS[:1]), *settings)
            for n in range(rounds[way]):
                run = Path(folder) / f"{way}-{n}"
                with start() as beam, seconds(taken):
                    run_command("run", job, "--out", run, "--set", *settings, "--", *beam, inline=options.smoke)
                files = digests(run)
                wanted = wanted or files
                different = [name for name in {*wanted, *files} if wanted.get(name) != files.get(name)]
                say(f"{way}: {taken[-1]:.0f} s, {len(wanted)} files, {len(different)} of them differ")
                result["runs"] = int(result["runs"]) + 1
                result["mismatches"] = int(result["mismatches"]) + len(different)
                shutil.rmtree(run)
            result["files"] = len(wanted)
            result[f"seconds_{way}"] = statistics.median(taken)
    finish("engines_equal", result, options.save)


if __name__ == "__main__":
    main()
