"""Speed of the metrics: 5,000 questions of 100 candidates, and one question of 10,000 tied ones; beside
ir-measures.

`seconds_5000x100` is all of P@1, MAP, MRR, nDCG@10, each with its expectation, worst and best order, from
arrays; `file_seconds_5000x100` the whole of `answermill evaluate` from a Parquet of scores and one of labels;
`ir_measures_seconds` ir-measures on the same scores and labels as dictionaries, its one arbitrary order of
ties.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import ir_measures
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.ranking.evaluation.metrics import Judged, measure
from testing.harness import arguments, finish, say, seconds, shrink

QUESTIONS, CANDIDATES, TIED = 5_000, 100, 10_000


def main() -> None:
    options = arguments("metrics", __doc__ or "", needs_data=False)
    if options.smoke:
        shrink(globals(), QUESTIONS=50, CANDIDATES=10, TIED=100)
    generator = np.random.default_rng(0)
    n = QUESTIONS * CANDIDATES
    question = np.repeat(np.arange(QUESTIONS), CANDIDATES)
    score = generator.integers(0, 1_000, n) / 1_000  # some ties in most lists
    label = (generator.random(n) < 0.05).astype(np.int64)
    judged = Judged(QUESTIONS, question, score, label, np.ones(n, np.bool_))

    tied = Judged.of([([1.0] * TIED, [1] * 5 + [0] * (TIED - 5))])

    ids = [f"q{q}" for q in question], [f"c{c}" for c in np.tile(np.arange(CANDIDATES), QUESTIONS)]
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for q, c, s, y in zip(*ids, score.tolist(), label.tolist(), strict=True):
        run.setdefault(q, {})[c] = s
        qrels.setdefault(q, {})[c] = y

    measures = [ir_measures.parse_measure(name) for name in ("P@1", "AP", "RR", "nDCG@10")]

    arrays: list[float] = []
    one_tie: list[float] = []
    files: list[float] = []
    library: list[float] = []

    with tempfile.TemporaryDirectory() as folder:
        scores, labels = Path(folder, "scores.parquet"), Path(folder, "labels.parquet")
        names = {"question_id": ids[0], "candidate_id": ids[1]}
        pq.write_table(pa.table({**names, "score": score}), scores)
        pq.write_table(pa.table({**names, "label": label}), labels)

        for n_round in range(options.rounds):
            with seconds(arrays):
                values = measure(judged)
            with seconds(one_tie):
                measure(tied)
            with seconds(library):
                ir_measures.calc_aggregate(measures, qrels, run)
            with seconds(files):
                evaluated = evaluate(str(scores), labels, protocol="raw")
            say(
                f"round {n_round + 1}: arrays {arrays[-1]:.2f} s, ir-measures {library[-1]:.2f} s, files "
                f"{files[-1]:.2f} s"
            )

    if abs(evaluated.means["MAP"][0] - float(values["MAP"].expected.mean())) > 1e-12:
        raise SystemExit("the files and the arrays gave different values")

    finish(
        "metrics",
        {
            "seconds_5000x100": statistics.median(arrays),
            "seconds_10000_tied": statistics.median(one_tie),
            "file_seconds_5000x100": statistics.median(files),
            "ir_measures_seconds_5000x100": statistics.median(library),
            "over_ir_measures": statistics.median(t / a for a, t in zip(arrays, library, strict=True)),
        },
        options.save,
    )


if __name__ == "__main__":
    main()
