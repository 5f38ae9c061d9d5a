"""Linear layers of whole numbers: exact sums, the same bits in any batch, near to fp32."""

from __future__ import annotations

from itertools import groupby, islice
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.pipelines.learn.evaluate.rank import RankOptions, load_ranker
from answermill.ranking.checkpoint import check_int8
from answermill.ranking.entry import SHIPPED
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import rounded
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.multihead.multihead import MultiHeadModel, StudentHead
from answermill.ranking.rerankers.multihead.multihead import load as load_student
from answermill.ranking.rerankers.pretrained.pair_scorers import load_scorer
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.layers import int8
from answermill.ranking.transformer.layers.int8 import Int8Linear, exact
from answermill.ranking.transformer.layers.packed_linear import LINEARS
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import RankedList
from testing.tiny import checkpoint as write_checkpoint
from testing.tiny import write_dense

WORDS = [
    "ice",
    "wind",
    "cave",
    "glacier",
    "satellite",
    "orbit",
    "song",
    "city",
    "river",
    "bridge",
    "stone",
    "light",
    "water",
    "king",
    "storm",
]
RANDOM = np.random.default_rng(0)
TEXTS = [
    (f"Where is the {WORDS[n % 11]}?", " ".join(RANDOM.choice(WORDS, size)))
    for n, size in enumerate([1, 3, 7, 12, 15, 16, 17, 31, 60, 120, 200, 1, 90, 45, 5])
]


def run(encoder: LayeredEncoder, tokens: Packed) -> torch.Tensor:
    return encoder.run(encoder.embed(tokens), tokens, 0, encoder.shape.layers)


@pytest.fixture(scope="module")
def minilm() -> Path:
    return find_model(DEFAULT)


@pytest.mark.parametrize("least", [None, -0.17])
def test_a_product_is_that_of_the_whole_numbers(least: float | None) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(96, 40)
    small, rows = Int8Linear(linear, least), nn.functional.gelu(torch.randn(50, 96))
    with torch.no_grad():
        whole, step = small.whole(rows)
        assert whole.max() == 255 and step.shape == (50, 1)
        read = (whole.double() - small.zero) * step.double() + (least or 0.0)
        torch.testing.assert_close(read, rows.double(), rtol=0, atol=float(step.max()) / 2 + 1e-7)

        weight = (linear.weight / small.scale[:, None]).round().double() * small.scale[:, None].double()
        expected = read @ weight.t() + linear.bias.double()
        torch.testing.assert_close(small(rows).double(), expected, rtol=0, atol=1e-5)


def test_a_row_of_zeros_and_an_output_of_zeros_give_the_bias() -> None:
    linear = nn.Linear(8, 3)
    linear.weight.data[1] = 0
    with torch.no_grad():
        outputs = Int8Linear(linear)(torch.cat([torch.zeros(1, 8), torch.ones(1, 8)]))
        assert torch.equal(outputs[0], linear.bias) and outputs[1, 1] == linear.bias[1]


def test_steps_from_the_least_number_on_lose_less() -> None:
    torch.manual_seed(0)
    linear, rows = nn.Linear(256, 64), nn.functional.gelu(torch.randn(100, 256))
    with torch.no_grad():
        expected = linear(rows)
        errors = [float((Int8Linear(linear, least)(rows) - expected).norm()) for least in (-0.17, None)]
    assert errors[0] < errors[1] < 0.03 * expected.norm()


def test_a_text_has_the_same_bits_alone_and_in_any_batch(minilm: Path) -> None:
    encoder = LayeredEncoder.load(minilm, layers=2).for_inference(precision=torch.int8)
    encodings, order = Tokeniser(minilm).pairs(TEXTS), RANDOM.permutation(len(TEXTS))
    with torch.inference_mode():
        among, shuffled = encodings.pack(), encodings.pack(order)
        encoded, encoded_shuffled = run(encoder, among), run(encoder, shuffled)
        _, rows = shuffled.select(np.argsort(order))
        assert torch.equal(encoded_shuffled[rows], encoded)
        for number in range(len(TEXTS)):
            _, rows = among.select([number])
            assert torch.equal(run(encoder, encodings.pack([number])), encoded[rows])


def test_whole_numbers_are_near_to_fp32_and_others(minilm: Path) -> None:
    tokens = Tokeniser(minilm).pairs(TEXTS).pack()
    with torch.inference_mode():
        exact_run, small = (
            run(LayeredEncoder.load(minilm).for_inference(precision=precision), tokens)
            for precision in (torch.float32, torch.int8)
        )
    assert not torch.equal(exact_run, small)
    assert nn.functional.cosine_similarity(exact_run, small).min() > 0.97


def test_all_linear_layers_of_a_layer_are_replaced_and_the_model_stays_as_it_was(minilm: Path) -> None:
    encoder = LayeredEncoder.load(minilm, layers=2)
    small = encoder.for_inference(precision=torch.int8)
    assert all(isinstance(getattr(layer, name), Int8Linear) for layer in small.layers for name in LINEARS)
    assert all(isinstance(getattr(layer, name), nn.Linear) for layer in encoder.layers for name in LINEARS)
    assert not any(isinstance(module, nn.Linear) for module in small.layers.modules())


def test_a_student_s_heads_are_of_whole_numbers_too(tmp_path: Path) -> None:
    write_checkpoint("multihead", tmp_path / "student")
    model, _ = load_student(tmp_path / "student")
    served = model.for_inference("cpu", "int8")
    assert isinstance(served, MultiHeadModel)
    for head in served.heads:
        assert isinstance(head, StudentHead) and isinstance(head.layers[0].narrow, Int8Linear)
        assert head.classifier.score.weight.dtype == torch.float64


def test_this_machine_computes_exactly_and_one_that_does_not_is_refused(
    minilm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exact()
    encoder = LayeredEncoder.load(minilm, layers=1)
    monkeypatch.setattr(int8, "exact", lambda: False)
    with pytest.raises(ValueError, match="no exact products of whole numbers"):
        encoder.for_inference(precision=torch.int8)
    monkeypatch.undo()

    # A product that is cut off at 16 bits, as the largest numbers' would be with steps of 8 bits for both.
    exact.cache_clear()
    product = Int8Linear.product
    monkeypatch.setattr(Int8Linear, "product", lambda self, whole: product(self, whole).clamp(max=32_767))
    assert not exact()
    exact.cache_clear()


@pytest.fixture(scope="module")
def lists(sample_run: Path) -> list[RankedList]:
    """Candidates of the sample's first questions, as its plan has read them."""
    rows = pq.read_table(
        sample_run / "scored", columns=["question_id", "question", "text", "title"]
    ).to_pylist()
    labelled = [
        LabelledCandidate(
            question_id=row["question_id"],
            question=row["question"],
            candidate_id=f"c{n}",
            doc_id=f"d{n}",
            title=row["title"],
            position=n,
            text=row["text"],
            label=0,
        )
        for n, row in enumerate(rows)
    ]
    of_questions = groupby(labelled, key=lambda candidate: candidate.question_id)
    return [ranked_list(list(group)[:25]) for _, group in islice(of_questions, 6)]


def cascade(precision: str, *more: str) -> Cascade:
    settings = [f"precision={precision}", "int8_loss=any", *more]
    reranker, _ = load_ranker("cascade", RankOptions("cascade", settings))
    assert isinstance(reranker, Cascade)
    return reranker


def test_a_candidate_s_score_does_not_depend_on_the_lists_beside_its_own(lists: list[RankedList]) -> None:
    reranker = cascade("int8", "drop=[0.3]")
    together = reranker.rerank(lists)
    assert together == [reranker.rerank([one])[0] for one in lists]
    assert together[::-1] == reranker.rerank(lists[::-1])


def test_the_shipped_cascade_ranks_the_sample_s_lists_as_in_fp32(lists: list[RankedList]) -> None:
    exact_scores, small = (
        [rows.scores[:, -1] for rows in cascade(precision).exit_scores(lists)]
        for precision in ("fp32", "int8")
    )
    for a, b in zip(exact_scores, small, strict=True):
        assert len(a) > 10 and np.corrcoef(a, b)[0, 1] > 0.99
        assert a[b.argmax()] > a.max() - 0.3


def test_a_published_model_is_scored_in_whole_numbers(tmp_path: Path) -> None:
    write_dense(tmp_path / "bert", "BertForSequenceClassification", num_labels=1)
    classifier = PublishedClassifier.read(tmp_path / "bert")
    scored = {kind: load_scorer(classifier, 64, "cpu", kind).score(TEXTS).logits for kind in ("fp32", "int8")}
    assert not np.array_equal(scored["fp32"], scored["int8"])
    np.testing.assert_allclose(scored["int8"], scored["fp32"], atol=0.02)
    scorer = load_scorer(classifier, 64, "cpu", "int8")
    alone = [scorer.score([text]).logits[0] for text in TEXTS]
    assert rounded(alone).tolist() == rounded(scored["int8"]).tolist()


def test_the_cascade_that_ships_is_measured_and_within_its_bound() -> None:
    check_int8(SHIPPED / "cascade", "cascade", 0.2)
