"""Worker processes: who can reach the command that waits for them, and how they end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import apache_beam as beam
import pytest

from answermill.pipelines.engine.beam_workers import CARDS, card_of
from answermill.pipelines.engine.runner import pipeline
from answermill.pipelines.errors import UNEXPECTED, JobError

TRIED = ("2.77",)
"""Releases of Beam with which worker processes were tried; add one when the other tests here pass with it."""
LISTENING = "0A"


def listening(process: int) -> set[str]:
    """The addresses, in hexadecimal, on which a process listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            inodes.add(str(descriptor.readlink()))
        except FileNotFoundError:
            continue
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in inodes:
                addresses.add(fields[1][-13:])  # ADDRESS:PORT; an IPv4 address may be written as the end of an IPv6 one
    return addresses


class NoteSockets(beam.DoFn):
    """Writes the addresses on which this process and the command listen, and the process' id."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, number: int) -> None:
        line = f"{os.getpid()} {','.join(listening(os.getppid()))} {','.join(listening(os.getpid()))}"
        (Path(self._folder) / str(number)).write_text(line)


class NoteCard(beam.DoFn):
    """Writes the graphics cards that this process sees."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, number: int) -> None:
        (Path(self._folder) / str(os.getpid())).write_text(os.environ.get(CARDS, "all"))


class Die(beam.DoFn):
    def process(self, number: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="needs /proc/net/tcp, which lists the sockets")
@pytest.mark.parametrize(("options", "address"), [((), "127.0.0.1"), (("--listen_address=0.0.0.0",), "0.0.0.0")])
def test_a_job_with_two_workers_listens_on_loopback_alone(options, address):
    before = listening(os.getpid())  # a server of other tests
    with tempfile.TemporaryDirectory() as folder:
        with pipeline(options, 2, units=4) as root:
            _ = root | beam.Create(range(4)) | beam.Reshuffle() | beam.ParDo(NoteSockets(folder))
        lines = [path.read_text().split(" ") for path in Path(folder).iterdir()]
    assert len(lines) == 4
    expected = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}"
    opened = {place for _, command, _ in lines for place in command.split(",")} - before
    assert {place.partition(":")[0] for place in opened} == {expected}
    assert {worker for _, _, worker in lines} == {""}
    for process in {int(process) for process, _, _ in lines}:
        assert not Path(f"/proc/{process}").exists()


def test_workers_get_a_graphics_card_each_in_turns(monkeypatch, tmp_path):
    monkeypatch.setenv(CARDS, "GPU-a, GPU-b")
    with pipeline((), 2, units=4) as root:
        _ = root | beam.Create(range(4)) | beam.Reshuffle() | beam.ParDo(NoteCard(str(tmp_path)))
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["GPU-a", "GPU-b"]


def test_a_worker_sees_a_card_of_those_that_the_command_sees(tmp_path):
    def seen(worker: int, **environment: str) -> str | None:
        return card_of(f"worker_{worker}", environment, tmp_path).get(CARDS)

    assert seen(1) is None  # no card at all
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert seen(1) is None  # the only card is everyone's
    (tmp_path / "nvidia3").touch()
    assert [seen(n) for n in range(5)] == ["0", "1", "0", "1", "0"]
    assert [seen(n, **{CARDS: "4,7,6"}) for n in range(4)] == ["4", "7", "6", "4"]
    assert seen(1, **{CARDS: "4"}) is seen(1, **{CARDS: ""}) is None


def test_a_worker_that_dies_ends_the_job_with_a_sentence():
    with (
        pytest.raises(JobError, match="a worker process ended with -9, perhaps") as e,
        pipeline((), 2, units=2) as root,
    ):
        _ = root | beam.Create([1, 2]) | beam.Reshuffle() | beam.ParDo(Die())
    assert e.value.code == UNEXPECTED


def test_a_worker_ends_when_the_command_is_gone():
    worker = subprocess.Popen([sys.executable, "-m", "answermill.pipelines.engine.worker_process"], stdin=subprocess.PIPE)
    assert worker.poll() is None and worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(60) == 1


def test_what_worker_processes_use_of_beam_was_tried_with_this_release():
    assert version("apache-beam").rpartition(".")[0] in TRIED
