"""Compare-Aggregate in its six forms on WikiQA (Cosinet Table 4); see `cosinet_quality`, whose protocol and rates this takes.

With the MiniLM-derived vectors two seeds of each form, with word2vec's and GloVe's one of `list` and `birnn`. Matrix products
are in bfloat16, which halves the time; `wikiqa_map_ca_list_fp32` is seed 0 without, beside `wikiqa_map_ca_list_bf16`.
"""

from __future__ import annotations

from benchmarks.cosinet_quality import VECTORS, Run, beside_the_paper, parameters, rate, summary, train_all
from benchmarks.harness import arguments, finish
from ranking.listwise import FORMS, Form

SEEDS = range(2)
PAPER = {  # MAP, MRR (Table 4)
    "pointwise": (72.03, 73.39),
    "list": (71.43, 73.55),
    "rnn": (74.73, 76.35),
    "birnn": (74.97, 76.44),
    "lstm": (74.82, 76.42),
    "bilstm": (74.27, 75.74),
}


def run(form: Form, seed: int, vectors: str = "minilm") -> Run:
    return Run("wikiqa", vectors, "compare_aggregate", form, seed, rate(form))


def main() -> None:
    given = arguments("compare_aggregate_quality", __doc__ or "")
    todo = [run(form, seed) for seed in SEEDS for form in FORMS]
    others: tuple[Form, ...] = ("list", "birnn")
    todo += [run(form, 0, vectors) for vectors in VECTORS if vectors != "minilm" for form in others]
    in_full = run("list", 0)._replace(precision="fp32")
    *made, (_, without) = train_all(given.data, [*todo, in_full])
    result = {**parameters("compare_aggregate", "ca_"), **summary(made)}
    result["wikiqa_map_ca_list_bf16"] = dict(made)[run("list", 0)]["wikiqa_map"]
    result["wikiqa_map_ca_list_fp32"] = without["wikiqa_map"]
    beside_the_paper(result, PAPER, "ca_")
    finish("compare_aggregate_quality", result, given.save)


if __name__ == "__main__":
    main()
