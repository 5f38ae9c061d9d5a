"""How fast a training learns."""

from __future__ import annotations

from ranking.training.loop import Progress
from ranking.training.steps.speed import Speed


def test_evaluations_do_not_slow_down_the_tokens_of_a_second() -> None:
    times = iter([0.0, 2.0, 4.0, 100.0, 103.0])
    speed = Speed(700.0, lambda: next(times))
    assert speed.tokens_per_s == 0
    for step, dev in ((1, None), (2, None), (2, 0.5), (3, None)):
        speed.hear(Progress(step, 3, 1.0, dev, None))
    assert speed.tokens_per_s == 300  # three steps in seven seconds
    assert str(speed).startswith("103 s of training since its last start, 300 tokens a second in its steps")


def test_where_no_tokens_are_counted_none_are_said() -> None:
    times = iter([0.0, 2.0])
    speed = Speed(0.0, lambda: next(times))
    speed.hear(Progress(1, 3, 1.0, None, None))
    assert speed.tokens_per_s == 0 and "tokens" not in str(speed)
