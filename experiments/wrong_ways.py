"""A made set on which the usual ways of computing AS2 metrics go wrong, each beside the right figure.

30 questions, 10 of them without a correct candidate and 2 with only correct ones; 8 texts are asked twice, of
different documents; the scorer knows nothing: it gives three scores, drawn at random, so ties are many.
"""

from __future__ import annotations

import numpy as np

from answermill.ranking.evaluation.metrics import Judged, measure
from testing.harness import arguments, finish, say

DECIDED = "Nothing ships by it."
QUESTIONS, CANDIDATES, TWICE = 30, 10, 8


def made_set() -> tuple[Judged, np.ndarray]:
    """The set, and the number of each question's text."""
    generator = np.random.default_rng(5)
    lists = []
    for n in range(QUESTIONS):
        labels = (generator.random(CANDIDATES) < 0.15).astype(int)
        labels[generator.integers(CANDIDATES)] = 1
        labels[:] = 0 if n < 10 else 1 if n < 12 else labels
        lists.append((generator.integers(0, 3, CANDIDATES).astype(float).tolist(), labels.tolist()))
    texts = np.arange(QUESTIONS)
    texts[-TWICE:] = texts[-2 * TWICE : -TWICE]
    return Judged.of(lists), np.unique(texts, return_inverse=True)[1]


def main() -> None:
    options = arguments("wrong_ways", __doc__ or "", needs_data=False)
    judged, texts = made_set()
    by_text = judged.regrouped(texts)
    result: dict[str, float] = {"questions": judged.questions}

    for key, data, protocol, order in (
        ("raw", judged, "raw", "expected"),
        ("right", judged, "answerable", "expected"),
        ("ties_to_positives", judged, "answerable", "best"),
        ("ties_to_negatives", judged, "answerable", "worst"),
        ("grouped_by_text", by_text, "answerable", "expected"),
        ("all_correct_dropped_too", judged, "clean", "expected"),
        ("compat", by_text, "compat", "best"),
    ):
        kept = data.kept(protocol)  # type: ignore[arg-type]
        result[f"{key}_questions"] = int(kept.sum())
        for metric, values in measure(data, ("P@1", "MAP", "MRR")).items():
            result[f"{key}_{metric.lower().replace('@', '')}"] = 100 * float(
                getattr(values, order)[kept].mean()
            )
        map_, mrr = result[f"{key}_map"], result[f"{key}_mrr"]
        say(f"{key:<25} MAP {map_:5.1f}  MRR {mrr:5.1f}  over {kept.sum()} questions")

    finish("wrong_ways", result, options.save)


if __name__ == "__main__":
    main()
