"""Where a pipeline runs: in this process by default, or wherever Beam's own options say.

The in-process runner is `LocalRunner`, an FnApiRunner. The name DirectRunner means it too: Beam's own would try to download
a Go binary first, and which engine runs would depend on the pipeline.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, PortableOptions
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms.environments import (
    EmbeddedPythonGrpcEnvironment,
    Environment,
    ExternalEnvironment,
    python_sdk_capabilities,
)

from answermill.pipelines.engine.beam_options import IN_PROCESS, ParsedOnce, check_options
from answermill.pipelines.engine.beam_workers import LocalRunner, WorkerProcesses
from answermill.pipelines.engine.unit_dofn import UnitDoFn, Units
from answermill.pipelines.engine.worker_errors import EngineEnded, restored_errors
from answermill.pipelines.errors import IO, USAGE, JobError
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

NEVER_MS = 10**10
"""Four months, after which a thread sends what it has to send by the clock. Beam's second cuts elements in two, or loses some,
since it does not wait for the end of the element that is being written; by size, it does."""


@contextmanager
def pipeline(beam_options: Sequence[str], processes: int = 1, units: int = 1) -> Iterator[beam.Pipeline]:
    """A Beam pipeline that runs when the block ends. Arguments and errors are those of `new_pipeline`.

    An error of a worker process is raised as that error, as it is where the work is done in this process. If the command is to
    stop, the units that are done in its own processes end first (Stopped); a job server is asked to cancel the job, which
    Flink's answers and does not do.
    """
    root = new_pipeline(beam_options, processes, units)
    is_here = isinstance(root.runner, LocalRunner) and root.runner.has_own_workers
    try:
        with at_work() if is_here else nullcontext(), restored_errors(), root:
            yield root
    except KeyboardInterrupt:
        running = getattr(root, "result", None)
        if running is not None:
            with suppress(grpc.RpcError):  # the job server is gone
                running.cancel()
        raise


def new_pipeline(beam_options: Sequence[str], processes: int = 1, units: int = 1) -> beam.Pipeline:
    """A Beam pipeline that has not run yet.

    `beam_options` are Beam's own, e.g. --runner=FlinkRunner; raises JobError (2) for one that Beam does not know.
    `processes` is for the default runner: the number of worker processes, 0 for one per core, never more than there are
    `units` of work; with 1 the work is done in this process. With --environment_type=EXTERNAL they are workers of the pool at
    --environment_config.
    """
    check_options(beam_options)
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--runner", default="DirectRunner")
    known, rest = parser.parse_known_args(list(beam_options))
    if known.runner not in IN_PROCESS:
        return beam.Pipeline(options=PipelineOptions(list(beam_options)))
    if PipelineOptions(rest).view_as(DirectOptions).direct_running_mode == "multi_threading":
        rest = [*rest, "--direct_running_mode=in_memory"]  # or Beam takes its own environment of threads
        threads = EmbeddedPythonGrpcEnvironment(None, NEVER_MS, python_sdk_capabilities())
        return beam.Pipeline(runner=LocalRunner(default_environment=threads), options=ParsedOnce(rest))
    portable = PipelineOptions(rest).view_as(PortableOptions)
    processes = min(processes or os.cpu_count() or 1, units)
    if portable.environment_type not in (None, "EXTERNAL"):
        raise JobError("without --runner the only --environment_type is EXTERNAL: workers of a pool", USAGE)
    if portable.environment_type:
        environment: Environment = ExternalEnvironment.from_options(portable)
    elif processes > 1:
        environment = WorkerProcesses()
    else:
        return beam.Pipeline(runner=LocalRunner(), options=ParsedOnce(rest))
    runner = LocalRunner(default_environment=environment)
    return beam.Pipeline(runner=runner, options=ParsedOnce([*rest, f"--direct_num_workers={processes}"]))


def configure_logging() -> None:
    """Log to stderr, since stdout is for results. Removes the handler that importing Beam leaves at the root."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(log_lines.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("runners.common", "runners.worker", "runners.portability.fn_api_runner", "utils.subprocess_server"):
        logging.getLogger(f"apache_beam.{name}").setLevel(logging.CRITICAL)  # they log what is then raised, or that all is well
    for logger in (logging.getLogger(), logging.getLogger("apache_beam.options.pipeline_options")):
        logger.addFilter(_is_news)
    vars(sdk_worker)["print"] = lambda *_values, **_options: None  # its only call prints a traceback of what is then raised


def _is_news(record: logging.LogRecord) -> bool:
    """False for a job server's errors, which are raised as well, for each second until it answers, and for guesses at options
    before it has said its own."""
    is_error = record.funcName == "read_messages" and record.levelno >= logging.ERROR
    return not is_error and not record.getMessage().startswith(("Unparseable argument", "Waiting for grpc channel"))


def carry(
    step: Step[AnyCounts],
    units: int,
    work: UnitDoFn,
    beam_options: Sequence[str],
    processes: int,
    sizes: Sequence[int] = (),
    what: str = "units",
    reject: Callable[[Failure], Report[AnyCounts]] | None = None,
) -> Outcome[AnyCounts]:
    """Give each of the step's `units` that has no report to `work`, by its number, (n,); show progress meanwhile.

    `sizes`: how many items, which people call `what`, are in each unit by its number; a `Meter` counts them within a unit.
    Returns what all units have reported. Raises as the work does, and as `Step.reported`, whose argument `reject` is.
    """
    sizes = sizes or [1] * units
    pending = units - step.reports.count()
    if pending:
        meters = Meters(step.work, sizes)
        with (
            progress(step.name, sum(sizes), meters.done, what=what, units=units),
            naming_what_is_missing(step, units),
            pipeline(beam_options, processes, pending) as root,
        ):
            define(root, step, units, work)
    return step.reported(units, reject)


def define(root: beam.Pipeline, step: Step[Any], units: int, work: UnitDoFn) -> None:
    """The pipeline of `carry`."""
    _ = root | "Units" >> Units(units, but=step.reports) | "Work" >> beam.ParDo(work)


@contextmanager
def naming_what_is_missing(step: Step[Any], units: int) -> Iterator[None]:
    """If an engine ends the job in the block, its error says which of the step's `units` are not done."""
    try:
        yield
    except JobError as e:
        if e.code == IO:  # such as a worker's that finds the work folder gone
            step.refuse_other_job()
        if not isinstance(e, EngineEnded):
            raise
        missing = sorted({*range(units)} - step.reports.numbers())
        raise EngineEnded(f"{named(step.name, missing)} not done: {e}" if missing else str(e), e.code) from None
