"""A worker process does one unit at a time, never one twice, and keeps what a step has loaded."""

from __future__ import annotations

import errno
import gc
import platform
import weakref
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier, get_ident
from typing import ClassVar

import pytest

from answermill.indexing.shards.dense import ModelMissing
from answermill.indexing.shards.shard_files import ShardDamaged
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import BAD_DATA, IO, JobError
from answermill.pipelines.runs.counts import Peak, StepCounts
from answermill.pipelines.runs.manifests.failures import Limits
from answermill.pipelines.runs.manifests.reports import Report, Reports
from answermill.pipelines.runs.step import MARK
from answermill.ranking.reranker import ScoreNotFinite
from tests.made_steps import NoUnits, report, reports_of


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The work folder of a step that has begun."""
    (tmp_path / MARK).touch()
    return tmp_path


class Overlaps(UnitWork):
    """Notes which thread is at work; emits the numbers of changes of thread that it saw in the middle of a
    unit."""

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


def test_a_unit_runs_alone_in_its_process_to_its_last_result(begun: Path) -> None:
    both_ready = Barrier(2)

    def work(function: Overlaps) -> list[int]:
        both_ready.wait()
        function.setup()
        return [other for unit in range(3) for other in function.process((unit,))]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, [Overlaps("index", begun), Overlaps("rerank", begun)])) == [[], []]


class Emit(UnitWork):
    def work(self, unit: int, *rest: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        yield unit, rest


def test_a_unit_gets_the_rest_of_its_element(begun: Path) -> None:
    assert Emit("index", begun).process((3, "a", "b")) == [(3, ("a", "b"))]


class EmitAgain(Emit):
    skips_reported = False


def test_a_unit_that_has_reported_is_skipped(begun: Path) -> None:
    function = Emit("index", begun)
    reports_of(begun).write(report(3))
    assert EmitAgain("index", begun).process((3,)) == [(3, ())]
    assert function.process((3,)) == []
    assert function.process((4,)) == [(4, ())]


def test_of_a_unit_that_has_reported_the_report_is_not_read(begun: Path) -> None:
    (begun / "unit-00003.json").write_text("whatever is in it, the command that adds the reports up reads it")
    assert Emit("index", begun).process((3,)) == []


class FailsAtFirst(UnitWork):
    tries = 0

    def work(self, unit: int) -> Iterator[tuple[int, int]]:
        self.tries += 1
        if self.tries < 3:
            raise KeyError("once more")
        yield unit, self.tries


def test_the_limits_are_read_when_a_worker_begins(begun: Path) -> None:
    Limits(tries=3).write(begun)
    function = FailsAtFirst("index", begun)
    function.setup()
    Limits(tries=1).write(begun)
    assert function.process((0,)) == [(0, 3)]


class Model: ...


class Loads(NoUnits):
    def load(self) -> None:
        self.model = Model()


def test_what_a_step_has_loaded_stays_until_another_step_begins(begun: Path) -> None:
    function = Loads("rerank", begun)
    function.setup()
    model = weakref.ref(function.model)
    del function  # as Beam does when a worker has been idle
    gc.collect()
    assert model() is not None
    Emit("rerank", begun).setup()
    gc.collect()
    assert model() is not None
    Emit("propagate", begun).setup()
    gc.collect()
    assert model() is None


class Fails(UnitWork):
    def work(self, unit: int, error: Exception) -> None:
        raise error


def test_an_error_says_step_and_unit_and_keeps_its_exit_code(begun: Path) -> None:
    with pytest.raises(JobError) as e:
        Fails("rerank", begun).process((7, JobError("the part was changed", BAD_DATA)))
    assert (str(e.value), e.value.code) == ("rerank, unit 7: the part was changed", BAD_DATA)


class FailsFrom(UnitWork):
    def work(self, unit: int, cause: Exception) -> None:
        raise RuntimeError("odd") from cause


@pytest.mark.parametrize(
    "error", [ShardDamaged("00000-of-00002: damaged"), ModelMissing("none"), ScoreNotFinite("score nan")]
)
@pytest.mark.parametrize("kind", [Fails, FailsFrom])
def test_errors_with_an_exit_code_of_their_own_keep_it_also_as_causes(
    begun: Path, kind: type[UnitWork], error: RuntimeError
) -> None:
    with pytest.raises(JobError) as e:
        kind("rerank", begun).process((7, error))
    assert (str(e.value), e.value.code) == (f"rerank, unit 7: {error}", vars(type(error))["exit_code"])


class FailsToLoad(NoUnits):
    def load(self) -> None:
        raise KeyError("a defect")


def test_a_defect_before_the_first_unit_says_the_step(begun: Path) -> None:
    with pytest.raises(KeyError) as e:
        FailsToLoad("rerank", begun).setup()
    assert e.value.__notes__ == ["rerank"]


class LacksFile(NoUnits):
    def load(self) -> None:
        raise RuntimeError("odd") from FileNotFoundError(errno.ENOENT, "x", "absent.tsv")


def test_what_an_error_was_raised_from_says_what_to_mend(begun: Path) -> None:
    with pytest.raises(JobError, match=r"^rerank: absent\.tsv: No such file or directory") as e:
        LacksFile("rerank", begun).setup()
    assert e.value.code == IO


class LosesFile(NoUnits):
    def load(self) -> None:
        try:
            raise FileNotFoundError(errno.ENOENT, "x", "absent.tsv")
        except FileNotFoundError:
            raise KeyError("colour")  # noqa: B904


def test_a_defect_while_a_missing_file_is_handled_is_a_defect(begun: Path) -> None:
    with pytest.raises(KeyError, match="colour"):
        LosesFile("rerank", begun).setup()


class Measured:
    """Metrics, as an engine's."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.values: dict[str, int] = {}

    def count(self, name: str, number: int) -> None:
        self.counts[name] += number

    def measure(self, name: str, value: int) -> None:
        self.values[name] = value


@dataclass(frozen=True)
class Found(StepCounts):
    """Counts of a step that has a sum and a largest number."""

    hits: int = 0
    peak_bytes: Peak = 0


class Finds(UnitWork):
    def work(self, unit: int) -> None:
        if unit > 1:
            raise KeyError("colour")
        Reports(self._work_folder, Found).write(Report(unit, {}, Found(hits=3, peak_bytes=8 + unit)))


def test_metrics_are_the_counts_of_the_units_that_were_done_now(begun: Path) -> None:
    measured, work = Measured(), Finds("rerank", begun, Found)
    for unit in (0, 1, 1, 2):
        work.process((unit,), measured)
    assert measured.counts == {"hits": 6, "failed_units": 1}
    assert set(measured.values) == {"unit_milliseconds", "peak_bytes"} and measured.values["peak_bytes"] == 9


class FullDisk(UnitWork):
    def work(self, unit: int, file: str | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", file)


@pytest.mark.parametrize("file", ["run/scored/.part-00003.0123456789abcdef0123456789abcdef.tmp", None])
def test_an_error_of_the_disk_says_step_unit_and_the_user_s_file_or_folder(
    begun: Path, file: str | None
) -> None:
    with pytest.raises(JobError) as e:
        FullDisk("rerank", begun).process((3, file))
    place = "run/scored/part-00003" if file else str(begun.parent.parent)
    assert (
        str(e.value).startswith(f"rerank, unit 3: {place}: No space left on device; free some space")
        and e.value.code == IO
    )


def test_a_worker_that_does_not_see_the_run_says_which_machine_and_folder(tmp_path: Path) -> None:
    with pytest.raises(
        JobError, match=f"^rerank, unit 7: .* sees no {tmp_path}/fingerprint: do all workers see"
    ) as e:
        Emit("rerank", tmp_path).process((7,))
    assert e.value.code == IO
    assert platform.node() in str(e.value)


def test_a_worker_that_cannot_load_since_it_does_not_see_the_run_says_that(tmp_path: Path) -> None:
    with pytest.raises(
        JobError, match=f"^rerank: .* sees no {tmp_path}/fingerprint: do all workers see"
    ) as e:
        FailsToLoad("rerank", tmp_path).setup()
    assert e.value.code == IO
