"""The same bytes whatever carries the work: the sample from its pages to answers, by each engine of this machine.

The plan is short and the dense encoder small, since most of the time goes into starting workers. `runs`: ways that were tried,
the first of them in this process. `mismatches`: files (parts, indexes, answers) of the others that have other bytes than the
first's, or are missing. `seconds_...`: the whole command. With --smoke two ways, and few passages.
"""

from __future__ import annotations

import json
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
    options = arguments("engines_equal", __doc__ or "", needs_data=False)
    ways = list(WAYS)[:2] if options.smoke else list(WAYS)
    result: dict[str, float | int | str] = {"runs": 0, "mismatches": 0}
    with tempfile.TemporaryDirectory() as folder:
        if options.smoke:
            write_small_job(Path(folder))
        job, first = copy_to(Path(folder)), Path(folder) / ways[0]
        text, _, _ = job.read_text(encoding="utf-8").partition("[propagate]")
        if not options.smoke:
            text = text.replace("[index]", f"[index]\nencoder = {json.dumps(small_encoder())}")
        job.write_text(text, encoding="utf-8")
        for way in ways:
            start, settings = WAYS[way]
            taken: list[float] = []
            settings = (*(SETTINGS if not options.smoke else SETTINGS[:1]), *settings)
            with start() as beam, seconds(taken):
                run_command("run", job, "--out", Path(folder) / way, "--set", *settings, "--", *beam, inline=options.smoke)
            other, wanted = digests(Path(folder) / way), digests(first)
            different = [name for name in {*wanted, *other} if wanted.get(name) != other.get(name)]
            say(f"{way}: {taken[0]:.0f} s, {len(wanted)} files, {len(different)} of them differ")
            result["runs"] = int(result["runs"]) + 1
            result["mismatches"] = int(result["mismatches"]) + len(different)
            result["files"] = len(wanted)
            result[f"seconds_{way}"] = taken[0]
    finish("engines_equal", result, options.save)


if __name__ == "__main__":
    main()
