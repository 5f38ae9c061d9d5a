"""What a graphics card is asked for, in which order; and that copies to and from it hold the same values."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest
import torch

from ranking.devices import Arriving, in_turns, sent


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
