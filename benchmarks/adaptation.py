"""A checkpoint that ships, adapted to labels of one's own by `answermill recipe adapt`: WikiQA before and after.

The training file is the recipe's, with WikiQA as its data; only questions and candidates that tell nothing of a test set are
learnt from (`question_sets/learnable.py`). Dev chooses the epoch and the weights of blends; the test set decides nothing.

Rows on WikiQA's test set, protocol `answerable`, in percent: `shipped` and `adapted`, without drops; `.._a3`, α = .3 at each
exit; `.._exitN`, cut behind layer N; `similarity`, the dense encoder's cosine with the title, and `order`, the place in the
document, alone; `known_blend`, both together; `shipped_blend` and `adapted_blend`, both and the model's last exit.
`wikiqa_b_over_a_difference` is of MAP, with its 95 % interval (`_low`, `_high`) and `_p`. `hours` are the training's.

The training stands in --work; what is complete is not repeated, what was stopped goes on. --epochs takes fewer than the recipe;
with 0 nothing is trained, and the rows are those of the checkpoint that ships.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from benchmarks.exit_rows import Row, at_exit, beside, blended, compared, exit_scores, figures, row, values
from benchmarks.harness import arguments, finish, say, shrink, trained_by, work_folder
from benchmarks.question_sets.learnable import answered, learnable
from benchmarks.smoke_data import small_checkpoint, small_encoder
from indexing.shards.dense import DEFAULT
from pipelines.config.training_file import load_job
from pipelines.steps.models import folder_digest
from pipelines.train.train import run
from ranking.entry import SHIPPED
from ranking.training.state import finished
from schemas.labels import LabelledCandidate

RECIPE = Path(__file__).resolve().parents[1] / "pipelines/jobs/adapt.toml"
SHIPPED_MODEL, ENCODER = SHIPPED / "cascade", DEFAULT
OVERRIDES: tuple[str, ...] = ()
NAME, LICENCE = "WikiQA (Yang et al. 2015)", "Microsoft Research Data License"
ALPHA = 0.3


def prepared(data: Path, work: Path) -> Iterator[str]:
    """The files that are learnt from and chosen by: settings of the training file."""
    for split in ("train", "dev"):
        file = work / f"wikiqa-{split}.parquet"
        if not file.is_file():
            lists = answered(data / f"wikiqa/wikiqa-{split}.parquet")
            kept = learnable(data, lists) if split == "train" else lists
            pq.write_table(LabelledCandidate.table([row for rows in kept for row in rows]), file)
        yield f"data.{split}={json.dumps([str(file)])}"


def trained(data: Path, work: Path) -> Path:
    """The adapted checkpoint."""
    said = (f"data.name={json.dumps(NAME)}", f"data.licence={json.dumps(LICENCE)}")
    begun = f"transformer.encoder={json.dumps(str(SHIPPED_MODEL))}"
    for line in run(load_job(RECIPE, [*said, *prepared(data, work), begun, *OVERRIDES]), work / "adapted"):
        say(line)
    return work / "adapted"


def table(data: Path, models: Mapping[str, Path]) -> dict[str, list[Row]]:
    """The rows; a row has one seed."""
    lists = {split: answered(data / f"wikiqa/wikiqa-{split}.parquet") for split in ("dev", "test")}
    known = {split: beside(each, ENCODER) for split, each in lists.items()}
    rows: dict[str, list[Row]] = {}
    for name, checkpoint in models.items():
        dev, test = (exit_scores(checkpoint, each) for each in lists.values())
        if not rows:
            rows |= {
                n: [Row(values(test.question, test.label, known["test"][:, column]))]
                for column, n in enumerate(("similarity", "order"))
            }
            rows["known_blend"] = [blended(dev, known["dev"], test, known["test"])[0]]
        rows |= {name: [row(test)], f"{name}_a3": [row(test, ALPHA)]}
        rows |= {f"{name}_exit{layer}": [row(at_exit(test, n))] for n, layer in enumerate(test.exits[:-1])}
        both = (np.column_stack([each.scores[:, -1], known[split]]) for split, each in (("dev", dev), ("test", test)))
        dev_columns, columns = both
        rows[f"{name}_blend"] = [blended(dev, dev_columns, test, columns)[0]]
    return rows


def measured(models: Mapping[str, Path], data: Path) -> dict[str, float | int | str]:
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
    options = arguments("adaptation", __doc__ or "", paths=paths, numbers=numbers)
    if options.smoke:
        model = Path(small_checkpoint("cascade"))
        small = ("train.epochs=1", "train.precision='fp32'", "transformer.words='trained'")
        shrink(globals(), SHIPPED_MODEL=model, ENCODER=small_encoder(), OVERRIDES=small)
    elif options.epochs:
        shrink(globals(), OVERRIDES=(f"train.epochs={options.epochs:.0f}",))
    torch.set_num_threads(1)
    models = {"shipped": SHIPPED_MODEL}
    result: dict[str, float | int | str] = {"shipped_digest": str(folder_digest(SHIPPED_MODEL))[:12]}
    with work_folder(options, "adaptation") as work:
        data, began = options.data.resolve(), time.perf_counter()
        if options.epochs != 0:
            models["adapted"] = trained(data, work)
            history = finished(models["adapted"])
            assert history is not None and history.best is not None
            learnt = {"hours": (time.perf_counter() - began) / 3600, "epochs": len(history.evaluations)}
            result |= learnt | {"dev_map": 100 * history.best.dev, "steps": history.best.step, "trained_by": trained_by(work)}
        result |= measured(models, data)
    finish("adaptation", result, options.save)


if __name__ == "__main__":
    main()
