"""A checkpoint that ships, adapted to labels of one's own by `answermill recipe adapt`: WikiQA before and
after.

The training file is the recipe's, with WikiQA as its data; it learns only from questions and candidates that
reveal nothing of a test set (`question_sets/learnable.py`). Dev chooses the epoch and the weights of blends;
the test set decides nothing.

Rows on WikiQA's test set, protocol `answerable`, in percent: `shipped` and `adapted`, without drops; `.._a3`,
α = .3 at each exit; `.._exitN`, cut behind layer N; `similarity`, the dense encoder's cosine with the title,
and `order`, the place in the document, alone; `known_blend`, both together; `shipped_blend` and
`adapted_blend`, both and the model's last exit. Rows of `adapted` are means over trainings of SEEDS, with
`_deviation`. `wikiqa_b_over_a_difference` is of MAP, with its 95 % interval (`_low`, `_high`) over questions,
each the mean of its seeds, and `_p`. `hours` are of all trainings, if this run began them, `epochs_SEED` of
one, and `dev_map_SEED` and `steps_SEED` of its best epoch.

The trainings are kept in --work: complete ones are not repeated, stopped ones continue. With --epochs N in
place of the recipe's, --save writes `adaptation_N_epochs.json`; with 0 nothing is trained, and the rows are
those of the checkpoint that ships. --body base adapts the checkpoint of 12 layers, as `answermill recipe
adapt --body base` does, and --save writes `adaptation_base.json`: for a card, or for hours.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from answermill.files.model_files import folder_digest
from answermill.indexing.shards.dense import DEFAULT
from answermill.pipelines.config.training_file import load_job
from answermill.pipelines.learn.train.train import run
from answermill.ranking.entry import SHIPPED
from answermill.ranking.training.state import finished
from answermill.schemas.labels import LabelledCandidate
from experiments.exit_rows import Row, at_exit, beside, blended, compared, exit_scores, figures, row, values
from experiments.question_sets.learnable import answered, learnable
from testing.harness import arguments, finish, say, shrink, trained_by, work_folder
from testing.smoke_data import small_checkpoint, small_encoder

TAKES = "half an hour"
MEASURED_MODELS = {
    "adaptation": ("cascade",),
    "adaptation_8_epochs": ("cascade",),
    "adaptation_base": ("cascade_base",),
}
DECIDED = (
    "`answermill recipe adapt` trains for four epochs: with eight the gain is about the deviation over "
    "seeds, at up to twice the time."
)

RECIPE = Path(__file__).resolve().parents[1] / "pipelines/data/recipes/adapt.toml"
SHIPPED_MODEL, ENCODER = SHIPPED / "cascade", DEFAULT
OVERRIDES: tuple[str, ...] = ()
BASE_OVERRIDES = ("train.learning_rate=1e-5",)
"""Settings in which `recipe adapt --body base` differs."""
NAME, LICENCE = "WikiQA (Yang et al. 2015)", "Microsoft Research Data License"
ALPHA, SEEDS = 0.3, (0, 1, 2)


def prepared(data: Path, work: Path) -> Iterator[str]:
    """Write the files of train and dev; yields the settings of the training file that name them."""
    for split in ("train", "dev"):
        file = work / f"wikiqa-{split}.parquet"
        if not file.is_file():
            lists = answered(data / f"wikiqa/wikiqa-{split}.parquet")
            kept = learnable(data, lists) if split == "train" else lists
            pq.write_table(LabelledCandidate.table([row for rows in kept for row in rows]), file)
        yield f"data.{split}={json.dumps([str(file)])}"


def trained(data: Path, work: Path, seed: int) -> Path:
    """Checkpoint adapted with this seed."""
    names = (f"data.name={json.dumps(NAME)}", f"data.licence={json.dumps(LICENCE)}")
    start = f"transformer.encoder={json.dumps(str(SHIPPED_MODEL))}"
    settings = [*names, *prepared(data, work), start, f"train.seed={seed}", *OVERRIDES]
    for line in run(load_job(RECIPE, settings), work / f"adapted-{seed}"):
        say(line)
    return work / f"adapted-{seed}"


def table(data: Path, models: Mapping[str, Sequence[Path]]) -> dict[str, list[Row]]:
    """Name of a row → row of each seed. `models`: name → checkpoint of each seed."""
    lists = {split: answered(data / f"wikiqa/wikiqa-{split}.parquet") for split in ("dev", "test")}
    known = {split: beside(questions, ENCODER) for split, questions in lists.items()}
    rows: dict[str, list[Row]] = defaultdict(list)

    for name, checkpoints in models.items():
        for checkpoint in checkpoints:
            dev, test = (exit_scores(checkpoint, questions) for questions in lists.values())
            if "order" not in rows:
                for column, other in enumerate(("similarity", "order")):
                    rows[other] = [Row(values(test.question, test.label, known["test"][:, column]))]
                rows["known_blend"] = [blended(dev, known["dev"], test, known["test"])[0]]

            rows[name].append(row(test))
            rows[f"{name}_a3"].append(row(test, ALPHA))
            for n, layer in enumerate(test.exits[:-1]):
                rows[f"{name}_exit{layer}"].append(row(at_exit(test, n)))
            dev_columns, columns = (
                np.column_stack([exits.scores[:, -1], known[split]])
                for split, exits in (("dev", dev), ("test", test))
            )
            rows[f"{name}_blend"].append(blended(dev, dev_columns, test, columns)[0])

    return rows


def measured(models: Mapping[str, Sequence[Path]], data: Path) -> dict[str, float | int | str]:
    rows = table(data, models)
    result: dict[str, float | int | str] = {"wikiqa_questions": len(rows["shipped"][0].values["map"])}
    for name, seeds in rows.items():
        result |= figures("wikiqa", name, seeds)
        say(f"{name:<16} MAP {result[f'wikiqa_map_{name}']:.2f}, P@1 {result[f'wikiqa_p1_{name}']:.2f}")
    pairs = [("shipped_a3", "shipped"), ("shipped_blend", "shipped"), ("shipped_blend", "known_blend")]
    pairs += [("adapted", "shipped"), ("adapted_a3", "adapted"), ("adapted_blend", "adapted")]
    for name, over in pairs:
        if name in rows:
            result |= compared("wikiqa", name, over, rows)
    return result


def main() -> None:
    paths = {"work": "folder of the training, which stays; out/adaptation"}
    numbers = {"epochs": "of the training, at the most; the recipe's if absent"}
    bodies = {"body": ("default", "base")}
    options = arguments("adaptation", __doc__ or "", paths=paths, numbers=numbers, choices=bodies)

    if options.smoke:
        model = Path(small_checkpoint("cascade"))
        small = ("train.epochs=1", "train.precision='fp32'", "transformer.words='trained'")
        shrink(globals(), SHIPPED_MODEL=model, ENCODER=small_encoder(), OVERRIDES=small, SEEDS=SEEDS[:2])
    else:
        if options.body == "base":
            shrink(globals(), SHIPPED_MODEL=SHIPPED / "cascade_base", OVERRIDES=BASE_OVERRIDES)
        if options.epochs:
            shrink(globals(), OVERRIDES=(*OVERRIDES, f"train.epochs={options.epochs:.0f}"))

    torch.set_num_threads(1)
    models = {"shipped": [SHIPPED_MODEL]}
    result: dict[str, float | int | str] = {"shipped_digest": str(folder_digest(SHIPPED_MODEL))[:12]}

    name = "adaptation" if options.body == "default" else "adaptation_base"
    shipped = MEASURED_MODELS[name]
    with work_folder(options, name) as work:
        data, began = options.data.resolve(), time.perf_counter()
        if options.epochs != 0:
            new = not list(work.glob("adapted-*"))
            models["adapted"] = [trained(data, work, seed) for seed in SEEDS]
            result |= {"trained_by": trained_by(work)} | (
                {"hours": (time.perf_counter() - began) / 3600} if new else {}
            )
            for seed, checkpoint in zip(SEEDS, models["adapted"], strict=True):
                history = finished(checkpoint)
                assert history is not None and history.best is not None
                result |= {f"dev_map_{seed}": 100 * history.best.dev, f"steps_{seed}": history.best.step}
                result[f"epochs_{seed}"] = len(history.evaluations)

        result |= measured(models, data)

    name += "" if options.epochs is None else f"_{options.epochs:.0f}_epochs"
    finish(name, result, options.save, shipped)


if __name__ == "__main__":
    main()
