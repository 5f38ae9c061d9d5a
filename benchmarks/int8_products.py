"""int8 beside fp32, one thread: a linear layer, a layer of an encoder, and the shipped cascade with
`precision = "int8"`; and what packed weights gain.

`fp32_gflops_384x1536` and `.._768x3072`: a product of ROWS rows, the widening layers of MiniLM and of base
size; `int8_gflops_…` with the rounding and scaling around it, `int8_product_gflops_…` alone; `int8_gain_…`
and `int8_product_gain_…`, over fp32. `packed_gain_…`: oneDNN's fp32 with weights in its own layout, over
fp32. `layer_gain_…`: a layer's four products with all between them but attention, so at most what a whole
model gains. `loss_…`: root mean square difference of a layer's results to fp32, over theirs, with random
weights. `bf16_layer_gain_…`: such a layer in bf16, packed as it serves, over plain linear layers; only where
the processor multiplies bf16.

`monolithic_…` and `cascade_…`: the shipped cascade's last exit alone, and its schedule at α = .3, from text
to scores, on lists as in `cascade_speed`, fewer and shorter; `.._gain` is int8 over fp32.
`top1_agreement` and `kendall_tau` hold the order of a question's candidates in int8 against that in fp32,
both monolithic.

Times are of the processor, in interleaved rounds; a gain is the median of the rounds' ratios.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from answermill.indexing.shards.dense import find_model
from answermill.ranking.entry import SHIPPED
from answermill.ranking.rerankers.cascade.cascade_model import load
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.layers import Layer
from answermill.ranking.transformer.layers.int8 import MOST_ROWS, Int8Linear, to_int8
from answermill.ranking.transformer.layers.packed_linear import PackedLinear, pack, packs
from answermill.schemas.arrays import StagePrecision
from answermill.schemas.ranked import RankedList
from benchmarks.cascade_speed import SET, Ours, agreement, lists_of, over, scores
from testing.harness import arguments, finish, say, shrink
from testing.smoke_data import small_checkpoint

TAKES = "five minutes, on a quiet machine"
MEASURED_MODELS = ("cascade",)
ROWS, REPEATS = 2_048, 5
QUESTIONS, CANDIDATES = 8, 60
PRECISIONS: tuple[StagePrecision, ...] = ("fp32", "int8")
SHAPES = {"384x1536": Shape(1, 384, 12, 1_536, 10), "768x3072": Shape(1, 768, 12, 3_072, 10)}


def around_attention(layer: Layer, rows: Tensor) -> Tensor:
    """A layer without attention; attention's result and h are the same rows [n, d]."""
    layer.attention(rows)
    return layer.after_attention(rows, rows)


def timed(runs: Mapping[str, Callable[[], object]], rounds: int, repeats: int = 1) -> dict[str, list[float]]:
    """Seconds of the processor that each run takes, in turns, each the mean of its repeats."""
    for run in runs.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.process_time()
            for _ in range(repeats):
                run()
            taken[name].append((time.process_time() - began) / repeats)
    return taken


def figures(name: str, shape: Shape, rounds: int) -> Iterator[tuple[str, float]]:
    """Figures of one shape."""
    torch.manual_seed(0)
    layer, rows = Layer(shape).eval(), torch.randn(ROWS, shape.width)
    small_layer = copy.deepcopy(layer)
    to_int8([small_layer])
    packed = PackedLinear(layer.widen)
    small = small_layer.widen
    assert isinstance(small, Int8Linear)
    whole, _ = small.whole(rows)

    runs: dict[str, Callable[[], object]] = {
        "fp32": lambda: layer.widen(rows),
        "packed": lambda: packed.product("none", rows),
        "int8_product": lambda: small.product(whole),
        "int8": lambda: small(rows),
        "layer_fp32": lambda: around_attention(layer, rows),
        "layer_int8": lambda: [around_attention(small_layer, part) for part in rows.split(MOST_ROWS)],
    }
    if packs("cpu", torch.bfloat16):
        half, plain = rows.bfloat16(), copy.deepcopy(layer).bfloat16()
        packed_layer = copy.deepcopy(plain)
        pack([packed_layer])
        runs["layer_bf16"] = lambda: around_attention(plain, half)
        runs["layer_bf16_packed"] = lambda: around_attention(packed_layer, half)
    taken = timed(runs, rounds, REPEATS)

    operations = 2 * ROWS * shape.width * shape.inner
    for key in ("fp32", "int8", "int8_product"):
        yield f"{key}_gflops_{name}", operations / statistics.median(taken[key]) / 1e9
    for key in ("packed", "int8", "int8_product"):
        yield f"{key}_gain_{name}", over(taken["fp32"], taken[key])
    yield f"layer_gain_{name}", over(taken["layer_fp32"], taken["layer_int8"])
    if "layer_bf16" in taken:
        yield f"bf16_layer_gain_{name}", over(taken["layer_bf16"], taken["layer_bf16_packed"])
    expected = around_attention(layer, rows)
    loss = around_attention(small_layer, rows) - expected
    yield f"loss_{name}", float(loss.norm() / expected.norm())


def model_figures(checkpoint: Path, lists: Sequence[RankedList], rounds: int) -> Iterator[tuple[str, float]]:
    """Figures of a cascade, from text to scores."""
    model, tokeniser = load(checkpoint, "cascade", find_model)
    ours = {precision: Ours.of(model, tokeniser, precision) for precision in PRECISIONS}
    taken = timed(
        {
            f"{kind}_{precision}": partial(reranker.rerank, lists)
            for precision, both in ours.items()
            for kind, reranker in (("monolithic", both.pointwise), ("cascade", both.cascade))
        },
        rounds,
    )

    pairs = sum(len(ranked.candidates) for ranked in lists)
    yield "pairs", pairs
    for name, times in taken.items():
        yield f"{name}_pairs_per_s", pairs / statistics.median(times)
    for kind in ("monolithic", "cascade"):
        yield f"{kind}_gain", over(taken[f"{kind}_fp32"], taken[f"{kind}_int8"])
    exact, small = (scores(ours[precision].pointwise.rerank(lists), lists) for precision in PRECISIONS)
    yield from zip(("top1_agreement", "kendall_tau"), agreement(exact, small), strict=True)


def main() -> None:
    options = arguments("int8_products", __doc__ or "")
    checkpoint = SHIPPED / "cascade"
    if options.smoke:
        shrink(globals(), ROWS=32, REPEATS=1, SHAPES={"64x128": Shape(1, 64, 2, 128, 10)})
        shrink(globals(), QUESTIONS=2, CANDIDATES=6)
        checkpoint = Path(small_checkpoint("cascade"))

    torch.set_num_threads(1)
    result: dict[str, float | int | str] = {"rows": ROWS}
    with torch.inference_mode():
        for name, shape in SHAPES.items():
            result |= dict(figures(name, shape, options.rounds))
            say(", ".join(f"{key} {value:.2f}" for key, value in result.items() if key.endswith(name)))
    result |= dict(
        model_figures(checkpoint, lists_of(options.data / SET, QUESTIONS, CANDIDATES), options.rounds)
    )
    finish("int8_products", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
