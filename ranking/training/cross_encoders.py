"""Training of cross-encoders on labelled pairs (Cascade Transformer §4.3.1): a task of `loop.py`.

A step is a batch of pairs, up to some tokens, of one exit drawn at random; its loss goes back through all layers below, down
to the embeddings. With a single exit this is the fine-tuning of the monolithic model; TANDA's transfer and adapt are two such
trainings, the second of which begins with the first one's checkpoint. The heads of a multiple-heads student are its last exit
and learn in one step. With teachers' logits beside the labels it is distillation (`distillation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ranking.cascade.cascade import Cascade
from ranking.cascade.cascade_model import CascadeModel
from ranking.reranker import Reranker
from ranking.training.distillation import NO_TEACHER, Distillation
from ranking.transformer.packing import Numbers, Packed, Tokeniser
from schemas.labels import LabelledCandidate

Sampling = Literal["uniform", "round_robin", "early"]
POOL = 32  # batches whose pairs are sorted by length together, so that texts of one length meet


class PairBatch(NamedTuple):
    """Pairs of a step."""

    tokens: Packed
    labels: Tensor  # [texts]
    exit: int  # from 0
    teachers: Tensor | None = None  # [texts, teachers]: logits
    step: int = 0  # of all epochs


@dataclass(frozen=True, slots=True)
class PairOptions:
    """How pairs are learnt from."""

    tokens: int = 2_000
    """Of a batch."""
    classifier_rate: float = 1.0
    """Learning rate of the classifiers, as a multiple of the others': they are new, and a step trains but one."""
    sampling: Sampling = "uniform"
    """Which exit a step trains (§4.3.1): at random; in turn; or, in the first `early_epochs`, rather an early one."""
    early_epochs: int = 1
    stop_gradient: bool = False
    """An exit trains no layer below the exit before it."""
    drops: tuple[float, ...] = ()
    """As `Cascade`'s, of the reranker that the dev score is taken of."""
    distillation: Distillation = NO_TEACHER
    seed: int = 0


class PairTask:
    """Pairs of the questions that have an answer, in random order."""

    def __init__(
        self,
        model: CascadeModel,
        tokeniser: Tokeniser,
        questions: Sequence[Sequence[LabelledCandidate]],
        save: Callable[[Path, CascadeModel], None],
        options: PairOptions = PairOptions(),
        teachers: Sequence[npt.NDArray[np.float32]] = (),
    ) -> None:
        """`teachers`: of each question the logits [candidates, teachers] that the distillation reads. Raises ValueError if no
        question has an answer, or a pair has more than half of a batch's tokens."""
        answered = [n for n, rows in enumerate(questions) if any(row.label for row in rows)]
        rows = [row for n in answered for row in questions[n]]
        if not rows:
            raise ValueError(f"none of the {len(questions)} questions has an answer; there is nothing to learn from")
        self._teachers = torch.from_numpy(np.concatenate([teachers[n] for n in answered])) if teachers else None
        self.model, self._tokeniser, self._save, self._options = model, tokeniser, save, options
        self._pairs = tokeniser.pairs([(row.question, row.text) for row in rows])
        self._labels = torch.tensor([float(row.label) for row in rows])
        self.tokens_cut = int(self._pairs.cut.sum())
        longest = int(self._pairs.lengths.max())
        if options.tokens < 2 * longest:
            raise ValueError(
                f"batches of {options.tokens} tokens for pairs of up to {longest}; give at least twice that, or a lower limit"
            )
        self.steps = -(-int(self._pairs.lengths.sum()) // options.tokens)

    @property
    def rates(self) -> list[tuple[float, list[nn.Parameter]]]:
        classifiers = list(self.model.classifier_parameters())
        new = set(map(id, classifiers))
        body = [parameter for parameter in self.model.parameters() if id(parameter) not in new]
        return [(1.0, body), (self._options.classifier_rate, classifiers)]

    def batches(self, epoch: int) -> Iterator[PairBatch]:
        random = np.random.default_rng([self._options.seed, epoch])
        order = random.permutation(len(self._labels))
        device = self.model.encoder.words.weight.device
        for step, numbers in enumerate(cut(self._pairs.lengths, order, self.steps, random)):
            yield PairBatch(
                self._pairs.pack(numbers).to(device),
                self._labels[numbers].to(device),
                self._exit(epoch, step, random),
                None if self._teachers is None else self._teachers[numbers].to(device),
                epoch * self.steps + step,
            )

    def _exit(self, epoch: int, step: int, random: np.random.Generator) -> int:
        exits = len(self.model.exits)
        if self._options.sampling == "round_robin":
            return (epoch * self.steps + step) % exits
        if self._options.sampling == "early" and epoch < self._options.early_epochs:
            weight = np.arange(exits, 0, -1)
            return int(random.choice(exits, p=weight / weight.sum()))
        return int(random.integers(exits))

    def loss(self, batch: PairBatch) -> Tensor:
        """Mean over the pairs: binary cross-entropy, or what the distillation makes of it and the teachers."""
        logits = self.model.outputs(batch.tokens, batch.exit, self._options.stop_gradient)
        return self._options.distillation.loss(logits, batch.labels, batch.teachers, batch.step)

    def reranker(self) -> Reranker:
        return Cascade(self.model, self._tokeniser, self._options.drops)

    def save(self, folder: Path) -> None:
        self._save(folder, self.model)


def cut(lengths: Numbers, order: Numbers, steps: int, random: np.random.Generator) -> list[Numbers]:
    """Texts in `order` as `steps` batches of much the same number of tokens; within a pool of batches, the texts by length."""
    ends = np.cumsum(lengths[order])
    per_batch = ends[-1] / steps
    pool = np.minimum(ends // (POOL * per_batch), (steps - 1) // POOL)  # which pool each text is in
    by_length = order[np.lexsort((lengths[order], pool))]
    edges = np.searchsorted(np.cumsum(lengths[by_length]), per_batch * np.arange(1, steps))
    batches = np.split(by_length, edges)
    return [batches[n] for n in random.permutation(len(batches))]
