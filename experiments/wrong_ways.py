"""A made set on which the usual ways of computing AS2 metrics go wrong, each beside the right figure.

30 questions, 10 of them without a correct candidate and 2 with only correct ones; 8 texts are asked twice, of
different documents; the scorer knows nothing: it gives three scores, drawn at random, so ties are many.
`shuffled_…` are figures of the rows in a drawn order, each run of rows of one text taken for a question, as a
reader of a table without ids of questions would.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np

from answermill.ranking.evaluation.metrics import Judged, measure
from testing.harness import arguments, finish, say

DECIDED = "Nothing ships by it."
QUESTIONS, CANDIDATES, TWICE = 30, 10, 8


Lists = list[tuple[list[float], list[int]]]


def made_set() -> tuple[Lists, np.ndarray]:
    """Scores and labels of each question's candidates, and the number of each question's text."""
    generator = np.random.default_rng(5)
    lists = Lists()
    for n in range(QUESTIONS):
        labels = (generator.random(CANDIDATES) < 0.15).astype(int)
        labels[generator.integers(CANDIDATES)] = 1
        labels[:] = 0 if n < 10 else 1 if n < 12 else labels
        lists.append((generator.integers(0, 3, CANDIDATES).astype(float).tolist(), labels.tolist()))
    texts = np.arange(QUESTIONS)
    texts[-TWICE:] = texts[-2 * TWICE : -TWICE]
    return lists, np.unique(texts, return_inverse=True)[1]


def shuffled(lists: Lists, texts: np.ndarray) -> Judged:
    """Questions as runs of rows of one text, the rows in a drawn order."""
    rows = [(text, *row) for text, one in zip(texts, lists, strict=True) for row in zip(*one, strict=True)]
    order = np.random.default_rng(0).permutation(len(rows))
    runs = (list(run) for _, run in groupby((rows[n] for n in order), key=lambda row: row[0]))
    return Judged.of([([row[1] for row in run], [row[2] for row in run]) for run in runs])


def main() -> None:
    options = arguments("wrong_ways", __doc__ or "", needs_data=False)
    lists, texts = made_set()
    judged = Judged.of(lists)
    by_text = judged.regrouped(texts)
    result: dict[str, float] = {"questions": judged.questions}

    for key, data, protocol, order in (
        ("raw", judged, "raw", "expected"),
        ("right", judged, "answerable", "expected"),
        ("ties_to_positives", judged, "answerable", "best"),
        ("ties_to_negatives", judged, "answerable", "worst"),
        ("grouped_by_text", by_text, "answerable", "expected"),
        ("shuffled", shuffled(lists, texts), "answerable", "expected"),
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
