"""Training of cross-encoders on labelled pairs (Cascade Transformer §4.3.1): a task of `loop.py`.

A step is a batch of pairs and one exit drawn at random; its loss trains all layers below, down to the
embeddings. §5.2's batches have up to 2,000 tokens, ours about as many as are set: all steps of an epoch
have much the same number (`groups.py`). With a single exit this is the fine-tuning of the monolithic model;
TANDA's transfer and adapt are two such trainings, the second of which begins with the first one's checkpoint.
The heads of a multiple-heads student are its last exit and learn in one step. With teachers' logits beside
the labels it is distillation (`distillation.py`).

A step may also hold whole groups of pairs, each a question's (`groups.py`), and train all exits at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.training.distillation import BCE, NO_TEACHER, Distillation, LabelLoss, soft_loss
from answermill.ranking.training.groups import Group, Groups
from answermill.ranking.training.inputs import check_answered
from answermill.ranking.transformer.devices import sent
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.schemas.labels import LabelledCandidate

Sampling = Literal["uniform", "round_robin", "early", "all"]


class PairBatch(NamedTuple):
    """Pairs of a step."""

    tokens: Packed
    labels: Tensor  # [texts]
    groups: Tensor  # [texts]: which pairs are of one group
    exit: int | None  # from 0; None = all
    teachers: Tensor | None = None  # [texts, teachers]: logits
    step: int = 0  # of all epochs


@dataclass(frozen=True, slots=True)
class PairOptions:
    """Settings of learning from pairs."""

    tokens: int = 2_000
    """Tokens of a mean batch; see `groups.cut`."""
    classifier_rate: float = 1.0
    """Learning rate of the classifiers, as a multiple of the others': they are new, and a step trains only
    one."""
    sampling: Sampling = "uniform"
    """Exit that a step trains (§4.3.1): one at random; each in turn; in the first `early_epochs`, more often
    an early one; or all, by the mean of their losses."""
    early_epochs: int = 1
    self_distillation: float = 0.0
    """Weight of the last exit's output in the loss of each exit before it (FastBERT, Liu et al. 2020); with
    sampling 'all'."""
    stop_gradient: bool = False
    """True if an exit trains no layer below the exit before it."""
    drops: tuple[float, ...] = ()
    """Drops of the `Cascade` on which the dev score is measured."""
    context_dropout: float = 0.0
    """Probability with which a step reads a title, or a neighbour, as if it were missing."""
    needs_context: bool = True
    """True to refuse data in which no candidate has a part that the model reads."""
    distillation: Distillation = NO_TEACHER
    by_labels: LabelLoss = BCE
    negatives: int | None = None
    """Wrong candidates of a question that an epoch draws; None = all."""
    seed: int = 0

    @property
    def groups(self) -> bool:
        """True if a step holds whole groups."""
        return self.negatives is not None or self.group_loss is not None

    @property
    def group_loss(self) -> str | None:
        """Setting by which a loss compares the pairs of a group; None if none does."""
        if self.by_labels.loss == "softmax":
            return "transformer.loss = 'softmax'"
        return "distil.loss = 'margin_mse'" if self.distillation.loss == "margin_mse" else None


class PairTask:
    """Pairs of the questions that have an answer, or groups of them, in random order."""

    def __init__(
        self,
        model: CascadeModel,
        tokeniser: Tokeniser,
        questions: Sequence[Sequence[LabelledCandidate]],
        save: Callable[[Path, CascadeModel], None],
        options: PairOptions = PairOptions(),
        *,
        teachers: Sequence[npt.NDArray[np.float32]] = (),
    ) -> None:
        """`teachers`: logits [candidates, teachers] of each question, for the distillation; a candidate with
        NaN among them is read as a neighbour only. Raises ValueError if no question has an answer, or a wrong
        candidate where the loss needs one; no candidate has a part that it must have; or a pair, or a group,
        has more than half of a batch's tokens."""
        learnt: list[list[bool]] = [[True] * len(rows) for rows in questions]
        if teachers:
            learnt = [[bool(np.isfinite(row).all()) for row in logits] for logits in teachers]

        answered = [
            n for n, rows in enumerate(questions) if any(row.label for row in compress(rows, learnt[n]))
        ]
        check_answered(answered, questions)

        self._teachers = (
            torch.from_numpy(np.concatenate([teachers[n][learnt[n]] for n in answered])) if teachers else None
        )
        self.model, self._tokeniser, self._save, self._options = model, tokeniser, save, options

        # Texts of the candidates to learn from.
        lists = ((ranked_list(questions[n]), learnt[n]) for n in answered)
        texts = [text for ranked, taken in lists for text in compress(model.reading.tuples([ranked]), taken)]
        if options.needs_context:
            model.reading.check_data(texts)
        self.missing = model.reading.missing(texts)
        self._pairs = tokeniser.pairs(texts, model.reading.turns)
        self._texts = texts if options.context_dropout else []

        rows = [list(compress(questions[n], learnt[n])) for n in answered]
        self._labels = torch.tensor([float(row.label) for group in rows for row in group])
        self.tokens_cut = int(self._pairs.cut.sum())

        # A step has pairs, or groups that stay together.
        groups = list(_groups(rows, options)) if options.groups else None
        self.questions_left_out = 0 if groups is None else len(answered) - len(groups)
        """Answered questions left out of a loss over groups, since they have no wrong candidate."""
        self._groups = Groups(groups, self._pairs.lengths, options.tokens)
        self.steps: int = self._groups.steps
        self.tokens = self._groups.tokens / self.steps  # of a mean batch

    @property
    def rates(self) -> list[tuple[float, list[nn.Parameter]]]:
        classifiers = list(self.model.classifier_parameters())
        classifier_ids = set(map(id, classifiers))
        body = [parameter for parameter in self.model.parameters() if id(parameter) not in classifier_ids]
        return [(1.0, body), (self._options.classifier_rate, classifiers)]

    def batches(self, epoch: int) -> Iterator[PairBatch]:
        random = np.random.default_rng([self._options.seed, epoch])
        device, pairs = self.model.encoder.words.weight.device, self._pairs
        if self._options.context_dropout:
            texts = self.model.reading.dropped(
                self._texts, self._options.context_dropout, [self._options.seed, epoch, 1]
            )
            pairs = self._tokeniser.pairs(texts, self.model.reading.turns)

        for step, (numbers, groups) in enumerate(self._groups.epoch(random)):
            yield PairBatch(
                pairs.pack(numbers).to(device),
                sent(self._labels[numbers], device),
                sent(torch.from_numpy(groups), device),
                self._exit(epoch, step, random),
                None if self._teachers is None else sent(self._teachers[numbers], device),
                self._turn(epoch * self.steps + step),
            )

    def _turn(self, step: int) -> int:
        """Turn of the teachers at a step. If the exits take turns too, a teacher stays until all exits have
        learnt from it, so each exit meets each teacher."""
        return step // len(self.model.exits) if self._options.sampling == "round_robin" else step

    def _exit(self, epoch: int, step: int, random: np.random.Generator) -> int | None:
        exits = len(self.model.exits)
        if self._options.sampling == "all":
            return None
        if self._options.sampling == "round_robin":
            return (epoch * self.steps + step) % exits
        if self._options.sampling == "early" and epoch < self._options.early_epochs:
            weight = np.arange(exits, 0, -1)
            return int(random.choice(exits, p=weight / weight.sum()))
        return int(random.integers(exits))

    def loss(self, batch: PairBatch) -> Tensor:
        """Loss by the labels, or by them and the teachers; if all exits learn, the mean over them."""
        stop = self._options.stop_gradient
        if batch.exit is not None:
            return self._exit_loss(self.model.outputs(batch.tokens, batch.exit, stop), batch)
        *early, last = self.model.all_outputs(batch.tokens, stop)
        weight, teacher = self._options.self_distillation, self.model.score(last).detach()
        loss = self._exit_loss(last, batch)
        for (logits,) in early:
            loss = loss + (1 - weight) * self._exit_loss([logits], batch)
            loss = loss + weight * soft_loss(logits, teacher, 1.0) if weight else loss
        return loss / len(self.model.exits)

    def _exit_loss(self, logits: Sequence[Tensor], batch: PairBatch) -> Tensor:
        options = self._options
        return options.distillation.batch_loss(
            logits, batch.labels, batch.teachers, batch.step, groups=batch.groups, by_labels=options.by_labels
        )

    def reranker(self) -> Reranker:
        return Cascade(self.model, self._tokeniser, self._options.drops)

    def save(self, folder: Path) -> None:
        self._save(folder, self.model)


def _groups(questions: Sequence[Sequence[LabelledCandidate]], options: PairOptions) -> Iterator[Group]:
    """Group of each question; none for one without a wrong candidate if the loss needs one. Pairs are
    numbered over all questions.

    Raises ValueError if there is no group.
    """
    first, count = 0, 0
    for rows in questions:
        labels = np.array([row.label for row in rows])
        right, wrong = (np.flatnonzero(which) + first for which in (labels != 0, labels == 0))
        first += len(rows)
        if len(wrong) or options.group_loss is None:
            count += 1
            yield Group(right, wrong, len(wrong) if options.negatives is None else options.negatives)

    if not count:
        raise ValueError(
            f"{options.group_loss} compares right candidates with wrong ones of the same question, but none "
            "of the "
            f"{len(questions)} answered questions has both; give lists with wrong candidates, or another loss"
        )
