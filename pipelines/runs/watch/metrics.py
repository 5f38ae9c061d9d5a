"""Figures of a run as a file of Prometheus' text format, which node_exporter's textfile collector reads.

The file is written whole under another name and renamed: when the command begins, every half minute, when a
step ends, and at the end, with the exit code. Each line has the job file as the label `job`, the same for
every run of the job, so that runs can be compared and the files of several jobs can be in one folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from answermill.files.atomic_files import write_text
from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.runs.counts import flat
from answermill.pipelines.runs.manifests.run_folder import committed
from answermill.pipelines.runs.watch.progress import Progress

EVERY_S = 30.0
METRICS = {
    "run_info": (("run",), "1; the label is the folder of the run that the command works on."),
    "begin_time_seconds": ((), "When the command began, in seconds since 1970."),
    "end_time_seconds": ((), "When the command ended; not there while it works."),
    "exit_code": ((), "The exit code of the command; not there while it works."),
    "step_seconds": (
        ("step",),
        "Seconds by the clock that a step took in this command; next to nothing if it was complete before.",
    ),
    "items_done": (("step", "item"), "What is done of the step at work."),
    "items": (("step", "item"), "All that the step at work has to do."),
    "rows": (("step", "folder"), "Rows of a committed folder."),
    "count": (("step", "count"), "A count of a complete step, as in its manifest."),
    "rejects": (("step", "reason"), "Records that a complete step refused, by reason."),
    "stage": (("stage",), "1 for the stage of a night at which it is, or ended; 0 for the others."),
    "gate": (("figure",), "A figure of a night's gate, from 0 to 1: the new run against the last good one."),
}
"""Metric → its labels and help. All are gauges: a run begins anew."""


class MetricsFile:
    """The figures of a command that works on the job's `run`, in `file`."""

    def __init__(self, file: Path, job: Path, run: Path, clock: Callable[[], float] = time.time) -> None:
        """Raises JobError (66) if the file's folder does not exist."""
        if not file.parent.is_dir():
            raise JobError(
                f"--metrics {file}: no folder {file.parent}; make it, or name another file", INPUT_MISSING
            )
        self._file, self._job, self._run, self._clock, self._next = file, job, run, clock, 0.0

        self._registry = CollectorRegistry()
        self._gauges = {
            name: Gauge(f"answermill_{name}", meaning, ["job", *labels], registry=self._registry)
            for name, (labels, meaning) in METRICS.items()
        }
        self._set("run_info", 1, str(run))
        self._set("begin_time_seconds", clock())

    def end_step(self, step: str, seconds: float) -> None:
        """Record that a step is complete, now or from before."""
        self._clear("items_done", "items", "rows", "count", "rejects")
        self._set("step_seconds", seconds, step)

        for folder, manifest in committed(self._run).items():
            self._set("rows", manifest.rows, manifest.step, folder)
            for name, n in flat(manifest.counts):  # the same in each manifest of a step
                kind, _, reason = name.partition(".")
                metric, label = ("rejects", reason) if kind == "rejected" else ("count", name)
                self._set(metric, n, manifest.step, label)
        self.write()

    def update(self, progress: Progress) -> None:
        """Record the step's progress; written at most every half minute."""
        self._clear("items_done", "items")
        self._set("items_done", progress.items_done, progress.step, progress.item)
        if progress.items is not None:
            self._set("items", progress.items, progress.step, progress.item)

        if self._clock() >= self._next:
            with suppress(OSError):
                self.write()

    def enter(self, stage: str, stages: Sequence[str]) -> None:
        """Record the stage of a night that begins now, of all its `stages`."""
        for name in stages:
            self._set("stage", float(name == stage), name)
        self.write()

    def add_figures(self, figures: Mapping[str, float]) -> None:
        """Record figures of a night's gate."""
        for name, value in figures.items():
            self._set("gate", value, name)
        self.write()

    def end(self, code: int) -> None:
        """Record that the command ends with this exit code. Raises OSError."""
        self._clear("items_done", "items")
        self._set("end_time_seconds", self._clock())
        self._set("exit_code", code)
        self.write()

    def write(self) -> None:
        """Write the file. Raises OSError."""
        self._next = self._clock() + EVERY_S
        write_text(self._file, generate_latest(self._registry).decode())

    def _set(self, metric: str, value: float, *labels: str) -> None:
        self._gauges[metric].labels(str(self._job), *labels).set(value)

    def _clear(self, *metrics: str) -> None:
        for metric in metrics:
            self._gauges[metric].clear()
