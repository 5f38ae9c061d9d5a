"""The Cascade Transformer's Fig. 2 on long lists: P@1 of 1,296 schedules of drops against their cost.

Every schedule of .1 to .6 at each exit but the last is replayed from the scores of `cascade_long_lists`, on
its two sets, for `shipped` and for each cascade of `cascade_paper` that is complete after its transfer. The
paper finds a moderate loss, 80.0 to 85.6, and that P@1 tapers off at a cost of 70 % and more.

Keys, `<set>_.._<cascade>`: `p1_none`, without drops, and `p1_min` and `p1_max` over the schedules, in
percent; `cost_min` and `cost_max`, relative to all candidates through all layers. `low_60`, `mean_60` and
`high_60` are P@1 of the schedules that cost 60 to 65 %. `kept`: the mean of the schedules of 70 % and more,
less `p1_none`; `below` and `above`: the slope of P@1 below and from 70 % on, in points for a tenth of the
cost; `taper`: the first less the second. These four have a 95 % interval over questions (`_low`, `_high`) and
a `_p`; the costs are taken as they are.

Options are those of `cascade_long_lists`; scores that it has kept are not computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from answermill.ranking.evaluation.significance import compare
from answermill.ranking.rerankers.cascade.exits import ExitScores
from answermill.ranking.rerankers.cascade.replay import replay
from answermill.ranking.rerankers.cascade.schedule import Schedule, grid
from answermill.schemas.arrays import Floats
from experiments.cascade_long_lists import BODY, lists_of, models, options_of, scores
from testing.harness import finish, say, work_folder

TAKES = "twenty minutes, after cascade_long_lists"
MEASURED_MODELS = ("cascade",)
DECIDED = "Nothing ships by it: on L-test nothing is chosen."
SHARES, TAPER, BAND = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 0.7, 0.05


def by_question(table: ExitScores, schedules: Sequence[Schedule]) -> Floats:
    """[questions, schedules]: P@1 of each question, each of which has an answer."""
    which = np.arange(len(table.question_ids))
    return np.stack([replay(table.pick(which == n), schedules).metrics["P@1"] for n in which])


def slopes(p1: Floats, cost: Floats) -> Floats:
    """[questions]: slope of the least squares line of P@1 [questions, schedules] over cost [schedules].

    >>> slopes(np.array([[0.0, 0.5, 1.0], [1.0, 1.0, 1.0]]), np.array([0.5, 0.6, 0.7])).round(6).tolist()
    [5.0, 0.0]
    """
    centred = cost - cost.mean()
    slope: Floats = p1 @ centred / (centred @ centred)
    return slope


def spread(test: str, name: str, table: ExitScores) -> dict[str, float]:
    """Keys and figures of a cascade on a set."""
    schedules = grid(SHARES, table.exits)
    everything = [*schedules, (0.0,) * (len(table.exits) - 1)]
    replayed = replay(table, everything)
    cost, (*p1s, none) = replayed.cost[:-1], 100 * replayed.metrics["P@1"]
    p1, each = np.array(p1s), 100 * by_question(table, everything)
    result = {"p1_none": float(none), "p1_min": float(p1.min()), "p1_max": float(p1.max())}
    result |= {"cost_min": float(cost.min()), "cost_max": float(cost.max())}

    # The quality in each band of the cost.
    bands = np.floor(cost / BAND + 1e-9).astype(np.int64)
    for band in np.unique(bands).tolist():
        inside, start = p1[bands == band], f"{100 * BAND * band:.0f}"
        result |= {f"low_{start}": float(inside.min()), f"high_{start}": float(inside.max())}
        result[f"mean_{start}"] = float(inside.mean())

    # A line needs two schedules of different cost.
    costly = cost >= TAPER
    if min(len(np.unique(cost[part])) for part in (costly, ~costly)) > 1:
        below, above = (slopes(each[:, :-1][:, part], cost[part]) / 10 for part in (~costly, costly))
        kept = each[:, :-1][:, costly].mean(axis=1) - each[:, -1]
        for key, values in (("kept", kept), ("below", below), ("above", above), ("taper", below - above)):
            comparison = compare(np.zeros(len(values)), values)
            result |= {
                key: comparison.difference,
                f"{key}_low": comparison.low,
                f"{key}_high": comparison.high,
            }
            result[f"{key}_p"] = comparison.p

    say(f"{test}: {name} P@1 {p1.min():.2f} to {p1.max():.2f}, cost {cost.min():.2f} to {cost.max():.2f}")
    return {named(test, key, name): value for key, value in result.items()}


def named(test: str, key: str, cascade: str) -> str:
    """The key of a cascade's figure; the end of an interval comes last.

    >>> named("test", "p1_none", "paper"), named("test", "taper_low", "paper")
    ('test_p1_none_paper', 'test_taper_paper_low')
    """
    stem, _, end = key.rpartition("_")
    inside = end in ("low", "high", "p") and stem in ("kept", "below", "above", "taper")
    return f"{test}_{stem}_{cascade}_{end}" if inside else f"{test}_{key}_{cascade}"


def main() -> None:
    options = options_of("schedule_spread", __doc__ or "")
    result: dict[str, float | int | str] = {"schedules": len(SHARES) ** (len(BODY.exits) - 1)}
    with work_folder(options, "long_lists") as work:
        for test, lists in lists_of(options, work).items():
            result[f"{test}_questions"] = len(lists)
            for name, checkpoint in models(options.trainings):
                if not name.startswith("mt"):
                    result |= spread(test, name, scores(name, checkpoint, lists, work))
    finish("schedule_spread", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
