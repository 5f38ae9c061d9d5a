"""Cross-encoders on a graphics card: pairs a second, the share of its peak, and beside sentence-transformers;
random weights.

64 questions of SQuAD-sent's test set, each with 400 candidates, as in cascade_speed, through three shapes:
`minilm`, 6 layers of 384; `base`, 12 of 768; `large`, 24 of 1,024. From text to scores, in turns, medians
over the rounds: `SHAPE_pairs_per_s` of `pointwise` in the card's fast precision;
`.._over_sentence_transformers`, its speed over that of `CrossEncoder.predict` with its defaults; `.._best`,
over that of `predict` in the same precision, with flash attention where it is installed
(`predict_best_attention`) and the batch size that a trial finds fastest; `.._cascade_over_monolithic` at α =
.3, five exits.

`SHAPE_share_of_peak`: products with the layers' weights alone, 2 × weights × tokens a second, over what the
card multiplies in square matrices of 8,192 rows in the same precision (`peak_tflops`): attention's own
products come on top, so it is no more than that. `.._training_tokens_per_s` is of a cross-encoder's steps of
16,384 tokens with dropout, and `.._training_share_of_peak` counts three times the products, for loss and
gradient.

--only measures one shape, in minutes. Without a card it ends with a sentence; with
--smoke the same code runs on tiny shapes, on the processor if there is no card.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import transformers

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.training.cross_encoders import PairOptions, PairTask
from answermill.ranking.training.update.processes import ALONE
from answermill.ranking.training.update.update import Updates
from answermill.ranking.transformer.devices import fast, native_precision, peak_flops
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.layers import Layer
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.arrays import TrainingPrecision
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import RankedList
from benchmarks.cascade_speed import SET, beside_predict, lists_of, name_of
from testing.harness import arguments, finish, installed, say, shrink

TAKES = "on a graphics card; without one it says so and ends"

SHAPES = {
    "minilm": (Shape(layers=6, width=384, heads=12, inner=1_536, vocabulary=30_522), (2, 3, 4, 5, 6)),
    "base": (Shape(layers=12, width=768, heads=12, inner=3_072, vocabulary=30_522), (4, 6, 8, 10, 12)),
    "large": (Shape(layers=24, width=1_024, heads=16, inner=4_096, vocabulary=30_522), (8, 12, 16, 20, 24)),
}
QUESTIONS, CANDIDATES = 64, 400
ROWS, PRODUCTS = 8_192, 20  # of the square matrices that are multiplied for the peak
STEP_TOKENS, STEPS, RATE = 16_384, 30, 1e-6


def layer_weights(model: CascadeModel) -> int:
    """Numbers in the matrices of its layers, which multiply each token."""
    layers = (module for module in model.modules() if isinstance(module, Layer))
    return sum(weight.numel() for layer in layers for weight in layer.parameters() if weight.ndim == 2)


def stepped(task: PairTask, precision: TrainingPrecision, steps: int) -> Iterator[int]:
    """Take steps as `answermill train` does, over as many epochs as they need; yields each one's number."""
    optimizer = torch.optim.AdamW([p for _, group in task.rates for p in group], lr=RATE, fused=True)
    updates = Updates(optimizer, precision=precision, clip=1.0, batches=1, processes=ALONE, seed=0)

    task.model.train()
    done = epoch = 0
    while done < steps:
        for batches in islice(updates.epoch_steps(task.batches(epoch), 0), steps - done):
            updates.step(done, batches, task.loss)
            yield done
            done += 1
        epoch += 1


def training_tokens_per_s(
    model: CascadeModel, tokeniser: Tokeniser, lists: Sequence[RankedList], precision: TrainingPrecision
) -> float:
    """Tokens a second of a cross-encoder's steps, after a first one that is not counted."""
    questions = [
        [
            LabelledCandidate(
                r.question.question_id, r.question.text, f"{n}-{i}", "", "", i, c.text, int(i == 0)
            )
            for i, c in enumerate(r.candidates)
        ]
        for n, r in enumerate(lists)
    ]
    task = PairTask(
        model, tokeniser, questions, lambda folder, trained: None, PairOptions(tokens=STEP_TOKENS)
    )
    for step in stepped(task, precision, STEPS + 1):
        if not step:
            began = time.perf_counter()

    next(model.parameters()).flatten()[0].item()  # waits for the last step
    return STEPS * task.tokens / (time.perf_counter() - began)


def figures(
    name: str,
    device: str,
    tokeniser: Tokeniser,
    lists: Sequence[RankedList],
    rounds: int,
    attention: str | None,
) -> dict[str, float | int | str]:
    """Figures of one shape."""
    shape, exits = SHAPES[name]
    precision = fast(device)
    torch.manual_seed(0)
    model = CascadeModel(LayeredEncoder(shape), exits)
    beside = beside_predict(model, tokeniser, lists, rounds, device, attention)
    peak, flops = peak_flops(device, precision, ROWS, PRODUCTS), 2 * layer_weights(model)
    tokens_per_s = float(beside["monolithic_pairs_per_s"]) * float(beside["tokens_per_pair"])
    whole = CascadeModel(model.encoder, exits[-1:]).to(device)
    learnt = training_tokens_per_s(whole, tokeniser, lists, native_precision(device))
    say(f"{name}: {beside['monolithic_pairs_per_s']:,.0f} pairs/s, {learnt:,.0f} tokens/s in training")

    return {
        f"{name}_pairs_per_s": beside["monolithic_pairs_per_s"],
        f"{name}_share_of_peak": tokens_per_s * flops / peak,
        f"{name}_over_sentence_transformers": beside["monolithic_over_predict"],
        f"{name}_over_sentence_transformers_best": beside["monolithic_over_predict_best"],
        f"{name}_predict_best_batch": beside["predict_best_batch"],
        f"{name}_cascade_over_monolithic": beside["cascade_over_monolithic"],
        f"{name}_training_tokens_per_s": learnt,
        f"{name}_training_share_of_peak": 3 * learnt * flops / peak,
        f"{name}_peak_tflops": peak / 1e12,
        "pairs": beside["pairs"],
        "tokens_per_pair": beside["tokens_per_pair"],
        "precision": name_of(precision),
    }


def main() -> None:
    options = arguments("gpu_speed", (__doc__ or "").splitlines()[0], choices={"only": ("all", *SHAPES)})
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.smoke:
        raise SystemExit(
            "benchmarks.gpu_speed: PyTorch finds no graphics card here, so nothing was measured; run it "
            "where "
            "torch.cuda.is_available(), or try the code with --smoke"
        )

    if options.smoke:
        shrink(globals(), QUESTIONS=3, CANDIDATES=10, ROWS=64, PRODUCTS=2, STEP_TOKENS=512, STEPS=2)
        tiny: dict[str, Any] = {"width": 32, "heads": 2, "inner": 64, "layers": 5}
        shrink(
            globals(),
            SHAPES={name: (replace(shape, **tiny), (1, 2, 3, 4, 5)) for name, (shape, _) in SHAPES.items()},
        )

    os.environ["TOKENIZERS_PARALLELISM"] = "true"  # theirs and ours
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    flash, _ = installed({"flash_attn": lambda: __import__("flash_attn")})
    attention = "flash_attention_2" if flash and device == "cuda" else None
    lists = lists_of(Path(options.data) / SET, QUESTIONS, CANDIDATES)
    if not options.smoke:
        # Python would collect garbage in the lists again and again, for longer than a card computes.
        gc.freeze()

    tokeniser = Tokeniser(find_model(DEFAULT))
    result: dict[str, float | int | str] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "processor"
    }
    for name in SHAPES if options.only == "all" else (options.only,):
        result |= figures(name, device, tokeniser, lists, options.rounds, attention)
    finish("gpu_speed", result | {"predict_best_attention": attention or "sdpa"}, options.save)


if __name__ == "__main__":
    main()
