"""Compare-Aggregate in its six forms on WikiQA (Cosinet Table 4), with protocol and rates of
`cosinet_quality`.

Five seeds of each form. --vectors minilm, word2vec or glove each have a run and a result file; minilm's has
no suffix. Matrix products are in bfloat16, which halves the time: an hour each.
"""

from __future__ import annotations

from answermill.ranking.rerankers.cosinet.heads import FORMS
from experiments import cosinet_quality
from experiments.cosinet_quality import (
    SEEDS,
    VECTORS,
    WORK,
    Run,
    beside_the_paper,
    parameters,
    rate,
    summary,
    train_all,
)
from testing.harness import arguments, finish, shrink

TAKES = "five hours"
DECIDED = "Nothing ships by it."

PAPER = {  # MAP, MRR (Table 4)
    "pointwise": (72.03, 73.39),
    "list": (71.43, 73.55),
    "rnn": (74.73, 76.35),
    "birnn": (74.97, 76.44),
    "lstm": (74.82, 76.42),
    "bilstm": (74.27, 75.74),
}


def main() -> None:
    options = arguments(
        "compare_aggregate_quality", __doc__ or "", paths=WORK, choices={"vectors": tuple(VECTORS)}
    )
    if options.smoke:
        shrink(vars(cosinet_quality), FORMS=FORMS[:1], VECTORS={"minilm": VECTORS["minilm"]})
        shrink(globals(), SEEDS=range(1), FORMS=FORMS[:1])

    suffix = "" if options.vectors == "minilm" else f"_{options.vectors}"
    todo = [
        Run("wikiqa", options.vectors, "compare_aggregate", form, seed, rate(form))
        for seed in SEEDS
        for form in FORMS
    ]
    result = {
        **parameters("compare_aggregate", "ca_"),
        **summary(train_all(options, todo, "compare_aggregate_quality")),
    }
    beside_the_paper(result, PAPER, "ca_", suffix)

    finish(f"compare_aggregate_quality{suffix}", result, options.save)


if __name__ == "__main__":
    main()
