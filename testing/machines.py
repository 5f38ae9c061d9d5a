"""Two machines of our own making, and an object store for them: for tests and measurements without a shared
disk.

A machine is a process with namespaces: its network (loopback, and one end of a cable), its mounts and its
process ids. Programs in it die with it. It sees this machine's files, except for the folders that are hidden:
those are empty, and its own.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from testing.engines import ROOT, EngineMissing

NETWORK = "10.211.55"
"""The first three numbers of the machines' addresses, which only the two of them see."""
POOL_PORT, STORE_PORT = 50000, 5000
POOL_OPTIONS = ("--environment_type=EXTERNAL", f"--environment_config=127.0.0.1:{POOL_PORT}")
"""Beam's options for a pool on the same machine."""
BUCKET = "bucket"
PATIENCE = 300.0
"""Seconds until a program must have come up, on a busy machine."""
HIDDEN = (Path(tempfile.gettempdir()),)
"""Folders that hold the jobs and runs of tests and benchmarks."""
WORKERS = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
"""The environment of a program that starts workers, with this Python as `python`."""


class Machine:
    """A machine that runs until it is switched off. Its processes have names, and log to NAME.log in
    `logs`."""

    def __init__(self, number: int, hidden: Sequence[Path], logs: Path) -> None:
        self.address, self._logs = f"{NETWORK}.{number}", logs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir()
        mounts = 'for folder; do mount -t tmpfs none "$folder" || exit 1; done; echo on; exec cat'
        namespaces = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        self._power = subprocess.Popen(
            ["unshare", *namespaces, "sh", "-c", mounts, "sh", *map(str, hidden)],
            stdin=subprocess.PIPE,  # when it closes, `cat` ends, and so the machine: also if we are killed
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

        assert self._power.stdout is not None and self._power.stderr is not None
        if self._power.stdout.readline() != b"on\n":
            raise EngineMissing(
                f"no namespaces on this machine: {self._power.stderr.read().decode().strip()}"
            )

        self.first_process = children(self._power.pid)[0]

    def inside(
        self, command: Sequence[str | Path], namespaces: Sequence[str] = ("-n", "-m", "-p")
    ) -> list[str]:
        """The command line that runs a command in this machine; without some of the `namespaces`, with our
        disk or our processes."""
        return ["nsenter", "-t", str(self.first_process), *namespaces, *map(str, command)]

    def start(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        """Start a program that runs until it is killed or the machine is switched off."""
        with (self._logs / f"{name}.log").open("ab") as log:
            variables = {**os.environ, **environment, "TMPDIR": str(self._logs)}
            self._processes[name] = subprocess.Popen(
                self.inside(["sh", "-c", 'cd "$0" && exec "$@"', self._logs, *command]),
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def start_pool(self, environment: Mapping[str, str], packages: Path = ROOT) -> None:
        """Start a pool of workers, which import from the folder `packages`."""
        command = [
            sys.executable,
            "-m",
            "apache_beam.runners.worker.worker_pool_main",
            f"--service_port={POOL_PORT}",
        ]
        self.start("pool", command, {**environment, **WORKERS, "PYTHONPATH": str(packages)})
        self.wait_for(POOL_PORT, "pool")

    def command(self, words: Sequence[str | Path]) -> list[str]:
        """The command line of `answermill` with these words, on the network of this machine, with our
        disk."""
        return self.inside([sys.executable, "-m", "answermill", *words], ["-n"])

    def kill(self, name: str) -> None:
        """Kill (-9) the process of that name and all that it has started."""
        for process in reversed(descendants(self._processes[name].pid)):
            os.kill(process, signal.SIGKILL)
        self._processes.pop(name).wait()

    def log(self, name: str) -> str:
        return (self._logs / f"{name}.log").read_text(encoding="utf-8")

    def wait_for(self, port: int, name: str) -> None:
        """Wait until the process of that name listens on this port. Raises EngineMissing as `wait_until`
        does."""
        pattern = re.compile(rf":{port:04X} \S+ 0A ")
        self.wait_until(lambda: any(pattern.search(self._proc_net(table)) for table in ("tcp", "tcp6")), name)

    def wait_until(self, is_ready: Callable[[], bool], name: str) -> None:
        """Wait for the process of that name. Raises EngineMissing if it ends, or is not ready after PATIENCE
        seconds."""
        end = time.monotonic() + PATIENCE
        while not is_ready():
            if time.monotonic() > end or self._processes[name].poll() is not None:
                raise EngineMissing(f"{name} did not come up; its log ends: {self.log(name)[-500:]}")
            time.sleep(0.2)

    def _proc_net(self, table: str) -> str:
        return Path(f"/proc/{self.first_process}/net/{table}").read_text(encoding="utf-8")

    def switch_off(self) -> None:
        """Kill all that runs in it."""
        self._power.kill()
        self._power.wait()
        for process in self._processes.values():
            process.wait()


def children(parent: int) -> list[int]:
    """The ids of a process's children; none if it has ended."""
    files = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text(encoding="utf-8").split()]


def descendants(parent: int) -> list[int]:
    """A process, its children, theirs, and so on."""
    return [parent, *(process for child in children(parent) for process in descendants(child))]


@contextmanager
def two_machines(hidden: Sequence[Path] = ()) -> Iterator[tuple[Machine, Machine]]:
    """Two machines with a cable between them, on which the folders `hidden` are empty. Raises
    EngineMissing."""
    for program in ("unshare", "nsenter", "mount", "ip"):
        if not shutil.which(program):
            raise EngineMissing(
                f"{program}, with which machines are made of namespaces, is not on this machine"
            )

    if os.geteuid() != 0:
        raise EngineMissing("only root may make machines of namespaces")

    with ExitStack() as stack:
        logs = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="answermill-machines-", dir="/var/tmp"))
        )
        machines = []
        for number in (1, 2):
            machines.append(Machine(number, hidden, logs / str(number)))
            stack.callback(machines[-1].switch_off)

        ends = [["netns", str(machine.first_process)] for machine in machines]
        _call("ip", "link", "add", "cable", *ends[0], "type", "veth", "peer", "name", "cable", *ends[1])
        for machine in machines:
            for words in (f"addr add {machine.address}/24 dev cable", "link set cable up", "link set lo up"):
                _call(*machine.inside(["ip", *words.split()], ["-n"]))

        yield machines[0], machines[1]


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineMissing(f"{' '.join(command)}: {done.stderr.strip()}")


class Store:
    """An S3 on a machine (moto's), with an empty bucket; a process with its `environment` can reach it.

    Raises EngineMissing.
    """

    def __init__(self, machine: Machine) -> None:
        for module in ("moto", "s3fs"):
            if find_spec(module) is None:
                raise EngineMissing(f"{module}, of the object store, is not installed; pip install '.[test]'")

        self._machine, url = machine, f"http://{machine.address}:{STORE_PORT}"
        self.environment = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        machine.start(
            "store", [sys.executable, "-m", "moto.server", "-H", machine.address, "-p", str(STORE_PORT)], {}
        )

        machine.wait_for(STORE_PORT, "store")
        self._call(f"fsspec.filesystem('s3').mkdir({BUCKET!r})")

    def put(self, folder: Path, name: str) -> None:
        """Copy a folder of this machine to a folder of the bucket."""
        self._call(f"fsspec.filesystem('s3').put({str(folder)!r}, {f'{BUCKET}/{name}'!r}, recursive=True)")

    def get(self, name: str, folder: Path) -> None:
        """Copy a folder of the bucket to a new one of this machine."""
        self._call(f"fsspec.filesystem('s3').get({f'{BUCKET}/{name}'!r}, {str(folder)!r}, recursive=True)")

    def log(self) -> str:
        """A line for each request: address, time, "METHOD /bucket/name"."""
        return self._machine.log("store")

    def _call(self, code: str) -> None:
        command = self._machine.inside([sys.executable, "-c", f"import fsspec; {code}"], ["-n"])
        subprocess.run(command, env={**os.environ, **self.environment}, check=True)


@contextmanager
def island() -> Iterator[tuple[Machine, Store]]:
    """A machine with a pool of workers that share with us nothing but an object store. Raises
    EngineMissing."""
    with two_machines(HIDDEN) as (machine, _):
        store = Store(machine)
        machine.start_pool(store.environment)
        yield machine, store
