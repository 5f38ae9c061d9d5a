"""Losses over a group worked out by hand, what an epoch draws, and that steps hold whole groups."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.rerankers.multihead.multihead import MultiHeadModel
from answermill.ranking.training.cross_encoders import PairBatch, PairOptions, PairTask
from answermill.ranking.training.distillation import Distillation, LabelLoss, hard_loss, soft_loss
from answermill.ranking.training.groups import Group, Groups, cut, margin_mse, softmax_loss
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.schemas.labels import LabelledCandidate
from testing.tiny import SHAPE, tokeniser

LABELS, GROUPS = torch.tensor([0.0, 1, 0, 1, 0, 1]), torch.tensor([1, 0, 0, 1, 1, 1])
"""Text 1 against 2; texts 3 and 5 each against 0 and 4."""


def test_softmax_loss_worked_example() -> None:
    logits = torch.tensor([0.0, math.log(3), 0.0, math.log(2), 0.0, 0.0], requires_grad=True)
    loss = softmax_loss(logits, LABELS, GROUPS)
    assert loss.item() == pytest.approx(-(math.log(3 / 4) + math.log(2 / 4) + math.log(1 / 3)) / 3, rel=1e-6)
    loss.backward()

    # of -log p: p - 1 for the right one, and each wrong one's share of the softmax
    shares = [
        (1 / 4 + 1 / 3) / 3,
        (3 / 4 - 1) / 3,
        (1 / 4) / 3,
        (1 / 2 - 1) / 3,
        (1 / 4 + 1 / 3) / 3,
        (1 / 3 - 1) / 3,
    ]
    assert logits.grad is not None and logits.grad.tolist() == pytest.approx(shares, abs=1e-6)


def test_softmax_loss_does_not_change_with_what_all_of_a_group_have_in_common() -> None:
    torch.manual_seed(0)
    logits = 5 * torch.randn(6)
    moved = logits + torch.where(GROUPS == 1, 3.0, -40.0)
    assert softmax_loss(moved, LABELS, GROUPS).item() == pytest.approx(
        softmax_loss(logits, LABELS, GROUPS).item(), rel=1e-5
    )
    mixed = logits + torch.arange(6)
    assert abs(softmax_loss(mixed, LABELS, GROUPS) - softmax_loss(logits, LABELS, GROUPS)) > 0.1


def test_margin_mse_worked_example() -> None:
    student = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.0, 1.0], requires_grad=True)
    teacher = torch.tensor([1.0, 5.0, 2.0, 3.0, 3.0, 4.0])
    # (z⁺ - z⁻) - (t⁺ - t⁻): 1 against 2: -1 - 3; 3 against 0 and 4: 3 - 2, 3 - 0; 5 against 0 and 4: 1 - 3, 1
    # - 1
    loss = margin_mse(student, teacher, LABELS, GROUPS)
    assert loss.item() == pytest.approx((16 + 1 + 9 + 4 + 0) / 5)
    loss.backward()
    assert student.grad is not None
    assert student.grad.tolist() == pytest.approx(
        [-2 / 5 * (1 - 2), 2 / 5 * -4, -2 / 5 * -4, 2 / 5 * 4, -2 / 5 * 3, 2 / 5 * -2]
    )
    assert margin_mse(teacher + 7, teacher, LABELS, GROUPS).item() == pytest.approx(0, abs=1e-9)


def test_bce_stands_beside_softmax_with_its_weight() -> None:
    logits = torch.randn(6)
    both = LabelLoss("softmax", 0.3)(logits, LABELS, GROUPS).item()
    assert both == pytest.approx(
        softmax_loss(logits, LABELS, GROUPS).item() + 0.3 * hard_loss(logits, LABELS).item(), rel=1e-6
    )
    assert LabelLoss("softmax")(logits, LABELS, GROUPS).item() == softmax_loss(logits, LABELS, GROUPS).item()


def test_alpha_weighs_the_labels_loss_and_the_teachers_margins() -> None:
    torch.manual_seed(1)
    logits, teachers = torch.randn(6), 3 * torch.randn(6, 2)
    total = Distillation("sum", 2, 0.2, loss="margin_mse").batch_loss(
        [logits], LABELS, teachers, 0, groups=GROUPS, by_labels=LabelLoss("softmax")
    )
    margins = [margin_mse(logits, teachers[:, t], LABELS, GROUPS).item() for t in range(2)]
    assert total.item() == pytest.approx(
        2 * 0.2 * softmax_loss(logits, LABELS, GROUPS).item() + 0.8 * sum(margins), rel=1e-5
    )


# What an epoch draws


def group(first: int, right: int, wrong: int, draws: int) -> Group:
    return Group(np.arange(first, first + right), np.arange(first + right, first + right + wrong), draws)


def many(count: int = 30, draws: int = 3) -> tuple[list[Group], np.ndarray]:
    random, groups, first = np.random.default_rng(5), [], 0
    for _ in range(count):
        right, wrong = int(random.integers(1, 3)), int(random.integers(1, 12))
        groups.append(group(first, right, wrong, draws))
        first += right + wrong
    return groups, random.integers(5, 60, first)


def test_a_step_has_whole_groups_and_an_epoch_every_right_pair_and_as_many_wrong_ones_as_it_should_draw() -> (
    None
):
    groups, lengths = many()
    sampler = Groups(groups, lengths, 800)
    group_of_pair = {pair: n for n, each in enumerate(groups) for pair in (*each.always, *each.drawn_from)}

    for epoch in range(20):
        steps = sampler.epoch(np.random.default_rng([0, epoch]))
        assert len(steps) == sampler.steps > 3
        seen: Counter[int] = Counter()

        for pairs, numbers in steps:
            assert len(pairs) and (np.diff(lengths[pairs]) >= 0).all()
            together = {
                number: {group_of_pair[p] for p in pairs[numbers == number]} for number in set(numbers)
            }
            assert all(len(questions) == 1 for questions in together.values())
            here = Counter(group_of_pair[p] for p in pairs)
            assert not here.keys() & seen.keys() and len(together) == len(here)
            seen += here

        assert seen == {n: len(g.always) + min(3, len(g.drawn_from)) for n, g in enumerate(groups)}


def test_draws_follow_from_the_seed_and_the_epoch_and_reach_every_wrong_pair() -> None:
    sampler = Groups([group(0, 1, 10, 2), group(11, 1, 10, 2)], np.full(22, 9), 100)

    def drawn(seed: int, epoch: int) -> list[int]:
        return sorted(
            np.concatenate(
                [pairs for pairs, _ in sampler.epoch(np.random.default_rng([seed, epoch]))]
            ).tolist()
        )

    assert drawn(0, 3) == drawn(0, 3) and drawn(0, 3) != drawn(0, 4) and drawn(0, 3) != drawn(1, 3)
    assert all(len(set(drawn(0, epoch))) == 6 for epoch in range(50))  # no pair twice
    often = Counter(pair for epoch in range(200) for pair in drawn(0, epoch))
    assert often[0] == often[11] == 200 and set(often) == set(range(22))
    assert all(20 < often[pair] < 62 for pair in range(1, 11))


@pytest.mark.parametrize("tokens", [600, 1_000, 5_000])
def test_no_step_is_empty_even_if_draws_differ_much_in_length(tokens: int) -> None:
    groups = [group(4 * n, 1, 3, 1) for n in range(40)]
    lengths = np.array([[20, 5, 5, 280]] * 40).ravel()
    sampler = Groups(groups, lengths, tokens)
    for epoch in range(50):
        steps = sampler.epoch(np.random.default_rng(epoch))
        assert len(steps) == sampler.steps and all(len(pairs) for pairs, _ in steps)


def test_a_batch_has_fewer_tokens_than_the_mean_and_its_longest_text_together() -> None:
    random = np.random.default_rng(3)
    lengths = random.integers(5, 120, 2_000)
    batches = cut(lengths, random.permutation(len(lengths)), 61, random)
    mean = lengths.sum() / 61
    tokens = np.array([lengths[batch].sum() for batch in batches])
    assert (tokens < mean + [lengths[batch].max() for batch in batches]).all() and tokens.max() > mean
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))


def test_texts_of_one_length_are_cut_into_equal_batches() -> None:
    for texts, steps in ((4, 2), (64, 8), (60, 5)):
        batches = cut(np.full(texts, 4), np.arange(texts), steps, np.random.default_rng(0))
        assert [len(batch) for batch in batches] == [texts // steps] * steps


def test_a_step_that_one_group_could_fill_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"steps of 100 tokens for pairs that stay together of up to 60; .*fewer neg"
    ):
        Groups([group(0, 1, 10, 2)], np.full(11, 20), 100)


# The task


def question(name: str, size: int, right: int = 1) -> list[LabelledCandidate]:
    return [
        LabelledCandidate(
            name,
            f"Which {name} ?",
            f"{name}-{n}",
            "",
            "",
            n,
            "word " * (1 + (n + size) % 5) + f"{n}",
            int(n < right),
        )
        for n in range(size)
    ]


def task(
    questions: Sequence[Sequence[LabelledCandidate]] | None = None,
    teachers: Sequence[np.ndarray] = (),
    **settings,
) -> PairTask:
    torch.manual_seed(0)
    rows = questions or [question(f"q{n}", 4 + n % 3) for n in range(12)]
    options = PairOptions(**{"tokens": 200, **settings})
    return PairTask(
        CascadeModel(LayeredEncoder(SHAPE), (1, 2)).eval(),
        tokeniser(),
        rows,
        lambda *_: None,
        options,
        teachers=teachers,
    )


def test_by_default_a_step_is_pairs_cut_by_tokens_and_its_loss_one_exit_s_cross_entropy() -> None:
    learning = task()
    lengths, labels = learning._pairs.lengths, learning._labels
    random = np.random.default_rng([0, 1])
    steps = cut(lengths, random.permutation(len(labels)), learning.steps, random)
    assert learning.steps == -(-int(lengths.sum()) // 200) > 3
    for batch, pairs in zip(learning.batches(1), steps, strict=True):
        assert torch.equal(batch.labels, labels[pairs]) and torch.equal(
            batch.tokens.ids, learning._pairs.pack(pairs).ids
        )
        assert batch.exit == random.integers(2)
        plain = hard_loss(learning.model(batch.tokens, batch.exit), batch.labels)
        assert torch.equal(learning.loss(batch), plain)


def test_a_loss_over_groups_leaves_out_and_counts_questions_without_a_wrong_candidate() -> None:
    rows = [question("a", 3), question("b", 1), question("c", 4, right=2), question("d", 2, right=0)]
    learning = task(rows, by_labels=LabelLoss("softmax"), negatives=1)
    assert learning.questions_left_out == 1
    ((batch),) = learning.batches(0)
    assert len(batch.labels) == (1 + 1) + (2 + 1) and batch.labels.sum() == 3
    assert task(rows, negatives=1).questions_left_out == 0
    assert sum(len(b.labels) for b in task(rows, negatives=1).batches(0)) == (1 + 1) + 1 + (2 + 1)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"by_labels": LabelLoss("softmax")},
            r"transformer.loss = 'softmax' compares .* none of the 2 answered",
        ),
        (
            {"distillation": Distillation("single", 1, loss="margin_mse")},
            r"distil.loss = 'margin_mse' compares",
        ),
    ],
)
def test_a_loss_over_groups_is_refused_where_every_question_has_a_single_candidate(
    settings: dict, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        task([question("a", 1), question("b", 1)], **settings)


def logits_of_all(learning: PairTask, batch: PairBatch) -> list[Tensor]:
    return [learning.model(batch.tokens, n) for n in range(2)]


def test_all_exits_learn_in_one_step_by_the_mean_of_their_losses() -> None:
    learning = task(sampling="all", by_labels=LabelLoss("softmax", 0.5))
    for batch in learning.batches(0):
        assert batch.exit is None
        each = [
            LabelLoss("softmax", 0.5)(logits, batch.labels, batch.groups).item()
            for logits in logits_of_all(learning, batch)
        ]
        assert (
            learning.loss(batch).item() == pytest.approx(sum(each) / 2, rel=1e-5)
            and abs(each[0] - each[1]) > 1e-6
        )

    learning.loss(batch).backward()
    assert all(c.score.weight.grad.abs().sum() > 0 for c in learning.model.classifiers)


def test_the_last_exit_teaches_the_ones_before_it_and_learns_nothing_from_them() -> None:
    learning = task(sampling="all", self_distillation=0.4)
    batch = next(iter(learning.batches(0)))
    early, last = logits_of_all(learning, batch)
    first = 0.6 * hard_loss(early, batch.labels) + 0.4 * soft_loss(early, last.detach(), 1.0)
    assert learning.loss(batch).item() == pytest.approx(
        ((first + hard_loss(last, batch.labels)) / 2).item(), rel=1e-6
    )
    learning.loss(batch).backward()
    taught = learning.model.classifiers[1].score.weight.grad.clone()
    learning.model.zero_grad()
    (hard_loss(logits_of_all(learning, batch)[1], batch.labels) / 2).backward()
    assert torch.allclose(learning.model.classifiers[1].score.weight.grad, taught)


def test_heads_whose_probabilities_are_averaged_teach_by_that_average() -> None:
    learning = task(sampling="all", self_distillation=1.0)
    torch.manual_seed(0)
    heads = MultiHeadModel(LayeredEncoder(SHAPE).eval(), 2, 1, (1,), form="mean", average="probabilities")
    for n, head in enumerate(heads.heads):
        torch.nn.init.constant_(head.classifier.score.bias, 4.0 * (-1) ** n)
    learning.model = heads.eval()
    batch = next(iter(learning.batches(0)))

    (early,), last = heads.all_outputs(batch.tokens)
    assert abs(heads.score(last) - torch.stack(last).mean(0)).max() > 0.01
    own = sum(hard_loss(logits, batch.labels) for logits in last)
    taught = soft_loss(early, heads(batch.tokens, 1), 1.0)
    assert learning.loss(batch).item() == pytest.approx(((own + taught) / 2).item(), rel=1e-5)


def test_with_stop_gradient_all_exits_train_no_layer_below_the_exit_before() -> None:
    learning = task(sampling="all", stop_gradient=True)
    batch = next(iter(learning.batches(0)))
    learning.loss(batch).backward()
    stopped = learning.model.encoder.layers[0].widen.weight.grad.clone()
    learning.model.zero_grad()
    (hard_loss(learning.model(batch.tokens, 0), batch.labels) / 2).backward()
    assert torch.allclose(learning.model.encoder.layers[0].widen.weight.grad, stopped)


def test_margins_are_read_beside_the_pairs_that_were_drawn() -> None:
    rows = [question(f"q{n}", 6) for n in range(4)]
    teachers = [np.arange(6 * n, 6 * n + 6, dtype=np.float32)[:, None] for n in range(4)]
    distillation = Distillation("single", 1, 0.0, loss="margin_mse")
    learning = task(rows, teachers, distillation=distillation, negatives=2)
    for batch in learning.batches(0):
        assert batch.teachers is not None
        assert (batch.teachers[batch.labels > 0, 0] % 6 == 0).all() and (
            batch.teachers[batch.labels == 0, 0] % 6 > 0
        ).all()
        logits = learning.model(batch.tokens, batch.exit)
        wanted = margin_mse(logits, batch.teachers[:, 0], batch.labels, batch.groups)
        assert learning.loss(batch).item() == pytest.approx(wanted.item(), rel=1e-6) and wanted > 0.1
