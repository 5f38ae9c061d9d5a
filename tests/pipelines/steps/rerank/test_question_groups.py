"""Rerank does a part group by group: a stopped one goes on at its group, and the part's bytes depend on
neither."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, Literal

import pytest

from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.rerank import RERANK, RerankCounts
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.rerank import question_groups
from answermill.pipelines.steps.rerank.answers import questions_of
from answermill.pipelines.steps.rerank.question_groups import groups, ranked_lists, rerank_lists
from answermill.pipelines.steps.rerank.rerank import rerank_part
from answermill.ranking.plan import Stage
from answermill.ranking.reranker import order_by
from answermill.ranking.transformer import devices
from answermill.schemas.ranked import Hit, RankedList

"""Settings of answers/; the plan is given."""


class Stopped(BaseException):
    pass


class Letters:
    """Score = letters of the sentence. Counts its calls and candidates, and is stopped at one of its
    calls."""

    name: ClassVar[str] = "letters"
    reads: ClassVar[Literal["sentence"]] = "sentence"
    writes: ClassVar[Literal["sentence"]] = "sentence"

    def __init__(self, stop_at: int | None = None) -> None:
        self.calls, self._stop_at, self._costs = 0, stop_at, Counter[str]()

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        if self.calls == self._stop_at:
            raise Stopped
        self.calls += 1
        self._costs["candidates"] += sum(len(ranked.candidates) for ranked in lists)
        return [order_by(ranked, [len(c.text) for c in ranked.candidates], self.name) for ranked in lists]

    def costs(self) -> Counter[str]:
        spent, self._costs = self._costs, Counter()
        return spent


class Reranking:
    """Reranks the first part of a run into a folder, as often as it is called."""

    def __init__(self, retrieved: Folder[Hit], run: Path) -> None:
        self._questions, self._retrieved = questions_of(retrieved.path.parent, retrieved), retrieved
        self.step, self.progress = Step(run, RERANK, {}, {}), list[tuple[int, int]]()
        Commit(self.step).begin()

    def __call__(self, reranker: Letters) -> RerankCounts:
        """The unit's counts, without those that depend on the clock."""
        self.progress.clear()
        plan = [Stage("letters", reranker, 3)]
        tell = lambda *said: self.progress.append(said)  # noqa: E731
        rerank_part(0, self._questions, self._retrieved, plan, self.step, on_group=tell)
        counts = self.step.reports.read()[0].counts
        letters = counts.stages["letters"]
        assert letters.microseconds >= 0 and letters.incoming == counts.candidates > 100
        return replace(counts, stages={"letters": replace(letters, microseconds=0)})

    def sha256(self) -> str:
        return self.step.reports.read()[0].parts["scored"][0].sha256


@pytest.fixture(scope="module")
def retrieved(small_run: Path) -> Folder[Hit]:
    return RETRIEVED.open(small_run)


@pytest.fixture
def at_once(retrieved: Folder[Hit], tmp_path: Path) -> tuple[dict[str, int], str]:
    """Counts and digest of a part that is done as one group, of which nothing is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(question_groups, "PASSAGES", 10**9)
        reranker, reranking = Letters(), Reranking(retrieved, tmp_path / "at_once")
        counts = reranking(reranker)
        assert reranker.calls == 1
    return counts, reranking.sha256()


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch, retrieved: Folder[Hit]) -> int:
    """Groups so small that the part has several, all of which are kept. Returns how many."""
    monkeypatch.setattr(question_groups, "PASSAGES", 100)
    monkeypatch.setattr(question_groups, "KEEP_S", 0.0)
    part = retrieved.parts[0]
    hits = list(retrieved.read())[: part.rows]
    number = sum(1 for _ in groups(ranked_lists(iter(hits))))
    assert number >= 4
    return number


def test_groups_hold_whole_lists_in_their_order_and_no_more_passages_than_they_may(
    retrieved: Folder[Hit],
) -> None:
    lists = list(ranked_lists(retrieved.read()))
    cut = list(groups(iter(lists)))
    assert [ranked for group in cut for ranked in group] == lists and len(cut) > 1
    assert all(
        len(group) == 1 or sum(len(r.candidates) for r in group) <= question_groups.PASSAGES for group in cut
    )


def test_a_stopped_part_goes_on_at_its_group_with_the_same_bytes_and_counts(
    retrieved: Folder[Hit], tmp_path: Path, at_once: tuple[dict[str, int], str], small_groups: int
) -> None:
    reranking = Reranking(retrieved, tmp_path / "run")
    with pytest.raises(Stopped):
        reranking(Letters(stop_at=3))
    again = Letters()
    assert reranking(again) == at_once[0]
    assert again.calls == small_groups - 3
    assert reranking.sha256() == at_once[1]
    assert [kept == passages for passages, kept in reranking.progress] == [True] * 3 + [False] * (
        small_groups - 3
    )
    assert sum(passages for passages, _ in reranking.progress) == retrieved.parts[0].rows
    assert list(reranking.step.work.rglob("groups-*/*")) == []


def test_a_group_that_was_damaged_or_lost_is_done_again_and_a_line_says_so(
    retrieved: Folder[Hit],
    tmp_path: Path,
    at_once: tuple[dict[str, int], str],
    small_groups: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reranking = Reranking(retrieved, tmp_path / "run")
    with pytest.raises(Stopped):
        reranking(Letters(stop_at=3))
    first, second, _ = sorted(reranking.step.work.rglob("groups-00000/part-*"))
    first.write_bytes(first.read_bytes()[:-9])
    second.unlink()
    capsys.readouterr()
    again = Letters()
    assert reranking(again) == at_once[0]

    assert again.calls == small_groups - 1

    lines = capsys.readouterr().err.splitlines()
    said = "rerank: a group that was kept cannot be read, and is scored again: "
    assert [line.startswith(said) for line in lines] == [True, True]
    assert first.name in lines[0] and second.name in lines[1]
    assert reranking.sha256() == at_once[1]


def test_on_a_graphics_card_groups_are_larger_and_none_of_other_questions_is_taken_for_kept(
    retrieved: Folder[Hit], tmp_path: Path, small_groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = list(ranked_lists(retrieved.read()))
    monkeypatch.setattr(question_groups, "PASSAGES_ON_CARD", 10**9)
    assert list(groups(iter(lists), on_card=True)) == [lists]
    kept = question_groups.KeptGroups(tmp_path / "groups")
    rows, _ = kept.rerank(0, lists[:2], [Stage("letters", Letters(), 3)])
    before = kept.read(0, lists[:2])
    assert before is not None and before[0] == rows
    assert kept.read(0, lists[1:3]) is None  # a part that goes on where a card makes other groups


def test_what_a_part_spent_that_failed_is_not_booked_on_the_next(
    retrieved: Folder[Hit], tmp_path: Path, at_once: tuple[dict[str, int], str]
) -> None:
    shared = Letters()
    shared.rerank(list(ranked_lists(retrieved.read())))
    assert Reranking(retrieved, tmp_path / "run")(shared) == at_once[0]


def test_what_a_graphics_card_took_is_counted_for_the_stage_that_had_it_computed(
    retrieved: Folder[Hit], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Busy:
        under_way = 900  # by something before the plan

        def take(self) -> int:
            taken, self.under_way = self.under_way, 0
            return taken

    class OnCard(Letters):
        def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
            busy.under_way += 70
            return super().rerank(lists)

    busy = Busy()
    peaks = iter([900, 350, 900, 0, 900, 400])  # before and after each stage
    monkeypatch.setattr(devices, "BUSY", busy)
    monkeypatch.setattr(devices, "PEAK", SimpleNamespace(take=lambda: next(peaks)))
    lists = list(ranked_lists(retrieved.read()))[:3]
    plan = [Stage("first", OnCard()), Stage("second", Letters()), Stage("third", OnCard())]
    _, counts = rerank_lists(lists, plan)
    on_card = {key: (stage.card_microseconds, stage.card_peak_bytes) for key, stage in counts.stages.items()}
    assert on_card == {"first": (70, 350), "second": (0, 0), "third": (70, 400)}


def test_a_group_that_takes_no_time_is_not_kept(retrieved: Folder[Hit], tmp_path: Path) -> None:
    reranking = Reranking(retrieved, tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(question_groups, "KEEP_S", 3_600.0)
        reranking(Letters(stop_at=1))
    assert not (reranking.step.work / "groups-00000").exists()
