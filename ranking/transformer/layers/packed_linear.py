"""Linear layers as a processor that multiplies bf16 computes them fastest: the weights in oneDNN's own
layout, made once and not in each product, and what follows a product, GELU, a sum or gates, within it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache, partial

import torch
from torch import Tensor, nn

from answermill.ranking.transformer.layers.spans import SIZES, go_on_with_one_thread, in_windows, spans

LINEARS = ("attention", "output", "widen", "narrow")
"""Names of the linear layers in each kind of layer."""
_ROWS = 2_048
"""Rows for which oneDNN chooses the layout; any number of rows is multiplied with it."""


class PackedLinear(nn.Module):
    """A linear layer in bf16 that serves, and learns nothing. What follows it is computed before a number is
    rounded to bf16, so it loses less than after it.

    A row's bits depend on no other row: where oneDNN cuts the sums of a product in another way for few rows,
    as with AMX, more are computed.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.bias = None if linear.bias is None else linear.bias.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)
        self._size = linear.in_features, linear.out_features, linear.bias is not None

    def __deepcopy__(self, memo: object) -> PackedLinear:
        """Itself, since it never changes."""
        return self

    def forward(self, rows: Tensor) -> Tensor:
        """[n, outputs], of rows [n, inputs]."""
        return self._computed("none", rows)

    def gelu(self, rows: Tensor) -> Tensor:
        """GELU of the layer's result [n, outputs]."""
        return self._computed("gelu", rows)

    def plus(self, rows: Tensor, hidden: Tensor) -> Tensor:
        """Sum of the layer's result and h [n, outputs]."""
        return self._computed("add", rows, hidden)

    def times(self, rows: Tensor, values: Tensor) -> Tensor:
        """Product of the layer's result and values [n, outputs], number by number."""
        return self._computed("mul", rows, values)

    def _computed(self, then: str, *inputs: Tensor) -> Tensor:
        n, sizes = len(inputs[0]), exact_rows(*self._size, then, torch.get_num_threads())
        if not sizes:
            go_on_with_one_thread()
            sizes = exact_rows(*self._size, then, 1)
        if not n or n in sizes:
            return self.product(then, *inputs)
        return in_windows(partial(self.product, then), spans(n, sizes), *inputs)

    def product(self, then: str, rows: Tensor, *others: Tensor) -> Tensor:
        """The product of these rows at once, and what follows it: 'none', 'gelu', or, with other numbers
        [n, outputs], 'add' or 'mul'."""
        product = torch.ops.mkldnn._linear_pointwise
        result: Tensor = (
            product.binary(rows, *others, self.packed, self.bias, then)
            if others
            else product(rows, self.packed, self.bias, then, [], "none")
        )
        return result


class PackedGates(nn.Module):
    """A linear layer as `PackedLinear` computes it: GELU of the first half of its outputs, times the other
    half."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.values, self.gates = (PackedLinear(half) for half in _halves(linear))

    def forward(self, rows: Tensor) -> Tensor:
        """[n, outputs / 2], of rows [n, inputs]."""
        return self.gates.times(rows, self.values.gelu(rows))


def _halves(linear: nn.Linear) -> Iterator[nn.Linear]:
    """Layers of the first half of a layer's outputs and of the other half, with its weights."""
    outputs, inputs = linear.weight.shape
    for rows in (slice(outputs // 2), slice(outputs // 2, None)):
        half = nn.Linear(inputs, outputs // 2, bias=linear.bias is not None, device="meta")
        parts = {name: weights.detach()[rows] for name, weights in linear.named_parameters()}
        half.load_state_dict(parts, assign=True)
        yield half


@lru_cache
def exact_rows(inputs: int, outputs: int, biased: bool, then: str, threads: int) -> tuple[int, ...]:
    """Numbers of rows, the largest first, with which a product of this size gives rows the bits that they
    have among the most, computed by one thread; none if no number does so with these threads. Tried once in
    a process, on random numbers.
    """
    random = torch.Generator().manual_seed(0)
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        linear = nn.utils.skip_init(nn.Linear, inputs, outputs, bias=biased, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]
        for weights in linear.parameters():
            weights.copy_(torch.randn(weights.shape, generator=random))
        packed = PackedLinear(linear)
        columns = (inputs, outputs) if then in ("add", "mul") else (inputs,)
        rows = [torch.randn(SIZES[0], n, generator=random).bfloat16() for n in columns]

        torch.set_num_threads(1)
        whole = packed.product(then, *rows)
        torch.set_num_threads(threads)
        exact = (
            size
            for size in SIZES
            if torch.equal(packed.product(then, *(x[:size] for x in rows)), whole[:size])
            and torch.equal(packed.product(then, *(x[-size:] for x in rows)), whole[-size:])
        )
        return tuple(exact)


def packs(device: torch.device | str, precision: torch.dtype) -> bool:
    """True where layers serve as `PackedLinear`."""
    return precision == torch.bfloat16 and torch.device(device).type == "cpu" and _multiplies_bf16()


def pack(layers: Iterable[nn.Module]) -> None:
    """Replace the linear layers of these layers."""
    for layer in layers:
        for name in LINEARS:
            kind = PackedGates if name == "widen" and layer.is_gated else PackedLinear
            setattr(layer, name, kind(getattr(layer, name)))


@cache
def _multiplies_bf16() -> bool:
    """True if oneDNN is there, and has products in bf16 for this processor."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
