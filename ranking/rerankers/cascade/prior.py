"""Scores that decide which candidates leave at an exit: the exit's score alone, or a weighted sum of it and
of scores that are known before.

Departs from the Cascade Transformer (§4.3.2), where the exit's score decides. The first exits are weak; with
the stages before them they need not decide alone. The number that leaves, ⌊α · k⌋, is as in the paper.

`fit_exits` fits the weights exit by exit, each on the candidates that the exits before it leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from answermill.ranking.reranker import rounded
from answermill.ranking.rerankers.blend.score_columns import EXIT, WeightedSum
from answermill.ranking.rerankers.blend.weights import USUAL_FIT, Fit, FitOptions
from answermill.ranking.rerankers.cascade.schedule import survivors
from answermill.schemas.arrays import Floats, Ints
from answermill.schemas.ranked import RankedList


@dataclass(frozen=True, slots=True)
class Prior:
    """Weights of the known scores, and of the exit's, for each exit but the last."""

    sums: tuple[WeightedSum, ...]
    """Sums, one per exit, all over the same names."""

    @classmethod
    def of(cls, tables: Sequence[Mapping[str, float]], exits: int) -> Prior | None:
        """Prior from one table for all exits, or one for each but the last, of which there are `exits`; None
        without a table.

        A score that only some tables name has no weight in the others. Raises ValueError for another number
        of tables.
        """
        if not tables:
            return None
        if not exits:
            raise ValueError(
                "`weights` for exits, and the model has no exit but the last; leave `weights` out"
            )
        if len(tables) not in (1, exits):
            raise ValueError(
                f"weights for {len(tables)} exits; give one table for all, or one for each but the last: "
                f"{exits}"
            )

        names = sorted({EXIT, *(name for table in tables for name in table)})
        sums = [WeightedSum.of({name: table.get(name, 0.0) for name in names}) for table in tables]
        return cls(tuple(sums if len(sums) == exits else sums * exits))

    def columns(self, ranked: RankedList) -> Floats:
        """[candidates, names]: the scores that are known before, not standardised."""
        return self.sums[0].columns(ranked)

    def total(self, exit: int, columns: Floats, question: Ints, exit_score: Floats) -> Floats:
        """[candidates]: the sum by which candidates leave at exit number `exit`, over those that have reached
        it.

        A question's candidates are in the order of its list; `exit_score` is rounded like the scores that
        order a list.
        """
        return self.sums[exit].total(columns, question, exit_score)


def fit_exits(
    lists: Sequence[RankedList],
    labels: Sequence[Sequence[int]],
    exit_scores: Sequence[Floats],
    names: Sequence[str],
    drops: Sequence[float] = (),
    *,
    options: FitOptions = USUAL_FIT,
) -> list[Fit]:
    """Weights of the known scores `names` and of the exit's own, for each exit but the last.

    `exit_scores`: [candidates, exits] per list, as `Cascade.exit_scores` gives them. `drops`: α at each exit
    but the last, by which candidates leave before the next exit is fitted; none leave if it is empty.
    `WeightsFile.of` makes a file of the fits. Raises ValueError like `fit`, or if scores or drops do not fit.
    """
    # Imported here since it needs scipy, which ranking does not.
    from answermill.ranking.rerankers.blend.fitting import (
        LabelledColumns,
        fit_columns,
    )

    table = LabelledColumns.of(lists, labels, [EXIT, *names])
    scores = np.concatenate(exit_scores)
    exits = scores.shape[1] - 1
    shares = tuple(drops) or (0.0,) * exits
    if len(scores) != len(table.question) or len(shares) != exits:
        raise ValueError(
            f"scores of {len(scores)} candidates at {exits + 1} exits and {len(shares)} drops, for "
            f"{len(table.question)} "
            "candidates; give one drop for each exit but the last"
        )

    fits = []
    own = table.names.index(EXIT)
    remaining = np.ones(len(scores), np.bool_)

    for exit, alpha in enumerate(shares):
        values = table.values.copy()
        values[:, own] = rounded(scores[:, exit])
        here = replace(table, values=values).pick(remaining)
        fits.append(fit_columns(here, options))
        if alpha:
            total = WeightedSum.of(fits[-1].weights).total(here.values, here.question)
            remaining[remaining] = survivors(here.question, total, np.arange(len(total)), alpha)

    return fits
