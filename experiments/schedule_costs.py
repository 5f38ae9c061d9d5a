"""Costs of the cascade and of the sequential ranker on the lists of data sets: layers × candidates relative
to the monolithic model's, with whole candidates (Cascade Transformer §4.2, Table 3).

They depend on the lengths of the lists and on the schedule alone, so no model is trained or run. `five` are
exits behind 4, 6, 8, 10 and 12 layers of 12, or 2 to 6 of 6; `three` behind 4, 8 and 12 of 12, or 2, 4 and 6
of 6. `<set>_cost_ct_<exits>_a<10 α>` and `.._sr_..` are the costs, `.._ratio_..` the second over the first.
`limit_..` is what both tend to in lists without end, as the paper counts; on short lists few whole candidates
leave, and SR, which encodes again all that stay, pays more for each. The questions are those of
`cascade_quality`, and of `cascade_long_lists` for HotpotQA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from answermill.ranking.rerankers.cascade.schedule import cost, relative_cost
from experiments import cascade_long_lists, cascade_quality
from experiments.question_sets.learnable import answered
from testing.harness import arguments, finish, say

DECIDED = "Nothing ships by it."
EXITS = {"five": (4, 6, 8, 10, 12), "three": (4, 8, 12)}
DEPTH = 12


def lengths(data: Path) -> Iterator[tuple[str, list[int]]]:
    """(set, number of candidates of each question)."""
    yield "wikiqa", [len(rows) for rows in answered(data / "wikiqa/wikiqa-test.parquet")]
    for name, file in cascade_quality.OTHERS.items():
        yield name, [len(rows) for rows in answered(data / file, cascade_quality.QUESTIONS)]
    number = cascade_long_lists.QUESTIONS["hotpotqa"]
    yield "hotpotqa", [len(each.labels) for each in cascade_long_lists.hotpotqa(data, data, number)]


def over_lists(sizes: Sequence[int], exits: Sequence[int], alpha: float, shared: bool) -> float:
    """Cost over all lists of these sizes, relative to the monolithic model's.

    >>> [round(over_lists([10], EXITS["five"], 0.3, shared), 2) for shared in (True, False)]
    [0.68, 1.75]
    """
    drops = (alpha,) * (len(exits) - 1)
    return sum(cost(k, exits, drops, shared) for k in sizes) / (DEPTH * sum(sizes))


def costs(name: str, exits: str, alpha: float, ct: float, sr: float) -> dict[str, float]:
    end = f"{exits}_a{10 * alpha:.0f}"
    say(f"{name:<10} {exits:<6} α {alpha}: CT {ct:.2f}, SR {sr:.2f}, {sr / ct:.2f} times as much")
    return {f"{name}_cost_ct_{end}": ct, f"{name}_cost_sr_{end}": sr, f"{name}_ratio_{end}": sr / ct}


def main() -> None:
    options = arguments("schedule_costs", __doc__ or "")
    result: dict[str, float] = {}
    for name, sizes in lengths(options.data.resolve()):
        result |= {f"{name}_questions": len(sizes), f"{name}_candidates": sum(sizes) / len(sizes)}
        for exits, layers in EXITS.items():
            for alpha in cascade_quality.ALPHAS:
                both = [over_lists(sizes, layers, alpha, shared) for shared in (True, False)]
                result |= costs(name, exits, alpha, *both)

    for exits, layers in EXITS.items():
        for alpha in cascade_quality.ALPHAS:
            drops = (alpha,) * (len(layers) - 1)
            both = [relative_cost(layers, drops, DEPTH, shared=shared) for shared in (True, False)]
            result |= costs("limit", exits, alpha, *both)
    finish("schedule_costs", result, options.save)


if __name__ == "__main__":
    main()
