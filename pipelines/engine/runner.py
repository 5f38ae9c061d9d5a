"""Distribution of a step's units: to this machine by default, or to whatever Beam's own options say."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from answermill.pipelines.engine.local_engine import local_engine
from answermill.pipelines.engine.machines.machine import leading
from answermill.pipelines.engine.protocol import Engine, Units
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import IO, EngineEnded, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.failures import Failure
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.messages import named
from answermill.pipelines.runs.spec import AnyCounts
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch import log_lines
from answermill.pipelines.runs.watch.meter import Meters
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.runs.watch.stopping import at_work


@contextmanager
def open_engine(
    beam_options: Sequence[str], processes: int, units: int, work: Path, block: str = ""
) -> Iterator[Engine]:
    """An engine for the block, at whose end all its work is done.

    Without `beam_options`, the work is done in this process, or in `processes` workers, 0 for one per core,
    never more than there are `units`; `work` is the step's work folder. If several machines share the run,
    those that follow do their share of it, and know it by the name `block`: the step, or `STEP/PASS`; '' for
    work that is no step's. If the command is to stop, the units at work end first (Stopped).
    """
    if beam_options:
        with _quiet_import():
            from answermill.pipelines.engine.beam_engine import beam_engine
        with beam_engine(beam_options, processes, units) as by_beam:
            yield by_beam
        return
    if (machine := leading()) is not None:
        with at_work(), machine.opened(block, work) as of_all:
            yield of_all
        return
    with at_work(), local_engine(min(processes or os.cpu_count() or 1, units), work) as local:
        yield local


def refuse_wrong_options(beam_options: Sequence[str]) -> None:
    """Raise JobError (2) if an option for Beam is wrong, before any work."""
    if beam_options:
        with _quiet_import():
            from answermill.pipelines.engine.beam_engine import new_pipeline, remove_folder
        remove_folder(new_pipeline(beam_options))


@contextmanager
def _quiet_import() -> Iterator[None]:
    """Beam warns of packages that only other uses of it need; in the block it does not."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(level)


def configure_logging() -> None:
    """Log to stderr, since stdout is for results."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(log_lines.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def carry(
    step: Step[AnyCounts],
    units: int,
    work: UnitWork,
    beam_options: Sequence[str],
    processes: int,
    *,
    sizes: Sequence[int] = (),
    what: str = "units",
    reject: Callable[[Failure], Report[AnyCounts]] | None = None,
) -> Outcome[AnyCounts]:
    """Give each of the step's `units` that has no report to `work`, by its number, (n,); show progress
    meanwhile.

    `sizes`: number of items in each unit, by its number; messages call the items `what`, and a `Meter` counts
    them within a unit. Returns what all units have reported. Raises as the work does, and as
    `Commit.reported`, whose argument `reject` is.
    """
    sizes = sizes or [1] * units
    pending = units - step.reports.count()
    if pending:
        meters = Meters(step.work, sizes)
        with (
            progress(step.name, sum(sizes), meters.done, what=what, units=units),
            naming_what_is_missing(step, units),
            open_engine(beam_options, processes, pending, step.work, step.name) as engine,
        ):
            define(engine, step, units, work)
    return Commit(step).reported(units, reject)


def define(engine: Engine, step: Step[Any], units: int, work: UnitWork) -> None:
    """The work of `carry`."""
    engine.each("Work", Units.first(units, but=step.reports), work)


@contextmanager
def naming_what_is_missing(step: Step[Any], units: int) -> Iterator[None]:
    """Name, in the error of an engine that ends the job in the block, the step's `units` that are not
    done."""
    try:
        yield
    except JobError as e:
        if e.code == IO:  # such as a worker's that finds the work folder gone
            Commit(step).refuse_other_job()
        if not isinstance(e, EngineEnded):
            raise
        missing = sorted({*range(units)} - step.reports.numbers())
        raise EngineEnded(
            f"{named(step.name, missing)} not done: {e}" if missing else str(e), e.code
        ) from None
