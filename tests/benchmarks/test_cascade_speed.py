"""The cascade and the monolithic model that are measured beside each other do the same work but for what is
dropped."""

from __future__ import annotations

import torch

from answermill.ranking.context import Reading
from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.schemas.labels import LabelledCandidate
from benchmarks.cascade_speed import Ours
from testing.tiny import tokeniser

SHAPE = Shape(layers=3, width=16, heads=2, inner=32, vocabulary=30_522, positions=64)


def test_cascade_and_monolithic_model_read_the_same_tokens_whatever_the_checkpoint_reads() -> None:
    torch.manual_seed(0)
    model = CascadeModel(LayeredEncoder(SHAPE), (1, 3))
    model.reading = Reading(("sentence", "title", "previous", "next"), "first")
    texts = ["It is a red fruit.", "Apples grow on trees.", "No.", "Pears are green."]
    rows = [
        LabelledCandidate("q", "What is an apple?", f"q-{n}", "d", "Apple", n, text, int(n == 0))
        for n, text in enumerate(texts)
    ]

    ours = Ours.of(model, tokeniser())
    costs = []
    for reranker in (ours.pointwise, ours.cascade):
        reranker.rerank([ranked_list(rows)])
        costs.append(reranker.costs())

    monolithic, cascade = costs
    assert monolithic["tokens"] == cascade["tokens"]
    assert cascade["layer_tokens"] < monolithic["layer_tokens"]
    assert model.reading.context[1:] == ("title", "previous", "next")  # the caller's model stays as it was
