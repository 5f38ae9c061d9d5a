"""int8 beside fp32 in the linear layers of an encoder, one thread: what a `precision` of int8 could gain on
this processor.

A score must not depend on the other texts of its batch, so each row has its own scale, as each output
of a weight has: a row is divided by its largest number, rounded to 7 bits, multiplied by oneDNN with weights
of 8 bits, and scaled back. With 7 bits no sum of two products is cut on processors without VNNI, so the sums
are exact, whatever the instructions.

`fp32_gflops_384x1536` and `.._768x3072`: a product of ROWS rows, the widening layers of MiniLM and of base
size; `int8_gflops_…` with the rounding and scaling around it, `int8_product_gflops_…` alone; `int8_gain_…`
and `int8_product_gain_…`, over fp32. `packed_gain_…`: oneDNN's fp32 with weights in its own layout, over
fp32. `layer_gain_…`: a layer's four products with all between them but attention, so at most what a whole
model gains. `loss_…`: root mean square difference of a layer's results to fp32, over theirs, with random
weights. Times are of the processor, in interleaved rounds; a gain is the median of the rounds' ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.layers import Layer
from testing.harness import arguments, finish, say, shrink

TAKES = "two minutes, on a quiet machine"
ROWS, REPEATS = 2_048, 5
SHAPES = {"384x1536": Shape(1, 384, 12, 1_536, 10), "768x3072": Shape(1, 768, 12, 3_072, 10)}

ROW_STEPS, ZERO, WEIGHT_STEPS = 63, 64, 127
"""Steps from 0 to a row's largest number, the whole number of 0, and steps to a weight's largest."""


class Int8Linear(nn.Module):
    """A linear layer whose inputs and weights are rounded to whole numbers."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, self.bias = linear.weight.detach(), linear.bias.detach()
        self.scale = weight.abs().amax(1) / WEIGHT_STEPS  # [outputs]
        whole = (weight / self.scale[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(whole, None)
        self.zeros = torch.zeros(len(weight), dtype=torch.int64)

    def whole(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows [n, inputs] as whole numbers from 1 to 127, and the step of each row [n, 1]."""
        step = torch.linalg.vector_norm(rows, torch.inf, 1, keepdim=True) / ROW_STEPS
        # 0.5 more, since the conversion cuts the fraction off.
        return (rows * step.reciprocal()).add_(ZERO + 0.5).to(torch.uint8), step

    def product(self, whole: Tensor) -> Tensor:
        """[n, outputs]: product of whole numbers and weights, in units of each row's step."""
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            whole,
            1.0,
            ZERO,
            self.packed,
            self.scale,
            self.zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return result

    def forward(self, rows: Tensor) -> Tensor:
        whole, step = self.whole(rows)
        return self.product(whole).mul_(step).add_(self.bias)


def around_attention(
    layer: Layer, linears: Mapping[str, Callable[[Tensor], Tensor]]
) -> Callable[..., Tensor]:
    """A layer without attention, by these linear layers; attention's result and h are the same [n, d]."""

    def run(hidden: Tensor) -> Tensor:
        linears["attention"](hidden)
        summed = layer.norm(linears["output"](hidden).add_(hidden))
        wide = torch.ops.aten.gelu_(linears["widen"](summed))
        result: Tensor = layer.final_norm(linears["narrow"](wide).add_(summed))
        return result

    return run


def timed(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of the processor that each run takes, in turns."""
    for run in runs.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.process_time()
            for _ in range(REPEATS):
                run()
            taken[name].append((time.process_time() - began) / REPEATS)
    return taken


def figures(name: str, shape: Shape, rounds: int) -> Iterator[tuple[str, float]]:
    """Figures of one shape."""
    torch.manual_seed(0)
    layer, rows = Layer(shape).eval(), torch.randn(ROWS, shape.width)
    whole_layers = {key: getattr(layer, key) for key in ("attention", "output", "widen", "narrow")}
    small_layers = {key: Int8Linear(linear) for key, linear in whole_layers.items()}
    weight, bias = layer.widen.weight, layer.widen.bias
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
    small = small_layers["widen"]
    whole, _ = small.whole(rows)
    fp32, int8 = (around_attention(layer, linears) for linears in (whole_layers, small_layers))

    taken = timed(
        {
            "fp32": lambda: F.linear(rows, weight, bias),
            "packed": lambda: torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], ""),
            "int8_product": lambda: small.product(whole),
            "int8": lambda: small(rows),
            "layer_fp32": lambda: fp32(rows),
            "layer_int8": lambda: int8(rows),
        },
        rounds,
    )

    operations = 2 * ROWS * shape.width * shape.inner
    for key in ("fp32", "int8", "int8_product"):
        yield f"{key}_gflops_{name}", operations / statistics.median(taken[key]) / 1e9
    for key in ("packed", "int8", "int8_product"):
        yield f"{key}_gain_{name}", gain(taken["fp32"], taken[key])
    yield f"layer_gain_{name}", gain(taken["layer_fp32"], taken["layer_int8"])
    expected = fp32(rows)
    yield f"loss_{name}", float((int8(rows) - expected).norm() / expected.norm())


def gain(slow: list[float], quick: list[float]) -> float:
    """Factor of speed: the median over rounds."""
    return statistics.median(a / b for a, b in zip(slow, quick, strict=True))


def main() -> None:
    options = arguments("int8_products", __doc__ or "", needs_data=False)
    if options.smoke:
        shrink(globals(), ROWS=32, REPEATS=1, SHAPES={"64x128": Shape(1, 64, 2, 128, 10)})

    torch.set_num_threads(1)
    result: dict[str, float | int | str] = {"rows": ROWS}
    with torch.inference_mode():
        for name, shape in SHAPES.items():
            result |= dict(figures(name, shape, options.rounds))
            say(", ".join(f"{key} {value:.2f}" for key, value in result.items() if key.endswith(name)))
    finish("int8_products", result, options.save)


if __name__ == "__main__":
    main()
