"""Keys of figures in percent with their intervals, as the studies' results have them."""

from __future__ import annotations

from typing import Protocol

from answermill.ranking.evaluation.significance import Comparison


class Interval(Protocol):
    """A 95 % interval, of shares from 0 to 1."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


def ends(key: str, interval: Interval) -> dict[str, float]:
    """Both ends of the interval of a figure.

    >>> from types import SimpleNamespace
    >>> ends("p1_plan", SimpleNamespace(low=0.25, high=0.75))
    {'p1_plan_low': 25.0, 'p1_plan_high': 75.0}
    """
    return {f"{key}_low": 100 * interval.low, f"{key}_high": 100 * interval.high}


def gain(key: str, compared: Comparison) -> dict[str, float]:
    """The difference of B and A, with its interval and p."""
    return {key: 100 * compared.difference, **ends(key, compared), f"{key}_p": compared.p}


def difference(key: str, compared: Comparison) -> dict[str, float]:
    """The same figures as `gain`, with the difference itself under `<key>_difference`."""
    return {f"{key}_difference": 100 * compared.difference, **ends(key, compared), f"{key}_p": compared.p}
