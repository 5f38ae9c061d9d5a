"""Arithmetic that a processor or a graphics card has natively, which decides the arithmetic of models that
are served; and how a card is kept busy.

A card is known by the major number of its compute capability: Volta and Turing have 7, Ampere has 8. It
computes what it was asked to in turn, while the host goes on and asks for more, until something makes the
host wait. `sent` and `Arriving` copy without that, and `in_turns` has the host do one batch's work while the
card computes another.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar

import numpy.typing as npt
import torch
from torch import Tensor

T = TypeVar("T")

IN_FLIGHT = {"cpu": 1, "cuda": 2}
"""Batches that are begun before the first of them is done. A processor gains nothing by a second one."""
TEXTS = {"cpu": 256, "cuda": 4_096}
"""That a model is best given in one call: some ten seconds' work of a core, and of a card some batches, so
that the host tokenises one while the card computes another."""
BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536}
"""Tokens of a packed batch that suit a device: on a CPU more of them only cost memory, on a card more were
not tried."""
TRIAL_TOKENS = 16_384
FREE_SHARE = 0.5
"""Of a card's free memory that a budget is meant to take: processes that share the card come and go."""
_VOLTA, _AMPERE = 7, 8


def fast(device: torch.device | str) -> torch.dtype:
    """bf16 on cards from Ampere on and on processors that multiply it, fp16 on cards from Volta on, else
    fp32."""
    if torch.device(device).type == "cuda":
        major = _capability(device)
        return torch.bfloat16 if major >= _AMPERE else torch.float16 if major >= _VOLTA else torch.float32
    can = torch.cpu.get_capabilities()
    return torch.bfloat16 if can.get("amx_bf16") or can.get("avx512_bf16") else torch.float32


def reads_all_lengths(card: torch.device) -> bool:
    """Whether PyTorch's attention over texts of different lengths runs on a card, in half precision."""
    return _capability(card) >= _AMPERE


def _capability(card: torch.device | str) -> int:
    return torch.cuda.get_device_capability(card)[0]


def peak_flops(
    device: torch.device | str, dtype: torch.dtype, rows: int = 8_192, products: int = 20
) -> float:
    """Multiplications and additions a second in the product of two square matrices, which takes a card some
    milliseconds.

    Their numbers are random, as a model's look: how fast a card multiplies depends on them."""
    random = torch.Generator(device).manual_seed(0)
    one, other = (torch.randn(rows, rows, dtype=dtype, device=device, generator=random) for _ in range(2))
    (one @ other)[0, 0].item()  # the first one warms up
    began = time.perf_counter()
    for _ in range(products):
        product = one @ other
    product[0, 0].item()  # waits for all
    return 2 * rows**3 * products / (time.perf_counter() - began)


def texts_at_once(device: str, tokens: int) -> int:
    """Number of texts of at most that many tokens that a model on the device is best given in one call: a
    multiple of TEXTS["cpu"].

    On a card 16 batches of the longest texts, but no more than TEXTS."""
    if device == "cpu":
        return TEXTS["cpu"]
    least = TEXTS["cpu"]
    return min(TEXTS["cuda"], max(least, 16 * BATCH_TOKENS["cuda"] // tokens // least * least))


def sent(values: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on the device. To a card it is copied from pinned memory: a copy from elsewhere waits for
    all that the card was asked to do before."""
    if torch.device(device).type != "cuda" or values.is_cuda:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


class Arriving:
    """A tensor's values on their way to the host, which waits neither for them until it reads them, nor then
    for anything that the card was asked to do later."""

    def __init__(self, values: Tensor) -> None:
        self._values = values.to("cpu", non_blocking=True)
        self._event = torch.cuda.current_stream(values.device).record_event() if values.is_cuda else None

    def numpy(self) -> npt.NDArray[Any]:
        if self._event is not None:
            self._event.synchronize()
        return self._values.numpy()


def in_turns(works: Iterable[Generator[None, None, T]], in_flight: int) -> Iterator[T]:
    """Results of the works, in their order. A work yields, at least once and as often as the others, where it
    is about to wait for the card; up to `in_flight` of them are begun, and go on in turns."""
    begun: deque[Generator[None, None, T]] = deque()

    def go_on(least: int) -> Iterator[T]:
        while len(begun) > least:
            work = begun.popleft()
            try:
                next(work)
                begun.append(work)
            except StopIteration as e:
                yield e.value

    for work in works:
        next(work)
        begun.append(work)
        yield from go_on(in_flight - 1)

    yield from go_on(0)


class Memory(Protocol):
    """A card's memory, in bytes."""

    def begin(self) -> None:
        """From here on count what is taken."""
        ...

    def taken(self) -> int:
        """The most that was taken at once since `begin`, beside what was taken before."""
        ...

    def free(self) -> int:
        """Memory that this process could take now."""
        ...


class CardMemory:
    """The memory of a card, as PyTorch counts it for this process. `begin` sets its peak anew; PEAK keeps the
    former one."""

    def __init__(self, card: torch.device) -> None:
        self._card, self._before = card, 0

    def begin(self) -> None:
        PEAK.begin_anew()
        torch.cuda.reset_peak_memory_stats(self._card)
        self._before = torch.cuda.memory_allocated(self._card)

    def taken(self) -> int:
        return torch.cuda.max_memory_allocated(self._card) - self._before

    def free(self) -> int:
        of_all, _ = torch.cuda.mem_get_info(self._card)
        return of_all + torch.cuda.memory_reserved(self._card) - torch.cuda.memory_allocated(self._card)


class TokenBudget:
    """Number of tokens that are computed at once. No result depends on it.

    On a card the first batch of at least half of TRIAL_TOKENS is a trial: by what it takes, as many as fit
    into FREE_SHARE of the free memory are computed at once from there on, but never more than `most`.
    """

    def __init__(self, most: int, memory: Memory | None) -> None:
        """`memory`: the card's; None on a processor, whose memory is not looked at."""
        self.tokens = most if memory is None else min(most, TRIAL_TOKENS)
        self._most, self._memory = most, memory

    @classmethod
    def of(cls, device: torch.device, most: int) -> TokenBudget:
        return cls(most, CardMemory(device) if device.type == "cuda" else None)

    @contextmanager
    def spending(self, tokens: int) -> Iterator[None]:
        """Around the computation of this number of them."""
        memory = self._memory if 2 * tokens >= min(self._most, TRIAL_TOKENS) else None
        if memory is None:
            yield
            return
        memory.begin()
        yield
        of_a_token = max(1, memory.taken() // tokens)
        self.tokens = max(1, min(self._most, int(FREE_SHARE * memory.free()) // of_a_token))
        self._memory = None

    def run_out(self, tokens: int) -> None:
        """There was no memory for this number of them: half as many are computed from here on, and a warning
        says so."""
        self.tokens, self._memory = max(1, tokens // 2), None
        warnings.warn(f"no memory for {tokens:,} tokens at once; going on with half as many", stacklevel=3)


class Mark(Protocol):
    """A place in what a card was asked to do, such as PyTorch's events."""

    def synchronize(self) -> None:
        """Wait until the card is there."""
        ...

    def query(self) -> bool:
        """Whether the card has been there."""
        ...

    def elapsed_time(self, end_event: Self) -> float:
        """Milliseconds from here to there, of which the card has been at both."""
        ...


class BusyTime:
    """Time of cards at models' layers for this process, by their own clocks: from where they begin a batch's
    to where they have computed them. While the host is late with what comes next within a batch, a card
    counts as busy."""

    def __init__(self, mark: Callable[[torch.device], Mark]) -> None:
        self._mark, self._milliseconds = mark, 0.0
        self._spans: deque[tuple[Mark, Mark]] = deque()

    @contextmanager
    def span(self, device: torch.device) -> Iterator[None]:
        """Around the computation of a batch. On a processor nothing is counted."""
        if device.type != "cuda":
            yield
            return
        # Where nobody takes the time, no more are kept than are under way.
        while self._spans and self._spans[0][1].query():
            self._add()
        begin = self._mark(device)
        yield
        self._spans.append((begin, self._mark(device)))

    def take(self) -> int:
        """Microseconds since the last call; waits for what is under way."""
        while self._spans:
            self._spans[0][1].synchronize()
            self._add()
        taken, self._milliseconds = self._milliseconds, 0.0
        return round(1000 * taken)

    def _add(self) -> None:
        begin, end = self._spans.popleft()
        self._milliseconds += begin.elapsed_time(end)


class PeakMemory:
    """The most of its card's memory that this process has had at once, however often others count the peak
    anew."""

    def __init__(self, largest: Callable[[], int], reset: Callable[[], None]) -> None:
        """`largest`: bytes, since `reset` was called; 0 without a card."""
        self._largest, self._reset, self._kept = largest, reset, 0

    def begin_anew(self) -> None:
        """From here on the card counts its peak anew."""
        self._kept = max(self._kept, self._largest())
        self._reset()

    def take(self) -> int:
        """Bytes at the peak since the last call."""
        self.begin_anew()
        taken, self._kept = self._kept, 0
        return taken


def _on_card() -> bool:
    return torch.cuda.is_available() and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


PEAK = PeakMemory(
    lambda: torch.cuda.max_memory_allocated() if _on_card() else 0,
    lambda: torch.cuda.reset_peak_memory_stats() if _on_card() else None,
)
"""Of this process."""


def _event(card: torch.device) -> Mark:
    event: Mark = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    torch.cuda.current_stream(card).record_event(event)  # type: ignore[arg-type]
    return event


BUSY = BusyTime(_event)
"""Of this process."""
