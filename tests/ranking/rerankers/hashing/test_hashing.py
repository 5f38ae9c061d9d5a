"""HAS: its equations by hand, what serves, and that nothing but a text itself decides its score."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.context import Reading
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import ScoreNotFinite
from answermill.ranking.rerankers.hashing import hashing, hashing_model
from answermill.ranking.rerankers.hashing.hashing import AnswerCoder, Hashing
from answermill.ranking.rerankers.hashing.hashing_model import HashingModel, Variant, sign
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import RankedList

BERT = Shape(layers=2, width=16, heads=2, inner=32, vocabulary=30_522, positions=64)
SHAPES = {
    "bert": BERT,
    "roberta": replace(BERT, family="roberta", offset=2, types=1),
    "electra": replace(BERT, family="electra", embedded=8),
}
VARIANTS: tuple[Variant, ...] = get_args(Variant)
ANSWERS = [
    "Rome is the capital of Italy.",
    "No.",
    "The Tiber flows through Rome into the sea, and Rome is old.",
    "",
]


@cache
def tokeniser(limit: int = 64) -> Tokeniser:
    return Tokeniser(find_model(DEFAULT), limit)


def model(variant: Variant, family: str = "bert") -> HashingModel:
    """Random, with weights so large that scores differ."""
    torch.manual_seed(0)
    hasher = HashingModel(LayeredEncoder(SHAPES[family]), variant, 8)
    for name, weight in hasher.named_parameters():
        weight.data *= 1 if "norm" in name else 4
    return hasher.eval()


def packed(*texts: str) -> Packed:
    return tokeniser().pairs([(text,) for text in texts]).pack()


def encoded(hasher: HashingModel, text: str) -> Tensor:
    """[tokens, D] of a text alone."""
    tokens = packed(text)
    return hasher.encoder.run(hasher.encoder.embed(tokens), tokens, 0, 2).double()


def by_hand(hasher: HashingModel, question: str, answer: str) -> float:
    """s(q, a) as the paper writes it, one column after the other; sgn in the place of tanh."""
    u, b = encoded(hasher, question).amax(0), encoded(hasher, answer)
    if hasher.variant == "pooling":
        v = b.amax(0)
    else:
        assert hasher.w1 is not None and hasher.w2 is not None and hasher.m is not None
        if hasher.variant == "has":
            b = torch.where(b >= 0, 1.0, -1.0).double()
        w1, w2, m = (module.weight.double() for module in (hasher.w1, hasher.w2, hasher.m))
        weights = [math.exp(float(m[0] @ (w1 @ column + w2 @ u).tanh())) for column in b]
        v = sum(
            (weight / sum(weights) * column for weight, column in zip(weights, b, strict=True)),
            torch.zeros_like(u),
        )

    return float(u @ v / (u.norm() * v.norm()))


def lists(*questions: str, answers: list[str] = ANSWERS) -> list[RankedList]:
    return [
        ranked_list(
            [LabelledCandidate(f"q{n}", q, str(i), "", "", i, text, 0) for i, text in enumerate(answers)]
        )
        for n, q in enumerate(questions)
    ]


def scores(reranked: RankedList) -> dict[str, float]:
    return {c.text: c.stages[-1].score for c in reranked.candidates}


@pytest.mark.parametrize("family", SHAPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_score_is_what_the_paper_s_equations_give_whatever_the_body(variant: Variant, family: str) -> None:
    hasher = model(variant, family)
    reranker = Hashing(hasher, tokeniser())
    reranker._model = hasher.for_inference("cpu")
    reranker._model.encoder = hasher.encoder.for_inference("cpu", torch.float32)
    with torch.inference_mode():
        asked = ["What is the capital of Italy?", "Where does it flow?"]
        for question, reranked in zip(asked, reranker.rerank(lists(*asked)), strict=True):
            values = scores(reranked)
            assert values == {
                text: pytest.approx(by_hand(hasher, question, text), abs=2e-5) for text in ANSWERS
            }
            assert len(set(values.values())) == len(ANSWERS)


@pytest.mark.parametrize("variant", ["attention", "has"])
def test_composing_pairs_one_by_one_and_scoring_them_together_agree(variant: Variant) -> None:
    hasher = model(variant).for_inference("cpu")
    with torch.inference_mode():
        answers, questions = packed(*ANSWERS), hasher.question(packed("Who?", "What is Rome, and where?"))
        columns = hasher.kept(answers)
        asked, chosen = np.array([0, 1, 1, 0, 1]), np.array([2, 0, 3, 3, 2])
        together = hasher.scores(questions, columns, answers.starts, asked, chosen)
        for n, (q, a) in enumerate(zip(asked, chosen, strict=True)):
            own = columns[answers.starts[a] : answers.starts[a + 1]]
            composed = hasher.compose(own, torch.tensor([0, len(own)]), questions[q : q + 1])
            assert float(together[n]) == pytest.approx(
                float(torch.cosine_similarity(questions[q], composed[0], 0)), abs=1e-12
            )

    assert len(set(together.tolist())) == 5


def test_memory_is_flat_because_pairs_come_in_parts_and_the_parts_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reranker = Hashing(model("has"), tokeniser())
    asked = lists("Who?", "What is the capital of Italy?", "Where?")
    whole = reranker.rerank(asked)
    monkeypatch.setattr(hashing_model, "PAIR_TOKENS", 20)
    monkeypatch.setattr(hashing, "BATCH_TOKENS", 20)
    assert reranker.rerank(asked) == whole


def test_what_is_kept_of_an_answer_is_one_bit_a_number_and_the_sign_of_zero_is_plus() -> None:
    hasher = model("has")
    with torch.inference_mode():
        tokens = packed(*ANSWERS)
        kept, real = hasher.kept(tokens), hasher.answer(tokens)
        assert set(kept.unique().tolist()) == {-1.0, 1.0}
        assert torch.equal(kept, sign(real)) and real.abs().max() <= 1 and real.unique().numel() > 100
        assert sign(torch.tensor([0.0, -0.0, -1e-30])).tolist() == [1.0, 1.0, -1.0]
        assert torch.equal(model("attention").kept(tokens), model("attention").answer(tokens))


def test_the_hashing_layer_is_tanh_of_beta_times_the_encoding() -> None:
    steep, flat = model("has"), model("has")
    flat.beta = 1.0
    with torch.inference_mode():
        v = encoded(steep, ANSWERS[0]).float()
        assert torch.allclose(steep.answer(packed(ANSWERS[0])), torch.tanh(5 * v), atol=1e-6)
        assert torch.allclose(flat.answer(packed(ANSWERS[0])), torch.tanh(v), atol=1e-6)


def test_an_answer_longer_than_l_is_cut_and_counted_and_a_text_is_encoded_once() -> None:
    reranker = Hashing(model("has"), tokeniser(8))
    long = "Rome is the capital of Italy, and the Tiber flows through Rome."
    reranker.rerank(lists("What is it?", "What is it?", answers=[long, "Rome.", f"{long} Or not?", "Rome."]))
    costs = reranker.costs()
    assert (costs["candidates"], costs["answers"], costs["answers_cut"]) == (8, 3, 2)
    assert costs["tokens"] == 6 + 8 + 4 + 8 and costs["tokens_cut"] > 8
    assert costs["layer_tokens"] == 2 * costs["tokens"]
    (reranked,) = reranker.rerank(lists("What is it?", answers=[long, f"{long} Or not?"]))
    assert len(set(scores(reranked).values())) == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_saved_model_scores_as_before(variant: Variant, tmp_path: Path) -> None:
    hasher = model(variant)
    hashing_model.save(tmp_path, hasher, tokeniser(32))
    loaded, with_tokeniser = hashing_model.load(tmp_path)
    assert (loaded.variant, loaded.attention, loaded.beta, with_tokeniser.limit) == (variant, 8, 5.0, 32)
    (before,), (after,) = (
        r.rerank(lists("What is Rome?"))
        for r in (Hashing(hasher, tokeniser(32)), load_reranker("hashing", tmp_path))
    )
    assert before == after


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_context_is_read_as_one_text_and_what_is_missing_counted(variant: Variant, tmp_path: Path) -> None:
    hasher = model(variant)
    hasher.reading = Reading(("title", "sentence", "next"))
    hashing_model.save(tmp_path, hasher, tokeniser(64))
    reranker = load_reranker("hashing", tmp_path)
    assert isinstance(reranker, Hashing) and reranker.readings == (hasher.reading,)
    rows = [
        LabelledCandidate(
            "q", "Where is it?", "0", "d", "Rome", 0, "It is old.", 0, next="It lies on a river."
        ),
        LabelledCandidate("q", "Where is it?", "1", "e", "", 1, "It is old.", 0, next="Or not."),
    ]
    (ranked,) = reranker.rerank([ranked_list(rows)])

    costs = reranker.costs()
    assert (costs["without_title"], costs["without_next"], costs["candidates"]) == (1, 0, 2)
    joined = {"0": "Rome. It is old. It lies on a river.", "1": "It is old. Or not."}
    (plain,) = Hashing(model(variant), tokeniser(64)).rerank(
        lists("Where is it?", answers=list(joined.values()))
    )
    assert {joined[c.candidate_id]: c.score for c in ranked.candidates} == {
        c.text: c.score for c in plain.candidates
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bits",), "unknown variant 'bits'; known: pooling, attention, has"),
        (("has", 0), "attention = 0, beta = 5.0; both must be at least 1"),
        (("has", 8, 0.5), "beta = 0.5"),
    ],
)
def test_a_model_that_cannot_be_meant_is_refused(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        HashingModel(LayeredEncoder(SHAPES["bert"]), *arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", VARIANTS)
def test_encodings_that_are_no_numbers_stop_it_though_bits_have_a_sign(variant: Variant) -> None:
    broken = model(variant)
    broken.encoder.positions.weight.data[6:] = torch.nan  # of every text of more than six tokens
    short, long = "No.", ANSWERS[0]
    Hashing(broken, tokeniser()).rerank(lists("Who?", answers=[short]))
    with pytest.raises(ScoreNotFinite, match="hashing: score nan for candidate 1 of question q0"):
        Hashing(broken, tokeniser()).rerank(lists("Who?", answers=[short, long]))
    if variant == "has":
        assert AnswerCoder(broken, tokeniser()).encode([(short,)]).finite.all()
        with pytest.raises(ScoreNotFinite, match="it gives no numbers for the sentence 'Rome is the capital"):
            AnswerCoder(broken, tokeniser()).encode([(short,), (long,)])
