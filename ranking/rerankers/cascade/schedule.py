"""Drop schedules of a cascade: number of candidates that leave at each exit, and the cost (Cascade
Transformer §4.3.2, Table 3).

A cascade has a classifier after each of the layers `exits`. At every exit but the last it drops the share α
of a question's candidates that it scores lowest; a schedule is these shares, one per exit but the last. Cost
is counted in layers × candidates: costs equal for all candidates cancel out, and classifiers, which are
small, are not counted.

The paper contradicts itself in places. This file follows its rule (⌊α · k⌋ leave), which turns 128 candidates
at α = .3 into 90, 63, 45 and 32; its worked example ends with 44 and 28. The costs in its Table 3 are those
of the rule without ⌊⌋, which `relative_cost` gives without k. `replay.py` tries schedules, `guarantee.py`
chooses one with a guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import TypeAlias

import numpy as np

from answermill.ranking.reranker import rounded
from answermill.schemas.arrays import Bools, Floats, Ints

Schedule: TypeAlias = tuple[float, ...]
"""Share of candidates that leaves at each exit but the last. 0 at an exit is no exit there."""


def dropped(k: int, alpha: float) -> int:
    """⌊α · k⌋, with α as the decimal that is written: 0.29 of 100 are 29, though 0.29 * 100 is less than 29.

    At least one candidate always stays. Raises ValueError if α is not in [0, 1).
    """
    if not 0 <= alpha < 1:
        raise ValueError(f"α = {alpha}; the share that is dropped must be at least 0 and below 1")
    exact = Fraction(str(float(alpha)))
    return k * exact.numerator // exact.denominator


def survivors(question: Ints, scores: Floats, order: Ints, alpha: float) -> Bools:
    """Mask [candidates]: True = survives this exit. The ⌊α·k⌋ lowest-scored of each question's k candidates
    are dropped (§4.3.2); among ties those later in `order`."""
    best_first = np.lexsort((order, -rounded(scores), question))
    _, number, k = np.unique(question, return_inverse=True, return_counts=True)
    starts = np.cumsum(k) - k
    rank = np.empty(len(question), np.int64)
    rank[best_first] = np.arange(len(question)) - starts[number[best_first]]
    stay = k - np.fromiter((dropped(int(n), alpha) for n in k), np.int64, len(k))
    kept: Bools = rank < stay[number]
    return kept


def sizes(k: int, drops: Sequence[float]) -> list[int]:
    """Number of candidates, of k, that enter the layers before each exit: 128 at .3 four times are 128, 90,
    63, 45, 32."""
    entering = [k]
    for alpha in drops:
        entering.append(entering[-1] - dropped(entering[-1], alpha))
    return entering


def check(exits: Sequence[int], drops: Sequence[float]) -> None:
    """Raises ValueError, with the values and what to do, if exits and drops are inconsistent."""
    if not exits or exits[0] < 1 or any(b <= a for a, b in pairwise(exits)):
        raise ValueError(
            f"exits = {list(exits)}; give layers, counted from 1, each deeper than the one before"
        )
    if len(drops) != len(exits) - 1:
        raise ValueError(
            f"{len(drops)} drops {list(drops)} for {len(exits)} exits {list(exits)}; give one for each exit "
            "but the last: "
            f"{len(exits) - 1}"
        )

    for layer, alpha in zip(exits, drops, strict=False):
        if not 0 <= alpha < 1:
            raise ValueError(
                f"drops = {list(drops)}: {alpha} after layer {layer} must be at least 0 (drop none) and "
                "below 1"
            )


def cost(k: int, exits: Sequence[int], drops: Sequence[float], shared: bool = True) -> int:
    """Layers × candidates for k candidates. If not `shared`, each exit is a separate model that starts at
    layer 1 again: the sequential ranker SR of §4.2."""
    check(exits, drops)
    return sum(layers * n for layers, n in zip(_layers(exits, shared), sizes(k, drops), strict=True))


def relative_cost(
    exits: Sequence[int], drops: Sequence[float], depth: int, k: int | None = None, shared: bool = True
) -> float:
    """`cost` divided by that of a monolithic model of `depth` layers, for k candidates; without k, in the
    limit of very many.

    For exits at 4, 6, 8, 10, 12 and α = .3, .4, .5 the limit is .629, .551, .490: the -37, -45, -51 % of
    Table 3.
    """
    if k is not None:
        return cost(k, exits, drops, shared) / (depth * k)
    check(exits, drops)
    share, total = 1.0, 0.0
    for layers, alpha in zip(_layers(exits, shared), (*drops, 0.0), strict=True):
        total += layers * share
        share *= 1 - alpha
    return total / depth


def grid(values: Sequence[float], exits: Sequence[int]) -> list[Schedule]:
    """All schedules with one of the values at each exit but the last: 1,296 for .1 to .6 and five exits
    (§5.5, Fig. 2).

    With 0 among the values it includes every choice of exits too, since 0 at an exit is no exit there.
    """
    return list(product(sorted(set(values)), repeat=len(exits) - 1))


def _layers(exits: Sequence[int], shared: bool) -> list[int]:
    """Number of layers run to reach each exit."""
    return [b - a for a, b in pairwise((0, *exits))] if shared else list(exits)
