"""The cascade of 12 layers on all-mpnet-base-v2, `cascade_base`, from what a card learnt to the checkpoint
that ships.

It learnt on a graphics card by a script apart from this package (its card says how). The result is in
--learnt: files of safetensors with the differences to the public body (`body.NAME.weight.a` and `.b`, two
factors of 128 columns), the body's other weights whole, and the classifier of each exit. This command merges
them with the public body and writes --work/cascade_base: again differences, in bytes, at the ranks that keep
the largest share of energy in SHARES whose file has at most MOST_MB megabytes.

Rows on L-dev's lists, 586 questions with 40 candidates each (--lists), in percent: `dev_<metric>_exitN` of
the checkpoint that is written, and `.._exitN_whole` before its differences were reduced. If MRR of the last
exit has fallen by more than BOUND, nothing is written. `share` is the share of energy, `megabytes` the
file's.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file
from torch import Tensor

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.data.formats import by_question
from answermill.ranking.context import Reading
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, save
from answermill.ranking.transformer.classifier import Classifier
from answermill.ranking.transformer.differences import Differences
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.packing import Tokeniser
from answermill.ranking.transformer.transformer_checkpoint import (
    BodySource,
    StoredForm,
    public_weights,
    write_differences,
)
from answermill.schemas.labels import LabelledCandidate
from experiments.exit_rows import at_exit, exit_scores, figures, row
from experiments.question_sets.learnable import Questions, answered
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_encoder

TAKES = "on a graphics card a minute; without one, hours"
DECIDED = "The ranks at which `cascade_base`, which ships, is stored."

BODY, EXITS, LIMIT = "all-mpnet-base-v2", (4, 6, 8, 10, 12), 352
READING = Reading(("sentence", "title", "previous", "next"))
SHARES = tuple(n / 1000 for n in range(999, 800, -2))
MOST_MB, BOUND = 14.5, 0.3
_OWN = {"qkv": "attention", "o": "output", "f1": "widen", "f2": "narrow", "ln1": "norm", "ln2": "final_norm"}
"""The result's names of a layer's modules → the encoder's."""


def merged(learnt: Mapping[str, Tensor], body: Path) -> CascadeModel:
    """The cascade in fp32: the public body with the differences, and the classifiers."""
    encoder = LayeredEncoder.load(body)
    weights = encoder.state_dict()
    for name, tensor in learnt.items():
        if not name.startswith("body.") or name.endswith(".b"):
            continue
        whole = name.removesuffix(".a")
        own = own_name(whole.removeprefix("body."))
        if whole != name:
            weights[own] = weights[own] + tensor.float() @ learnt[f"{whole}.b"].float()
        else:
            weights[own] = tensor.float()
    encoder.load_state_dict(weights)

    model = CascadeModel(encoder, EXITS)
    for n, classifier in enumerate(model.classifiers):
        parts = {
            name.removeprefix(f"heads.{n}."): tensor.float()
            for name, tensor in learnt.items()
            if name.startswith(f"heads.{n}.")
        }
        classifier.load_state_dict(parts)
    model.reading = READING
    return model.eval()


def own_name(name: str) -> str:
    """The encoder's name of one of the result's weights.

    >>> own_name("layers.3.f1.weight"), own_name("pos.weight"), own_name("ln.bias")
    ('layers.3.widen.weight', 'positions.weight', 'norm.bias')
    """
    if name.startswith("layers."):
        _, number, module, part = name.split(".")
        return f"layers.{number}.{_OWN[module]}.{part}"
    return name.replace("pos.", "positions.").replace("ln.", "norm.")


def files_of(folder: Path) -> dict[str, Tensor]:
    """Tensors of all files in the folder. Raises SystemExit if there are none."""
    learnt = {
        name: tensor
        for file in sorted(folder.glob("*.safetensors"))
        for name, tensor in load_file(file).items()
    }
    if not learnt:
        raise SystemExit(f"experiments.base_cascade: {folder} has no safetensors; give --learnt FOLDER")
    return learnt


def dev_lists(file: Path) -> Questions:
    """Questions with their candidates."""
    rows = [
        LabelledCandidate(
            row["question_id"],
            row["question"],
            f"{row['question_id']}/{n}",
            "",
            row["title"],
            n,
            row["text"],
            int(row["label"]),
            row["previous"],
            row["next"],
        )
        for n, row in enumerate(pq.read_table(file).to_pylist())
    ]
    return list(by_question(rows))


def largest_share(differences: Differences) -> float:
    """The largest of SHARES whose tensors have at most MOST_MB megabytes. Raises SystemExit if none has."""
    for share in SHARES:
        if differences.size(share) <= 1e6 * MOST_MB:
            return share
    raise SystemExit(f"experiments.base_cascade: more than {MOST_MB} MB with a share of {SHARES[-1]}")


def by_exit(checkpoint: Path, lists: Questions, end: str = "") -> dict[str, float]:
    """Figures of each exit, their keys with this end."""
    table, result = exit_scores(checkpoint, lists), dict[str, float]()
    for n, layer in enumerate(table.exits):
        result |= figures("dev", f"exit{layer}{end}", [row(at_exit(table, n))])
        p1, mrr = (result[f"dev_{metric}_exit{layer}{end}"] for metric in ("p1", "mrr"))
        say(f"exit {layer}{end}: P@1 {p1:.2f}, MRR {mrr:.2f}")
    return result


def random_result(body: Path) -> dict[str, Tensor]:
    """A result of random weights, for --smoke."""
    encoder, names = LayeredEncoder.load(body), {own: name for name, own in _OWN.items()}
    result: dict[str, Tensor] = {}
    for own, weight in encoder.state_dict().items():
        if own.startswith("layers.") and weight.dim() == 2:
            _, number, module, part = own.split(".")
            name = f"body.layers.{number}.{names[module]}.{part}"
            result[f"{name}.a"] = torch.randn(len(weight), 2) / 100
            result[f"{name}.b"] = torch.randn(2, weight.shape[1]) / 100
    for n in range(len(EXITS)):
        classifier = Classifier(encoder.shape.width, 0.1).state_dict()
        result |= {f"heads.{n}.{name}": weight for name, weight in classifier.items()}
    return result


def main() -> None:
    options = arguments(
        "base_cascade",
        __doc__.splitlines()[0],
        paths={
            "learnt": "folder of the result",
            "lists": "Parquet of L-dev's lists: question_id, question, title, previous, text, next, label",
            "work": "folder of the checkpoint, which stays; out/base_cascade",
        },
    )
    if options.smoke:
        shrink(globals(), BODY=small_encoder(), EXITS=(1, 2, 6), LIMIT=32, BOUND=100.0)
    elif options.learnt is None or options.lists is None:
        raise SystemExit("experiments.base_cascade: give --learnt FOLDER and --lists FILE")

    body = find_model(BODY)
    if options.smoke:
        learnt = random_result(body)
        lists = answered(options.data / "wikiqa/wikiqa-dev.parquet")
    else:
        learnt, lists = files_of(options.learnt), dev_lists(options.lists)

    with work_folder(options, "base_cascade") as work:
        model, source, tokeniser = merged(learnt, body), BodySource.read(BODY, body), Tokeniser(body, LIMIT)
        whole, small = work / "whole", work / "cascade_base"
        for folder in (whole, small):
            folder.mkdir(exist_ok=True)
        save(whole, "cascade", model, tokeniser, StoredForm("fp16", source))
        differences = Differences(model.state_dict(), public_weights(model, body))
        share = largest_share(differences)
        write_differences(whole, small, source, differences.stored(share))

        result = by_exit(whole, lists, "_whole") | by_exit(small, lists)
        lost = result[f"dev_mrr_exit{EXITS[-1]}_whole"] - result[f"dev_mrr_exit{EXITS[-1]}"]
        if lost > BOUND:
            shutil.rmtree(small)
            raise SystemExit(
                f"experiments.base_cascade: with a share of {share:.2f} the last exit loses {lost:.2f} of "
                f"MRR, and {BOUND} is the most; nothing was written"
            )
        result |= {
            "questions": float(len(lists)),
            "share": share,
            "megabytes": (small / "model.safetensors").stat().st_size / 1e6,
        }
    finish("base_cascade", result, options.save)


if __name__ == "__main__":
    main()
