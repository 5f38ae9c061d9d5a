"""The Cascade Transformer and its rivals, in the form of its Tables 2 and 3, on MiniLM-L6 as the body.

Models (`cascade_trainings.py`): the cuts to 2, 4 and 6 layers, each trained on its own (MT), of which the
sequential ranker (SR) is made; `plain`, the cascade that begins with the plain encoder, as in the paper; and
cascades that begin with MT's transfer and learn their exits in the adapt, one for each way of sampling
(§4.3.1). `cascade` is the one of these that is best on WikiQA's dev set at α = .3, mean over the seeds;
`sampling` names it. All read a sentence with its title. They learn by a softmax over a question's candidates,
with a share of the pointwise cross-entropy, which is the paper's. Rates, epochs and the size of a step were
chosen in earlier trials, by dev sets.

Keys: `wikiqa_<metric>_<row>`: the adapted models on WikiQA's test set, means over the seeds, with
`.._deviation`. `transferred_..`: the same before the adapt. `squad_..`, `selqa_..`: QUESTIONS answerable
questions of SQuAD-sent and of SelQA, drawn by hash, not adapted either; in these three `cascade` is `plain`.
Metrics in percent, protocol `answerable`. `.._exitN` is cut behind layer N, `.._aN` lets a share N/10 leave
at each exit but the last. `cost` is layers × candidates relative to the six layers' (with whole candidates,
so it depends on the lists' lengths). `monolithic_blend` adds to MT the dense encoder's cosine with the title
and the place in the document, with weights fitted on WikiQA's dev set. `wikiqa_b_over_a_difference` is of
MAP, of each question's mean over the seeds, with its 95 % interval (`_low`, `_high`) and `_p`.

Trainings are those of `answermill train`, one after the other, and are kept in --work, one folder each:
complete ones are not repeated, stopped ones continue.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from answermill.ranking.rerankers.cascade.exits import ExitScores
from answermill.ranking.rerankers.cascade.schedule import relative_cost
from answermill.ranking.training.state import finished
from experiments import cascade_trainings
from experiments.cascade_trainings import CUTS, DEPTH, EXITS, SAMPLINGS
from experiments.exit_rows import (
    Row,
    beside,
    blended,
    cascade_rows,
    compared,
    exit_scores,
    figures,
    row,
    sequential_rows,
)
from experiments.question_sets.learnable import Questions, answered
from testing.harness import arguments, finish, say, shrink, trained_by, work_folder
from testing.smoke_data import small_encoder

TAKES = "hours of training, kept in --work"
DECIDED = (
    "Which way of sampling its row CT has: all exits in each step, the best on WikiQA's dev set. Nothing "
    "ships by it: the cascade that ships is another one, of more data."
)

ALPHAS = (0.3, 0.4, 0.5)
QUESTIONS, DEV_QUESTIONS = 600, 400
OTHERS = {"squad": "squad/squad-sent-test.parquet", "selqa": "selqa/selqa-test.parquet"}
MONOLITHIC = f"mt{DEPTH}"


def rows_of(tables: dict[str, ExitScores]) -> dict[str, Row]:
    """Rows of one test set and one seed, from the models' scores: MT, SR, and each cascade at its exits and
    at each α."""
    rows = {("monolithic" if depth == DEPTH else f"mt{depth}"): row(tables[f"mt{depth}"]) for depth in CUTS}
    for name in ("plain", *SAMPLINGS):
        if name in tables:
            rows |= cascade_rows(name, tables[name], ALPHAS)
    return rows | sequential_rows([tables[f"mt{depth}"] for depth in CUTS], ALPHAS)


def over_seeds(rows: Sequence[dict[str, Row]]) -> dict[str, list[Row]]:
    return {name: [seed_rows[name] for seed_rows in rows] for name in rows[0]}


def renamed(rows: dict[str, list[Row]], model: str, name: str) -> dict[str, list[Row]]:
    """A model's rows under another name."""
    return {
        f"{name}_{key.removeprefix(f'{model}_')}": rows[key] for key in rows if key.startswith(f"{model}_")
    }


def chosen_sampling(work: Path) -> str:
    """Way of sampling that is best on dev, mean over the seeds."""

    def dev(name: str) -> float:
        histories = [finished(work / f"{name}-{seed}") for seed in cascade_trainings.SEEDS]
        return float(np.mean([history.best.dev for history in histories if history and history.best]))

    return max(SAMPLINGS, key=dev)


def adapted(data: Path, work: Path) -> dict[str, list[Row]]:
    """Rows of the adapted models on WikiQA's test set, by seed."""
    lists = {split: answered(data / f"wikiqa/wikiqa-{split}.parquet") for split in ("dev", "test")}
    known = {split: beside(questions, cascade_trainings.ENCODER) for split, questions in lists.items()}
    by_seed = []

    for seed in cascade_trainings.SEEDS:
        names = [training.name for training in cascade_trainings.adapts(seed)]
        tables = {name.partition("-")[0]: exit_scores(work / name, lists["test"], DEPTH) for name in names}
        dev = exit_scores(work / f"{MONOLITHIC}-{seed}", lists["dev"], DEPTH)
        rows = rows_of(tables)
        columns = [
            np.column_stack([table.scores[:, -1], known[split]])
            for split, table in (("dev", dev), ("test", tables[MONOLITHIC]))
        ]
        rows["monolithic_blend"], _ = blended(dev, columns[0], tables[MONOLITHIC], columns[1])
        by_seed.append(rows)

    return over_seeds(by_seed)


def transferred(work: Path, lists: Questions) -> dict[str, list[Row]]:
    """Rows of the models that were not adapted; they have one seed."""
    names = [training.name for training in cascade_trainings.transfers()]
    rows = over_seeds(
        [rows_of({name.partition("-")[0]: exit_scores(work / name, lists, DEPTH) for name in names})]
    )
    return rows | renamed(rows, "plain", "cascade")


def trained_and_measured(data: Path, work: Path) -> dict[str, float | int | str]:
    cascade_trainings.prepare(data, work)
    for training in cascade_trainings.transfers():
        say(cascade_trainings.train(work, training))
    for seed in cascade_trainings.SEEDS:
        for training in cascade_trainings.adapts(seed):
            say(cascade_trainings.train(work, training))

    sampling = chosen_sampling(work)
    result: dict[str, float | int | str] = {"seeds": len(cascade_trainings.SEEDS), "sampling": sampling}
    result["transfer_questions"] = len(answered(work / "transfer-train.parquet"))
    rows = adapted(data, work)
    rows |= renamed(rows, sampling, "cascade")
    tests = {"wikiqa": rows, "transferred": transferred(work, answered(data / "wikiqa/wikiqa-test.parquet"))}
    tests |= {name: transferred(work, answered(data / path, QUESTIONS)) for name, path in OTHERS.items()}

    for test, test_rows in tests.items():
        result[f"{test}_questions"] = len(test_rows["monolithic"][0].values["map"])
        for name, seeds in test_rows.items():
            result |= figures(test, name, seeds)

    pairs = [
        ("cascade_a0", "monolithic"),
        ("cascade_a3", "monolithic"),
        ("plain_a0", "monolithic"),
        ("plain_a0", "cascade_a0"),
    ]
    pairs += [(f"{name}_a3", "uniform_a3") for name in SAMPLINGS if name != "uniform"] + [
        ("monolithic_blend", "monolithic")
    ]
    for name, over in pairs:
        result |= compared("wikiqa", name, over, rows)

    return result | {"trained_by": trained_by(work)}


def main() -> None:
    paths = {"work": "folder of the trainings, which stay; out/cascade_quality"}
    options = arguments("cascade_quality", __doc__ or "", paths=paths)
    if options.smoke:
        shrink(globals(), QUESTIONS=4)
        shrink(vars(cascade_trainings), ENCODER=small_encoder(), SEEDS=(0, 1), ADAPT_EPOCHS=1)
    torch.set_num_threads(1)
    with work_folder(options, "cascade_quality") as work:
        result = trained_and_measured(options.data.resolve(), work)
    result["cost_a3"] = relative_cost(EXITS, (0.3,) * (len(EXITS) - 1), DEPTH)
    finish("cascade_quality", result, options.save)


if __name__ == "__main__":
    main()
