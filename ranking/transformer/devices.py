"""Native arithmetic of a processor or a graphics card, which decides the arithmetic of models that are
served; and means to keep a card, or all cores, busy.

A card is identified by the major number of its compute capability: Volta and Turing have 7, Ampere has 8. It
works through a queue, to which the host adds without waiting, until something makes the host wait. `sent` and
`Arriving` copy without waiting, and `in_turns` has the host do one batch's work while the card computes
another.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy.typing as npt
import torch
from torch import Tensor

from answermill.schemas.arrays import StagePrecision, TrainingPrecision

S = TypeVar("S")
T = TypeVar("T")

IN_FLIGHT = {"cpu": 1, "cuda": 2}
"""Batches begun before the first of them is done. A processor gains nothing by a second one."""
TEXTS = {"cpu": 256, "cuda": 4_096}
"""Best number of texts for one call of a model: some ten seconds' work of a core, and of a card some batches,
so that the host tokenises one while the card computes another."""
BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536}
"""Tokens of a packed batch that suit a device, for each of its `cores`: on a CPU more of them only cost
memory, on a card more were not tried."""
CORE_TOKENS = 1_500
"""Fewest tokens of which a core makes a part. Of fewer, all cores share each product: small parts
would fall into small windows (`layers/row_windows.py`)."""
TRIAL_TOKENS = 16_384
FREE_SHARE = 0.5
"""Share of a card's free memory that a budget takes, since other processes may begin to use the card."""
_VOLTA, _AMPERE = 7, 8
_TYPES: dict[Literal["fp32", "bf16", "fp16", "int8"], torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int8": torch.int8,
}
_LEARNT: tuple[TrainingPrecision, ...] = ("fp32", "bf16", "fp16")


def fast(device: torch.device | str) -> torch.dtype:
    """bf16 on cards from Ampere on and on processors that multiply it, fp16 on cards from Volta on, else
    fp32."""
    if torch.device(device).type == "cuda":
        major = _capability(device)
        return torch.bfloat16 if major >= _AMPERE else torch.float16 if major >= _VOLTA else torch.float32
    can = torch.cpu.get_capabilities()
    return torch.bfloat16 if can.get("amx_bf16") or can.get("avx512_bf16") else torch.float32


def native_precision(device: torch.device | str) -> TrainingPrecision:
    """Shortest precision that the device multiplies in hardware."""
    native = fast(device)
    return next(name for name in _LEARNT if _TYPES[name] == native)


def dtype_of(precision: StagePrecision | TrainingPrecision, device: torch.device | str) -> torch.dtype:
    """Type of a model's numbers; of int8, of those in its products."""
    return fast(device) if precision == "auto" else _TYPES[precision]


def reads_all_lengths(card: torch.device) -> bool:
    """True if PyTorch's attention over texts of different lengths runs on a card, in half precision."""
    return _capability(card) >= _AMPERE


def _capability(card: torch.device | str) -> int:
    return torch.cuda.get_device_capability(card)[0]


def peak_flops(
    device: torch.device | str, dtype: torch.dtype, rows: int = 8_192, products: int = 20
) -> float:
    """Multiplications and additions a second in the product of two square matrices, which takes a card some
    milliseconds.

    Their numbers are random, like a model's: a card's speed depends on them."""
    random = torch.Generator(device).manual_seed(0)
    one, other = (torch.randn(rows, rows, dtype=dtype, device=device, generator=random) for _ in range(2))
    (one @ other)[0, 0].item()  # the first one warms up
    began = time.perf_counter()
    for _ in range(products):
        product = one @ other
    product[0, 0].item()  # waits for all
    return 2 * rows**3 * products / (time.perf_counter() - began)


def texts_at_once(device: str, tokens: int) -> int:
    """Best number of texts of at most `tokens` tokens for one call of a model on the device: a multiple of
    TEXTS["cpu"].

    On a card it is 16 batches of the longest texts, but no more than TEXTS."""
    if device == "cpu":
        return TEXTS["cpu"]
    least = TEXTS["cpu"]
    return min(TEXTS["cuda"], max(least, 16 * BATCH_TOKENS["cuda"] // tokens // least * least))


def sent(values: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on the device. To a card it is copied from pinned memory: a copy from elsewhere would wait
    for all of the card's earlier work."""
    if torch.device(device).type != "cuda" or values.is_cuda:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


class Arriving:
    """A tensor's values on their way to the host. The host waits for them only when it reads them, and never
    for the card's later work."""

    def __init__(self, values: Tensor) -> None:
        self._values = values.to("cpu", non_blocking=True)
        self._event = torch.cuda.current_stream(values.device).record_event() if values.is_cuda else None

    def numpy(self) -> npt.NDArray[Any]:
        if self._event is not None:
            self._event.synchronize()
        return self._values.numpy()


def in_turns(works: Iterable[Generator[None, None, T]], in_flight: int) -> Iterator[T]:
    """Results of the works, in their order. A work yields before it waits for the card, at least once and as
    often as the others. Up to `in_flight` of them are begun, and continue in turns."""
    begun: deque[Generator[None, None, T]] = deque()

    def continued(least: int) -> Iterator[T]:
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
        yield from continued(in_flight - 1)

    yield from continued(0)


def cores(device: torch.device | str) -> int:
    """Number of parts of a batch that are computed side by side: on a processor one for each of torch's
    threads, on a card one."""
    return torch.get_num_threads() if torch.device(device).type == "cpu" else 1


def each_on_a_core(function: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """A function's results for the items, in their order: as many at a time as torch has threads, each
    computed by one of them. Threads that share every product would wait for each other after each.

    The function runs under the caller's modes: gradients, inference and autocast.
    """
    threads = torch.get_num_threads()
    if min(threads, len(items)) < 2:
        return [function(item) for item in items]
    inference, learns = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    cast_to, casts = torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")

    def alone(item: S) -> T:
        with (
            torch.inference_mode(inference),
            torch.set_grad_enabled(learns),
            torch.autocast("cpu", cast_to, enabled=casts),
        ):
            return function(item)

    try:
        return list(_cores(threads).map(alone, items))
    finally:
        torch.set_num_threads(threads)  # a thread of the pool sets it for all that begin later


@lru_cache
def _cores(threads: int) -> ThreadPoolExecutor:
    """Threads that stay, since the memory of new ones would have to be had from the system each time."""
    return ThreadPoolExecutor(threads, initializer=_work_alone)


def _work_alone() -> None:
    """Give this thread one of torch's threads. The first call of torch in a thread gives it as many as others
    have, so that call comes before."""
    torch.get_num_threads()
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_cores.cache_clear)  # a child has none of its parent's threads


class Memory(Protocol):
    """A card's memory, in bytes."""

    def begin(self) -> None:
        """Begin to count the memory taken."""
        ...

    def taken(self) -> int:
        """Peak of the memory taken since `begin`, beyond that taken before."""
        ...

    def free(self) -> int:
        """Memory that this process could take now."""
        ...


class CardMemory:
    """Memory of a card, as PyTorch counts it for this process. `begin` resets its peak; PEAK keeps the former
    one."""

    def __init__(self, card: torch.device) -> None:
        self._card, self._before = card, 0

    def begin(self) -> None:
        PEAK.restart()
        torch.cuda.reset_peak_memory_stats(self._card)
        self._before = torch.cuda.memory_allocated(self._card)

    def taken(self) -> int:
        return torch.cuda.max_memory_allocated(self._card) - self._before

    def free(self) -> int:
        free, _ = torch.cuda.mem_get_info(self._card)
        return free + torch.cuda.memory_reserved(self._card) - torch.cuda.memory_allocated(self._card)


class TokenBudget:
    """Number of tokens that are computed at once. No result depends on it.

    On a card the first batch of at least half of TRIAL_TOKENS is a trial: its memory decides how many tokens
    fit into FREE_SHARE of the free memory. Afterwards that number is computed at once, but never more than
    `most`.
    """

    def __init__(self, most: int, memory: Memory | None) -> None:
        """`memory`: the card's; None on a processor, whose memory is not measured."""
        self.tokens = most if memory is None else min(most, TRIAL_TOKENS)
        self._most, self._memory = most, memory

    @classmethod
    def of(cls, device: torch.device, most: int) -> TokenBudget:
        return cls(most, CardMemory(device) if device.type == "cuda" else None)

    @contextmanager
    def spending(self, tokens: int) -> Iterator[None]:
        """Context of the computation of that many tokens, which may be the trial."""
        memory = self._memory if 2 * tokens >= min(self._most, TRIAL_TOKENS) else None
        if memory is None:
            yield
            return
        memory.begin()
        yield
        per_token = max(1, memory.taken() // tokens)
        self.tokens = max(1, min(self._most, int(FREE_SHARE * memory.free()) // per_token))
        self._memory = None

    def run_out(self, tokens: int) -> None:
        """Record that there was no memory for that many tokens: half as many are computed from here on, with
        a warning."""
        self.tokens, self._memory = max(1, tokens // 2), None
        warnings.warn(f"no memory for {tokens:,} tokens at once; going on with half as many", stacklevel=3)


class Mark(Protocol):
    """A place in a card's queue of work, such as PyTorch's events."""

    def synchronize(self) -> None:
        """Wait until the card has reached it."""
        ...

    def query(self) -> bool:
        """True if the card has reached it."""
        ...

    def elapsed_time(self, end_event: Self) -> float:
        """Milliseconds from this mark to another, when the card has reached both."""
        ...


class BusyTime:
    """Time that cards spend on models' layers for this process, by their own clocks: from the first layer of
    a batch to the end of its last. A card counts as busy while it waits for the host within a batch."""

    def __init__(self, mark: Callable[[torch.device], Mark]) -> None:
        self._mark, self._milliseconds = mark, 0.0
        self._spans: deque[tuple[Mark, Mark]] = deque()

    @contextmanager
    def span(self, device: torch.device) -> Iterator[None]:
        """Context of a batch's computation, whose time is counted on a card."""
        if device.type != "cuda":
            yield
            return
        # If `take` is never called, only spans under way are kept.
        while self._spans and self._spans[0][1].query():
            self._add()
        begin = self._mark(device)
        yield
        self._spans.append((begin, self._mark(device)))

    def take(self) -> int:
        """Microseconds since the last call; waits for batches under way."""
        while self._spans:
            self._spans[0][1].synchronize()
            self._add()
        taken, self._milliseconds = self._milliseconds, 0.0
        return round(1000 * taken)

    def _add(self) -> None:
        begin, end = self._spans.popleft()
        self._milliseconds += begin.elapsed_time(end)


class PeakMemory:
    """Peak of its card's memory in this process, however often others reset the card's own count."""

    def __init__(self, largest: Callable[[], int], reset: Callable[[], None]) -> None:
        """`largest` gives the peak in bytes since the last call of `reset`; 0 without a card."""
        self._largest, self._reset, self._kept = largest, reset, 0

    def restart(self) -> None:
        """Keep the peak so far, and let the card begin a new one."""
        self._kept = max(self._kept, self._largest())
        self._reset()

    def take(self) -> int:
        """Peak in bytes since the last call."""
        self.restart()
        taken, self._kept = self._kept, 0
        return taken


def _on_card() -> bool:
    return torch.cuda.is_available() and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


PEAK = PeakMemory(
    lambda: torch.cuda.max_memory_allocated() if _on_card() else 0,
    lambda: torch.cuda.reset_peak_memory_stats() if _on_card() else None,
)
"""Peak of the card's memory in this process."""


def _event(card: torch.device) -> Mark:
    event: Mark = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    torch.cuda.current_stream(card).record_event(event)  # type: ignore[arg-type]
    return event


BUSY = BusyTime(_event)
"""Busy time of cards for this process."""
