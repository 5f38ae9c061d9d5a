"""Units that are done by models, and the threads of the models."""

from __future__ import annotations

import gc
import os
import platform
from pathlib import Path

from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.counts import Counts
from answermill.pipelines.steps.models import WORKER_THREADS, command_threads, use_threads

SELDOM = (50_000, 20, 50)
"""Thresholds of Python's collector: new objects, and younger collections before an older one."""


class ModelWork(UnitWork):
    """Does units by models: on `command_threads` in the command's own process, on WORKER_THREADS in any
    other."""

    def __init__(self, step: str, work: Path, counts: type[Counts] = Counts) -> None:
        super().__init__(step, work, counts)
        self._command = _this_process()  # the command creates the work and sends it to workers

    def prepare(self) -> None:
        collect_seldom()
        use_threads(command_threads() if _this_process() == self._command else WORKER_THREADS)


def collect_seldom() -> None:
    """Let Python's collector run as seldom as models need it: a question's candidates live as long as its
    unit, so that it looks at them all each time and finds nothing, which costs the cheap stages much of their
    time."""
    gc.set_threshold(*SELDOM)


def _this_process() -> tuple[str, int]:
    """Machine and number of this process: in containers, processes elsewhere may have the same number."""
    return platform.node(), os.getpid()
