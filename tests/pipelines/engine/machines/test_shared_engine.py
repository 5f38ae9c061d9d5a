"""Two machines make the same calls: each task is done once, both have all values, and they are those of one
machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answermill.pipelines.engine.disk_values import KeyValues, Places
from answermill.pipelines.engine.local_engine import local_engine
from answermill.pipelines.engine.machines.members import MACHINES, Members, NotOurs, SharedBlock
from answermill.pipelines.engine.machines.shared_engine import SharedEngine, shared_engine
from answermill.pipelines.engine.protocol import Engine, Units
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.manifest import Part
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.step import Step
from answermill.schemas.corpus import Question
from tests.made_steps import Rows, made_step

UNITS = 12
FOLDER = "rows"
_done: list[tuple[str, int]] = []


class Emit(UnitWork):
    """A unit → its number, in one of three buckets, and an array."""

    skips_reported = False

    def work(self, unit: int) -> Iterator[tuple[tuple[str, int], Any]]:
        _done.append(("emit", unit))
        yield ("bucket", unit % 3), (unit, np.arange(unit))


class WriteUnit(UnitWork):
    """A unit and its values → its report."""

    def __init__(self, step: Step[Any]) -> None:
        super().__init__(step.name, step.work, Rows)
        self._step = step

    def work(self, unit: int, members: Iterable[int]) -> None:
        _done.append(("write", unit))
        self._step.reports.write(Report(unit, {}, Rows(rows=sum(members))))


def add_up(bucket: tuple[str, int], members: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, int]]:
    """The members of a bucket → for each unit a number that depends on the whole bucket."""
    values = list(members)
    total = sum(int(array.sum()) for _, array in values)
    for unit, _ in values:
        yield unit, total + bucket[1]


def calls(engine: Engine, step: Step[Any]) -> Places:
    emitted = engine.each("Emit", Units.first(UNITS), Emit(step.name, step.work))
    added = engine.group("Add up", [emitted], add_up)
    engine.group("Write", [added], WriteUnit(step), every=Units.first(UNITS, but=step.reports))
    return emitted


def block_of(step: Step[Any]) -> SharedBlock:
    return SharedBlock("rerank", "rerank", step.work.relative_to(step.run).as_posix(), "first", 1, 1)


def share(step: Step[Any], seen: list[dict[Any, list[int]]]) -> None:
    """Be a machine at the step."""
    with (
        Members(step.run, 60.0) as members,
        shared_engine(
            block_of(step),
            members,
            1,
            confirm=members.look,
            pause=lambda: time.sleep(0.01),
            shows_progress=False,
        ) as engine,
    ):
        folder = engine._folder
        emitted = calls(engine, step)
        values = {key: KeyValues(folder, places) for key, places in emitted.items()}
        seen.append({key: sorted(unit for unit, _ in pairs) for key, pairs in values.items()})


def test_two_machines_do_each_task_once_and_both_have_all_values(tmp_path: Path) -> None:
    alone = made_step(tmp_path / "alone", "rerank", {FOLDER: Question})
    Commit(alone).begin()
    with local_engine(1, alone.work) as engine:
        calls(engine, alone)
    _done.clear()

    step, seen = made_step(tmp_path / "run", "rerank", {FOLDER: Question}), list[dict[Any, list[int]]]()
    Commit(step).begin()
    machines = [threading.Thread(target=share, args=(step, seen)) for _ in range(2)]
    for machine in machines:
        machine.start()
    for machine in machines:
        machine.join(240)

    assert sorted(_done) == [(kind, unit) for kind in ("emit", "write") for unit in range(UNITS)]
    buckets = {("bucket", n): list(range(n, UNITS, 3)) for n in range(3)}
    assert seen == [buckets, buckets]
    assert step.reports.read() == alone.reports.read()
    assert not [*step.work.glob("values-*"), *(step.work / MACHINES / "leases").iterdir()]


class Late(UnitWork):
    """Work of a unit that others have done, and committed, before it ends."""

    def __init__(self, step: Step[Any]) -> None:
        super().__init__(step.name, step.work, Rows)
        self._step = step

    def work(self, unit: int) -> None:
        commit, folder = Commit(self._step), self._step.run / FOLDER
        folder.mkdir(exist_ok=True)
        for name in ("of-others", "of-this"):
            (folder / name).write_text(name, encoding="utf-8")
        self._step.reports.write(Report(0, {FOLDER: (Part("of-others", 1, 9, "0" * 64),)}, Rows(rows=1)))
        commit.finish(commit.reported(1))
        (folder / "of-this").write_text("of-this", encoding="utf-8")
        self._step.reports.write(Report(0, {FOLDER: (Part("of-this", 1, 7, "1" * 64),)}, Rows(rows=1)))


def test_a_machine_that_is_late_takes_back_what_it_wrote_for_a_complete_step(tmp_path: Path) -> None:
    step = made_step(tmp_path, "rerank", {FOLDER: Question})
    Commit(step).begin()

    def over() -> None:
        if not step.work.exists() and (step.run / FOLDER / "_manifest.json").exists():
            raise NotOurs

    with (
        Members(tmp_path, 60.0) as members,
        pytest.raises(NotOurs),
        shared_engine(block_of(step), members, 1, confirm=over, pause=over, shows_progress=False) as engine,
    ):
        assert isinstance(engine, SharedEngine)
        engine.each("Work", Units.first(1, but=step.reports), Late(step))
    assert sorted(path.name for path in (step.run / FOLDER).iterdir()) == ["_manifest.json", "of-others"]
    assert not step.work.exists()
