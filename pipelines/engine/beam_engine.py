"""The engine of clusters: it makes one Apache Beam pipeline of all the work of a step, and runs it when the
block ends.

It runs wherever Beam's own options say: by a job server (Flink, Spark, Dataflow), by workers of a pool that
was started elsewhere, or in this process. The name DirectRunner means Beam's FnApiRunner: Beam's own would
try to download a Go binary first, and which engine runs would depend on the pipeline. This module is imported
when a command has such options.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.metrics.metric import Metrics as BeamMetrics
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, PortableOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms.combiners import Count
from apache_beam.transforms.environments import (
    EmbeddedPythonGrpcEnvironment,
    Environment,
    ExternalEnvironment,
    python_sdk_capabilities,
)

from answermill.pipelines.engine.beam_errors import restored_errors
from answermill.pipelines.engine.beam_options import IN_PROCESS, check_options
from answermill.pipelines.engine.protocol import GroupFunction, Pairs, Units, as_work
from answermill.pipelines.engine.unit_work import UnitWork, Work
from answermill.pipelines.errors import USAGE, JobError
from answermill.pipelines.runs.watch.stopping import at_work

NEVER_MS = 10**10
"""Four months: the interval at which a thread sends its output by the clock. Beam's interval, a second, cuts
elements in two or loses some, since it does not wait for the end of the element that is being written.
Sending by size does wait."""


class ListenOptions(PipelineOptions):
    """The option `--listen_address`, beside Beam's own."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--listen_address", default="127.0.0.1", help="Address on which a pool finds the command."
        )


class BeamEngine:
    """Adds the work that it is given to the pipeline `root`."""

    def __init__(self, root: beam.Pipeline) -> None:
        self._root = root

    def each(self, label: str, units: Units, work: UnitWork, after: Pairs = None) -> Pairs:
        start = None if after is None else after | f"{label}: when all is done" >> Count.Globally()
        return self._numbers(label, units, start) | label >> beam.ParDo(_DoWork(work))

    def group(
        self, label: str, pairs: Sequence[Pairs], work: UnitWork | GroupFunction, every: Units | None = None
    ) -> Pairs:
        collections = list(pairs)
        # Each value is the only one of a tuple, so that a unit can be a key without any.
        if every is not None:
            collections = [
                collection | f"{label}: values {n}" >> beam.MapTuple(_as_only_one)
                for n, collection in enumerate(collections)
            ]
            collections.append(self._numbers(label, every) | f"{label}: as keys" >> beam.Map(_without_value))
        all_pairs = collections | f"{label}: all pairs" >> beam.Flatten()
        groups = all_pairs | f"{label}: by key" >> beam.GroupByKey()
        if every is not None:
            groups = groups | f"{label}: values" >> beam.MapTuple(_values)
        return groups | label >> beam.ParDo(_DoWork(as_work(label, work)))

    def _numbers(self, label: str, units: Units, begin: Pairs = None) -> Pairs:
        """(n,) for each unit, spread over the workers; `begin`: one element, which is emitted when they may
        begin."""
        begin = self._root | f"{label}: begin" >> beam.Impulse() if begin is None else begin
        numbers = begin | f"{label}: units" >> beam.FlatMap(_pending, units)
        return numbers | f"{label}: over the workers" >> beam.Reshuffle()


def _pending(_begin: object, units: Units) -> Iterator[tuple[int]]:
    return ((number,) for number in units.pending())


def _as_only_one(key: Any, value: Any) -> tuple[Any, tuple[Any, ...]]:
    return key, (value,)


def _without_value(unit: tuple[int]) -> tuple[int, tuple[Any, ...]]:
    return unit[0], ()


def _values(key: Any, members: Iterable[tuple[Any, ...]]) -> tuple[Any, list[Any]]:
    return key, [value for member in members for value in member]


class _DoWork(beam.DoFn):
    """Work, as a function of Beam's; its metrics are in the namespace answermill.STEP."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def default_type_hints(self) -> None:
        """Return None, so that Beam takes any element: `process` is typed for no work in particular."""

    def setup(self) -> None:
        self._work.setup()

    def process(self, element: Any) -> Iterable[Any]:
        return self._work.process(element, self)

    def teardown(self) -> None:
        self._work.teardown()

    def count(self, name: str, number: int) -> None:
        BeamMetrics.counter(f"answermill.{self._work.name}", name).inc(number)

    def measure(self, name: str, value: int) -> None:
        BeamMetrics.distribution(f"answermill.{self._work.name}", name).update(value)


@contextmanager
def beam_engine(beam_options: Sequence[str], processes: int, units: int) -> Iterator[BeamEngine]:
    """An engine whose pipeline runs when the block ends. Arguments and errors are those of `new_pipeline`.

    A worker's error is raised as that error. If the command is to stop, the units at work in its own process
    end first (Stopped); a job server is asked to cancel the job, which Flink's confirms and does not do.
    """
    root = new_pipeline(beam_options, processes, units)
    is_in_process = isinstance(root.runner, FnApiRunner)
    # The only other environment is EXTERNAL, workers of a pool.
    has_own_workers = is_in_process and not root.options.view_as(PortableOptions).environment_type
    address = root.options.view_as(ListenOptions).listen_address

    try:
        with (
            at_work() if has_own_workers else nullcontext(),
            restored_errors(),
            _listening_on(address) if is_in_process else nullcontext(),
            _quiet_connections(),
            root,
        ):
            yield BeamEngine(root)
    except KeyboardInterrupt:
        running = getattr(root, "result", None)
        if running is not None:
            with suppress(grpc.RpcError):  # the job server is gone
                running.cancel()
        raise
    finally:
        remove_folder(root)


def remove_folder(root: beam.Pipeline) -> None:
    """Remove the temporary folder that Beam makes with a pipeline, and itself removes only after a run."""
    shutil.rmtree(root.local_tempdir, ignore_errors=True)


def new_pipeline(beam_options: Sequence[str], processes: int = 1, units: int = 1) -> beam.Pipeline:
    """A Beam pipeline that has not run yet.

    `beam_options` are Beam's own, e.g. --runner=FlinkRunner; raises JobError (2) for one that Beam does not
    know. With --environment_type=EXTERNAL alone `processes` workers of the pool at --environment_config do
    the work, 0 for one per core, never more than there are `units`.
    """
    check_options(beam_options)
    _quieten()
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--runner", default="DirectRunner")
    known, rest = parser.parse_known_args(list(beam_options))
    if known.runner not in IN_PROCESS:
        try:
            return beam.Pipeline(options=PipelineOptions(list(beam_options)))
        except ValueError as e:  # a runner that Beam does not know, or wrong options of one
            raise JobError(f"--runner={known.runner}: {e}", USAGE) from e

    environment: Environment | None = None
    portable = PipelineOptions(rest).view_as(PortableOptions)
    if portable.environment_type not in (None, "EXTERNAL"):
        raise JobError("without --runner the only --environment_type is EXTERNAL: workers of a pool", USAGE)

    if portable.environment_type:
        environment = ExternalEnvironment.from_options(portable)
        rest = [*rest, f"--direct_num_workers={min(processes or os.cpu_count() or 1, units)}"]
    elif PipelineOptions(rest).view_as(DirectOptions).direct_running_mode == "multi_threading":
        rest = [*rest, "--direct_running_mode=in_memory"]  # or Beam takes its own environment of threads
        environment = EmbeddedPythonGrpcEnvironment(None, NEVER_MS, python_sdk_capabilities())

    return beam.Pipeline(runner=FnApiRunner(default_environment=environment), options=PipelineOptions(rest))


@contextmanager
def _listening_on(address: str) -> Iterator[None]:
    """Let Beam's servers that are started in the block listen on `address`. Beam's own choice is all
    interfaces, without a password."""
    start = grpc.server

    def server(*arguments: Any, **options: Any) -> grpc.Server:
        started = start(*arguments, **options)
        bind = started.add_insecure_port
        vars(started)["add_insecure_port"] = lambda place: bind(f"{address}:{place.rpartition(':')[2]}")
        return started

    vars(grpc)["server"] = server
    try:
        yield
    finally:
        vars(grpc)["server"] = start


@contextmanager
def _quiet_connections() -> Iterator[None]:
    """Keep threads that read from a connection from printing when the other side ends: the thread that waits
    for them gets an error."""
    former = threading.excepthook

    def show(failure: threading.ExceptHookArgs) -> None:
        if not issubclass(failure.exc_type, grpc.RpcError):
            former(failure)

    threading.excepthook = show
    try:
        yield
    finally:
        threading.excepthook = former


def _quieten() -> None:
    """Let Beam neither log nor print what it also raises."""
    for name in (
        "runners.common",
        "runners.worker",
        "runners.portability.fn_api_runner",
        "utils.subprocess_server",
    ):
        logging.getLogger(f"apache_beam.{name}").setLevel(logging.CRITICAL)
    for logger in (logging.getLogger(), logging.getLogger("apache_beam.options.pipeline_options")):
        logger.addFilter(_is_news)
    # Its only call prints the traceback of an error that is raised as well.
    vars(sdk_worker)["print"] = lambda *_values, **_options: None


def _is_news(record: logging.LogRecord) -> bool:
    """False for a job server's errors, which are raised as well, for the message of each second until it
    answers, and for guesses at options before it has listed its own."""
    is_error = record.funcName == "read_messages" and record.levelno >= logging.ERROR
    return not is_error and not record.getMessage().startswith(
        ("Unparseable argument", "Waiting for grpc channel")
    )
