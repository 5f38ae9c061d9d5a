"""Compare-Aggregate in its six forms on WikiQA (Cosinet Table 4); see `cosinet_quality`, whose protocol and rates this takes.

Five seeds of each form with each of the three vectors. Matrix products are in bfloat16, which halves the time: 3 hours.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.cosinet_quality import SEEDS, VECTORS, WORK, Run, beside_the_paper, parameters, rate, summary, train_all
from benchmarks.harness import arguments, finish
from ranking.listwise import FORMS

PAPER = {  # MAP, MRR (Table 4)
    "pointwise": (72.03, 73.39),
    "list": (71.43, 73.55),
    "rnn": (74.73, 76.35),
    "birnn": (74.97, 76.44),
    "lstm": (74.82, 76.42),
    "bilstm": (74.27, 75.74),
}


def main() -> None:
    given = arguments("compare_aggregate_quality", __doc__ or "", paths=WORK)
    todo = [
        Run("wikiqa", vectors, "compare_aggregate", form, seed, rate(form))
        for vectors in VECTORS
        for seed in SEEDS
        for form in FORMS
    ]
    made = train_all(given.data, todo, given.work or Path("out/compare_aggregate_quality"))
    result = {**parameters("compare_aggregate", "ca_"), **summary(made)}
    beside_the_paper(result, PAPER, "ca_")
    finish("compare_aggregate_quality", result, given.save)


if __name__ == "__main__":
    main()
