"""Drop schedules of a trained cascade (Cascade Transformer §5.5, Fig. 2): the time that 1,296 of them take to
replay, and a check on other questions of the guarantee that a schedule was chosen by.

The cascade is the shipped one, or another with five exits that was not trained on the data sets below
(--checkpoint). Schedules are chosen on QUESTIONS answerable questions of SQuAD-sent's dev set, past those
that helped to choose the checkpoint, with P(every correct candidate is lost) ≤ `delta` at confidence 1 -
`epsilon`, and checked on as many of its test set: `held_out_loss` is the share of these that lost every
correct candidate, `cost` the layers × candidates there, relative to the whole model. `--plot` gets the plot
and tables.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import torch

from answermill.pipelines.learn.evaluate.tune import Aims, tune_files
from answermill.ranking.entry import SHIPPED
from answermill.ranking.rerankers.cascade.replay import replay
from answermill.ranking.rerankers.cascade.schedule import grid
from answermill.schemas.labels import LabelledCandidate
from experiments.cascade_quality import DEV_QUESTIONS
from experiments.question_sets.learnable import answered
from testing.harness import arguments, finish, say, seconds

MEASURED_MODELS = ("cascade",)
DECIDED = "Nothing ships by it."
QUESTIONS = 1_500
AIMS = Aims(delta=0.05, epsilon=0.1)


def main() -> None:
    paths = {
        "checkpoint": "a trained cascade with five exits; the shipped one",
        "plot": "folder for the plot and the tables",
    }
    options = arguments("schedules", __doc__ or "", paths=paths)
    torch.set_num_threads(1)

    with tempfile.TemporaryDirectory() as folder:
        for split in ("dev", "test"):
            every = answered(options.data / f"squad/squad-sent-{split}.parquet")
            lists = every[:QUESTIONS] if options.smoke else every[DEV_QUESTIONS:][:QUESTIONS]
            rows = [row for rows in lists for row in rows]
            pq.write_table(LabelledCandidate.table(rows), Path(folder) / f"{split}.parquet")
        dev, test = Path(folder) / "dev.parquet", Path(folder) / "test.parquet"
        tuned = tune_files(str(options.checkpoint or SHIPPED / "cascade"), dev, AIMS, held_out=test)

    for line in tuned.lines():
        say(line)
    if options.plot is not None:
        tuned.write(options.plot)
    schedules = grid(AIMS.shares, tuned.table.exits)
    taken: list[float] = []
    for _ in range(options.rounds):
        with seconds(taken):
            replay(tuned.table, schedules)

    assert tuned.held is not None
    place = list(tuned.chosen).index("guarantee")
    result: dict[str, float | int | str] = {
        "schedules": len(schedules),
        "candidates": len(tuned.table.question),
        "seconds_1296": statistics.median(taken),
        "delta": AIMS.delta,
        "epsilon": AIMS.epsilon,
        "drops": " ".join(f"{share:g}" for share in tuned.chosen["guarantee"]),
        "held_out_questions": tuned.held.answerable,
        "held_out_loss": float(tuned.held.loss[place]),
        "cost": float(tuned.held.cost[place]),
        "held_out_p1_none": float(tuned.held.metrics["P@1"][list(tuned.chosen).index("none")]),
        "held_out_p1": float(tuned.held.metrics["P@1"][place]),
    }
    finish("schedules", result, options.save, () if options.checkpoint else MEASURED_MODELS)


if __name__ == "__main__":
    main()
