"""Weights in few bytes, as differences to those of a public body that they began as.

A weight W is stored in one of three ways, by P, the public weight that it began as (0 if it began at random):

    nothing         W = P: the training left it as it was
    NAME.a, NAME.b  W = P + a b, with a [rows, r] and b [r, columns]
    NAME            W itself: vectors, and matrices without a P

Matrices may be int8; then X.scale [rows, 1] is what a row's numbers are to be multiplied by. The rank r of a
matrix is the least that keeps a share of its difference's energy, the sum of its squares: a training that
moved some layers more, or in fewer directions, than others is stored with ranks that differ alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from answermill.ranking.transformer.devices import each_on_a_core
from answermill.ranking.transformer.encoder import LayeredEncoder

SMALL = 16
"""Rows or columns below which a matrix is stored whole, in fp16, as a vector is."""


def public_names(model: nn.Module) -> dict[str, str]:
    """Name of each weight that began as a body's → its name in that body.

    These are the weights of all encoders, and those of a module's `layers` if it says by `follows` behind
    which layer of the body they came, counted from 1.
    """
    names: dict[str, str] = {}
    for prefix, module in model.named_modules():
        if isinstance(module, LayeredEncoder):
            names |= {f"{prefix}.{name}": name for name in module.state_dict()}
        elif isinstance(follows := getattr(module, "follows", None), int):
            for n, layer in enumerate(cast(nn.ModuleList, module.layers)):
                names |= {
                    f"{prefix}.layers.{n}.{name}": f"layers.{follows + n}.{name}"
                    for name in layer.state_dict()
                }
    return names


class Differences:
    """A model's weights beside the public ones; the decompositions serve every share that is tried."""

    def __init__(self, weights: Mapping[str, Tensor], public: Mapping[str, Tensor]) -> None:
        """`public`: name of a weight → the public weight that it began as. Raises ValueError if their shapes
        differ."""
        self._whole: dict[str, Tensor] = {}
        moved: dict[str, Tensor] = {}
        for name, weight in weights.items():
            began = _began(public, name, weight.shape)
            if began is not None and weight.equal(began):
                continue
            if weight.dim() != 2 or min(weight.shape) < SMALL:
                self._whole[name] = weight.half()
            elif began is None:
                self._whole |= in_bytes(name, weight)
            else:
                moved[name] = weight - began

        self._factors = _decomposed(moved)

    def size(self, share: float) -> int:
        """Bytes of the tensors of `stored`, which are not computed for it."""
        scale = 2  # bytes of a row's
        total = sum(tensor.nbytes for tensor in self._whole.values())
        for left, singular, right in self._factors.values():
            rank = rank_of(singular, share)
            total += rank * (len(left) + right.shape[1]) + scale * (len(left) + rank)
        return total

    def stored(self, share: float) -> dict[str, Tensor]:
        """Tensors to store, which keep this share of the energy of each matrix's difference."""
        tensors = dict(self._whole)
        for name, (left, singular, right) in self._factors.items():
            rank = rank_of(singular, share)
            tensors |= in_bytes(f"{name}.a", left[:, :rank])
            tensors |= in_bytes(f"{name}.b", singular[:rank, None] * right[:rank])
        return tensors


def _decomposed(moved: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Name → singular value decomposition (U, S, Vᵀ) of the matrix.

    Several are computed at once, each by one thread: LAPACK makes little of several threads for one.
    """

    def decompose(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        left, singular, right = torch.linalg.svd(matrix, full_matrices=False)
        return left, singular, right

    return dict(zip(moved, each_on_a_core(decompose, list(moved.values())), strict=True))


def rank_of(singular: Tensor, share: float) -> int:
    """Least number of singular values, from the largest, whose squares are a share of the sum of all.

    >>> singular = torch.tensor([2.0, 1.0, 1.0])
    >>> rank_of(singular, 0.6), rank_of(singular, 0.8), rank_of(singular, 1.0)
    (1, 2, 3)
    """
    energy = singular.double().square().cumsum(0)
    return min(int((energy < share * energy[-1]).sum()) + 1, len(singular))


def in_bytes(name: str, matrix: Tensor) -> dict[str, Tensor]:
    """A matrix as int8, and the scale of each of its rows.

    >>> in_bytes("w", torch.tensor([[-1.27, 0.5, 0.0]]))["w"].tolist()
    [[-127, 50, 0]]
    """
    scale = (matrix.abs().amax(1, keepdim=True) / 127).half()
    # A row whose scale is 0 in fp16 is one of zeros, or as good as that.
    numbers = torch.where(scale > 0, matrix / scale.float(), 0.0).round().clamp(-127, 127)
    return {name: numbers.to(torch.int8), f"{name}.scale": scale}


def merged(
    stored: Mapping[str, Tensor], public: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]
) -> dict[str, Tensor]:
    """The weights of these `shapes`, in fp32. Raises ValueError if one is missing or has another shape."""
    weights = {}
    for name, shape in shapes.items():
        began = _began(public, name, shape)
        if name in stored:
            weight = _numbers(stored, name)
        elif f"{name}.a" in stored and f"{name}.b" in stored:
            a, b = _numbers(stored, f"{name}.a"), _numbers(stored, f"{name}.b")
            if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
                raise ValueError(f"{name}.a {list(a.shape)} and {name}.b {list(b.shape)} have no product")
            weight = a @ b if began is None else began + a @ b
        elif began is not None:
            weight = began.clone()
        else:
            raise ValueError(f"it has no {name}")

        if weight.shape != shape:
            raise ValueError(f"{name} is {list(weight.shape)}, but config.json has {list(shape)}")
        weights[name] = weight
    return weights


def _numbers(stored: Mapping[str, Tensor], name: str) -> Tensor:
    numbers = stored[name].float()
    if stored[name].dtype != torch.int8:
        return numbers
    scale = stored.get(f"{name}.scale")
    if scale is None or scale.shape != (*numbers.shape[:-1], 1):
        raise ValueError(f"{name} is int8 without a scale for each row")
    return numbers * scale.float()


def _began(public: Mapping[str, Tensor], name: str, shape: torch.Size) -> Tensor | None:
    """The public weight that this one began as; None if it began as none."""
    began = public.get(name)
    if began is not None and began.shape != shape:
        raise ValueError(
            f"{name} is {list(shape)}, but the public body's is {list(began.shape)}; name the body that it "
            "began as"
        )
    return began
