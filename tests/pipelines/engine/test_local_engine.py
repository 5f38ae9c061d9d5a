"""The engine of one machine: its worker processes, how they end, and how values meet."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from answermill.pipelines.engine.protocol import Units
from answermill.pipelines.engine.runner import open_engine
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.engine.worker_pool import CARDS, card_of
from answermill.pipelines.errors import BAD_DATA, UNEXPECTED, JobError
from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.manifests.reports import Report, Reports
from answermill.pipelines.runs.step import MARK
from answermill.pipelines.runs.watch import log_lines
from answermill.pipelines.runs.watch.progress import print_line
from tests.made_steps import NoUnits, Rows, report, reports_of

ROOT = Path(__file__).parents[3]
LISTENING = "0A"
ENGINES: tuple[tuple[Sequence[str], int], ...] = (((), 1), ((), 2), (("--runner=DirectRunner",), 1))
"""Beam's options, and how many processes: this one, two others, and Beam in this one."""


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The work folder of a step that has begun."""
    (tmp_path / MARK).touch()
    return tmp_path


def do(work: UnitWork, folder: Path, options: Sequence[str] = (), processes: int = 2, units: int = 4) -> None:
    with open_engine(options, processes, units, folder) as engine:
        engine.each("Work", Units.first(units), work)


def listening(process: int) -> set[str]:
    """The addresses, in hexadecimal, on which a process listens; an IPv4 one may be the end of an IPv6
    one."""
    inodes = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            inodes.add(str(descriptor.readlink()))
    tables = [Path(f"/proc/{process}/net/{table}").read_text() for table in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table.splitlines()]
    return {
        fields[1][-13:] for fields in lines if fields[3] == LISTENING and f"socket:[{fields[9]}]" in inodes
    }


class Note(UnitWork):
    """Writes which process has done a unit, which cards that sees, and where it and the command listen."""

    def __init__(self, work: Path) -> None:
        super().__init__("rerank", work)
        self._command = os.getpid()

    def work(self, unit: int) -> None:
        places = listening(os.getpid()) | listening(self._command) if Path("/proc/net/tcp").is_file() else ()
        line = f"{os.getpid()} {','.join(sorted(places))} {os.environ.get(CARDS, 'all')}"
        (self._work_folder / f"note-{unit}").write_text(line)


class Say(UnitWork):
    """Writes a line to stderr."""

    def work(self, unit: int) -> None:
        print_line(f"unit {unit}")


def notes(folder: Path) -> list[list[str]]:
    return [path.read_text().split(" ") for path in sorted(folder.glob("note-*"))]


def test_one_process_is_this_one(begun: Path) -> None:
    do(Note(begun), begun, processes=1)
    assert {process for process, _, _ in notes(begun)} == {str(os.getpid())}


def test_a_single_unit_is_done_in_this_process(begun: Path) -> None:
    do(Note(begun), begun, processes=2, units=1)
    assert {process for process, _, _ in notes(begun)} == {str(os.getpid())}


def test_several_processes_are_others_which_are_gone_afterwards(begun: Path) -> None:
    do(Note(begun), begun)
    processes = {int(process) for process, _, _ in notes(begun)}
    assert len(notes(begun)) == 4 and processes and os.getpid() not in processes
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


@pytest.mark.skipif(
    not Path("/proc/net/tcp").is_file(), reason="needs /proc/net/tcp, which lists the sockets"
)
def test_workers_write_lines_in_the_form_of_the_command_s(begun: Path, capfd) -> None:
    log_lines.choose("json")
    try:
        do(Say("rerank", begun), begun, units=2)
    finally:
        log_lines.choose("text")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert {"unit 0", "unit 1"} <= {line["message"] for line in lines}


def test_with_two_workers_nothing_listens(begun: Path) -> None:
    before = listening(os.getpid())  # a server of other tests
    with socket.create_server(("127.0.0.1", 0)):
        assert len(listening(os.getpid())) == len(before) + 1
    do(Note(begun), begun)
    assert len(notes(begun)) == 4
    assert {place for _, places, _ in notes(begun) for place in places.split(",")} <= before | {""}


def test_workers_get_a_graphics_card_each_in_turns(monkeypatch: pytest.MonkeyPatch, begun: Path) -> None:
    monkeypatch.setenv(CARDS, "GPU-a, GPU-b")
    do(Note(begun), begun, units=2)
    assert sorted(card for _, _, card in notes(begun)) == ["GPU-a", "GPU-b"]


def test_a_worker_sees_a_card_of_those_that_the_command_sees(tmp_path: Path) -> None:
    def seen(worker: int, **environment: str) -> str | None:
        return card_of(worker, environment, tmp_path).get(CARDS)

    assert seen(1) is None  # no card at all
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert seen(1) is None  # the only card is everyone's
    (tmp_path / "nvidia3").touch()
    assert [seen(n) for n in range(5)] == ["0", "1", "0", "1", "0"]
    assert [seen(n, **{CARDS: "4,7,6"}) for n in range(4)] == ["4", "7", "6", "4"]
    assert seen(1, **{CARDS: "4"}) is seen(1, **{CARDS: ""}) is None


class Dies(UnitWork):
    """Its process ends in the middle of unit 1, when unit 0 is done."""

    def work(self, unit: int) -> None:
        if unit != 1:
            reports_of(self._work_folder).write(report(unit))
            return
        while reports_of(self._work_folder).read_one(0) is None:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_ends_the_job_with_a_sentence_that_names_its_unit(begun: Path) -> None:
    with pytest.raises(
        JobError, match=r"^rerank, unit 1: a worker process ended with -9, perhaps for lack of memory"
    ) as e:
        do(Dies("rerank", begun), begun, units=2)
    assert e.value.code == UNEXPECTED
    assert reports_of(begun).numbers() == {0}


@pytest.mark.parametrize("end", [pytest.param("closed", marks=pytest.mark.nightly), "killed"])
def test_a_worker_ends_in_the_middle_of_a_task_when_the_command_is_gone(tmp_path: Path, end: str) -> None:
    code = f"""
import os, sys, time
from pathlib import Path
from tests.pipelines.engine.test_local_engine import Sleeps, do
folder = Path({str(tmp_path)!r})
(folder / "fingerprint").touch()
do(Sleeps("rerank", folder), folder, units=2)
"""
    command = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    while len(list(tmp_path.glob("asleep-*"))) < 2:
        assert command.poll() is None
        time.sleep(0.05)

    workers = [int(path.name.partition("-")[2]) for path in tmp_path.glob("asleep-*")]
    command.send_signal(signal.SIGTERM if end == "closed" else signal.SIGKILL)
    command.wait(60)
    began = time.monotonic()
    while any(is_running(worker) for worker in workers):
        assert time.monotonic() - began < 60
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Sleeps(UnitWork):
    def work(self, unit: int) -> None:
        (self._work_folder / f"asleep-{os.getpid()}").touch()
        time.sleep(600)


class Unpicklable(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


class Fails(NoUnits):
    """A defect when it loads, of a class that cannot be pickled or of one that can."""

    def __init__(self, work: Path, error: str) -> None:
        super().__init__("rerank", work)
        self._error = error

    def load(self) -> None:
        raise KeyError("colour") if self._error == "KeyError" else Unpicklable("one", "other")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_defect_comes_with_the_traceback_of_its_process(begun: Path, processes: int) -> None:
    with pytest.raises(KeyError) as e:
        do(Fails(begun, "KeyError"), begun, processes=processes)
    assert e.value.__notes__ == ["rerank"]
    if processes > 1:
        assert "in load\n" in str(e.value.__cause__)


def test_an_error_that_cannot_be_sent_comes_by_its_words(begun: Path) -> None:
    with pytest.raises(RuntimeError, match="Unpicklable: one and other"):
        do(Fails(begun, "Unpicklable"), begun)


class Loses(UnitWork):
    def work(self, unit: int) -> None:
        raise JobError(f"the part\nof unit {unit} was changed", BAD_DATA)


@pytest.mark.parametrize(("options", "processes"), ENGINES)
def test_an_error_that_a_user_can_mend_keeps_words_and_code(
    begun: Path, options: Sequence[str], processes: int
) -> None:
    with pytest.raises(JobError, match=r"^rerank, unit [01]: the part\nof unit [01] was changed") as e:
        do(Loses("rerank", begun), begun, options, processes, units=2)
    assert e.value.code == BAD_DATA and e.value.__cause__ is None


class Divisors(UnitWork):
    """The unit's divisors below 5, and it as their value."""

    skips_reported = False

    def work(self, unit: int) -> Iterator[tuple[int, int]]:
        yield from ((divisor, unit) for divisor in range(1, 5) if unit % divisor == 0)


@dataclass(frozen=True)
class Sizes(StepCounts):
    """Counts of values and their sums."""

    values: int = 0
    sum: int = 0
    again: int = 0


class Sums(UnitWork):
    """Writes how many values there are, their sum, and the sum once more."""

    def work(self, unit: int, members: Iterable[int]) -> None:
        again = list(members), list(members)
        counts = Sizes(values=len(again[0]), sum=sum(again[0]), again=sum(again[1]))
        Reports(self._work_folder, Sizes).write(Report(unit, {}, counts))


def doubles(key: int, members: Iterable[int]) -> Iterator[tuple[int, int]]:
    yield from ((key, 2 * member) for member in members)


@pytest.mark.parametrize(("options", "processes"), ENGINES)
def test_values_of_a_key_meet_whatever_carries_them(
    begun: Path, options: Sequence[str], processes: int
) -> None:
    with open_engine(options, processes, 12, begun) as engine:
        numbers = engine.each("Divisors", Units.first(12), Divisors("ingest", begun))
        more = engine.group("Doubles", [numbers], doubles)
        engine.group("Sums", [numbers, more], Sums("ingest", begun, Sizes), every=Units.first(6))
    reports = Reports(begun, Sizes).read()
    seen = {unit: (report.counts.values, report.counts.sum) for unit, report in reports.items()}
    whole = {key: [n for n in range(12) if n % key == 0] for key in range(1, 5)}
    assert seen == {0: (0, 0), 5: (0, 0)} | {
        key: (2 * len(each), 3 * sum(each)) for key, each in whole.items()
    }
    assert all(report.counts.again == report.counts.sum for report in reports.values())
    assert not (begun / "values").exists()


class Nothings(UnitWork):
    """As many values None as the unit's number."""

    skips_reported = False

    def work(self, unit: int) -> Iterator[tuple[int, None]]:
        yield from ((unit, None) for _ in range(unit))


class Counts(UnitWork):
    """Writes how many values there are."""

    def work(self, unit: int, members: Iterable[None]) -> None:
        Reports(self._work_folder, Sizes).write(Report(unit, {}, Sizes(values=len(list(members)))))


@pytest.mark.parametrize(("options", "processes"), ENGINES)
def test_none_is_a_value_as_others_are(begun: Path, options: Sequence[str], processes: int) -> None:
    with open_engine(options, processes, 4, begun) as engine:
        nothings = engine.each("Nothings", Units.first(4), Nothings("ingest", begun))
        engine.group("Counts", [nothings], Counts("ingest", begun, Sizes), every=Units.first(4))
    assert [report.counts.values for report in Reports(begun, Sizes).each()] == [0, 1, 2, 3]


class Follows(UnitWork):
    """Notes how many units of the first folder were done before it."""

    def __init__(self, work: Path, first: Path) -> None:
        super().__init__("retrieve", work, Rows)
        self._first = first

    def work(self, unit: int) -> None:
        reports_of(self._work_folder).write(report(unit, rows=reports_of(self._first).count()))


@pytest.mark.parametrize(("options", "processes"), ENGINES)
def test_what_comes_after_other_work_begins_when_that_is_done(
    begun: Path, tmp_path: Path, options: Sequence[str], processes: int
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / MARK).touch()
    with open_engine(options, processes, 6, begun) as engine:
        done = engine.each("First", Units.first(6), Follows(first, first))
        engine.each("Second", Units.first(3, but=reports_of(second)), Follows(second, first), after=done)
    assert Counter(report.counts.rows for report in reports_of(second).each()) == {6: 3}


@pytest.mark.nightly
def test_the_sample_is_ingested_without_beam(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from answermill.pipelines.data.sample import copy_to
from answermill.__main__ import main
job = copy_to(Path({str(tmp_path)!r}))
try:
    main(["ingest", str(job), "--out", {str(tmp_path / "run")!r}])
finally:
    print("apache_beam" in sys.modules, "grpc" in sys.modules)
"""

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False False" and "documents" in done.stdout
