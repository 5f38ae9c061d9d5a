"""Scoring from bits beside a store of floats and encoding anew, in the form of HAS' Table 6: one question,
500 candidates.

For D of 384 and 768, answers of L = 64, 128 and 200 tokens, and M = 128 and 768 hidden numbers of the
attention (the paper's M is 768 on insuranceQA, of which its Table 6 is, and 128 elsewhere); one thread, in
turns:

    float         the plain formulas over a store of float32 [500, L, D]; its numbers are ±1, so that all score the same
    packed        `rerankers.hashing.bits` over the same in bits, W1 in 7 bits: as a new attention's weights are
    packed_fine   the same with W1 in 14 bits: so it is where m is so large that 7 do not suffice
    recalculated  the answers encoded anew, then `packed`: MiniLM-L6 for D = 384, random weights in BERT-base's shape for
                  768, in the processor's fast precision; ENCODED of the answers are, and the time is scaled to 500
    pooled        cosines of a vector for each answer

Times are the processor's, milliseconds a question, medians over the rounds; a ratio is the median of the
rounds' ratios. `speed_over_float` and `speed_over_recalculated` are of D = 768, L = 200, M = 768, the
paper's; `max_difference` is the largest between `packed` or `packed_fine` and `float` of all runs. `gib_` is
the memory of the paper's 24,981 answers by formula. On a processor with AMX --save writes
`hashing_speed_amx.json`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.rerankers.hashing.bits import Attention, Codes, pack, sizes, unpack
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Packed
from benchmarks.cascade_speed import over
from testing.harness import arguments, finish, peak_gb, say, shrink

TAKES = "on a quiet machine"

CANDIDATES, ENCODED = 500, 50
WIDTHS, LENGTHS, HIDDEN = (384, 768), (64, 128, 200), (128, 768)
PAPER = "d768_l200_m768"
ANSWERS = 24_981  # of insuranceQA
BERT = Shape(layers=12, width=768, heads=12, inner=3072, vocabulary=30_522)
LARGE = 30.0  # times m: W1 needs 14 bits

Floats = npt.NDArray[np.float64]


def plain(store: Tensor, w1: Tensor, w2: Tensor, m: Tensor, question: Tensor) -> Tensor:
    """cos(u, v) of a store [answers, L, D] in float32 [answers]."""
    alpha = ((store @ w1.T + w2 @ question).tanh() @ m).softmax(1)
    return torch.cosine_similarity(torch.bmm(alpha[:, None], store)[:, 0], question[None], dim=1)


def tokens_of(answers: int, length: int) -> Packed:
    """Random token ids, in texts of one length."""
    lengths = np.full(answers, length)
    ids = torch.randint(1_000, 30_000, (answers * length,))
    starts = torch.arange(answers + 1, dtype=torch.int32) * length
    own = torch.ones_like(ids, dtype=torch.bool)
    return Packed(ids, torch.zeros_like(ids), torch.arange(length).repeat(answers), own, starts, lengths)


def measure(
    encoder: LayeredEncoder, length: int, hidden: int, rounds: int
) -> tuple[dict[str, list[float]], float]:
    """Seconds of each way, in turns, after one round that does not count; and the largest difference from
    `plain`."""
    width = encoder.shape.width
    w1, w2, m = (
        torch.nn.Linear(*shape, bias=False).weight
        for shape in ((width, hidden), (width, hidden), (hidden, 1))
    )
    question = torch.rand(width) + 0.5
    codes = Codes(pack(torch.randn(CANDIDATES * length, width)), np.full(CANDIDATES, length))
    store = unpack(codes.bits).view(CANDIDATES, length, width)
    few = Codes(codes.bits[: ENCODED * length], codes.lengths[:ENCODED])

    pooled, tokens = torch.randn(CANDIDATES, width), tokens_of(ENCODED, length)
    quick, fine = Attention(w1, w2, m[0]), Attention(w1, w2, LARGE * m[0])
    assert (quick.bits_of(question), fine.bits_of(question)) == (7, 14)

    def recalculated() -> None:
        bits = pack(encoder.run(encoder.embed(tokens), tokens, 0, encoder.shape.layers))
        quick.scores(question, Codes(bits, few.lengths))

    runs: dict[str, Callable[[], object]] = {
        "float": lambda: plain(store, w1, w2, m[0], question),
        "packed": lambda: quick.scores(question, codes),
        "packed_fine": lambda: fine.scores(question, codes),
        "recalculated": recalculated,
        "pooled": lambda: torch.cosine_similarity(pooled, question[None], dim=1),
    }
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for n in range(rounds + 1):
        for name, run in runs.items():
            began = time.process_time()
            run()
            taken[name].append(time.process_time() - began)
        if not n:
            taken = {name: [] for name in runs}

    taken["recalculated"] = [seconds * CANDIDATES / ENCODED for seconds in taken["recalculated"]]
    differences = [
        np.abs(scorer.scores(question, codes) - plain(store, w1, w2, scale * m[0], question).numpy()).max()
        for scorer, scale in ((quick, 1.0), (fine, LARGE))
    ]

    return taken, float(max(differences))


@torch.inference_mode()
def main() -> None:
    options = arguments("hashing_speed", __doc__ or "", needs_data=False)
    if options.smoke:
        shrink(
            globals(),
            CANDIDATES=6,
            ENCODED=3,
            LENGTHS=(64, 200),
            BERT=replace(BERT, layers=1, vocabulary=31_000),
        )

    torch.set_num_threads(1)
    torch.manual_seed(0)
    bodies = {384: LayeredEncoder.load(find_model(DEFAULT)), 768: LayeredEncoder(BERT)}
    result: dict[str, float | int | str] = {}
    differences = []

    for width in WIDTHS:
        encoder = bodies[width].for_inference()
        for length in LENGTHS:
            stored = sizes(CANDIDATES, length, width)
            result[f"mb_float_d{width}_l{length}"] = stored.floats / 1e6
            result[f"mb_packed_d{width}_l{length}"] = stored.bits / 1e6

            for hidden in HIDDEN:
                taken, difference = measure(encoder, length, hidden, options.rounds)
                differences.append(difference)
                key = f"d{width}_l{length}_m{hidden}"
                for name, times in taken.items():
                    result[f"ms_{name}_{key}"] = 1000 * statistics.median(times)
                result[f"speed_over_float_{key}"] = over(taken["float"], taken["packed"])
                result[f"speed_over_float_fine_{key}"] = over(taken["float"], taken["packed_fine"])
                result[f"speed_over_recalculated_{key}"] = over(taken["recalculated"], taken["packed"])
                line = ", ".join(
                    f"{name} {1000 * statistics.median(times):,.1f} ms" for name, times in taken.items()
                )
                say(
                    f"{key}: {line}; {result[f'speed_over_float_{key}']:.2f} x float, difference "
                    f"{difference:.1e}"
                )

    paper = sizes(ANSWERS, 200, 768)
    result |= {f"gib_{name}": size / 2**30 for name, size in paper._asdict().items()}
    result |= {
        name: result[f"{name}_{PAPER}"]
        for name in ("speed_over_float", "speed_over_float_fine", "speed_over_recalculated")
    }
    result["memory_ratio"] = paper.floats / paper.bits
    result["max_difference"] = max(differences)
    name = "hashing_speed_amx" if torch.cpu.get_capabilities().get("amx_bf16") else "hashing_speed"
    finish(name, result | {"peak_gb": peak_gb()}, options.save)


if __name__ == "__main__":
    main()
