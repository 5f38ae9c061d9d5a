"""Eq. 1 to 4 of the multiple-heads student, worked out by hand, and who learns from whom."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from answermill.ranking.training.distillation import (
    NO_TEACHER,
    Distillation,
    distillation_loss,
    hard_loss,
    soft_loss,
)


def two_classes(logit: Tensor) -> Tensor:
    """The logits of two classes whose difference is the logit."""
    return torch.stack([logit, torch.zeros_like(logit)], 1) + 0.7


def test_one_logit_says_what_the_softmax_of_two_classes_does() -> None:
    student, teacher, labels = (
        torch.tensor([2.0, -1.0, 0.5]),
        torch.tensor([3.0, 0.2, -4.0]),
        torch.tensor([1.0, 0.0, 0.0]),
    )
    log_q = (two_classes(student) / 3).log_softmax(1)
    p = (two_classes(teacher) / 3).softmax(1)
    kl = torch.nn.functional.kl_div(log_q, p, reduction="batchmean")
    assert soft_loss(student, teacher, 3.0).item() == pytest.approx(kl.item(), rel=1e-5) and kl > 0.05
    ce = torch.nn.functional.cross_entropy(two_classes(student), 1 - labels.long())
    assert hard_loss(student, labels).item() == pytest.approx(ce.item(), rel=1e-6)


def test_equation_1_worked_example() -> None:
    """z = 0, y = 1, t = τ ln 3: q = (½, ½), p = (¾, ¼); CE = ln 2, KL = ¾ ln 1.5 + ¼ ln 0.5."""
    tau, alpha = 5.0, 0.1
    student, teacher, label = torch.zeros(1), torch.tensor([tau * math.log(3)]), torch.ones(1)
    kl = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert soft_loss(student, teacher, tau).item() == pytest.approx(kl, rel=1e-5)
    total = distillation_loss(student, hard_loss(student, label), teacher, alpha, tau).item()
    assert total == pytest.approx(0.1 * math.log(2) + 0.9 * 25 * kl, rel=1e-5)


@pytest.mark.parametrize("tau", [1.0, 3.0, 5.0])
def test_a_student_that_says_what_its_teacher_says_has_no_soft_loss_and_any_other_has_one(tau: float) -> None:
    logits = torch.linspace(-6, 6, 13)
    assert soft_loss(logits, logits, tau).item() == pytest.approx(0, abs=1e-6)
    assert soft_loss(logits + 1, logits, tau).item() > 0.002


def test_tau_squared_keeps_the_size_of_the_gradient() -> None:
    """For large τ the gradient of KL is (z − t) / τ² times a constant (Hinton et al. 2015)."""
    grown = []
    for tau in (10.0, 40.0):
        student = torch.tensor([1.0], requires_grad=True)
        distillation_loss(
            student, hard_loss(student, torch.ones(1)), torch.tensor([-1.0]), 0.0, tau
        ).backward()
        assert student.grad is not None
        grown.append(student.grad.item())
    assert grown[0] == pytest.approx(0.5, rel=0.02) and grown[1] == pytest.approx(0.5, rel=0.02)  # 2 / 4


def batch(outputs: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return (
        torch.randn(6, outputs, requires_grad=True),
        torch.tensor([1.0, 0, 0, 1, 0, 0]),
        3 * torch.randn(6, 3),
    )


def test_equation_4_is_the_weighted_sum_of_each_head_with_its_own_teacher() -> None:
    logits, labels, teachers = batch(3)
    total = Distillation("mhs", 3, 0.5, 3.0, (1.0, 0.5, 2.0)).batch_loss(logits.unbind(1), labels, teachers)
    each = [
        distillation_loss(logits[:, n], hard_loss(logits[:, n], labels), teachers[:, n], 0.5, 3.0).item()
        for n in range(3)
    ]
    assert total.item() == pytest.approx(each[0] + 0.5 * each[1] + 2 * each[2], rel=1e-6)
    assert len({round(value, 3) for value in each}) == 3


def test_a_head_sees_its_own_teacher_alone() -> None:
    gradients = []
    for change in (0.0, 5.0):
        logits, labels, teachers = batch(3)
        teachers[:, 1] += change
        Distillation("mhs", 3, 0.1, 3.0).batch_loss(logits.unbind(1), labels, teachers).backward()
        gradients.append(logits.grad)
    first, second = gradients
    assert torch.equal(first[:, [0, 2]], second[:, [0, 2]]) and not torch.allclose(first[:, 1], second[:, 1])


def test_sum_and_round_robin_teach_one_student() -> None:
    logits, labels, teachers = batch(1)
    each = [
        distillation_loss(logits[:, 0], hard_loss(logits[:, 0], labels), teachers[:, n], 0.5, 3.0).item()
        for n in range(3)
    ]
    assert Distillation("sum", 3, 0.5, 3.0).batch_loss(
        logits.unbind(1), labels, teachers
    ).item() == pytest.approx(sum(each), rel=1e-6)
    in_turn = Distillation("round_robin", 3, 0.5, 3.0)
    assert [
        in_turn.batch_loss(logits.unbind(1), labels, teachers, step).item() for step in range(4)
    ] == pytest.approx([*each, each[0]])

    single = Distillation("single", 1, 0.5, 3.0).batch_loss(logits.unbind(1), labels, teachers[:, 1:2])
    assert single.item() == pytest.approx(each[1], rel=1e-6)


def test_without_a_teacher_every_output_learns_from_the_labels() -> None:
    logits, labels, _ = batch(2)
    total = NO_TEACHER.batch_loss(logits.unbind(1), labels, None).item()
    assert total == pytest.approx(
        hard_loss(logits[:, 0], labels).item() + hard_loss(logits[:, 1], labels).item()
    )


def test_one_teacher_goes_into_every_head_and_an_exit_learns_from_all_teachers() -> None:
    assert [(x.output, x.teacher) for x in Distillation("single", 1).lessons(3)] == [(0, 0), (1, 0), (2, 0)]
    assert [(x.output, x.teacher) for x in Distillation("mhs", 3).lessons(1)] == [(0, 0), (0, 1), (0, 2)]
    assert [x.weight for x in Distillation("single", 1, weights=(0.0, 2.0)).lessons(1)] == [1.0]


@pytest.mark.parametrize(
    ("settings", "heads", "says"),
    [
        (("mhs", 2), 3, "3 heads for 2 teachers"),
        (("mhs", 3), 2, "2 heads for 3 teachers"),
        (("mhs", 1), 1, None),
        (("mhs", 3), 1, "a student without heads"),
        (("single", 2), 1, "'single' with 2 teachers; name one"),
        (("sum", 0), 1, "'sum' with 0 teachers"),
        (("sum", 2, 1.5), 1, "alpha = 1.5"),
        (("sum", 2, 0.5, 0.0), 1, "tau = 0.0"),
        (("mhs", 2, 0.5, 1.0, (1.0,)), 2, "1 weights .1.0. where 2 are needed"),
        (("mhs", 2, 0.5, 1.0, (1.0, -1.0)), 2, "none may be negative"),
        (("mhs", 2, 0.5, 1.0, (0.0, 0.0)), 2, "one must be above 0"),
        (("round_robin", 2, 0.5, 1.0, (1.0, 0.0)), 1, "leave it out"),
    ],
)
def test_what_cannot_be_meant_is_refused(settings: tuple, heads: int, says: str | None) -> None:
    if says is None:
        Distillation(*settings).check(heads)
        return
    with pytest.raises(ValueError, match=says):
        Distillation(*settings).check(heads)
