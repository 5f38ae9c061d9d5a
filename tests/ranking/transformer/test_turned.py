"""Queries and keys, turned by their places: the values of the equation, in inference in their own memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from answermill.ranking.transformer.layers import _turns, turned

ROWS, HEADS, WIDTH = 150, 3, 8
"""More rows than a processor turns at once."""


def projected(dtype: torch.dtype) -> Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, 3, HEADS, WIDTH, generator=random).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_queries_and_keys_are_turned_by_the_angles_of_their_places(dtype: torch.dtype) -> None:
    """RoFormer, Eq. 15, in complex numbers: a pair of numbers times the number of its angle."""
    before, places = projected(dtype), torch.arange(ROWS) % 70
    with torch.no_grad():
        after = turned(before.clone(), _turns(places, WIDTH, 100.0, dtype))

    frequencies = 100.0 ** -(torch.arange(0, WIDTH, 2) / WIDTH)
    angles = places[:, None] * frequencies
    rounded = torch.complex(*(part.to(dtype).double() for part in (angles.cos(), angles.sin())))
    pairs = torch.complex(*before[:, :2].double().chunk(2, -1)) * rounded[:, None, None]
    expected = torch.cat((pairs.real, pairs.imag), -1)
    near = {"rtol": 2**-8, "atol": 1e-6} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(after[:, :2].double(), expected, **near)
    assert torch.equal(after[:, 2], before[:, 2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_serves_has_the_bits_of_what_learns_in_the_same_memory(dtype: torch.dtype) -> None:
    before = projected(dtype)
    turns = _turns(torch.arange(ROWS), WIDTH, 100.0, dtype)
    learns = turned(before.clone().requires_grad_(), turns)
    assert learns.dtype == dtype and learns.requires_grad
    with torch.no_grad():
        serves = turned(memory := before.clone(), turns)
        alone, none = (
            turned(before[rows].clone(), (turns[0][rows], turns[1][rows]))
            for rows in (slice(100, 101), slice(0))
        )
    assert torch.equal(serves, learns) and serves.data_ptr() == memory.data_ptr()
    assert torch.equal(alone, serves[100:101]) and len(none) == 0
