"""What a graphics card is asked for, in which order; that copies hold the same values; and what its memory
holds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator

import numpy as np
import pytest
import torch

from answermill.ranking.transformer.devices import (
    TRIAL_TOKENS,
    Arriving,
    BusyTime,
    PeakMemory,
    TokenBudget,
    each_on_a_core,
    in_turns,
    sent,
    texts_at_once,
)


def work(name: str, waits: int, asked: list[str]) -> Generator[None, None, str]:
    for n in range(waits):
        asked.append(f"{name}{n}")
        yield
    asked.append(f"{name} ends")
    return name


def test_while_the_host_waits_for_one_work_the_next_is_begun() -> None:
    asked: list[str] = []
    assert list(in_turns((work(name, 2, asked) for name in "abc"), 2)) == ["a", "b", "c"]
    assert asked == ["a0", "b0", "a1", "b1", "a ends", "c0", "b ends", "c1", "c ends"]


@pytest.fixture
def three_threads() -> Generator[None, None, None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("casts", [True, False])
def test_each_item_has_one_thread_and_the_modes_of_the_caller(
    three_threads: None, learns: bool, casts: bool
) -> None:
    def modes(item: int) -> tuple[int, int, bool, bool, bool]:
        casting, inference = torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()
        return item, torch.get_num_threads(), torch.is_grad_enabled(), inference, casting

    with torch.set_grad_enabled(learns), torch.autocast("cpu", torch.bfloat16, enabled=casts):
        expected = [(item, 1, learns, False, casts) for item in range(7)]
        assert each_on_a_core(modes, range(7)) == expected
    with torch.inference_mode():
        assert each_on_a_core(modes, range(2)) == [(item, 1, False, True, False) for item in range(2)]
    assert each_on_a_core(modes, [8]) == [(8, 3, True, False, False)]  # alone it has all threads
    assert torch.get_num_threads() == 3


def test_an_error_on_a_core_is_the_caller_s(three_threads: None) -> None:
    with pytest.raises(ZeroDivisionError):
        each_on_a_core(lambda item: 1 / item, [1, 0, 2])
    assert torch.get_num_threads() == 3


def test_a_child_of_a_process_has_cores_of_its_own() -> None:
    """Threads do not outlive a fork."""
    code = (
        "import os, torch; from answermill.ranking.transformer.devices import each_on_a_core; "
        "torch.set_num_threads(2); each_on_a_core(abs, [1, -2]); child = os.fork(); "
        "done = each_on_a_core(abs, [1, -2]) == [1, 2]; "
        "os._exit(not done) if not child else print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100).stdout
    assert output == "0\n"


@pytest.mark.parametrize("in_flight", [1, 2, 3, 9])
def test_results_come_in_the_order_of_the_works(in_flight: int) -> None:
    asked: list[str] = []
    assert list(in_turns((work(name, 3, asked) for name in "abcde"), in_flight)) == list("abcde")
    assert len(asked) == 5 * 4
    if in_flight == 1:
        assert [line[0] for line in asked] == sorted(line[0] for line in asked)  # one after the other


def test_what_is_sent_and_arrives_has_the_same_values() -> None:
    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        values = torch.arange(6.0).view(2, 3)
        there = sent(values, device)
        assert there.device.type == device
        np.testing.assert_array_equal(Arriving(there * 2).numpy(), values.numpy() * 2)


class FakeMemory:
    """Of a card: what the work in a trial takes, and what is free."""

    def __init__(self, taken: int, free: int) -> None:
        self._taken, self._free, self.trials = taken, free, 0

    def begin(self) -> None:
        self.trials += 1

    def taken(self) -> int:
        return self._taken

    def free(self) -> int:
        return self._free


@pytest.mark.parametrize(
    ("free", "tokens"),
    [(10**12, 65_536), (16_384 * 40_000, 8_192), (20_000_000, 250), (0, 1)],
    ids=["big", "small", "tiny", "full"],
)
def test_half_of_the_free_memory_is_for_as_many_tokens_as_a_trial_says(free: int, tokens: int) -> None:
    memory = FakeMemory(taken=16_000 * 40_000, free=free)
    budget = TokenBudget(65_536, memory)
    assert budget.tokens == TRIAL_TOKENS
    for _ in range(3):
        with budget.spending(16_000):
            pass
    assert budget.tokens == tokens and memory.trials == 1


def test_a_few_tokens_are_no_trial_and_without_memory_for_one_half_as_many_are_computed() -> None:
    memory = FakeMemory(taken=10**9, free=10**9)
    budget = TokenBudget(65_536, memory)
    with budget.spending(100):  # a window of 1,024 rows would seem to be what they take
        pass
    assert budget.tokens == TRIAL_TOKENS and memory.trials == 0
    with pytest.raises(torch.OutOfMemoryError), budget.spending(TRIAL_TOKENS):
        raise torch.OutOfMemoryError("no")
    with pytest.warns(UserWarning, match="half as many"):
        budget.run_out(TRIAL_TOKENS)
    with budget.spending(TRIAL_TOKENS // 2):
        pass
    assert budget.tokens == TRIAL_TOKENS // 2 and memory.trials == 1


def test_a_processor_needs_no_trial() -> None:
    budget = TokenBudget.of(torch.device("cpu"), 4_096)
    with budget.spending(4_096):
        pass
    assert budget.tokens == 4_096


class FakeCard:
    """Is where its clock says, and marks what it is asked to do by the number of milliseconds that it will
    have taken."""

    def __init__(self) -> None:
        self.clock, self.waits, self.marked = 0.0, 0, list[float]()

    def mark(self, device: torch.device) -> FakeMark:
        return FakeMark(self, self.marked.pop(0))


class FakeMark:
    def __init__(self, card: FakeCard, at_ms: float) -> None:
        self._card, self._at = card, at_ms

    def synchronize(self) -> None:
        self._card.waits += self._card.clock < self._at
        self._card.clock = max(self._card.clock, self._at)

    def query(self) -> bool:
        return self._card.clock >= self._at

    def elapsed_time(self, end_event: FakeMark) -> float:
        assert end_event.query()
        return end_event._at - self._at


def test_a_card_is_busy_from_where_it_begins_batches_to_where_it_has_computed_them() -> None:
    card = FakeCard()
    busy, device = BusyTime(card.mark), torch.device("cuda")
    card.marked = [10.0, 15.0, 20.0, 23.5]
    for _ in range(2):
        with busy.span(device):
            pass

    assert busy.take() == 8_500 and card.waits == 2
    assert busy.take() == 0
    card.marked, card.clock = [30.0, 31.0, 40.0, 44.0], 30.0
    with busy.span(device):
        pass
    card.clock = 35.0
    with busy.span(device):  # nobody has taken the first: its time is kept, not its marks
        pass
    assert len(busy._spans) == 1

    assert busy.take() == 5_000


def test_a_peak_is_kept_where_others_count_it_anew() -> None:
    peaks = [300]  # of a card that counts the last since it was asked to begin anew
    memory = PeakMemory(lambda: peaks[-1], lambda: peaks.append(0))
    memory.restart()  # as a trial of tokens does
    peaks[-1] = 200
    assert memory.take() == 300
    peaks[-1] = 100
    assert memory.take() == 100
    assert memory.take() == 0


@pytest.mark.parametrize(
    ("device", "tokens", "texts"), [("cpu", 64, 256), ("cuda", 256, 4_096), ("cuda", 512, 2_048)]
)
def test_a_card_is_given_more_texts_at_once_the_shorter_they_are(
    device: str, tokens: int, texts: int
) -> None:
    assert texts_at_once(device, tokens) == texts
    assert texts_at_once("cuda", 8_192) == 256 and texts_at_once("cuda", 300) % 256 == 0


def test_on_a_processor_nothing_is_counted_as_a_card_s_time() -> None:
    busy = BusyTime(FakeCard().mark)
    with busy.span(torch.device("cpu")):
        pass
    assert busy.take() == 0
