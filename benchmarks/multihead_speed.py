"""The multiple-heads student's speed beside its plain body's and an ensemble's (MHS Table 5): one thread, in
turns.

16 questions of SQuAD-sent's test set in flight, each with 60 candidates: its own sentences, filled up with
others'. In turns, from text to scores: `pointwise` of 6 layers of MiniLM-L6; B_5 3H_1 that begins with the
same weights (and B_4 3H_2); and an ensemble, three such `pointwise` one after the other. Classifiers are
random, which costs what trained ones cost. Times are medians over the rounds; a ratio is the median of the
rounds' ratios. `over_body` is B_5 3H_1's time over the plain body's: 8 layers to 6 (the paper: 14 layers to
12 take 2.6 to 2.0); `ensemble_over_mhs` the ensemble's over its own (6.1 to 2.6). `first_token_over_body` is
a B_5 3H_1 made of a plain transformer, whose classifiers read the first token as the paper's do.
`pruned_over_body` is a B_5 3H_1 whose exits after layers 2 to 5 drop three in ten each.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.rerankers.cascade.pointwise import Pointwise
from answermill.ranking.rerankers.multihead.multihead import MultiHead, split, split_model
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.ranked import RankedList
from benchmarks.cascade_speed import Runs, lists_of, over, timed
from testing.harness import arguments, finish, peak_gb, shrink
from testing.smoke_data import small_encoder

SET = "squad/squad-sent-test.parquet"
QUESTIONS, CANDIDATES = 16, 60
HEADS, EXITS, ALPHA = 3, (2, 3, 4, 5), 0.3
ENCODER = DEFAULT


def rankers(lists: Sequence[RankedList]) -> Runs:
    folder = find_model(ENCODER)
    tokeniser = Tokeniser(folder)
    torch.manual_seed(0)
    plain = CascadeModel(LayeredEncoder.load(folder), (6,))
    body = Pointwise(plain, tokeniser)
    ensemble = [Pointwise(plain, tokeniser) for _ in range(HEADS)]
    students = {
        f"b{6 - layers}_3h{layers}": MultiHead(split_model(plain, HEADS, layers), tokeniser)
        for layers in (1, 2)
    }
    students["first_token"] = MultiHead(split(plain.encoder, HEADS, 1), tokeniser)

    pruned = MultiHead(split_model(plain, HEADS, 1, EXITS), tokeniser, (ALPHA,) * len(EXITS))

    def all_of_them() -> None:
        for member in ensemble:
            member.rerank(lists)

    runs: Runs = {
        "body": lambda: body.rerank(lists),
        "ensemble": all_of_them,
        "pruned": lambda: pruned.rerank(lists),
    }
    runs |= {name: (lambda student=student: student.rerank(lists)) for name, student in students.items()}  # type: ignore[misc]
    for reranker in (body, *ensemble, *students.values(), pruned):
        reranker.rerank(lists[:1])

    return runs


def main() -> None:
    options = arguments("multihead_speed", __doc__ or "")
    if options.smoke:
        shrink(globals(), QUESTIONS=3, CANDIDATES=8, ENCODER=small_encoder())
    torch.set_num_threads(1)
    lists = lists_of(options.data / SET, QUESTIONS, CANDIDATES)
    taken = timed(rankers(lists), options.rounds)
    pairs = sum(len(ranked.candidates) for ranked in lists)
    result: dict[str, float | int | str] = {"pairs": pairs}
    result |= {f"{name}_pairs_per_s": pairs / statistics.median(times) for name, times in taken.items()}

    result |= {
        "over_body": over(taken["b5_3h1"], taken["body"]),
        "first_token_over_body": over(taken["first_token"], taken["body"]),
        "b4_3h2_over_body": over(taken["b4_3h2"], taken["body"]),
        "ensemble_over_mhs": over(taken["ensemble"], taken["b5_3h1"]),
        "pruned_over_body": over(taken["pruned"], taken["body"]),
        "peak_gb": peak_gb(),
    }
    finish("multihead_speed", result, options.save)


if __name__ == "__main__":
    main()
