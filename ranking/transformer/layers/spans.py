"""Windows over rows: the fixed numbers of rows that are computed at once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

SIZES = (2048, 1536, 1024, 768, 512, 384, 256, 192, 128, 64, 32)
"""Rows of a processor's windows."""
OVERHEAD = 64
"""Rows that take as long as a window takes beside its rows: 25 to 100, by the processor and the precision."""


def in_windows(function: Callable[..., Tensor], places: Iterable[tuple[int, int]], *inputs: Tensor) -> Tensor:
    """Apply a row-wise function to [n, …] tensors in windows: `places` has (first row, rows) of each. The
    last one begins where it ends with the rows, and computes some again, since to fill it up takes a copy."""
    n, outputs = len(inputs[0]), []
    for start, size in places:
        first = max(0, min(start, n - size))
        rows = [x[first : first + size] for x in inputs]
        if missing := size - len(rows[0]):
            rows = [F.pad(x, (0, 0, 0, missing)) for x in rows]
        outputs.append(function(*rows)[start - first : size - missing])
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def spans(n: int, sizes: Sequence[int], few: bool = False) -> Iterator[tuple[int, int]]:
    """(first row, rows) of windows over n rows, the largest first. With `few` the smallest window that holds
    all rows is taken, so that there is one if possible."""
    start = 0
    for size in _few(n, sizes) if few else _cheapest(-(-n // math.gcd(*sizes)), tuple(sizes)):
        yield start, size
        start += size


def _few(n: int, sizes: Sequence[int]) -> Iterator[int]:
    while n > 0:
        size = min((size for size in sizes if size >= n), default=sizes[0])
        yield size
        n -= size


@lru_cache(maxsize=4_096)
def _cheapest(units: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of windows, the largest first, that take the least time over rows in units: the most rows of
    which all sizes are multiples.

    >>> _cheapest(14, (512, 32))  # fourteen windows of 32 would take longer
    (512,)
    """
    unit = math.gcd(*sizes)
    most = sizes[0] // unit
    whole = max(0, units // most - 3)  # windows of the largest size before there is a choice
    best: list[tuple[int, tuple[int, ...]]] = [(0, ())]  # (time in rows, windows) of each number of units
    for number in range(1, units - whole * most + 1):
        before = {size: best[max(0, number - size // unit)] for size in sizes}
        best.append(min((size + OVERHEAD + time, (*rest, size)) for size, (time, rest) in before.items()))
    return tuple(sorted((sizes[0],) * whole + best[-1][1], reverse=True))


def go_on_with_one_thread() -> None:
    """Set torch's threads to one where several would change bits; the first such call warns."""
    warn_of_threads(torch.get_num_threads())
    torch.set_num_threads(1)


@lru_cache
def warn_of_threads(threads: int) -> None:
    warnings.warn(
        f"{threads} threads compute other bits than one on this machine; going on with one", stacklevel=4
    )
