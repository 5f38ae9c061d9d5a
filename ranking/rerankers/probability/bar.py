"""The lowest bar whose promise holds: of the answers at or above it, at most a share is wrong.

Learn then Test (Angelopoulos et al., arXiv:2110.01052, 2021) for the risk of selective answers (Geifman and
El-Yaniv, NeurIPS 2017). The labelled questions are in two parts, by a hash of their ids. On the first part
the probabilities were fitted, and it says at which bar to begin: the one at which a risk above `max_wrong` is
least likely. From there on downwards the bars, which are hundredths, are tested on the second part, each
against "more than `max_wrong` of its answers are wrong", until one is not rejected at level 1 - `confidence`.
The last rejected one, by which most is answered, is the bar.

The promise: with probability `confidence` over the second part, the risk of the bar is at most `max_wrong`,
whatever the plan, the calibration and the questions are. It needs questions that are independent draws of the
same kind as future ones, with as many among them that have no answer, and a second part that has decided
nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from answermill.ranking.evaluation.learn_then_test import (
    binomial_tail,
    binomial_tails,
    fixed_sequence,
    questions_needed,
)
from answermill.schemas.arrays import Bools, Floats, Ints

BARS = np.arange(99, -1, -1) / 100
"""Bars that are tried, from the safest on."""
CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True)
class FirstAnswers:
    """Probability [questions] that the first answer is right, and whether it is; 0 and false without one."""

    probability: Floats
    right: Bools

    def counts(self, bars: Floats) -> tuple[Ints, Ints]:
        """([bars] answers, [bars] wrong ones among them) if those as probable as a bar are given."""
        is_given = self.probability >= bars[:, None]  # [bars, questions]
        return is_given.sum(axis=1), (is_given & ~self.right).sum(axis=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar and its test on the second part."""

    probability: float
    """Least probability of an answer that is given."""
    max_wrong: float
    confidence: float
    questions: int
    """Questions of the second part."""
    answered: int
    wrong: int
    p: float
    """p-value of "more than `max_wrong` of its answers are wrong"."""

    def statement(self) -> str:
        """The promise in one sentence."""
        return (
            f"answers of probability {self.probability:g} or more: at most {100 * self.max_wrong:g} % wrong, "
            f"with confidence {self.confidence:g} ({self.answered} of {self.questions} held-back questions "
            f"answered, {self.wrong} of them wrong, p = {self.p:.2g})"
        )


def promised(
    first: FirstAnswers, second: FirstAnswers, max_wrong: float, confidence: float = CONFIDENCE
) -> Bar:
    """The lowest bar that the parts can promise. Raises ValueError, with why, if there is none."""
    answered, wrong = first.counts(BARS)
    begin = int(binomial_tails(wrong, answered, max_wrong).argmin())  # the highest of equal ones

    bars = BARS[begin:]
    answered, wrong = second.counts(bars)
    passed = fixed_sequence(wrong, answered, max_wrong, 1 - confidence)
    if not passed:
        raise ValueError(_why_not(bars[0], int(answered[0]), int(wrong[0]), max_wrong, confidence))

    last = passed - 1
    n, losses = int(answered[last]), int(wrong[last])
    p = binomial_tail(losses, n, max_wrong)
    return Bar(float(bars[last]), max_wrong, confidence, len(second.right), n, losses, p)


def _why_not(bar: float, answered: int, wrong: int, max_wrong: float, confidence: float) -> str:
    needed = questions_needed(max_wrong, 1 - confidence)
    few = f"; without a wrong one it takes {needed}" if answered < needed else ""
    return (
        f"no bar can promise that at most {100 * max_wrong:g} % of the answers are wrong, with confidence "
        f"{confidence:g}: at the surest, {bar:g}, {wrong} of {answered} held-back answers are wrong{few}; "
        "give a higher max_wrong, calibrate on more labels, or give min_probability, which promises nothing"
    )
