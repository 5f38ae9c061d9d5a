"""A run's figures as a file of Prometheus' text format, which node_exporter's textfile collector reads.

The file is written whole under another name and renamed: when the command begins, every half minute, when a step ends, and at
the end, with the exit code. Each line has the run as a label, so that the files of several jobs can lie in one folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from answermill.files.atomic_files import write_text
from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.runs.counts import flat
from answermill.pipelines.runs.manifests.run_folder import committed
from answermill.pipelines.runs.watch.progress import State

EVERY_S = 30.0
MEANINGS = {
    "answermill_begin_time_seconds": "When the command began, in seconds since 1970.",
    "answermill_end_time_seconds": "When the command ended; not there while it works.",
    "answermill_exit_code": "The exit code of the command; not there while it works.",
    "answermill_step_seconds": "Seconds that a step took in this command; next to nothing if it was complete before.",
    "answermill_items_done": "What is done of the step at work.",
    "answermill_items": "All that the step at work has to do.",
    "answermill_rows": "Rows of a committed folder.",
    "answermill_count": "A count of a complete step, as in its manifest.",
    "answermill_rejects": "Records that a complete step refused, by reason.",
}
"""Metric → its help. All are gauges: a run begins anew."""
Sample = tuple[str, dict[str, str], float]


class MetricsFile:
    """The figures of a command that works on `run`, in `file`."""

    def __init__(self, file: Path, run: Path, clock: Callable[[], float] = time.time) -> None:
        """Raises JobError (66) if the file's folder is not there."""
        if not file.parent.is_dir():
            raise JobError(f"--metrics {file}: no folder {file.parent}; make it, or name another file", INPUT_MISSING)
        self._file, self._run, self._clock = file, run, clock
        self._began, self._next = clock(), 0.0
        self._seconds: dict[str, float] = {}
        self._state: State | None = None
        self._committed: list[Sample] = []

    def end_step(self, step: str, seconds: float) -> None:
        """A step is complete, now or from before."""
        self._seconds[step], self._state = seconds, None
        self._committed = list(self._of_manifests())
        self.write()

    def hear(self, state: State) -> None:
        """The step is so far; written at most every half minute."""
        self._state = state
        if self._clock() >= self._next:
            with suppress(OSError):
                self.write()

    def write(self, code: int | None = None) -> None:
        """Write the file; `code`: the command ends with it. Raises OSError."""
        self._next = self._clock() + EVERY_S
        write_text(self._file, "".join(self._lines(list(self._samples(code)))))

    def _samples(self, code: int | None) -> Iterator[Sample]:
        yield "answermill_begin_time_seconds", {}, self._began
        if code is not None:
            yield "answermill_end_time_seconds", {}, self._clock()
            yield "answermill_exit_code", {}, code
        for step, seconds in self._seconds.items():
            yield "answermill_step_seconds", {"step": step}, seconds
        if self._state is not None and code is None:
            labels = {"step": self._state.step, "item": self._state.what}
            yield "answermill_items_done", labels, self._state.view.done.items
            if self._state.items is not None:
                yield "answermill_items", labels, self._state.items
        yield from self._committed

    def _of_manifests(self) -> Iterator[Sample]:
        steps = set[str]()
        for folder, manifest in committed(self._run).items():
            yield "answermill_rows", {"step": manifest.step, "folder": folder}, manifest.rows
            if manifest.step in steps:
                continue  # each of its manifests has all of its counts
            steps.add(manifest.step)
            for name, n in flat(manifest.counts):
                kind, _, reason = name.partition(".")
                metric, label = ("rejects", {"reason": reason}) if kind == "rejected" else ("count", {"count": name})
                yield f"answermill_{metric}", {"step": manifest.step, **label}, n

    def _lines(self, samples: list[Sample]) -> Iterator[str]:
        for metric, meaning in MEANINGS.items():
            of_metric = [(labels, value) for name, labels, value in samples if name == metric]
            if of_metric:
                yield f"# HELP {metric} {meaning}\n# TYPE {metric} gauge\n"
            for labels, value in of_metric:
                pairs = [f'{name}="{_escaped(text)}"' for name, text in {"run": str(self._run), **labels}.items()]
                yield f"{metric}{{{','.join(pairs)}}} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
