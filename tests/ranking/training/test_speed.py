"""How fast a training learns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from answermill.ranking.training.loop import TrainingProgress
from answermill.ranking.training.update.speed import Speed, share_of_peak
from answermill.ranking.transformer.devices import peak_flops


class TwoDepths:
    """Batches of 50 tokens, of which every other one goes through the first of two layers only."""

    def __init__(self) -> None:
        self.model = nn.Sequential(
            nn.Linear(30, 30, bias=False), nn.Dropout(0.5), nn.Linear(30, 30, bias=False)
        )

    def batches(self, epoch: int) -> Iterator[int]:
        return iter([1, 3] * 100)

    def loss(self, batch: int) -> Tensor:
        return self.model[:batch](torch.ones(50, 30, requires_grad=True)).sum()


def test_the_share_of_a_peak_counts_products_forward_and_backward() -> None:
    task = TwoDepths()
    before = [weight.clone() for weight in task.model.parameters()]
    of_a_layer = 3 * 2 * 30 * 30  # a token's product, its gradient and the weights'
    for precision in ("fp32", "bf16"):
        assert share_of_peak(task, 50.0, precision, peak=1e6) == pytest.approx(1.5 * of_a_layer / 1e6)
    for weight, former in zip(task.model.parameters(), before, strict=True):
        assert weight.grad is None and torch.equal(weight, former)


def test_the_peak_is_that_of_square_products() -> None:
    assert 1e6 < peak_flops("cpu", torch.float32, rows=64, products=2) < 1e14


def test_a_training_on_a_card_says_its_share_of_the_peak() -> None:
    times = iter([0.0, 2.0])
    speed = Speed(700.0, 1e-3, lambda: next(times))
    speed.add(TrainingProgress(1, 3, 1.0, None, None))
    assert "350 tokens a second in its steps, 35% of the peak in matrix products" in str(speed)


def test_evaluations_do_not_slow_down_the_tokens_of_a_second() -> None:
    times = iter([0.0, 2.0, 4.0, 100.0, 103.0])
    speed = Speed(700.0, clock=lambda: next(times))
    assert speed.tokens_per_s == 0
    for step, dev in ((1, None), (2, None), (2, 0.5), (3, None)):
        speed.add(TrainingProgress(step, 3, 1.0, dev, None))
    assert speed.tokens_per_s == 300  # three steps in seven seconds
    assert str(speed).startswith("103 s of training since its last start, 300 tokens a second in its steps")


def test_where_no_tokens_are_counted_none_are_said() -> None:
    times = iter([0.0, 2.0])
    speed = Speed(0.0, clock=lambda: next(times))
    speed.add(TrainingProgress(1, 3, 1.0, None, None))
    assert speed.tokens_per_s == 0 and "tokens" not in str(speed)
