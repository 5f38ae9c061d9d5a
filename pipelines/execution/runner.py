"""Where a pipeline runs: in this process by default, or wherever Beam's own options say.

The in-process runner is FnApiRunner. The name DirectRunner means it too: Beam's own would try to download a Go binary
first, and which engine runs would depend on the pipeline.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo, FnApiRunner
from google.protobuf.struct_pb2 import Struct

from pipelines.errors import USAGE, JobError
from pipelines.execution.progress import progress
from pipelines.execution.step import Step

IN_PROCESS = ("DirectRunner", "FnApiRunner")


def pipeline(beam_options: Sequence[str], processes: int = 1, units: int = 1) -> beam.Pipeline:
    """A Beam pipeline to be used in a `with` block, which runs it.

    `beam_options` are Beam's own, e.g. --runner=FlinkRunner; raises JobError (2) for one that Beam does not know.
    `processes` is for the default runner: so many worker processes, 0 for one per core, never more than there are
    `units` of work; one alone works in this process.
    """
    _check(beam_options)
    given = argparse.ArgumentParser(add_help=False)
    given.add_argument("--runner", default="DirectRunner")
    known, rest = given.parse_known_args(list(beam_options))
    if known.runner not in IN_PROCESS:
        return beam.Pipeline(options=PipelineOptions(list(beam_options)))
    processes = min(processes or os.cpu_count() or 1, units)
    if processes > 1:
        rest += ["--direct_running_mode=multi_processing", f"--direct_num_workers={processes}"]
    return beam.Pipeline(runner=FnApiRunner(provision_info=_worker_settings()), options=PipelineOptions(rest))


def _worker_settings() -> ExtendedProvisionInfo:
    """What worker processes are told: to log errors only. They are told nothing else of the pipeline's options."""
    told = Struct()
    told.update({"default_sdk_harness_log_level": "ERROR"})
    return ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo(retrieval_token="unused", pipeline_options=told))


def _check(beam_options: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(_Tolerant(parser))  # type: ignore[arg-type]  # Beam has no type for what it takes
    _, unknown = parser.parse_known_args(list(beam_options))
    if unknown:
        raise JobError(f"Beam has no option {' '.join(unknown)}; what stands after -- goes to Beam as it is", USAGE)


class _Tolerant:
    """Beam's option groups repeat some options; the first wins."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser

    def add_argument(self, *names: str, **settings: object) -> None:
        try:
            self._parser.add_argument(*names, **settings)  # type: ignore[arg-type]
        except argparse.ArgumentError:
            return

    def __getattr__(self, name: str) -> object:
        return getattr(self._parser, name)


def configure_logging() -> None:
    """Log to stderr; stdout is for results. Importing Beam leaves a handler at the root, which goes."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s", force=True)
    logging.getLogger("apache_beam.runners.common").setLevel(logging.CRITICAL)  # it logs what it then raises


def carry(this: Step, units: Sequence[Any], of: int, work: beam.DoFn, beam_options: Sequence[str], processes: int) -> None:
    """Give each unit that is left, of so many in all, to `work`, which reports it to the step; tell progress meanwhile."""
    with progress(this.name, of, this.reports.count), pipeline(beam_options, processes, len(units)) as root:
        _ = root | "Units" >> beam.Create(list(units)) | "Spread units" >> beam.Reshuffle() | "Work" >> beam.ParDo(work)
