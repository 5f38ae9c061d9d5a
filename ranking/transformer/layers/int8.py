"""Linear layers of whole numbers, for processors: `precision = "int8"`.

A score must not depend on the other texts of its batch, so each row of inputs has its own step, as each
output of a weight has: a row is divided by its step and rounded to 8 bits, multiplied by oneDNN with weights
of 7 bits, and scaled back. A processor without VNNI adds two products in 16 bits, which hold 2 · 255 · 64: so
the sums are exact, whatever the instructions, and a text's bits are the same alone and in any batch. `exact`
tries it on this machine.

Inputs have more bits than weights, since their largest number is farther from the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import cast

import torch
from torch import Tensor, nn

from answermill.ranking.transformer.devices import fast
from answermill.ranking.transformer.layers import Layer, ModernLayer
from answermill.ranking.transformer.layers.packed_linear import LINEARS

GELU_LEAST = -0.17
"""Bound below GELU's least value, -0.16997."""
MOST_ROWS = 512
"""Rows at once, which stay in a core's cache while they are rounded, multiplied and scaled."""
_STEPS, _WEIGHT_STEPS = 255, 64
_TRIAL = 16, 512, 64  # rows, inputs, outputs


class Int8Linear(nn.Module):
    """A linear layer whose inputs and weights are rounded to whole numbers; it serves, and learns nothing."""

    def __init__(
        self, linear: nn.Linear, least: float | None = None, precision: torch.dtype = torch.float32
    ) -> None:
        """`least`: number below which no input lies, if there is one near 0. The steps then begin there, and
        are half as large as those from minus to plus a row's largest number. `precision`: of the outputs."""
        super().__init__()
        self.precision = precision
        weight = linear.weight.detach()
        self.scale = weight.abs().amax(1) / _WEIGHT_STEPS  # [outputs]
        self.scale[self.scale == 0] = 1  # of outputs whose weights are all 0
        whole = (weight / self.scale[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(whole, None)
        self.zeros = torch.zeros(len(weight), dtype=torch.int64)

        # W x = W (x - least) + least W 1, and the second part is the same for all rows.
        self.least, self.bias = least, None if linear.bias is None else linear.bias.detach()
        if least is not None:
            shift = least * whole.double().sum(1) * self.scale
            self.bias = (shift if self.bias is None else self.bias + shift).float()

    @property
    def zero(self) -> int:
        """Whole number that stands for 0, or for `least`."""
        return 0 if self.least is not None else (_STEPS + 1) // 2

    def whole(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows [n, inputs] as whole numbers from 0 to 255, and the step of each row [n, 1].

        >>> linear = Int8Linear(nn.Linear(3, 2))
        >>> linear.whole(torch.tensor([[-12.7, 0.0, 1.0]]))[0].tolist()
        [[1, 128, 138]]
        """
        largest = rows.amax(1, keepdim=True)
        if self.least is None:
            # A row's largest absolute number; `vector_norm` takes several times as long.
            step = torch.maximum(largest, rows.amin(1, keepdim=True).neg_()) / (_STEPS // 2)
            first: float | Tensor = self.zero
        else:
            step = (largest - self.least) / _STEPS
            first = -self.least / step
        step.clamp_(min=torch.finfo(rows.dtype).tiny)  # of a row of zeros

        # 0.5 more, since the conversion cuts the fraction off. From float to uint8 PyTorch converts number by
        # number, which takes three times as long as by way of int16.
        return (rows * step.reciprocal()).add_(first + 0.5).to(torch.int16).to(torch.uint8), step

    def product(self, whole: Tensor) -> Tensor:
        """[n, outputs]: product of whole numbers and weights, in units of each row's step."""
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            whole,
            1.0,
            self.zero,
            self.packed,
            self.scale,
            self.zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return result

    def forward(self, rows: Tensor) -> Tensor:
        whole, step = self.whole(rows.float())
        product = self.product(whole)
        if self.bias is None:
            product.mul_(step)
        else:
            torch.addcmul(self.bias, product, step, out=product)
        return product.to(self.precision)


def to_int8(layers: Iterable[nn.Module]) -> None:
    """Replace the linear layers of these layers by those of whole numbers. Attention between them is in the
    shortest precision that the processor multiplies. Raises ValueError if this machine does not compute the
    products exactly."""
    if not exact():
        raise ValueError(
            "precision = 'int8': this machine's PyTorch has no exact products of whole numbers (oneDNN's); "
            "leave `precision` out"
        )
    for layer in cast(Iterable[Layer | ModernLayer], layers):
        layer.most_rows = MOST_ROWS
        for name in LINEARS:
            # BERT's last layer reads GELU's values; ModernBERT's reads their products with gates.
            is_gelu = name == "narrow" and isinstance(layer, Layer)
            least = GELU_LEAST if is_gelu else None
            precision = fast("cpu") if name == "attention" else torch.float32
            setattr(layer, name, Int8Linear(getattr(layer, name), least, precision))


@lru_cache
def exact() -> bool:
    """True if this machine's products are those of whole numbers: of the largest, whose sums a processor
    might cut, and of random ones, of several rows and of one."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    with torch.no_grad():
        return all(torch.equal(product, expected) for product, expected in _trials())


def _trials() -> Iterator[tuple[Tensor, Tensor]]:
    """(product by oneDNN, product by double precision)."""
    n, n_in, n_out = _TRIAL
    random = torch.Generator().manual_seed(0)
    linear = nn.Linear(n_in, n_out, bias=False)
    for least in (None, 0.0):
        for spread in (True, False):
            weight, rows = (
                torch.randint(low, high, size, generator=random) if spread else torch.full(size, high - 1)
                for low, high, size in (
                    (-_WEIGHT_STEPS, _WEIGHT_STEPS + 1, (n_out, n_in)),
                    (1, _STEPS + 1, (n, n_in)),
                )
            )
            weight[:, 0] = _WEIGHT_STEPS  # so that the scale is 1
            linear.weight.data = weight.float()
            small, whole = Int8Linear(linear, least), rows.to(torch.uint8)
            expected = ((rows - small.zero).double() @ weight.t().double()).float()
            yield small.product(whole), expected
            yield small.product(whole[:1]), expected[:1]
