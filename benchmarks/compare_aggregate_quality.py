"""Compare-Aggregate in its six forms on WikiQA (Cosinet Table 4); see `cosinet_quality`, whose protocol this is.

The learning rate is chosen by the dev MAP of seed 0, for `pointwise`, `list` and `birnn`, whose rate the other recurrent forms
take: the paper gives none for this model. Three seeds with the MiniLM-derived vectors, one with the files' for `list` and
`birnn`. Matrix products are in bfloat16, which halves the time; `wikiqa_map_ca_list_fp32` is seed 0 without, beside
`wikiqa_map_ca_list_bf16`.
"""

from __future__ import annotations

from benchmarks.cosinet_quality import VECTORS, Run, summary, train_all
from benchmarks.harness import arguments, finish, say
from ranking.listwise import FORMS, Form

RATES = (5e-5, 1e-4, 2e-4)
TUNED: tuple[Form, ...] = ("pointwise", "list", "birnn")
SEEDS = range(3)
PAPER = {  # MAP, MRR (Table 4)
    "pointwise": (72.03, 73.39),
    "list": (71.43, 73.55),
    "rnn": (74.73, 76.35),
    "birnn": (74.97, 76.44),
    "lstm": (74.82, 76.42),
    "bilstm": (74.27, 75.74),
}


def run(form: Form, seed: int, rate: float, vectors: str = "minilm") -> Run:
    return Run("wikiqa", vectors, "compare_aggregate", form, seed, rate)


def main() -> None:
    given = arguments("compare_aggregate_quality", __doc__ or "")
    tried = train_all(given.data, [run(form, 0, rate) for form in TUNED for rate in RATES])
    best: dict[str, tuple[float, float]] = {}  # form → (dev MAP, rate)
    result: dict[str, float] = {}
    for each, found in tried:
        result[f"wikiqa_dev_map_ca_{each.form}_rate_{each.rate:.0e}"] = found["wikiqa_dev_map"]
        best[each.form] = max(best.get(each.form, (0.0, 0.0)), (found["wikiqa_dev_map"], each.rate))
    rates = {form: best.get(form, best["birnn"])[1] for form in FORMS}
    result |= {f"rate_ca_{form}": rate for form, rate in rates.items()}
    todo = [run(form, seed, rates[form]) for form in FORMS for seed in SEEDS]
    todo += [run(form, 0, rates[form], vectors) for vectors in VECTORS if vectors != "minilm" for form in TUNED[1:]]
    known = dict(tried)
    done = [(each, known[each]) for each in todo if each in known]
    made = train_all(given.data, [each for each in todo if each not in known])
    result |= summary(done + made)
    with_bf16 = run("list", 0, rates["list"])
    ((_, without),) = train_all(given.data, [with_bf16._replace(precision="fp32")])
    result |= {"wikiqa_map_ca_list_bf16": known[with_bf16]["wikiqa_map"], "wikiqa_map_ca_list_fp32": without["wikiqa_map"]}
    for form, (map_, mrr) in PAPER.items():
        ours = f"{result[f'wikiqa_map_ca_{form}']:.2f} / {result[f'wikiqa_mrr_ca_{form}']:.2f}"
        say(f"WikiQA {form:<10} MAP / MRR {ours}; the paper {map_} / {mrr}")
    finish("compare_aggregate_quality", result, given.save)


if __name__ == "__main__":
    main()
