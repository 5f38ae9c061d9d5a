"""The multiple-heads student: its parts, its scores, what it costs, and what it learns, with small random
bodies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

import numpy as np
import pytest
import torch
from torch import nn
from transformers import ElectraConfig
from transformers.models.electra.modeling_electra import ElectraClassificationHead

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import ScoreNotFinite
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.rerankers.cascade.pointwise import Pointwise
from answermill.ranking.rerankers.multihead.multihead import (
    Average,
    MultiHead,
    MultiHeadModel,
    StudentHead,
    averaged,
    load,
    save,
    split,
    split_model,
)
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training.cross_encoders import PairOptions, PairTask
from answermill.ranking.training.distillation import Distillation
from answermill.ranking.training.loop import Dev, Output, Recipe, train
from answermill.ranking.transformer.classifier import PublishedHead
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import RankedList

SHAPE = Shape(layers=4, width=16, heads=2, inner=32, vocabulary=30_522, positions=64)
FAMILIES = {
    "bert": SHAPE,
    "roberta": replace(SHAPE, family="roberta", offset=2, types=1, vocabulary=50_265),
    "electra": replace(SHAPE, family="electra", embedded=8),
}
ELECTRA_BASE = Shape(layers=12, width=768, heads=12, inner=3072, vocabulary=30_522, family="electra")
NOUNS = ["apple", "river", "engine", "violin", "glacier", "senate", "comet", "harvest", "lantern", "vaccine"]


def tokeniser() -> Tokeniser:
    return Tokeniser(find_model(DEFAULT), 64)


def encoder(shape: Shape = SHAPE, seed: int = 0) -> LayeredEncoder:
    """Random, with weights so large that scores differ."""
    torch.manual_seed(seed)
    whole = LayeredEncoder(shape)
    for weight in whole.parameters():
        weight.data *= 4
    return whole


def model(
    heads: int = 3, head_layers: int = 1, exits: tuple[int, ...] = (), average: Average = "logits"
) -> MultiHeadModel:
    """Each head with noise of its own."""
    student = split(encoder(), heads, head_layers, exits, average)
    for weight in student.heads.parameters():
        weight.data += 0.2 * torch.randn_like(weight)
    return student.eval()


def rows(name: str, candidates: int) -> list[LabelledCandidate]:
    random = np.random.default_rng([*name.encode()])
    texts = [" ".join(random.choice(NOUNS, random.integers(1, 30))) for _ in range(candidates)]
    return [
        LabelledCandidate(name, f"What is {name}?", f"{name}-{n}", "", "", n, t, int(n == 0))
        for n, t in enumerate(texts)
    ]


def lists(*counts: int) -> list[RankedList]:
    return [ranked_list(rows(f"q{n}", count)) for n, count in enumerate(counts)]


def scores(ranked: RankedList) -> dict[str, float]:
    return {c.candidate_id: c.score for c in ranked.candidates}


@pytest.mark.parametrize(("head_layers", "millions"), [(1, 124.8), (2, 139.0), (4, 167.4), (6, 195.7)])
def test_b_kh_of_electra_base_has_the_parameters_of_the_paper_s_architecture(
    head_layers: int, millions: float
) -> None:
    with torch.device("meta"):
        student = split(LayeredEncoder(ELECTRA_BASE), 3, head_layers)
    assert student.encoder.shape.layers == 12 - head_layers
    assert round(sum(p.numel() for p in student.parameters()) / 1e6, 1) == millions


def test_heads_begin_as_copies_of_the_last_layers_and_the_body_keeps_the_first() -> None:
    whole = encoder()
    student = split(whole, 3, 2)
    assert all(ours is theirs for ours, theirs in zip(student.encoder.layers, whole.layers[:2], strict=True))
    for head in student.heads:
        for ours, theirs in zip(head.layers, whole.layers[2:], strict=True):
            assert ours is not theirs
            assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    classifiers = [head.classifier.score.weight for head in student.heads]
    assert not torch.equal(classifiers[0], classifiers[1])


def test_heads_that_begin_with_a_monolithic_model_score_together_as_it_does() -> None:
    monolithic = CascadeModel(encoder(), (4,))
    ours = MultiHead(split_model(monolithic, 3, 2), tokeniser()).rerank(lists(9, 30))
    theirs = Pointwise(monolithic, tokeniser()).rerank(lists(9, 30))
    for a, b in zip(ours, theirs, strict=True):
        assert scores(a) == pytest.approx(scores(b), abs=2e-6)
    assert len({*scores(ours[1]).values()}) > 20


def test_the_score_is_the_mean_of_the_heads_logits_or_the_log_odds_of_their_mean_probability() -> None:
    by_head = [MultiHead(model().only(n), tokeniser()).rerank(lists(12))[0] for n in range(3)]
    z = np.array([[scores(each)[f"q0-{n}"] for each in by_head] for n in range(12)])
    assert z.std(1).min() > 0.01
    mean = scores(MultiHead(model(), tokeniser()).rerank(lists(12))[0])
    assert [mean[f"q0-{n}"] for n in range(12)] == pytest.approx(z.mean(1), abs=2e-6)
    p = (1 / (1 + np.exp(-z))).mean(1)
    odds = scores(MultiHead(model(average="probabilities"), tokeniser()).rerank(lists(12))[0])
    assert [odds[f"q0-{n}"] for n in range(12)] == pytest.approx(np.log(p / (1 - p)), abs=1e-5)
    far = averaged(torch.tensor([[60.0, 61.0], [-70.0, -60.0]], dtype=torch.float64), "probabilities")
    assert far.tolist() == pytest.approx(
        [60 - np.log((1 + np.exp(-1)) / 2), -60 + np.log((1 + np.exp(-10)) / 2)]
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_a_score_is_the_same_alone_and_in_a_batch(family: str) -> None:
    reranker = MultiHead(split(encoder(FAMILIES[family]), 2, 2, (1, 2)).eval(), tokeniser(), (0.3, 0.3))
    together = reranker.rerank(lists(12, 5, 33))
    assert together == [reranker.rerank([each])[0] for each in lists(12, 5, 33)]
    assert [len(r.candidates) for r in together] == [7, 3, 17]


def test_the_last_layer_below_a_first_token_s_classifier_computes_no_other_token() -> None:
    plain, first = split_model(CascadeModel(encoder(), (4,)), 3, 2), model(3, 2)
    for student, last in ((plain, False), (first, True)):
        reranker = MultiHead(student, tokeniser())
        rows = {}
        for n, layer in enumerate(reranker._model.heads[0].layers):
            layer.register_forward_hook(
                lambda _, inputs, out, n=n, rows=rows: rows.update({n: (len(inputs[0]), len(out))})
            )
        reranker.rerank(lists(9))
        tokens = rows[0][0]
        assert tokens > 9 * 5
        assert rows == {0: (tokens, tokens), 1: (tokens, 9 if last else tokens)}


def test_the_classifier_on_the_first_token_is_electra_s() -> None:
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_attention_heads": 2, "num_labels": 2}
    theirs, ours = ElectraClassificationHead(ElectraConfig(**shape)).eval(), PublishedHead(16, 0.0).eval()
    ours.first.load_state_dict(theirs.dense.state_dict())
    ours.score.weight.data = theirs.out_proj.weight.data[1:] - theirs.out_proj.weight.data[:1]
    ours.score.bias.data = theirs.out_proj.bias.data[1:] - theirs.out_proj.bias.data[:1]
    first = torch.randn(5, 16)
    logits = theirs(first[:, None])
    assert torch.allclose(ours(first), logits[:, 1] - logits[:, 0], atol=1e-6)


def test_the_body_runs_once_for_all_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    reranker = MultiHead(model(3, 1), tokeniser())
    ran: list[int] = []
    inner = reranker._model.encoder
    for layer in inner.layers:
        layer.register_forward_hook(lambda *_: ran.append(1))
    reranker.rerank(lists(9))
    assert len(ran) == 3
    spent = reranker.costs()
    assert (spent["candidates"], spent["full_layer_candidates"]) == (9, 4 * 9)
    assert spent["layer_candidates"] == (3 + 3) * 9


def test_exits_prune_with_the_body_and_the_heads_decide_among_the_survivors() -> None:
    whole = MultiHead(model(3, 1, (1, 3)), tokeniser())
    pruned = MultiHead(model(3, 1, (1, 3)), tokeniser(), (0.5, 0.5))
    for some, everyone in zip(pruned.rerank(lists(20, 9)), whole.rerank(lists(20, 9)), strict=True):
        assert len(some.candidates) == {20: 5, 9: 3}[len(everyone.candidates)]
        assert scores(some).items() <= scores(everyone).items()
    spent = pruned.costs()
    assert spent["layer_candidates"] == (20 + 9) + 2 * (10 + 5) + 3 * (5 + 3)


def test_a_cascade_gives_its_exits_body_and_last_classifier() -> None:
    cascade = CascadeModel(encoder(), (1, 2, 4))
    student = split_model(cascade, 3, 1)
    assert (student.exits, student.encoder.shape.layers, len(student.heads)) == ((1, 2, 4), 3, 3)
    assert split_model(cascade, 3, 3).exits == (1, 4)
    ours, theirs = (
        Cascade(student, tokeniser()).exit_scores(lists(9)),
        Cascade(cascade, tokeniser()).exit_scores(lists(9)),
    )
    assert ours[0].scores == pytest.approx(theirs[0].scores, abs=1e-6)
    assert np.ptp(ours[0].scores) > 0.01


def test_a_student_gets_exits_later() -> None:
    student = model(2, 1).with_exits((2,))
    assert student.exits == (2, 4)
    after, before = (MultiHead(each, tokeniser()).rerank(lists(9)) for each in (student, model(2, 1)))
    assert scores(after[0]) == scores(before[0])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ((3, 4), "heads of 4 layers, but the encoder has 4: b . h cannot be more"),
        ((0, 1), "0 heads of 1 layers"),
        ((2, 0), "2 heads of 0 layers"),
        ((2, 2, (3,)), "the heads begin after layer 2, no exit can come after it"),
        ((2, 2, (2, 1)), "exits = "),
    ],
)
def test_what_cannot_be_split_is_refused(settings: tuple, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        split(encoder(), *settings)


def test_an_albert_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"an ALBERT, whose layers are one and the same.*It can still teach"):
        Shape.of({"model_type": "albert"})


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    for number, student in enumerate(
        (model(3, 2, (1,), "probabilities"), split_model(CascadeModel(encoder(), (4,)), 2, 1))
    ):
        folder = tmp_path / str(number)
        save(folder, student, tokeniser())
        drop = (0.5,) * (len(student.exits) - 1)
        back = load_reranker("multihead", folder, drop=list(drop))
        assert back.rerank(lists(9)) == MultiHead(student, tokeniser(), back.drops).rerank(lists(9))
        assert load(folder)[0].average == student.average
    with pytest.raises(ValueError, match="it holds 'multihead'; give one of pointwise"):
        load_reranker("pointwise", tmp_path / "0")


# Learning


def learnt() -> list[list[LabelledCandidate]]:
    return [
        [
            LabelledCandidate(f"q{n}", "Which?", f"q{n}-{m}", "", "", m, f"{noun} {n}", int(noun == "comet"))
            for m, noun in enumerate(nouns)
        ]
        for n, nouns in enumerate(
            [("apple", "comet", "river"), ("comet", "river", "apple"), ("violin", "comet", "apple")]
        )
    ]


def task(
    student: MultiHeadModel | CascadeModel, distillation: Distillation, teachers: list[np.ndarray], **settings
) -> PairTask:
    options = PairOptions(**{"tokens": 100, "distillation": distillation, **settings})
    return PairTask(student, tokeniser(), learnt(), lambda folder, model: None, options, teachers=teachers)


def table(questions: list[list[LabelledCandidate]], count: int = 3) -> list[np.ndarray]:
    """Teacher t prefers the t-th noun."""
    wanted = ("comet", "river", "apple")
    return [
        np.array(
            [[4.0 if row.text.startswith(wanted[t]) else -4.0 for t in range(count)] for row in each],
            np.float32,
        )
        for each in questions
    ]


def gradients(module: nn.Module) -> bool:
    reached = {p.grad is not None and bool(p.grad.any()) for p in module.parameters()}
    return True in reached


def test_a_head_of_weight_0_gets_no_gradient_and_the_body_learns_from_the_others() -> None:
    student = model().train()
    distillation = Distillation("mhs", 3, 0.5, 3.0, (1.0, 0.0, 1.0))
    learning = task(student, distillation, table(learnt()))
    learning.loss(next(iter(learning.batches(0)))).backward()
    assert [gradients(head) for head in student.heads] == [True, False, True]
    assert all(p.grad is None for p in student.heads[1].parameters())
    assert gradients(student.encoder.layers[0]) and gradients(student.encoder.words)


def test_each_head_comes_to_say_what_its_own_teacher_says() -> None:
    torch.manual_seed(0)
    student = split(LayeredEncoder(replace(SHAPE, dropout=0.0, attention_dropout=0.0)), 3, 1)
    learning = task(student, Distillation("mhs", 3, 0.0, 3.0), table(learnt()))
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)

    for epoch in range(60):
        for batch in learning.batches(epoch):
            optimizer.zero_grad()
            learning.loss(batch).backward()
            optimizer.step()

    for n, noun in enumerate(("comet", "river", "apple")):
        ranked = MultiHead(student.only(n), tokeniser()).rerank([ranked_list(each) for each in learnt()])
        there = [r for r in ranked if any(noun in c.text for c in r.candidates)]
        assert len(there) >= 2 and all(noun in r.candidates[0].text for r in there)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_learns_a_step_with_exits_and_heads_and_serves(family: str, tmp_path: Path) -> None:
    student = split(encoder(FAMILIES[family]), 3, 1, (1, 3))
    before = {name: value.detach().clone() for name, value in student.named_parameters()}
    learning = task(
        student, Distillation("mhs", 3, 0.5, 3.0), table(learnt()), sampling="round_robin", drops=(0.3, 0.3)
    )
    history = train(learning, Dev(learnt()), Recipe(3, 1e-3, "constant"), Output(tmp_path, "a test's"))
    assert history.step == 3 * learning.steps >= 3
    assert all(parameter.requires_grad for parameter in student.parameters())
    moved = {name for name, value in student.named_parameters() if not torch.equal(value, before[name])}
    assert {
        "heads.0.layers.0.widen.weight",
        "heads.2.classifier.score.weight",
        "classifiers.0.score.weight",
    } <= moved

    assert "encoder.layers.0.widen.weight" in moved
    assert all(r.candidates for r in learning.reranker().rerank([ranked_list(each) for each in learnt()]))


def test_the_teacher_of_a_round_robin_step_follows_from_the_step_alone() -> None:
    learning = task(CascadeModel(encoder(), (4,)), Distillation("round_robin", 3, 0.5, 3.0), table(learnt()))
    steps = [batch.step for epoch in range(2) for batch in learning.batches(epoch)]
    assert steps == list(range(2 * learning.steps))
    batch = next(iter(learning.batches(1)))
    assert batch.teachers is not None and batch.teachers.shape == (len(batch.labels), 3)


def test_exits_in_turns_meet_every_teacher() -> None:
    distillation = Distillation("round_robin", 2, 0.5, 3.0)
    two = [each[:, :2] for each in table(learnt())]
    learning = task(CascadeModel(encoder(), (2, 4)), distillation, two, sampling="round_robin")
    met = {(b.exit, b.step % 2) for epoch in range(4) for b in learning.batches(epoch)}
    assert met == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_teachers_stay_beside_their_pairs_where_questions_without_an_answer_are_left_out() -> None:
    questions = learnt()
    questions.insert(1, [replace(row, question_id="none", label=0) for row in questions[0]])
    teachers = [np.arange(3 * n, 3 * n + 3, dtype=np.float32)[:, None] for n in range(4)]
    learning = PairTask(
        CascadeModel(encoder(), (4,)),
        tokeniser(),
        questions,
        lambda folder, model: None,
        PairOptions(tokens=1000, distillation=Distillation("single", 1)),
        teachers=teachers,
    )
    (batch,) = learning.batches(0)
    assert batch.teachers is not None

    assert sorted(batch.teachers[:, 0].tolist()) == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    right = sorted(batch.teachers[batch.labels > 0, 0].tolist())
    assert right == [1, 6, 10]


@pytest.mark.parametrize("average", get_args(Average))
@pytest.mark.parametrize("drops", [(), (0.5,)])
def test_one_head_that_gives_no_number_stops_it(average: Average, drops: tuple[float, ...]) -> None:
    broken = model(exits=(2,), average=average)
    cast(StudentHead, broken.heads[1]).classifier.score.bias.data[:] = torch.nan
    with pytest.raises(ScoreNotFinite, match="multihead: score nan for candidate"):
        MultiHead(broken, tokeniser(), drops).rerank(lists(3, 2))
