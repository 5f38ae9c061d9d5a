"""Worker processes of the default runner: they listen and are listened to on this machine alone, and end with the command.

Beam's own would listen on all interfaces, without a password, and would work on after the command was stopped. Uses parts of
Beam that it does not promise to keep, and therefore has a separate module; its test names the releases that it was tried with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import endpoints_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.transforms.environments import Environment, ExternalEnvironment, python_sdk_capabilities
from google.protobuf import text_format

from answermill.pipelines.errors import UNEXPECTED, JobError
from answermill.pipelines.runs.watch.stopping import descriptor

URN = "answermill:worker_process"
QUIET = json.dumps({"default_sdk_harness_log_level": "CRITICAL"})
"""The options of the pipeline that a worker process gets: to log nothing, since it raises what it would log."""
CARDS = "CUDA_VISIBLE_DEVICES"
"""The variable that says which graphics cards a process sees."""


class ListenOptions(PipelineOptions):
    """The option `--listen_address`, beside Beam's own."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--listen_address", default="127.0.0.1", help="Address on which the default runner waits for its worker processes."
        )


@Environment.register_urn(URN, None)
class WorkerProcesses(Environment):
    """The environment whose code runs in `WorkerProcess`es."""

    def __init__(self) -> None:
        super().__init__(capabilities=python_sdk_capabilities())

    def to_runner_api_parameter(self, context: object) -> tuple[str, None]:
        return URN, None

    @staticmethod
    def from_runner_api_parameter(*_: object) -> WorkerProcesses:
        return WorkerProcesses()


class LocalRunner(FnApiRunner):
    """FnApiRunner, whose servers listen on `--listen_address`, 127.0.0.1 unless it is named."""

    @property
    def has_own_workers(self) -> bool:
        """Whether the work is done in this process or in those that it starts, not in a pool that was started elsewhere."""
        return not isinstance(self._default_environment, ExternalEnvironment)

    def run_pipeline(self, pipeline: Any, options: PipelineOptions) -> Any:
        with _listening_on(options.view_as(ListenOptions).listen_address), _quiet_connections():
            return super().run_pipeline(pipeline, options)


@worker_handlers.WorkerHandler.register_environment(URN, None)
class WorkerProcess(worker_handlers.GrpcWorkerHandler):
    """A process `python -m answermill.pipelines.engine.worker_process`. It ends when its stdin, which we hold, is closed."""

    def __init__(self, _payload: None, state: Any, provision_info: Any, grpc_server: Any) -> None:
        super().__init__(state, provision_info, grpc_server)
        self._closing = threading.Event()

    def start_worker(self) -> None:
        control = text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=self.control_address))
        settings = {"CONTROL_API_SERVICE_DESCRIPTOR": control, "PIPELINE_OPTIONS": QUIET, "WORKER_ID": self.worker_id}
        ends = [end for end in [descriptor()] if end is not None]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "answermill.pipelines.engine.worker_process", *map(str, ends)],
            env={**os.environ, **settings, **card_of(self.worker_id)},
            stdin=subprocess.PIPE,
            pass_fds=ends,
            start_new_session=True,  # Ctrl-C on the terminal reaches the command alone, which then ends its workers
        )
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """If the process ends before it is asked to, fail the work that waits for it, which would wait for ever."""
        code = self._process.wait()
        error = JobError(
            f"a worker process ended with {code}, perhaps for lack of memory; lower workers.processes, and type the same "
            "command: it goes on where it was",
            UNEXPECTED,
        )
        while not self._closing.wait(0.2):  # again, since work may be handed to it meanwhile
            self.control_conn.abort(error)

    def close(self) -> None:
        if sys.exc_info()[0] is not None:
            self.stop_worker()  # nobody waits for its work any more
        super().close()

    def stop_worker(self) -> None:
        self._closing.set()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def card_of(worker_id: str, environment: Mapping[str, str] = os.environ, devices: Path = Path("/dev")) -> dict[str, str]:
    """The variable by which a worker sees one graphics card, in turns: of those that the command sees. Empty where there is at
    most one card, which all workers share. `worker_id` ends with a number, counted from 0."""
    named = environment.get(CARDS)
    cards = named.split(",") if named is not None else [str(n) for n, _ in enumerate(devices.glob("nvidia[0-9]*"))]
    return {CARDS: cards[int(worker_id.rpartition("_")[2]) % len(cards)].strip()} if len(cards) > 1 else {}


@contextmanager
def _listening_on(address: str) -> Iterator[None]:
    """Beam's servers that are started in the block listen on `address`, where Beam names all interfaces."""
    names = vars(worker_handlers)
    names["grpc"] = _Grpc(address)
    try:
        yield
    finally:
        names["grpc"] = grpc


class _Grpc:
    """The module `grpc` as Beam's runner sees it, but that a server listens on one address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def server(self, *arguments: Any, **options: Any) -> grpc.Server:
        server = grpc.server(*arguments, **options)
        bind = server.add_insecure_port
        vars(server)["add_insecure_port"] = lambda place: bind(f"{self._address}:{place.rpartition(':')[2]}")
        return server

    def __getattr__(self, name: str) -> Any:
        return getattr(grpc, name)


@contextmanager
def _quiet_connections() -> Iterator[None]:
    """Threads that read from a worker process print nothing when it ends: what waits for it gets an error instead."""
    former = threading.excepthook

    def show(failure: threading.ExceptHookArgs) -> None:
        if not issubclass(failure.exc_type, grpc.RpcError):
            former(failure)

    threading.excepthook = show
    try:
        yield
    finally:
        threading.excepthook = former
