"""Linear layers as a processor that multiplies bf16 computes them fastest: the weights in oneDNN's own
layout, made once and not in each product, and what follows a product, GELU or a sum, within it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import torch
from torch import Tensor, nn

LINEARS = ("attention", "output", "widen", "narrow")
"""Names of the linear layers in each kind of layer."""
_ROWS = 2_048
"""Rows for which oneDNN chooses the layout; any number of rows is multiplied with it."""


class PackedLinear(nn.Module):
    """A linear layer in bf16 that serves, and learns nothing. GELU and sums are computed before a number is
    rounded to bf16, so they lose less than after it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.bias = None if linear.bias is None else linear.bias.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)

    def __deepcopy__(self, memo: object) -> PackedLinear:
        """Itself, since it never changes."""
        return self

    def forward(self, rows: Tensor) -> Tensor:
        """[n, outputs], of rows [n, inputs]."""
        return self._product(rows, "none")

    def gelu(self, rows: Tensor) -> Tensor:
        """GELU of the layer's result [n, outputs]."""
        return self._product(rows, "gelu")

    def plus(self, rows: Tensor, hidden: Tensor) -> Tensor:
        """Sum of the layer's result and h [n, outputs]."""
        product = torch.ops.mkldnn._linear_pointwise.binary
        result: Tensor = product(rows, hidden, self.packed, self.bias, "add")
        return result

    def _product(self, rows: Tensor, then: str) -> Tensor:
        product = torch.ops.mkldnn._linear_pointwise
        result: Tensor = product(rows, self.packed, self.bias, then, [], "none")
        return result


def packs(device: torch.device | str, precision: torch.dtype) -> bool:
    """True where layers serve as `PackedLinear`."""
    return precision == torch.bfloat16 and torch.device(device).type == "cpu" and _multiplies_bf16()


def pack(layers: Iterable[nn.Module]) -> None:
    """Replace the linear layers of these layers."""
    for layer in layers:
        for name in LINEARS:
            setattr(layer, name, PackedLinear(getattr(layer, name)))


@cache
def _multiplies_bf16() -> bool:
    """True if oneDNN is there, and has products in bf16 for this processor."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
