"""HAS' training: its loss by hand, what the constraint moves, and which wrong answers are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.context import Reading
from answermill.ranking.rerankers.hashing import hashing_model
from answermill.ranking.rerankers.hashing.hashing_model import HashingModel, Variant, sign
from answermill.ranking.training.loop import Dev, Output, Recipe, TrainingProgress, train
from answermill.ranking.training.state import History
from answermill.ranking.training.triplets import HashTask, TripletOptions
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.labels import LabelledCandidate

SHAPE = Shape(
    layers=1, width=16, heads=2, inner=32, vocabulary=30_522, positions=64, dropout=0.0, attention_dropout=0.0
)
TEXTS = {
    "What is an apple?": {
        "An apple is a fruit.": 1,
        "A river.": 0,
        "An engine is a machine that moves.": 0,
        "Never.": 0,
    },
    "What is a comet?": {
        "Ice and dust, in the sky.": 1,
        "A ball of ice.": 1,
        "A senate.": 0,
        "An engine.": 0,
    },
    "What is a violin?": {"A lantern.": 0, "Music.": 0},
}
QUESTIONS = [
    [
        LabelledCandidate(f"q{n}", question, str(i), "", "", i, text, label)
        for i, (text, label) in enumerate(answers.items())
    ]
    for n, (question, answers) in enumerate(TEXTS.items())
]


@cache
def tokeniser() -> Tokeniser:
    return Tokeniser(find_model(DEFAULT), 64)


def model(variant: Variant = "has", shape: Shape = SHAPE) -> HashingModel:
    torch.manual_seed(1)
    hashing = HashingModel(LayeredEncoder(shape), variant, 8, 1.0)
    for name, weight in hashing.named_parameters():
        weight.data *= 1 if "norm" in name else 4
    return hashing


def keep(folder: Path, hashing: HashingModel) -> None:
    hashing_model.save(folder, hashing, tokeniser())


def task(hashing: HashingModel, questions: list[list[LabelledCandidate]] = QUESTIONS, **settings) -> HashTask:
    return HashTask(hashing, tokeniser(), questions, keep, TripletOptions(**{"tokens": 100_000, **settings}))


def texts(learning: HashTask, epoch: int = 0) -> list[tuple[str, str, list[str]]]:
    """(q, p, drawn n) of an epoch's triplets."""
    words = list(dict.fromkeys(text for rows in QUESTIONS for text in ordered(rows)))
    return [
        (words[q], words[p], [words[n] for n in drawn])
        for batch in learning.batches(epoch)
        for q, p, drawn in zip(batch.question, batch.right, batch.wrong, strict=True)
    ]


def ordered(rows: list[LabelledCandidate]) -> list[str]:
    """A question's texts in the order in which the task numbers them: right, wrong, and the question where it
    is asked."""
    right, wrong = ([row.text for row in rows if row.label == label] for label in (1, 0))
    return [*right, *wrong, *([rows[0].question] if right else [])]


def score(hashing: HashingModel, question: str, answer: str) -> torch.Tensor:
    q, a = (tokeniser().pairs([(text,)]).pack() for text in (question, answer))
    u = hashing.question(q)
    return torch.cosine_similarity(u, hashing.compose(hashing.answer(a), a.starts, u))[0]


@pytest.mark.parametrize("variant", ["pooling", "attention", "has"])
def test_the_loss_is_the_hinge_and_for_has_the_weighted_distance_to_the_bits(variant: Variant) -> None:
    hashing = model(variant)
    learning = task(hashing, delta=1e-3)
    (batch,) = learning.batches(0)
    hinges, distances = [], []
    with torch.no_grad():
        for q, p, (n,) in texts(learning):
            hinges.append(max(0.0, 0.1 - float(score(hashing, q, p)) + float(score(hashing, q, n))))
            b = [hashing.answer(tokeniser().pairs([(text,)]).pack()) for text in (p, n)]
            distances.append(sum(float((x - sign(x)).square().sum()) for x in b))
    by_hand = np.mean(hinges) + (1e-3 * np.mean(distances) if variant == "has" else 0)
    assert learning.loss(batch).item() == pytest.approx(by_hand, rel=1e-4)
    assert len(set(hinges)) > 1 and min(distances) > 1


def test_the_constraint_moves_numbers_towards_their_own_sign() -> None:
    hashing = model()
    learning = task(hashing, delta=1.0)
    (batch,) = learning.batches(0)
    tokens = tokeniser().pairs([("An apple is a fruit.",)]).pack()
    step = torch.optim.SGD(hashing.parameters(), lr=1e-5)
    with torch.no_grad():
        before = hashing.answer(tokens)

    for _ in range(5):
        step.zero_grad()
        learning.loss(batch).backward()
        step.step()

    with torch.no_grad():
        after = hashing.answer(tokens)
    assert (after - sign(before)).square().sum() < (before - sign(before)).square().sum()


def test_the_bits_are_constants_of_the_step_and_every_weight_learns() -> None:
    hashing = model()
    learning = task(hashing, delta=1e-3)
    (batch,) = learning.batches(0)
    learning.loss(batch).backward()
    unmoved = {
        name for name, weight in hashing.named_parameters() if weight.grad is None or not weight.grad.any()
    }
    assert not unmoved


def test_each_right_answer_is_in_an_epoch_once_with_a_wrong_one_of_its_own_list() -> None:
    learning = task(model())
    for epoch in range(4):
        triplets = texts(learning, epoch)
        assert sorted((q, p) for q, p, _ in triplets) == sorted(
            (q, p) for q, labels in TEXTS.items() for p, label in labels.items() if label
        )
        assert all(len(drawn) == 1 and TEXTS[q][drawn[0]] == 0 for q, _, drawn in triplets)
    assert len({tuple(drawn) for epoch in range(8) for _, _, drawn in texts(learning, epoch)}) == 5


def test_an_answer_is_learnt_with_all_that_the_model_reads() -> None:
    questions = [[replace(row, title="Fruit" if row.position else "") for row in rows] for rows in QUESTIONS]
    alone = model()
    joined = model()
    joined.reading = Reading(("title", "sentence"))
    in_one = [
        [replace(row, text=f"Fruit. {row.text}" if row.position else row.text) for row in rows]
        for rows in QUESTIONS
    ]
    learning, by_hand = task(joined, questions, needs_context=True), task(alone, in_one)
    (batch,), (expected,) = learning.batches(0), by_hand.batches(0)
    assert learning.loss(batch).item() == by_hand.loss(expected).item()

    assert learning.missing == {"without_title": 3} and by_hand.missing == {}
    with pytest.raises(ValueError, match="none of 10 candidates has a title"):
        task(joined, needs_context=True)
    assert task(joined).missing == {"without_title": 10}  # counted only


def test_among_all_a_wrong_answer_may_be_another_question_s_but_never_a_right_one() -> None:
    learning = task(model(), among="all")
    pairs = [(q, drawn[0]) for epoch in range(20) for q, _, drawn in texts(learning, epoch)]
    assert all(TEXTS[q].get(n) != 1 for q, n in pairs)
    assert {n for _, n in pairs} >= {"A lantern.", "An apple is a fruit.", "A senate."}


def test_a_list_without_a_wrong_answer_learns_from_the_other_lists() -> None:
    right_alone = [[row for row in rows if row.label] for rows in QUESTIONS[:2]]
    learning = task(model(), right_alone)
    (batch,) = learning.batches(0)
    assert len(batch.right) == 3 and torch.isfinite(learning.loss(batch))
    with pytest.raises(ValueError, match="all 1 answers are right for one question; there is no wrong one"):
        task(model(), right_alone[:1])
    with pytest.raises(ValueError, match="none of the 1 questions has an answer"):
        task(model(), QUESTIONS[2:])
    with pytest.raises(ValueError, match="steps of 20 tokens for triplets of up to"):
        task(model(), tokens=20)


def test_a_hard_negative_is_the_drawn_one_that_the_model_scores_highest() -> None:
    hashing = model("attention").train()
    learning = task(hashing, negatives="hard", drawn=3)
    (batch,) = learning.batches(0)
    chosen = learning._hardest(batch)
    assert hashing.training
    hashing.eval()
    words = list(dict.fromkeys(text for rows in QUESTIONS for text in ordered(rows)))

    with torch.no_grad():
        for (q, _, drawn), n in zip(texts(learning), chosen, strict=True):
            assert len(drawn) == len(set(drawn)) == min(3, list(TEXTS[q].values()).count(0))
            assert words[n] == max(drawn, key=lambda text: float(score(hashing, q, text)))

    assert (
        learning.loss(batch).item()
        >= task(hashing).loss(batch._replace(wrong=[drawn[:1] for drawn in batch.wrong])).item() - 1e-6
    )


@pytest.mark.parametrize("negatives", [pytest.param("random", marks=pytest.mark.nightly), "hard"])
def test_a_training_learns_and_one_that_is_stopped_ends_with_the_same_weights(
    tmp_path: Path, negatives: str
) -> None:
    recipe = Recipe(epochs=12, learning_rate=5e-3, schedule="linear", seed=1)

    def begun(name: str, tell: Callable[[TrainingProgress], None] = lambda _: None) -> History:
        learning = task(model(shape=replace(SHAPE, dropout=0.2)), negatives=negatives, tokens=60, seed=1)
        return train(learning, Dev(QUESTIONS[:2]), recipe, Output(tmp_path / name, "f"), tell)

    def stop(state: TrainingProgress) -> None:
        if state.step == 5 and state.dev is None:
            raise KeyboardInterrupt

    whole = begun("whole")
    assert whole.step >= 24 and whole.evaluations[-1].loss < 0.5 * whole.evaluations[0].loss
    assert whole.evaluations[-1].dev > whole.evaluations[0].dev
    with pytest.raises(KeyboardInterrupt):
        begun("parts", stop)
    torch.manual_seed(99)  # what came between changes nothing
    assert begun("parts").evaluations == whole.evaluations
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(one[name], two[name]) for name in one)
