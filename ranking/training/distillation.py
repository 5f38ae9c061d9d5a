"""Distillation from teachers' logits (MHS §3.2, §3.3, §5.2): the teachers of each output of a student, and
the loss.

A teacher's logits are data; its model is not loaded. Like every model here it gives one number z, the
difference of two classes' logits, whose softmax is (σ(z), 1 − σ(z)); softened by τ it is (σ(z/τ), 1 − σ(z/τ))
(Eq. 2, 3), exactly, and KL is that of two such distributions.

| strategy | a plain student, or an exit | heads |
|---|---|---|
| `single` | Eq. 1 with the one teacher: KD | each head with the one teacher |
| `sum` | Eq. 1 summed over the teachers: KD_Sum | each head so |
| `round_robin` | a step with each teacher in turn: KD_RR | each head so |
| `mhs` | as `sum` | head i with teacher i (Eq. 4): MHS; Hydra's, where the teachers differ by seed |

An exit in the body of a multiple-heads student, which has one classifier for all teachers, learns as in the
middle column. Eq. 1 weighs the loss of the labels (`LabelLoss`) and that of a teacher: KL, as above, or its
margins (`groups.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from answermill.ranking.training.groups import margin_mse, softmax_loss

Strategy = Literal["single", "sum", "round_robin", "mhs"]


class Lesson(NamedTuple):
    """An output of the student, its teacher (None: the labels alone), and λ."""

    output: int
    teacher: int | None
    weight: float


@dataclass(frozen=True, slots=True)
class LabelLoss:
    """Loss of the labels, L_H: each pair by itself, or a right candidate against the wrong ones of its
    group."""

    loss: Literal["bce", "softmax"] = "bce"
    bce_weight: float = 0.0
    """Weight of each pair's own loss, beside 'softmax'."""

    def __call__(self, logits: Tensor, labels: Tensor, groups: Tensor | None) -> Tensor:
        """Loss of a batch; all arguments are [texts]."""
        if self.loss == "bce":
            return hard_loss(logits, labels)
        assert groups is not None
        loss = softmax_loss(logits, labels, groups)
        return loss + self.bce_weight * hard_loss(logits, labels) if self.bce_weight else loss


BCE = LabelLoss()


@dataclass(frozen=True, slots=True)
class Distillation:
    """Settings of a student's learning: α, τ and λ of Eq. 1 and 4. The default has no teacher:
    cross-entropy."""

    strategy: Strategy | None = None
    teachers: int = 0
    alpha: float = 1.0
    tau: float = 1.0
    weights: tuple[float, ...] = ()
    """λ of each head (mhs, single) or of each teacher (sum, round_robin); all 1 if empty."""
    loss: Literal["kl", "margin_mse"] = "kl"
    """Target that a teacher gives: its softened probability of each pair (L_S), or its margins within a
    group, without τ."""

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1 or not self.tau > 0:
            raise ValueError(
                f"alpha = {self.alpha}, tau = {self.tau}; give alpha from 0 to 1 and tau above 0"
            )
        if (self.strategy is None) != (self.teachers == 0):
            raise ValueError(f"strategy {self.strategy!r} with {self.teachers} teachers; give at least one")
        if self.strategy == "single" and self.teachers != 1:
            raise ValueError(
                f"strategy 'single' with {self.teachers} teachers; name one, or take another strategy"
            )

        if any(not weight >= 0 for weight in self.weights) or (self.weights and not any(self.weights)):
            raise ValueError(f"weights = {list(self.weights)}; none may be negative, and one must be above 0")
        if self.strategy == "round_robin" and 0 in self.weights:
            raise ValueError(
                f"weights = {list(self.weights)}: a step with a teacher of weight 0 teaches nothing; leave "
                "it out"
            )

    def check(self, heads: int) -> None:
        """Raises ValueError if the settings do not fit a student with that many heads (1 = a plain
        student)."""
        if self.strategy == "mhs" and heads != self.teachers:
            what = (
                f"{heads} heads for {self.teachers} teachers"
                if heads > 1
                else "strategy 'mhs' for a student without heads"
            )
            raise ValueError(
                f"{what}; each head learns from another teacher: name as many, or take another strategy"
            )
        needed = heads if self.strategy in ("mhs", "single", None) else self.teachers
        if self.weights and len(self.weights) != needed:
            raise ValueError(f"{len(self.weights)} weights {list(self.weights)} where {needed} are needed")

    def lessons(self, outputs: int, step: int = 0) -> list[Lesson]:
        """Lessons of a step (from 0), for a student with that many outputs."""
        weights = self.weights or (1.0,) * max(outputs, self.teachers)
        match self.strategy:
            case None:
                lessons = [Lesson(n, None, 1.0) for n in range(outputs)]
            case "single":
                lessons = [
                    Lesson(n, 0, weights[n] if len(weights) == outputs else 1.0) for n in range(outputs)
                ]
            case "round_robin":
                turn = step % self.teachers
                lessons = [Lesson(n, turn, weights[turn]) for n in range(outputs)]
            case "mhs" if outputs == self.teachers:
                lessons = [Lesson(n, n, weights[n]) for n in range(outputs)]
            case _:
                lessons = [
                    Lesson(n, teacher, weights[teacher])
                    for n in range(outputs)
                    for teacher in range(self.teachers)
                ]

        return [lesson for lesson in lessons if lesson.weight]

    def batch_loss(
        self,
        logits: Sequence[Tensor],
        labels: Tensor,
        teachers: Tensor | None,
        step: int = 0,
        *,
        groups: Tensor | None = None,
        by_labels: LabelLoss = BCE,
    ) -> Tensor:
        """L_MHS = Σ λ_i L_i (Eq. 4) of a batch: each output's logits [texts], labels [texts], teachers'
        logits [texts, teachers], and the number of each text's group [texts], if losses are over groups.

        An output of weight 0 gets no gradient.
        """
        loss = torch.zeros((), device=labels.device)
        for output, teacher, weight in self.lessons(len(logits), step):
            term = by_labels(logits[output], labels, groups)
            if teacher is not None:
                assert teachers is not None
                term = self._taught(logits[output], term, teachers[:, teacher], labels, groups)
            loss = loss + weight * term
        return loss

    def _taught(
        self, student: Tensor, hard: Tensor, teacher: Tensor, labels: Tensor, groups: Tensor | None
    ) -> Tensor:
        if self.loss == "kl":
            return distillation_loss(student, hard, teacher, self.alpha, self.tau)
        assert groups is not None
        return self.alpha * hard + (1 - self.alpha) * margin_mse(student, teacher, labels, groups)


NO_TEACHER = Distillation()


def hard_loss(student: Tensor, labels: Tensor) -> Tensor:
    """L_H: cross-entropy of two classes with the labels, mean over the pairs; one logit per pair [texts]."""
    return F.binary_cross_entropy_with_logits(student, labels)


def soft_loss(student: Tensor, teacher: Tensor, tau: float) -> Tensor:
    """L_S = KL(p, q), mean over the pairs, with p = σ(t/τ) of the teacher and q = σ(z/τ) of the student (Eq.
    2, 3)."""
    softened = (teacher / tau).sigmoid()
    cross = F.binary_cross_entropy_with_logits(student / tau, softened)
    return cross - F.binary_cross_entropy_with_logits(teacher / tau, softened)


def distillation_loss(student: Tensor, hard: Tensor, teacher: Tensor, alpha: float, tau: float) -> Tensor:
    """L_KD = α L_H + (1 − α) τ² L_S (Eq. 1), from L_H (`hard`) and logits [texts]."""
    return alpha * hard + (1 - alpha) * tau**2 * soft_loss(student, teacher, tau)
