"""PEASI's training: its losses by hand, what reaches which transformer, and what a training is held
against."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.evaluation.calibration import Calibration
from answermill.ranking.plan import to_sentences
from answermill.ranking.reranker import order_by
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.passage_ranker import LinearRanker
from answermill.ranking.rerankers.peasi.passage_reader import AskedPassage, PassageReader
from answermill.ranking.rerankers.peasi.peasi import calibrated
from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel, Variant, encoded
from answermill.ranking.rerankers.peasi.slots import Slots
from answermill.ranking.training.loop import Output, Recipe, TrainingProgress, train
from answermill.ranking.training.passages.passage_data import PassageData
from answermill.ranking.training.passages.passage_task import PassageOptions, PassageTask, dev_lists
from answermill.ranking.training.state import finished
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.labels import LabelledPassage, LabelledSentence
from answermill.schemas.ranked import RankedList

SHAPE = Shape(
    layers=1, width=16, heads=2, inner=32, vocabulary=30_522, positions=64, dropout=0.0, attention_dropout=0.0
)
VARIANTS: tuple[Variant, ...] = get_args(Variant)
Rows = list[LabelledPassage]


@cache
def tokeniser(limit: int = 64) -> Tokeniser:
    return Tokeniser(find_model(DEFAULT), limit)


def model(variant: Variant, slots: int = 3, shape: Shape = SHAPE) -> PeasiModel:
    """Random, with weights so large that scores differ."""
    torch.manual_seed(0)
    peasi = PeasiModel(LayeredEncoder(shape), variant, slots)
    for weight in peasi.parameters():
        weight.data *= 4
    return peasi


def passage(question: str, n: int, *sentences: str, right: Sequence[int] = ()) -> LabelledPassage:
    cut = tuple(
        LabelledSentence(f"{question}-{n}@{i}", text, int(i in right)) for i, text in enumerate(sentences)
    )
    text = " ".join(sentences)
    return LabelledPassage(
        question, f"What is {question}?", f"{question}-{n}", "d", "", text, int(bool(right)), "window", cut
    )


QUESTIONS: list[Rows] = [
    [
        passage("apple", 0, "A river.", "An apple is a fruit.", right=[1]),
        passage("apple", 1, "A river.", "An engine."),
        passage(
            "apple", 2, "Fruit.", "An engine.", "The apple is a fruit.", "Never.", "A fruit.", right=[2, 4]
        ),
    ],
    [passage("comet", 0, "Ice.", "Ice and dust.", "No.", right=[0, 1]), passage("comet", 1, "A senate.")],
    [passage("violin", 0, "A lantern."), passage("violin", 1)],
]
FLAT = [row for rows in QUESTIONS for row in rows]


def task(
    peasi: PeasiModel, questions: Sequence[Rows] = QUESTIONS, limit: int = 64, **settings
) -> PassageTask:
    with_tokeniser = tokeniser(limit)
    keep = partial(save, with_tokeniser)
    data = PassageData.of(questions, peasi, with_tokeniser)
    return PassageTask(data, peasi, questions, keep, PassageOptions(**{"tokens": 100_000, **settings}))


def save(with_tokeniser: Tokeniser, folder: Path, peasi: PeasiModel) -> None:
    peasi_model.save(folder, peasi, with_tokeniser)


def embedding(encoder: LayeredEncoder, *texts: str) -> Tensor:
    return encoded(encoder, tokeniser().pairs([texts]).pack())[0]


def pr_loss(peasi: PeasiModel, beside: Callable[[LabelledPassage], list[Tensor]] = lambda row: []) -> float:
    assert isinstance(peasi.pr, LinearRanker)
    losses = []
    for row in FLAT:
        read = torch.cat([embedding(peasi.encoder, row.question, row.text), *beside(row)]).tanh()
        p = 1 / (1 + math.exp(-float(peasi.pr.weight[0] @ read + peasi.pr.bias)))
        losses.append(-math.log(p if row.label else 1 - p))
    return float(np.mean(losses))


def windows_of(peasi: PeasiModel, row: LabelledPassage) -> list[tuple[Tensor, list[float]]]:
    """Of windows of three sentences at most, the embedding and the sentences' logits."""
    assert isinstance(peasi.easi, Slots)
    scored_windows = []
    for numbers in ([0, 1, 2], [3, 4]) if len(row.sentences) == 5 else (range(len(row.sentences)),):
        read = embedding(
            peasi.easi_encoder or peasi.encoder, row.question, *(row.sentences[n].text for n in numbers)
        )
        scored_windows.append((read, (peasi.easi.weight @ read)[: len(numbers)].tolist()))
    return scored_windows


def easi_loss(peasi: PeasiModel) -> float:
    losses = []
    for row in FLAT:
        if row.label:
            p = torch.tensor([logit for _, logits in windows_of(peasi, row) for logit in logits]).softmax(0)
            losses.append(-math.log(sum(float(p[n]) for n, s in enumerate(row.sentences) if s.label)))
    assert len(losses) == 3
    return float(np.mean(losses))


# Losses (§2.1 to §2.3).


@torch.no_grad()
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loss_is_pr_s_cross_entropy_plus_easi_s(variant: Variant) -> None:
    peasi = model(variant).eval()
    learning = task(peasi)
    (batch,) = learning.batches(0)

    def best_window(row: LabelledPassage) -> list[Tensor]:
        return [max(windows_of(peasi, row), key=lambda window: max(window[1], default=0.0))[0]]

    expected = 0.0
    if variant != "easi":
        expected += pr_loss(peasi, best_window) if variant == "joint" else pr_loss(peasi)
    if variant != "pr":
        expected += easi_loss(peasi)
    assert float(learning.loss(batch)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("variant", "passages", "read"),
    [("pr", 7, 0), ("easi", 0, 4), ("mtl0", 7, 4), ("mtl1", 7, 4), ("joint", 7, 8)],
)
def test_easi_reads_only_passages_with_a_correct_sentence_except_beside_pr(
    variant: Variant, passages: int, read: int
) -> None:
    (batch,) = task(model(variant)).batches(0)
    assert (0 if batch.passages is None else len(batch.passages.lengths)) == passages
    assert (0 if batch.sentences is None else len(batch.sentences.lengths)) == read == len(batch.passage)
    assert int(batch.right.sum()) == (5 if read else 0)
    assert bool((batch.filled | ~batch.right).all())


def test_a_long_passage_is_learnt_in_all_its_windows() -> None:
    sentences = ["River."] * 4 + ["An apple is a fruit.", "Never."]
    rows = [[passage("q", 0, *sentences, right=[4]), passage("q", 1, *sentences)]]
    (batch,) = task(model("joint", 2), rows).batches(0)
    assert batch.passage.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.flatnonzero(batch.right.numpy().ravel()).tolist() == [4 if batch.labels[0] else 6 + 4]
    assert batch.filled.all() and batch.sentences is not None
    texts = [tokeniser().pairs([("What is q?", *sentences[n : n + 2])]).pack().ids for n in (0, 2, 4)]
    assert batch.sentences.lengths.tolist() == 2 * list(map(len, texts))


def test_a_correct_sentence_that_is_cut_off_is_not_learnt() -> None:
    rows = [
        [
            passage("q", 0, "word " * 60, "Cut off.", right=[0, 1]),
            passage("q", 1, "word " * 60, "Cut off.", right=[1]),
        ],
        [passage("q", 2, "No.")],
    ]
    learning = task(model("mtl1"), rows)
    (batch,) = learning.batches(0)
    assert batch.right.tolist() == [[True, False, False]] == batch.filled.tolist()
    pr, easi = 1 + 4 + 1 + 63 + 1, 1 + 4 + 1 + 60 + 1 + 3 + 1
    assert PassageData.of(rows, model("mtl1"), tokeniser()).tokens_cut == 2 * (pr - 64) + (easi - 64)


# What a loss reaches.


def reached(peasi: PeasiModel, loss: Tensor) -> tuple[bool, bool | None]:
    """Whether PR's transformer and EASI's have a gradient."""
    peasi.zero_grad(set_to_none=True)
    loss.backward()
    reach = [
        encoder and any(p.grad is not None and bool(p.grad.any()) for p in encoder.parameters())
        for encoder in (peasi.encoder, peasi.easi_encoder)
    ]
    return bool(reach[0]), reach[1]


@pytest.mark.parametrize(
    ("variant", "by_pr", "by_easi"),
    [
        ("mtl0", (True, None), (True, None)),
        ("mtl1", (True, False), (False, True)),
        ("joint", (True, True), (False, True)),
    ],
)
def test_which_transformer_a_loss_trains(variant: Variant, by_pr: tuple, by_easi: tuple) -> None:
    peasi = model(variant)
    learning = task(peasi)
    (batch,) = learning.batches(0)
    assert reached(peasi, learning.loss(batch._replace(right=torch.zeros_like(batch.right)))) == by_pr
    assert reached(peasi, learning.loss(batch._replace(passages=None))) == by_easi


def test_heads_learn_at_their_own_multiple_of_the_rate_and_nothing_is_left_out() -> None:
    for variant in VARIANTS:
        peasi = model(variant)
        (body_rate, body), (head_rate, heads) = task(peasi, classifier_rate=7.0).rates
        assert (body_rate, head_rate) == (1.0, 7.0)
        assert {id(p) for p in (*body, *heads)} == {id(p) for p in peasi.parameters()}
        assert len(heads) == {"pr": 2, "easi": 1}.get(variant, 3)


# Batches.


def test_an_epoch_has_every_passage_once_and_the_same_batches_when_asked_again() -> None:
    questions = [
        [replace(row, passage_id=f"{row.passage_id}-{n}", text=f"{row.text} {n}") for row in rows]
        for n in range(9)
        for rows in QUESTIONS
    ]

    def texts(learning: PassageTask, epoch: int) -> list[list[tuple[int, ...]]]:
        rows_by_batch = []
        for batch in learning.batches(epoch):
            assert batch.passages is not None
            ids = batch.passages.ids.split(batch.passages.lengths.tolist())
            rows_by_batch.append(
                [(*map(int, text), int(label)) for text, label in zip(ids, batch.labels, strict=True)]
            )
        return rows_by_batch

    learning = task(model("mtl1"), questions, tokens=300)
    batches = texts(learning, 0)
    assert len(batches) == learning.steps > 3
    assert (
        len({text for batch in batches for text in batch})
        == sum(map(len, batches))
        == sum(map(len, questions))
    )
    assert texts(task(model("mtl1"), questions, tokens=300), 0) == batches != texts(learning, 1)

    assert sorted(map(sorted, texts(learning, 1))) != sorted(
        map(sorted, batches)
    )  # other batches, not another order of the same
    assert texts(task(model("mtl1"), questions, tokens=300, seed=1), 0) != batches


# What is refused.


RIGHT, WRONG = passage("q", 0, "Yes.", right=[0]), passage("q", 1, "No.")


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_a_correct_sentence_there_is_nothing_to_learn_from(variant: Variant) -> None:
    with pytest.raises(
        ValueError, match="0 of 1 passages hold a correct sentence; there is nothing to learn from"
    ):
        task(model(variant), [[WRONG]])
    with pytest.raises(ValueError, match="0 of 0 passages"):
        task(model(variant), [])


@pytest.mark.parametrize("variant", ["pr", "mtl0", "joint"])
def test_pr_needs_a_passage_without_a_correct_sentence(variant: Variant) -> None:
    with pytest.raises(
        ValueError, match="1 of 1 passages hold a correct sentence; there is nothing to learn from"
    ):
        task(model(variant), [[RIGHT]])


def test_easi_needs_none_without() -> None:
    assert task(model("easi"), [[RIGHT]]).steps == 1


@pytest.mark.parametrize("variant", ["easi", "mtl1"])
@pytest.mark.parametrize(
    "row", [passage("q", 0, "word " * 60, "Cut off.", right=[1]), passage("q", 0, "One.", " ", right=[1])]
)
def test_correct_sentences_that_easi_cannot_read_are_nothing_to_learn_from(
    variant: Variant, row: LabelledPassage
) -> None:
    with pytest.raises(ValueError, match="the correct sentences of all 1 passages are empty or cut off"):
        task(model(variant), [[row, WRONG]])
    assert task(model("pr"), [[row, WRONG]]).steps == 1


def test_a_limit_that_a_window_of_k_sentences_would_not_fit_into_is_refused() -> None:
    rows = [[RIGHT, WRONG]]
    with pytest.raises(ValueError, match="13 texts do not fit into 15 tokens; raise the limit"):
        task(model("mtl1", 12), rows, limit=15)
    long = [[passage("q", 0, *["Yes."] * 12, right=[0]), WRONG]]
    assert PassageData.of(long, model("mtl1", 12), tokeniser(16)).tokens_cut > 0
    assert task(model("pr", 12), long, limit=8).steps == 1  # which reads no sentences


def test_batches_that_a_single_passage_could_fill_are_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"steps of 30 tokens for passages of up to \d+; set tokens to at least \d+, or a",
    ):
        task(model("pr"), tokens=30)


# Training.


RECIPE = Recipe(epochs=8, learning_rate=3e-3, schedule="constant", metric="MRR", evaluate_every=3)


@pytest.mark.parametrize(
    "variant",
    [
        variant if variant in ("pr", "mtl1") else pytest.param(variant, marks=pytest.mark.nightly)
        for variant in VARIANTS
    ],
)
def test_it_learns(variant: Variant, tmp_path: Path) -> None:
    peasi = model(variant, 3, replace(SHAPE, width=8))
    recipe = replace(RECIPE, epochs=40, evaluate_every=10)
    history = train(task(peasi), dev_lists(peasi, QUESTIONS), recipe, Output(tmp_path, "f"))
    assert history.evaluations[-1].loss < 0.5 * history.evaluations[0].loss
    assert history.best is not None and history.best.dev > 0.9


@pytest.mark.parametrize("variant", ["pr", "joint"])
def test_one_that_is_stopped_ends_with_the_same_weights(variant: Variant, tmp_path: Path) -> None:
    def begun(name: str, tell: Callable[[TrainingProgress], None] = lambda _: None) -> None:
        peasi = model(variant, 3, replace(SHAPE, width=8, dropout=0.2))
        train(
            task(peasi, tokens=150), dev_lists(peasi, QUESTIONS), RECIPE, Output(tmp_path / name, "f"), tell
        )

    def stop(state: TrainingProgress) -> None:
        if state.step == 5 and state.dev is None:
            raise KeyboardInterrupt

    begun("whole")
    with pytest.raises(KeyboardInterrupt):
        begun("parts", stop)
    torch.manual_seed(99)  # what came between changes nothing
    begun("parts")
    whole, parts = finished(tmp_path / "whole"), finished(tmp_path / "parts")
    assert whole is not None and parts is not None and whole.step >= 6
    assert [e.dev for e in whole.evaluations] == [e.dev for e in parts.evaluations]
    kept = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts")]
    assert all(torch.equal(value, kept[1][name]) for name, value in kept[0].items())
    configs = [(tmp_path / name / "config.json").read_text() for name in ("whole", "parts")]
    assert configs[0] == configs[1]


# What it is held against.


class FixedScores:
    """Scores of passages; or, where sentences are asked for, of the one sentence that each passage gives."""

    def __init__(self, scores: dict[str, float], kind: str) -> None:
        self.scores, self.kind = scores, kind

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        reordered = []
        for ranked in lists:
            came = ranked if self.kind == "passage" else to_sentences(ranked)
            there = tuple(c for c in came.candidates if c.candidate_id in self.scores)
            reordered.append(
                order_by(
                    RankedList(came.question, there), [self.scores[c.candidate_id] for c in there], "given"
                )
            )
        return reordered


def test_the_dev_score_of_pr_is_of_passages() -> None:
    dev = dev_lists(model("pr"), QUESTIONS)
    order = FixedScores(
        {"apple-1": 3, "apple-0": 2, "apple-2": 1, "comet-0": 2, "comet-1": 1, "violin-0": 1, "violin-1": 2},
        "passage",
    )
    assert dev.score(order, "MRR", "answerable") == pytest.approx((1 / 2 + 1) / 2)
    assert dev.score(order, "MRR", "raw") == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert dev.score(order, "MAP", "answerable") == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)


def test_the_dev_score_of_easi_is_of_the_sentences_of_each_passage_that_holds_a_correct_one() -> None:
    dev = dev_lists(model("easi"), QUESTIONS)
    order = FixedScores({"apple-0@1": 1, "apple-2@0": 1, "comet-0@1": 1}, "sentence")
    assert dev.score(order, "P@1", "raw") == pytest.approx(2 / 3)


@pytest.mark.parametrize("variant", ["mtl0", "mtl1", "joint"])
def test_the_dev_score_of_both_is_of_the_answers(variant: Variant) -> None:
    dev = dev_lists(model(variant), QUESTIONS)
    order = FixedScores({"apple-2@4": 1, "comet-1@0": 1, "violin-0@0": 1}, "sentence")
    assert dev.score(order, "P@1", "answerable") == pytest.approx(1 / 2)
    assert dev.score(order, "P@1", "raw") == pytest.approx(1 / 3)
    # Apple's nine sentences are a tie, three of them correct.
    unanswered = FixedScores({"comet-0@1": 1}, "sentence")
    assert dev.score(unanswered, "P@1", "answerable") == pytest.approx((3 / 9 + 1) / 2)


@pytest.mark.parametrize("variant", VARIANTS)
def test_dev_questions_that_nothing_answers_measure_nothing(variant: Variant) -> None:
    with pytest.raises(ValueError, match="no passage of the 1 dev questions holds a correct sentence"):
        dev_lists(model(variant), [[WRONG]])


# The confidence.


def firsts(variant: Variant = "mtl1") -> PeasiModel:
    """Takes the first sentence of a passage."""
    peasi = model(variant)
    assert isinstance(peasi.easi, Slots)
    peasi.easi.weight.data.zero_()
    return peasi


def answered(*right: bool) -> list[Rows]:
    """Questions of one passage, whose first sentence is right or not."""
    return [
        [passage(f"q{n}", 0, f"Text {n}.", "No.", right=[0] if yes else [1])] for n, yes in enumerate(right)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_the_calibration_is_fitted_on_the_first_answer_of_each_question(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dev = answered(*(bool(yes) for yes in rng.random(12) < 0.5))
    dev = [
        [*rows, replace(passage(f"q{n}", 1), text=f"An engine of {n} rivers.")] for n, rows in enumerate(dev)
    ]
    reader = PassageReader(firsts(), tokeniser())
    features, right = [], []

    for rows in dev:
        scores = reader.passages(
            [AskedPassage(row.question, row.text, tuple(s.text for s in row.sentences)) for row in rows]
        )
        if scores[0] >= scores[1]:  # the other has no sentence: no answer
            p = 1 / (1 + math.exp(-scores[0])) * 1 / 2
            features.append([math.log(p / (1 - p))])
            right.append(rows[0].sentences[0].label == 1)

    assert 4 < len(features) < 12 and 0 < sum(right) < len(right)
    calibration, expected = calibrated(reader, dev), Calibration.fit(features, right)
    if expected.weights[0] <= 0:  # the surer, the less often right
        assert calibration is None
        return

    assert calibration is not None
    assert [*calibration.weights, calibration.bias] == pytest.approx([*expected.weights, expected.bias])


@pytest.mark.parametrize("variant", ["mtl0", "joint"])
def test_it_is_written_with_the_model(variant: Variant, tmp_path: Path) -> None:
    peasi = firsts(variant)
    either = answered(True, False, True, False), answered(False, True, False, True)
    (rows,) = (
        rows for rows in either if calibrated(PassageReader(peasi, tokeniser()), rows)
    )  # in the other the surer ones are wrong
    learning = PassageTask(
        PassageData.of(QUESTIONS, peasi, tokeniser()), peasi, rows, partial(save, tokeniser())
    )
    learning.save(tmp_path)

    values = json.loads((tmp_path / "config.json").read_text())["calibration"]
    expected = calibrated(PassageReader(peasi, tokeniser()), rows)
    assert expected is not None and values == {"weights": list(expected.weights), "bias": expected.bias}
    assert peasi_model.load(tmp_path)[0].calibration == expected


@pytest.mark.parametrize(
    "dev",
    [
        answered(True, True),
        answered(False, False),
        [[passage("q", 0)], [passage("r", 0, " ")]],
        answered(True),
        [],
    ],
)
def test_where_there_is_nothing_to_calibrate_on_the_model_is_saved_without(
    dev: list[Rows], tmp_path: Path
) -> None:
    peasi = firsts()
    peasi.calibration = Calibration((1.0,), 3.0)  # of an evaluation before
    data = PassageData.of(QUESTIONS, peasi, tokeniser())
    PassageTask(data, peasi, dev, partial(save, tokeniser())).save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["calibration"] is None


@pytest.mark.parametrize("variant", ["pr", "easi"])
def test_a_model_of_one_part_has_no_confidence(variant: Variant, tmp_path: Path) -> None:
    task(model(variant)).save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["calibration"] is None
