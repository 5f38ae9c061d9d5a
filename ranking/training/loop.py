"""The one training loop. A task has its model, batches and loss. The loop does the rest: seeds, the learning
rate, early stopping, the best checkpoint, and continuing after an interruption.

The dev score is a metric of `ranking/evaluation/metrics.py` on lists that the task's own reranker has ranked,
as it does in a run. After each evaluation the whole state is written (`state.py`); a training killed anywhere
continues from there, and ends with the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor, nn

from answermill.files.model_files import STATE
from answermill.ranking.evaluation import metrics as measures
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import ScoreNotFinite, naming
from answermill.ranking.training.state import Evaluated, History, keep, publish, resume
from answermill.ranking.training.update.processes import ALONE, Processes
from answermill.ranking.training.update.update import Updates
from answermill.schemas.arrays import TrainingPrecision
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import RankedList

DIVERGED = 1e4
"""A weight that no training that learns has."""


class TrainingTask(Protocol):
    """A model in training, its batches and its loss."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def rates(self) -> Sequence[tuple[float, list[nn.Parameter]]]:
        """All parameters, in groups, each with its multiple of the learning rate."""
        ...

    @property
    def steps(self) -> int:
        """Batches of one epoch."""
        ...

    def batches(self, epoch: int) -> Iterator[Any]:
        """The epoch's batches, in an order that the task's seed and the epoch decide."""
        ...

    def loss(self, batch: Any) -> Tensor:
        """Scalar to minimise."""
        ...

    def reranker(self) -> Ranks:
        """Reranker of the model in its present state, ready to serve."""
        ...

    def save(self, folder: Path) -> None:
        """Write the checkpoint that the reranker's `load` reads."""
        ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters of a training. Raises ValueError on an unknown metric."""

    epochs: int = 3
    learning_rate: float = 2e-4
    """Learning rate at its peak."""
    schedule: Literal["slanted", "linear", "constant"] = "slanted"
    """Course of the learning rate over all epochs: up for a tenth and down to a 32nd (Howard & Ruder 2018);
    up for `warm_up` and down to 0; or constant."""
    warm_up: float = 0.1
    weight_decay: float = 0.0
    clip: float | None = None
    """Largest norm of the gradient, to which larger ones are scaled down."""
    evaluate_every: int = 0
    """Steps between evaluations; 0 = one at the end of each epoch."""
    patience: int | None = None
    """Evaluations without a better dev score after which training stops; None = never."""
    precision: TrainingPrecision = "fp32"
    """Precision of the matrix products; weights, sums and losses are always fp32."""
    accumulate: int = 1
    """Number of batches whose mean gradient makes a step."""
    metric: str = "MAP"
    protocol: measures.Protocol = "answerable"
    seed: int = 0

    def __post_init__(self) -> None:
        measures.check_metric(self.metric)

    def steps(self, batches: int) -> int:
        """Number of steps in an epoch of that many batches."""
        return -(-batches // self.accumulate)

    def rate(self, step: int, steps: int) -> float:
        """Learning rate at `step` (from 0) of `steps`."""
        match self.schedule:
            case "constant":
                return self.learning_rate
            case "slanted":
                return slanted_triangular(step, steps, self.learning_rate)
            case "linear":
                up = max(1, math.floor(steps * self.warm_up))
                return self.learning_rate * (
                    min(1.0, (step + 1) / up) if step < up else (steps - step) / max(1, steps - up)
                )


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Progress of a training, for display. `dev`: score of an evaluation at this step, else None."""

    step: int
    steps: int
    loss: float
    dev: float | None
    best: float | None


class Ranks(Protocol):
    """A reranker as the dev score needs it."""

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]: ...


class Dev:
    """Labelled lists with which a reranker's order is compared."""

    def __init__(self, questions: Sequence[Sequence[LabelledCandidate]]) -> None:
        self._lists = [ranked_list(rows) for rows in questions]
        self._labels: Sequence[Mapping[str, int]] = [
            {row.candidate_id: row.label for row in rows} for rows in questions
        ]

    @classmethod
    def of(cls, lists: Sequence[RankedList], labels: Sequence[Mapping[str, int]]) -> Self:
        """From lists of the kind that the reranker reads, and for each list the labels, by candidate id, of
        the kind that it writes."""
        dev = cls([])
        dev._lists, dev._labels = list(lists), labels
        return dev

    def check(self, protocol: measures.Protocol) -> None:
        """Raises ValueError if the protocol keeps no question, so that there is no score."""
        judged = measures.Judged.of([([0.0] * len(labels), list(labels.values())) for labels in self._labels])
        if not judged.kept(protocol).any():
            raise ValueError(
                f"protocol {protocol!r} keeps no dev question, of {len(self._labels):,}; give others as dev"
            )

    def score(self, reranker: Ranks, metric: str, protocol: measures.Protocol) -> float:
        """Mean of the metric under the protocol, exact under ties. Candidates that the reranker drops rank
        last."""
        return self.scores(reranker, (metric,), protocol)[metric]

    def scores(
        self, reranker: Ranks, metrics: Sequence[str], protocol: measures.Protocol
    ) -> dict[str, float]:
        """Means of several metrics on one ranking."""
        lists = []
        for ranked, labels in zip(_in_blocks(reranker, self._lists), self._labels, strict=True):
            scores = {c.candidate_id: c.score for c in ranked.candidates}
            lowest = min(scores.values(), default=0.0) - 1
            lists.append(([scores.get(c, lowest) for c in labels], list(labels.values())))
        judged = measures.Judged.of(lists)
        kept = judged.kept(protocol)
        return {
            metric: float(values.expected[kept].mean())
            for metric, values in measures.measure(judged, metrics).items()
        }


@dataclass(frozen=True, slots=True)
class Output:
    """The folder that a training writes."""

    folder: Path
    fingerprint: str
    """Identifier of settings and data; a state with another one is refused."""
    settings: Mapping[str, Any] | None = None
    """Settings kept with the fingerprint, to show differences."""
    describe: Callable[[History], object] = lambda _: None
    """Writes the folder's other files, before the history marks it as complete."""


def train(
    task: TrainingTask,
    dev: Dev,
    recipe: Recipe,
    output: Output,
    report: Callable[[TrainingProgress], None] = lambda _: None,
    *,
    processes: Processes = ALONE,
) -> History:
    """Train, and leave the best checkpoint in the output's folder, with the history in `training.json`
    written last.

    `report` is called after each step and each evaluation. Of several `processes` the first alone evaluates
    and writes; all need to see the folder. Raises ValueError if the folder holds another training, no dev
    score can be computed, or the loss is no number (with the step); ScoreNotFinite if a dev score is none
    (with the step, the question and the candidate).
    """
    dev.check(recipe.protocol)
    torch.manual_seed(recipe.seed)
    epoch_steps, device = recipe.steps(task.steps), next(task.model.parameters()).device
    total = epoch_steps * recipe.epochs
    interval = recipe.evaluate_every or epoch_steps

    multiples, groups = zip(*task.rates, strict=True)
    optimizer = torch.optim.AdamW(
        [{"params": group} for group in groups], weight_decay=recipe.weight_decay, fused=True
    )
    updates = Updates(
        optimizer,
        precision=recipe.precision,
        clip=recipe.clip,
        batches=recipe.accumulate,
        processes=processes,
        seed=recipe.seed,
    )

    # Begin, or continue where a training with this fingerprint was interrupted.
    state = output.folder / STATE
    history = resume(state, task.model, optimizer, output.fingerprint, output.settings, scaler=updates.scaler)
    losses: list[float] = []

    while history.step < total and (recipe.patience is None or history.waited() < recipe.patience):
        # Dropout after a resume is what it would have been.
        torch.manual_seed(recipe.seed * 1_000_003 + history.step)
        epoch, done = divmod(history.step, epoch_steps)
        task.model.train()

        # Steps up to the next evaluation.
        for batches in updates.epoch_steps(task.batches(epoch), done):
            for group, multiple in zip(optimizer.param_groups, multiples, strict=True):
                group["lr"] = multiple * recipe.rate(history.step, total)
            losses.append(updates.step(history.step, batches, task.loss))
            history.step += 1
            best = history.best
            report(TrainingProgress(history.step, total, losses[-1], None, best.dev if best else None))
            if history.step % interval == 0 or history.step == total:
                break

        # Evaluation: the first process measures, and all get its score, by which they stop together.
        if history.step % interval == 0 or history.step == total:
            task.model.eval()
            score = math.nan
            if processes.rank == 0:
                place = f"dev evaluation after step {history.step}"
                with _divergence_told(place, task.model), naming(place, output.folder):
                    score = dev.score(task.reranker(), recipe.metric, recipe.protocol)

            score = processes.from_first(score, device)

            mean = sum(losses) / max(1, len(losses))
            history.evaluations.append(Evaluated(history.step, history.step / epoch_steps, mean, score))
            losses = []
            if processes.rank == 0:
                keep(state, task.save, task.model, optimizer, history, scaler=updates.scaler)
            assert history.best is not None
            report(TrainingProgress(history.step, total, mean, score, history.best.dev))

    if processes.rank == 0:
        output.describe(history)
        publish(state, output.folder, history)

    return history


def slanted_triangular(step: int, steps: int, peak: float, cut_frac: float = 0.1, ratio: float = 32) -> float:
    """Learning rate at `step` (from 0) of `steps`: up for the first tenth, then down (Howard & Ruder
    2018, Eq. 3).

    At its lowest it is `peak / ratio`. It falls over all remaining steps, which is Eq. 3 if `steps ·
    cut_frac` is whole; otherwise Eq. 3 would fall below that, even below 0.
    """
    cut = max(1, math.floor(steps * cut_frac))
    p = step / cut if step < cut else 1 - (step - cut) / (steps - cut)
    return peak * (1 + p * (ratio - 1)) / ratio


@contextmanager
def _divergence_told(where: str, model: nn.Module) -> Iterator[None]:
    """Raise ValueError in place of the block's error if a weight of the model has grown beyond all use: what
    the block says is then about a sound model."""
    try:
        yield
    except (ScoreNotFinite, ValueError) as e:
        largest = float(torch.stack([weight.detach().abs().max() for weight in model.parameters()]).max())
        if largest < DIVERGED:
            raise
        raise ValueError(f"{where}: a weight has become {largest:.0e}; try a lower learning_rate") from e


def _in_blocks(reranker: Ranks, lists: Sequence[RankedList], size: int = 64) -> Iterator[RankedList]:
    for first in range(0, len(lists), size):
        yield from reranker.rerank(lists[first : first + size])
