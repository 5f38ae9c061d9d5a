"""A worker process does one unit at a time, never one twice, and keeps what a step has loaded."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, get_ident
from typing import ClassVar

import pytest

from pipelines.execution.step import Report, Reports
from pipelines.execution.unit_dofn import UnitDoFn


class Overlaps(UnitDoFn):
    """Notes which thread is at work; emits the numbers of changes of thread that it saw in the middle of a unit."""

    threads: ClassVar[list[int]] = []

    def prepare(self) -> None:
        self.threads.clear()

    def load(self) -> None:
        list(self.work(0))

    def work(self, unit: int) -> Iterator[int]:
        for _ in range(20_000):
            self.threads.append(get_ident())
            yield from {get_ident()} ^ set(self.threads)
            self.threads.pop()


def test_a_unit_runs_alone_in_its_process_to_its_last_result() -> None:
    both_ready = Barrier(2)

    def work(function: Overlaps) -> list[int]:
        both_ready.wait()
        function.setup()
        return [other for unit in range(3) for other in function.process((unit,))]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, [Overlaps("index"), Overlaps("rerank")])) == [[], []]


class Emit(UnitDoFn):
    def work(self, unit: int, *rest: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        yield unit, rest


def test_a_unit_gets_the_rest_of_its_element_and_the_side_inputs() -> None:
    assert Emit("index").process((3, "a", "b"), "side") == [(3, ("a", "b", "side"))]


def test_a_unit_that_has_reported_is_skipped(tmp_path: Path) -> None:
    function = Emit("index", Reports(tmp_path))
    Reports(tmp_path).write(Report(3))
    assert function.process((3,)) == []
    assert function.process((4,)) == [(4, ())]


class Model: ...


class Loads(UnitDoFn):
    def load(self) -> None:
        self.model = Model()


def test_what_a_step_has_loaded_stays_until_another_step_begins() -> None:
    function = Loads("rerank")
    function.setup()
    model = weakref.ref(function.model)
    del function  # as Beam does when a worker has been idle
    gc.collect()
    assert model() is not None
    Emit("rerank").setup()
    gc.collect()
    assert model() is not None
    Emit("propagate").setup()
    gc.collect()
    assert model() is None


def test_a_unit_must_have_its_work() -> None:
    with pytest.raises(NotImplementedError):
        UnitDoFn("index").process((0,))
