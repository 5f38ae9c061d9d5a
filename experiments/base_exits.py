"""A cascade of 12 layers on all-mpnet-base-v2: the teacher's body and score, and exits learnt while the body
stays as it is.

The body is --teacher's: what all-mpnet-base-v2 learnt on a card, as differences to the public weights
(`models/README.md` beside them), with one linear score of the first token, which stays the last exit. The
exits after layers 4 to 10 are classifiers of the mean of the token vectors. These are computed once, for
--questions questions of L-train in an order drawn by hash, each with a right sentence and WRONG wrong ones,
and kept in --work in pieces: a stopped run continues, and one with more questions adds to them. A classifier
then learns in seconds: softmax over a question's sentences and BCE_SHARE × BCE of the labels, half and half
with the KL divergence to the teacher's logits. Its epochs are those that were best on a tenth of the
questions, which it does not learn from.

The checkpoint is written to --work/cascade_base, as differences to the public body that keep SHARE of each
matrix's energy. Keys: `held_out_mrr_exitN` on that tenth, `questions`, `pairs`, `tokens`, the seconds of the
vectors, if this run computed all of them, and `megabytes`; `last_exit_correlation` and
`last_exit_largest_difference` compare the logits of CHECKED pairs before and after they were shrunk.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from answermill.files.atomic_files import replacing
from answermill.indexing.shards.dense import find_model
from answermill.ranking.context import Reading
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, load, save
from answermill.ranking.transformer.classifier import Classifier, LinearHead
from answermill.ranking.transformer.differences import Differences
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.layers.pooling import pool
from answermill.ranking.transformer.packing import Tokeniser
from answermill.ranking.transformer.transformer_checkpoint import (
    BodySource,
    StoredForm,
    public_weights,
    write_differences,
)
from experiments.question_sets.gold import by_hash
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_encoder

TAKES = "half an hour"
DECIDED = "The exits of `cascade_base`, which ships: their classifiers, and that layer 4 stays one of them."

BODY, EXITS, LIMIT = "all-mpnet-base-v2", (4, 6, 8, 10, 12), 352
READING = Reading(("sentence", "title", "previous", "next"))
QUESTIONS, WRONG, PIECE = 760, 7, 20
SHARE, CHECKED = 0.999, 200
BATCH_TOKENS = 16_384
EPOCHS, BATCH, RATE, DECAY = 40, 64, 5e-4, 0.01
BCE_SHARE, TEACHER_SHARE = 0.3, 0.5
_OWN = {"qkv": "attention", "o": "output", "f1": "widen", "f2": "narrow", "ln1": "norm", "ln2": "final_norm"}
"""The teacher's names of a layer's modules → the encoder's."""


class Lists(NamedTuple):
    """Texts, labels and the teacher's logits of some questions: a right sentence first, then wrong ones."""

    tuples: list[tuple[str, ...]]
    logits: np.ndarray[Any, np.dtype[np.float32]]
    sizes: list[int]


def taught(folder: Path, questions: int) -> Lists:
    """Lists of some questions of L-train, drawn by hash."""
    texts = [*pq.read_table(folder / "texts.parquet")["text"].to_pylist(), ""]
    rows = pq.read_table(folder / "lists.parquet", filters=[("list_set", "=", "train")]).to_pylist()
    of_question: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        of_question.setdefault(texts[row["question_id"]], []).append(row)

    tuples, logits, sizes = list[tuple[str, ...]](), list[float](), list[int]()
    for name in by_hash(of_question)[:questions]:
        here = of_question[name]
        right = [row for row in here if row["label"]]
        wrong = [row for row in here if not row["label"]]
        if not right or not wrong:
            continue
        picked = [right[0], *(wrong[n] for n in _spread(len(wrong), WRONG))]
        parts = ("question", "text", "title", "previous", "next")
        tuples += [tuple(texts[row[part]] for part in parts) for row in picked]
        logits += [row["teacher"] for row in picked]
        sizes.append(len(picked))

    return Lists(tuples, np.array(logits, np.float32), sizes)


def _spread(count: int, most: int) -> list[int]:
    """At most `most` of `count` places, evenly apart.

    >>> _spread(10, 4)
    [0, 2, 5, 7]
    """
    return [n * count // min(most, count) for n in range(min(most, count))]


def teacher(folder: Path, body: Path) -> CascadeModel:
    """The teacher as a model of one exit: the public body with its differences, and its score."""
    encoder, learnt = LayeredEncoder.load(body), load_file(folder / "model.safetensors")
    weights = encoder.state_dict()
    for name, tensor in learnt.items():
        whole = name.removesuffix(".a")
        if whole != name:
            own = _own_name(whole)
            weights[own] = weights[own] + tensor.float() @ learnt[f"{whole}.b"].float()
        elif not name.startswith("head.") and not name.endswith(".b"):
            weights[_own_name(name)] = tensor.float()
    encoder.load_state_dict(weights)

    model = CascadeModel(encoder, [encoder.shape.layers], head="linear")
    score = cast(LinearHead, model.classifiers[-1]).score
    score.load_state_dict({"weight": learnt["head.weight"].float(), "bias": learnt["head.bias"].float()})
    model.reading = READING
    return model.eval()


def _own_name(name: str) -> str:
    """The encoder's name of one of the teacher's weights.

    >>> _own_name("layers.3.f1.weight"), _own_name("pos.weight")
    ('layers.3.widen.weight', 'positions.weight')
    """
    if name.startswith("layers."):
        _, number, module, part = name.split(".")
        return f"layers.{number}.{_OWN[module]}.{part}"
    return name.replace("pos.", "positions.").replace("ln.", "norm.")


def vectors(model: CascadeModel, tokeniser: Tokeniser, tuples: Sequence[tuple[str, ...]]) -> Iterator[Any]:
    """(numbers of some texts, their mean vectors after each exit but the last [texts, exits, d])."""
    pairs = tokeniser.pairs(tuples, READING.turns)
    with torch.inference_mode():
        for rows in pairs.batches(BATCH_TOKENS):
            tokens, before, pooled = pairs.pack(rows), 0, []
            hidden = model.encoder.embed(tokens)
            for layer in EXITS[:-1]:
                hidden = model.encoder.run(hidden, tokens, before, layer)
                pooled.append(pool(model.encoder.normalised(hidden), tokens))
                before = layer
            yield rows, torch.stack(pooled, 1).numpy()


def kept(model: CascadeModel, tokeniser: Tokeniser, lists: Lists, work: Path) -> np.ndarray[Any, Any]:
    """Vectors [texts, exits, d] in fp16, from the pieces in `work`; missing pieces are computed first."""
    width, pieces, begin = model.encoder.shape.width, [], 0
    ends = np.cumsum(lists.sizes)
    for number, first in enumerate(range(0, len(lists.sizes), PIECE)):
        end = int(ends[min(first + PIECE, len(ends)) - 1])
        path = work / f"vectors-{number:04}.npy"
        if not path.is_file():
            piece = np.zeros((end - begin, len(EXITS) - 1, width), np.float16)
            for rows, values in vectors(model, tokeniser, lists.tuples[begin:end]):
                piece[rows] = values
            with replacing(path) as unfinished, unfinished.open("wb") as file:
                np.save(file, piece)
            say(f"{min(first + PIECE, len(ends))} of {len(ends)} questions")
        pieces.append(np.load(path, allow_pickle=False))
        begin = end
    return np.concatenate(pieces)


def learnt(inputs: Tensor, logits: Tensor, sizes: Sequence[int], seed: int = 0) -> tuple[Classifier, float]:
    """A classifier of vectors [texts, d], and its MRR on the questions that it did not learn from. `logits`:
    the teacher's."""
    torch.manual_seed(seed)
    starts = np.cumsum([0, *sizes])
    longest = max(sizes)
    places = torch.zeros(len(sizes), longest, dtype=torch.long)
    present = torch.zeros(len(sizes), longest, dtype=torch.bool)
    for n, size in enumerate(sizes):
        places[n, :size] = torch.arange(size) + int(starts[n])
        present[n, :size] = True

    classifier, width = Classifier(inputs.shape[1], 0.1), inputs.shape[1]
    for linear in (classifier.first, classifier.second):
        torch.nn.init.normal_(linear.weight, std=width**-0.5)
    optimiser = torch.optim.AdamW(classifier.parameters(), RATE, weight_decay=DECAY)
    held_out = torch.arange(len(sizes)) % 10 == 0
    training = torch.nonzero(~held_out).squeeze(1)
    steps = EPOCHS * -(-len(training) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2 * RATE, total_steps=steps)

    best, best_state = -1.0, {}
    for _ in range(EPOCHS):
        classifier.train()
        for questions in training[torch.randperm(len(training))].split(BATCH):
            here, real = places[questions], present[questions]
            scores = classifier(inputs[here.flatten()]).view(here.shape)
            loss = _loss(scores, logits[here], real)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()

        mrr = _mrr(classifier.eval(), inputs, places[held_out], present[held_out])
        if mrr > best:
            best, best_state = mrr, {name: w.clone() for name, w in classifier.state_dict().items()}

    classifier.load_state_dict(best_state)
    return classifier.eval(), best


def _loss(scores: Tensor, teacher_logits: Tensor, present: Tensor) -> Tensor:
    """Loss of scores [questions, sentences], of which the first is right; `present`: true where there is a
    sentence."""
    log_p = scores.masked_fill(~present, -1e4).log_softmax(1)
    labels = torch.zeros_like(scores)
    labels[:, 0] = 1
    by_labels = -log_p[:, 0].mean() + BCE_SHARE * F.binary_cross_entropy_with_logits(
        scores[present], labels[present]
    )
    target = teacher_logits.masked_fill(~present, -1e4).log_softmax(1)
    by_teacher = F.kl_div(log_p, target, log_target=True, reduction="batchmean")
    return (1 - TEACHER_SHARE) * by_labels + TEACHER_SHARE * by_teacher


@torch.inference_mode()
def _mrr(classifier: Classifier, inputs: Tensor, places: Tensor, present: Tensor) -> float:
    """MRR in percent of the right sentence, which is the first of each question's."""
    scores = classifier(inputs[places.flatten()]).view(places.shape).masked_fill(~present, -torch.inf)
    ranks = 1 + (scores[:, 1:] >= scores[:, :1]).sum(1)
    return 100 * float((1 / ranks).mean())


def random_teacher(_folder: Path, body: Path) -> CascadeModel:
    """A teacher of random weights, for --smoke."""
    encoder = LayeredEncoder.load(body)
    model = CascadeModel(encoder, [encoder.shape.layers], head="linear")
    model.reading = READING
    return model.eval()


def token_lists(_folder: Path, questions: int) -> Lists:
    """Questions of three sentences each, for --smoke."""
    tuples: list[tuple[str, ...]] = [
        (f"what is {n}", f"{n + m} is", "", "", "") for n in range(questions) for m in range(3)
    ]
    return Lists(tuples, np.zeros(len(tuples), np.float32), [3] * questions)


def written(
    cascade: CascadeModel, tokeniser: Tokeniser, body: Path, tuples: Sequence[tuple[str, ...]], work: Path
) -> dict[str, float]:
    """Write the checkpoint as differences to the body; figures of what they change."""
    source, whole, small = BodySource.read(BODY, body), work / "whole", work / "cascade_base"
    for folder in (whole, small):
        folder.mkdir(exist_ok=True)
    save(whole, "cascade", cascade, tokeniser, StoredForm("fp16", source))
    differences = Differences(cascade.state_dict(), public_weights(cascade, body))
    write_differences(whole, small, source, differences.stored(SHARE))

    shrunk, _ = load(small, "cascade", find_model)
    tokens = tokeniser.pairs(tuples, READING.turns).pack()
    with torch.inference_mode():
        before, after = (
            model.for_inference("cpu")(tokens, len(EXITS) - 1).numpy() for model in (cascade, shrunk)
        )
    return {
        "megabytes": (small / "model.safetensors").stat().st_size / 1e6,
        "last_exit_correlation": float(np.corrcoef(before, after)[0, 1]),
        "last_exit_largest_difference": float(np.abs(before - after).max()),
    }


def main() -> None:
    options = arguments(
        "base_exits",
        __doc__.splitlines()[0],
        paths={
            "teacher": "folder of the teacher's differences; ../shared/models/teacher-base",
            "work": "folder of the vectors and of the checkpoint, which stay; out/base_exits",
        },
        numbers={"questions": f"questions to learn from; {QUESTIONS}"},
    )
    if options.smoke:
        few: dict[str, Any] = {"QUESTIONS": 11, "PIECE": 6, "CHECKED": 6, "EPOCHS": 1, "LIMIT": 32}
        made_up: dict[str, Any] = {"teacher": random_teacher, "taught": token_lists}
        shrink(globals(), BODY=small_encoder(), EXITS=(1, 2, 6), **few, **made_up)
    torch.set_num_threads(1)
    body = find_model(BODY)
    folder = options.teacher or options.data.parent / "models/teacher-base"
    with work_folder(options, "base_exits") as work:
        lists = taught(options.data / "qa-train/taught", int(options.questions or QUESTIONS))
        model, tokeniser = teacher(folder, body), Tokeniser(body, LIMIT)
        result: dict[str, float | int | str] = {
            "questions": len(lists.sizes),
            "pairs": len(lists.tuples),
            "tokens": int(tokeniser.pairs(lists.tuples, READING.turns).lengths.sum()),
        }

        serving, began = model.for_inference("cpu"), time.monotonic()
        fresh = not list(work.glob("vectors-*.npy"))
        inputs = torch.from_numpy(kept(serving, tokeniser, lists, work)).float()
        if fresh:
            result["seconds"] = time.monotonic() - began

        cascade = CascadeModel(model.encoder, EXITS, head="linear")
        cascade.reading = READING
        cascade.classifiers[-1] = model.classifiers[-1]
        for n, layer in enumerate(EXITS[:-1]):
            cascade.classifiers[n], mrr = learnt(inputs[:, n], torch.from_numpy(lists.logits), lists.sizes)
            result[f"held_out_mrr_exit{layer}"] = mrr
            say(f"exit {layer}: MRR {mrr:.1f} on questions that it did not learn from")

        result |= written(cascade, tokeniser, body, lists.tuples[:CHECKED], work)
    finish("base_exits", result, options.save)


if __name__ == "__main__":
    main()
