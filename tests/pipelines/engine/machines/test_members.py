"""A machine is lost by a count that stands still, on the observer's clock alone; and a task has one machine
at a time, until that one is lost."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from answermill.pipelines.engine.machines import members as module
from answermill.pipelines.engine.machines.leases import Leases
from answermill.pipelines.engine.machines.members import MACHINES, Members, State, states
from answermill.pipelines.errors import UNAVAILABLE, JobError

LAPSE_S = 60.0


class Other:
    """Another machine, which counts up by hand."""

    def __init__(self, run: Path, name: str = "other", lapse_s: float = LAPSE_S) -> None:
        self.state = State(name, "node", "anna", 1, "", lapse_s)
        self._file = run / MACHINES / f"{name}.json"
        self.beat()

    def beat(self) -> None:
        self.state = replace(self.state, count=self.state.count + 1)
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text(json.dumps(asdict(self.state)), encoding="utf-8")

    def end(self) -> None:
        self._file.unlink()


class Clock:
    """An observer's clock, which is set by hand."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def other(tmp_path: Path) -> Other:
    return Other(tmp_path)


def observer(run: Path, clock: Clock) -> Members:
    members = Members(run, LAPSE_S, clock)
    members.look()
    return members


def test_a_machine_is_lost_when_its_count_stands_still_for_the_seconds_it_named(
    tmp_path: Path, other: Other
) -> None:
    clock = Clock()
    members = observer(tmp_path, clock)
    for clock.now in (30.0, LAPSE_S):
        members.look()
        assert not members.has_left("other")
    clock.now = LAPSE_S + 1
    members.look()
    assert members.has_left("other")


def test_a_count_that_moves_again_is_that_of_a_machine_that_lives(tmp_path: Path, other: Other) -> None:
    clock = Clock()
    members = observer(tmp_path, clock)
    clock.now = LAPSE_S + 1
    members.look()
    other.beat()
    members.look()
    assert not members.has_left("other")


@pytest.mark.parametrize("begin", [0.0, 1e9, -1e9])
def test_no_clock_but_the_observer_s_own_steps_decides(
    tmp_path: Path, other: Other, begin: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: -begin)
    clock = Clock(begin)
    members = observer(tmp_path, clock)
    for step in range(1, 9):
        clock.now = begin + step * LAPSE_S / 2
        other.beat()
        members.look()
        assert not members.has_left("other")


def test_a_time_in_which_the_observer_was_held_up_counts_against_nobody(tmp_path: Path, other: Other) -> None:
    clock = Clock()
    members = observer(tmp_path, clock)
    other.beat()
    clock.now = 100 * LAPSE_S
    members.look()
    assert not members.has_left("other")


def test_a_machine_that_removed_its_file_has_left_and_this_one_never_has(
    tmp_path: Path, other: Other
) -> None:
    members = observer(tmp_path, Clock())
    assert not members.has_left("other") and not members.has_left(members.name)
    other.end()
    members.look()
    assert members.has_left("other")


def test_a_process_of_this_machine_that_is_gone_is_lost_at_once(
    tmp_path: Path, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_alive", lambda pid: False)
    monkeypatch.setattr(module, "this_place", lambda: "kernel 1")
    members = observer(tmp_path, Clock())
    other.state = replace(other.state, place="kernel 2")
    other.beat()
    members.look()
    members.look()
    assert not members.has_left("other")

    other.state = replace(other.state, place="kernel 1")
    other.beat()
    members.look()
    members.look()
    assert members.has_left("other")


def test_a_machine_counts_up_while_it_works_and_is_gone_afterwards(tmp_path: Path) -> None:
    with Members(tmp_path, 0.3) as members:
        first = members.look()[members.name].count
        until = time.monotonic() + 60
        while members.look()[members.name].count == first:
            assert time.monotonic() < until
            time.sleep(0.01)
        members.say(doing="rerank")
        assert states(tmp_path)[0][members.name].doing == "rerank"
    assert states(tmp_path) == ({}, 0)


def test_a_file_of_another_version_is_refused(tmp_path: Path, other: Other) -> None:
    (tmp_path / MACHINES / "new.json").write_text('{"name": "new"}', encoding="utf-8")
    with pytest.raises(JobError, match=r"another version of answermill works on this run; install") as e:
        Members(tmp_path, LAPSE_S).look()
    assert e.value.code == UNAVAILABLE


def test_of_two_machines_one_has_a_task_and_gives_it_back(tmp_path: Path) -> None:
    with Members(tmp_path, LAPSE_S) as first, Members(tmp_path, LAPSE_S) as second:
        leases = [Leases(tmp_path / "leases", members) for members in (first, second)]
        for members in (first, second):
            members.look()
        assert leases[0].take("unit") and not leases[1].take("unit")
        leases[1].refresh()
        assert not leases[1].take("unit")

        leases[0].give_back("unit")
        assert not leases[1].take("unit")  # it reads the list again first
        leases[1].refresh()
        assert leases[1].take("unit")
        leases[1].give_all_back()
        assert list((tmp_path / "leases").iterdir()) == []


def test_the_task_of_a_lost_machine_is_another_s_and_of_one_other_only(tmp_path: Path, other: Other) -> None:
    clock = Clock()
    members = observer(tmp_path, clock)
    (tmp_path / "leases").mkdir()
    (tmp_path / "leases" / "unit.1").write_text('"other"\n', encoding="utf-8")
    leases = Leases(tmp_path / "leases", members)
    leases.refresh()
    assert not leases.take("unit")

    clock.now = LAPSE_S + 1
    members.look()
    third = Leases(tmp_path / "leases", observer(tmp_path, Clock()))
    third.refresh()
    assert leases.take("unit") and not third.take("unit")
    assert (tmp_path / "leases" / "unit.2").is_file()


def test_a_lease_whose_creation_a_store_did_not_confirm_is_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = module.write_text
    monkeypatch.setattr(
        module, "write_text", lambda file, text, replace=True: written(file, text, replace) and replace
    )
    leases = Leases(tmp_path / "leases", Members(tmp_path, LAPSE_S))
    assert leases.take("unit")
