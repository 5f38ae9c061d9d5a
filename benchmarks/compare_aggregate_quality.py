"""Compare-Aggregate in its six forms on WikiQA (Cosinet Table 4), one seed, with the MiniLM-derived vectors; see
`cosinet_quality`, whose settings these are. Slow: two million multiplications a word make a training an order dearer."""

from __future__ import annotations

from benchmarks.cosinet_quality import Run, measure
from benchmarks.harness import arguments, finish, say
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
    given = arguments("compare_aggregate_quality", __doc__ or "")
    result = measure(given.data, [Run("wikiqa", "minilm", "compare_aggregate", form, 0) for form in FORMS])
    for form, (map_, mrr) in PAPER.items():
        ours = f"{result[f'wikiqa_map_ca_{form}']:.2f} / {result[f'wikiqa_mrr_ca_{form}']:.2f}"
        say(f"WikiQA {form:<10} MAP / MRR {ours}; the paper {map_} / {mrr}")
    finish("compare_aggregate_quality", result, given.save)


if __name__ == "__main__":
    main()
