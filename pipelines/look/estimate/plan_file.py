"""A plan: the estimate of a run's cost, as it is printed, and kept in the run folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.pipelines.errors import BAD_DATA, JobError, counted

PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """Estimated cost of a run. Seconds are processor seconds of one core; hours are by the clock, on
    `workers` cores."""

    counts: dict[str, int]
    """pages, documents, passages, shards, questions, hits, candidates, layer_tokens, and counts of further
    steps."""
    seconds: dict[str, float]
    """Step → all workers' processor seconds."""
    hours: dict[str, float]
    stage_seconds: dict[str, dict[str, float]]
    """Step → stage → all workers' processor seconds, for steps whose time is all in stages."""
    bytes: dict[str, int]
    """Folder → its size in bytes."""
    workers: int
    worker_bytes: int
    """Peak memory of a worker."""
    machine: str
    """Machine on which the rates were measured."""
    drawn: int
    """Pages of the sample that the steps ran on."""
    assumptions: list[str]
    dollars: float | None = None

    def lines(self) -> Iterator[str]:
        """Lines for people."""
        for name, count in self.counts.items():
            yield f"{name.replace('_', ' × ') if name == 'layer_tokens' else name:<16}{count:>18,}"
        yield ""
        yield f"{'step':<16}{'processor':>14}{'by the clock':>14}"

        for step, seconds in self.seconds.items():
            yield f"{step:<16}{_time(seconds):>14}{_time(3600 * self.hours[step]):>14}"
            stages = self.stage_seconds.get(step, {})
            yield from (f"  {stage:<14}{_time(taken):>14}" for stage, taken in stages.items())

        yield (
            f"{'all':<16}{_time(sum(self.seconds.values())):>14}{_time(3600 * sum(self.hours.values())):>14}"
        )
        yield ""
        for folder, size in self.bytes.items():
            yield f"{folder + '/':<16}{size / 1e6:>15,.1f} MB"
        yield f"{'all':<16}{sum(self.bytes.values()) / 1e6:>15,.1f} MB"
        yield ""
        memory = f"{self.worker_bytes / 1e9:,.1f} GB of memory"
        yield f"{counted(self.workers, 'worker')}, {memory} each, as fast as {self.machine}"
        if self.dollars is not None:
            yield f"price: {self.dollars:,.2f} for {sum(self.hours.values()):,.3f} hours"

        yield f"drawn: {self.drawn} pages. Assumed:"
        yield from (f"- {clause}" for clause in self.assumptions)

    def save(self, run: Path) -> None:
        """Write it into the run folder, where it can be compared with the run's actual cost."""
        run.mkdir(parents=True, exist_ok=True)
        write_text(run / PLAN, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, run: Path) -> RunEstimate | None:
        """The plan of a run; None if it has none. Raises JobError (65) if `save` did not write the file."""
        try:
            return read_json(run / PLAN, cls)
        except FileNotFoundError:
            return None
        except WrongShape as e:
            raise JobError(f"{e}; `answermill plan JOB.toml --out {run}` writes it again", BAD_DATA) from e


def _time(seconds: float) -> str:
    """Time as text: '24.0 s', '3.5 min' or '12.4 h'."""
    if seconds < 120:
        return f"{seconds:,.1f} s"
    return f"{seconds / 60:,.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
