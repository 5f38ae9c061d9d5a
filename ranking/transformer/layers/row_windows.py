"""Row-wise functions over fixed numbers of rows, so that a row's bits do not depend on the rows beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.transformer.devices import BATCH_TOKENS
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.layers.attention import dropped
from answermill.ranking.transformer.layers.packed_linear import PackedGates, PackedLinear, packs
from answermill.ranking.transformer.layers.spans import SIZES, go_on_with_one_thread, in_windows, spans

_WINDOWS = {"cpu": SIZES, "cuda": (*range(BATCH_TOKENS["cuda"], 0, -4_096), 2_048, 1_024)}
_Product: TypeAlias = Callable[[Tensor, nn.Module], Tensor]


def steady_products(can: Mapping[str, object]) -> dict[str, str]:
    """Settings of the environment with which MKL's bits do not depend on where numbers lie in memory, and so
    not on the number of threads, on a processor with these capabilities. They cost no time. None are needed
    with AVX-512, nor on other makers' processors.

    >>> steady_products({"cpu_name": "Intel Core", "avx2": True})
    {'MKL_CBWR': 'AVX2,STRICT'}
    """
    is_intel = str(can.get("cpu_name", "")).startswith("Intel")
    return {"MKL_CBWR": "AVX2,STRICT"} if is_intel and can.get("avx2") and not can.get("avx512_f") else {}


for _name, _value in steady_products(torch.cpu.get_capabilities()).items():
    os.environ.setdefault(_name, _value)  # MKL reads it at its first product


def by_rows(
    function: Callable[..., Tensor], shape: Shape, *inputs: Tensor, most: int | None = None
) -> Tensor:
    """Apply a row-wise function to [n, …] tensors: at once if gradients are needed, else window by window.
    `most`: most rows of a window, if there are windows of so few."""
    if torch.is_grad_enabled() or not len(inputs[0]):
        return function(*inputs)
    return in_windows(function, _windows_of(inputs[0], shape, most), *inputs)


def filled_up(hidden: Tensor, shape: Shape) -> Tensor:
    """On a card, h [n, d] with rows added to fill its windows; elsewhere unchanged."""
    if not hidden.is_cuda or not len(hidden):
        return hidden
    return F.pad(hidden, (0, 0, 0, sum(size for _, size in _windows_of(hidden, shape)) - len(hidden)))


def _windows_of(rows: Tensor, shape: Shape, most: int | None = None) -> Iterator[tuple[int, int]]:
    """(first row, rows) of the windows over rows [n, …]; only the last may reach beyond them."""
    device = rows.device.type
    learns = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if learns else rows.dtype
    sizes = exact_windows(device, dtype, shape, torch.get_num_threads(), packs(device, dtype) and not learns)
    fewer = [size for size in sizes if most is None or size <= most]
    return spans(len(rows), fewer or sizes, few=rows.is_cuda)


def added(sums: Tensor, hidden: Tensor) -> Tensor:
    """Sum of a fresh tensor, such as a linear layer's result, and h. In inference it is computed in the fresh
    tensor's memory: other memory would take longer than the sum."""
    return sums.add_(hidden) if _overwrites(sums) else sums + hidden


def summed(rows: Tensor, linear: nn.Module, hidden: Tensor, dropout: float = 0.0) -> Tensor:
    """Sum of a linear layer's result, after dropout, and h."""
    if isinstance(linear, PackedLinear):
        return linear.plus(rows, hidden)
    return added(dropped(linear(rows), dropout), hidden)


def widened(hidden: Tensor, linear: nn.Module) -> Tensor:
    """GELU of a linear layer, in inference in the memory of the layer's result.

    A card that serves in half precision computes it within the product, by its form with tanh (Hendrycks &
    Gimpel 2016): at most 0.0005 away, less than half precision rounds off.
    """
    if hidden.is_cuda and hidden.dtype != torch.float32 and not torch.is_grad_enabled():
        assert isinstance(linear, nn.Linear)  # whole numbers are for processors
        return torch._addmm_activation(linear.bias, hidden, linear.weight.t(), use_gelu=True)
    if isinstance(linear, PackedLinear):
        return linear.gelu(hidden)
    wide = linear(hidden)
    values: Tensor = torch.ops.aten.gelu_(wide) if _overwrites(wide) else F.gelu(wide)
    return values


def gated(hidden: Tensor, linear: nn.Module) -> Tensor:
    """GELU of the first half of a linear layer's outputs, times the other half (GEGLU, Shazeer 2020, Eq.
    6)."""
    result: Tensor = linear(hidden)
    if isinstance(linear, PackedGates):
        return result
    values, gates = result.chunk(2, -1)
    return F.gelu(values) * gates


def _linear(hidden: Tensor, linear: nn.Module) -> Tensor:
    product: Tensor = linear(hidden)
    return product


def _with_sum(rows: Tensor, linear: nn.Module) -> Tensor:
    """The product of an exact window's trial with a sum: each row's first number is added to its result."""
    bias = linear.bias
    assert isinstance(bias, Tensor)
    return summed(rows, linear, rows[:, :1].expand(-1, len(bias)).contiguous())


def _overwrites(fresh: Tensor) -> bool:
    """True in inference. Gradients need the former values, and under autocast a result may have another
    precision."""
    return not torch.is_grad_enabled() and not torch.is_autocast_enabled(fresh.device.type)


def exact_windows(
    device: str, dtype: torch.dtype, shape: Shape, threads: int, packed: bool = False
) -> tuple[int, ...]:
    """Numbers of rows of the usable windows: the largest, and each smaller one that gives the same bits as
    the largest.

    Tried once in a process, on random numbers, with each linear layer of this shape: a window counts as the
    same if its first rows and its last rows are equal, bit for bit, to those of the largest window computed
    by one thread. So the number of threads changes no bit either: where it would, this call sets torch's
    threads to one, and the first such call warns. `packed`: True if the layers serve as `PackedLinear`, which
    gives the same bits for any number of rows: then nothing is tried.
    """
    if packed:
        return _WINDOWS[device]
    sizes = _equal_windows(device, dtype, shape, threads)
    if sizes or threads == 1:
        return sizes
    go_on_with_one_thread()
    return _equal_windows(device, dtype, shape, 1)


@lru_cache
def _equal_windows(device: str, dtype: torch.dtype, shape: Shape, threads: int) -> tuple[int, ...]:
    """Usable windows with this number of threads; none if it changes bits of the largest."""
    largest, *smaller = _WINDOWS[device]
    random = torch.Generator(device).manual_seed(0)
    same = [largest, *smaller]

    with torch.no_grad(), torch.autocast(device, enabled=False):
        for product, n_in, n_out in _products(shape):
            sizes = ((largest, n_in), (n_out, n_in), (n_out,))
            rows, weight, bias = (
                torch.randn(size, generator=random, device=device, dtype=dtype) for size in sizes
            )
            linear = nn.utils.skip_init(nn.Linear, n_in, n_out, device=device, dtype=dtype)  # type: ignore[no-untyped-call]
            linear.load_state_dict({"weight": weight, "bias": bias}, assign=True)
            torch.set_num_threads(1)
            whole = product(rows, linear)
            torch.set_num_threads(threads)
            same = [
                size
                for size in same
                if torch.equal(product(rows[:size], linear), whole[:size])
                and (size == largest or torch.equal(product(rows[-size:], linear), whole[-size:]))
            ]

    return tuple(same) if largest in same else ()


def _products(shape: Shape) -> Iterator[tuple[_Product, int, int]]:
    """(product, inputs, outputs) of each linear layer of this shape."""
    width, inner = shape.width, shape.inner
    if shape.embedded:
        yield _linear, shape.embedded, width
    yield _linear, width, 3 * width
    yield _with_sum, width, width
    yield _with_sum, inner, width
    if shape.rotary:  # its GELU is of half the numbers, after the product
        yield _linear, width, 2 * inner
    else:
        yield widened, width, inner
