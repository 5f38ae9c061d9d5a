"""Input of a builder of a training, and its result.

A registry entry's `Training.task` names the builder: a function from `TrainingInputs` to `Built`. It makes
the model, on the device and ready to learn, and says what cannot work by a ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from answermill.ranking.entry import TrainingSettings
from answermill.ranking.training.distillation import NO_TEACHER, Distillation
from answermill.ranking.training.loop import Dev, Recipe, TrainingTask

Settings = TypeVar("Settings", bound=TrainingSettings, covariant=True)


@dataclass(frozen=True, slots=True)
class TrainingInputs(Generic[Settings]):
    """Parts that a training is built from."""

    settings: Settings
    """The section of the training file that says what is trained."""
    recipe: Recipe
    """Its hyperparameters; the seed is that of initial weights and batches too."""
    learn: Sequence[Sequence[Any]]
    """By question, what it learns from: `LabelledCandidate` or `LabelledPassage`, as `Training.learns_from`
    says."""
    dev: Sequence[Sequence[Any]]
    """The same, for the dev score."""
    path: Callable[[str], Path] = Path
    """A path in the training file → the path on this machine."""
    model: Callable[[str], Path] = Path
    """A transformer's name, or its folder → its folder. Raises RuntimeError if it cannot be had."""
    texts: Callable[[str], Iterator[str]] = lambda name: iter(())
    """A data set or text file that the settings name → its texts."""
    batch: int | None = None
    """Questions per step, if the training file says how many."""
    teachers: Sequence[npt.NDArray[np.float32]] = ()
    """Of each question to learn from the teachers' logits [candidates, teachers]; empty without [distil]."""
    distillation: Distillation = NO_TEACHER
    device: str = "cpu"

    def check_no_batch(self, section: str) -> None:
        """Raises ValueError if train.batch is given to a training whose steps are counted in tokens."""
        if self.batch is not None:
            raise ValueError(
                "train.batch counts the questions of a list model's step; a transformer's is "
                f"{section}.tokens"
            )


class Built(NamedTuple):
    """A training, ready to begin."""

    task: TrainingTask
    dev: Dev
    description: str
    """A line for people: what it begins with, and what was left out of the texts."""
    tokens: float = 0.0
    """Of a mean batch, for people; 0 where no transformer learns."""


def missing(counts: Mapping[str, int]) -> str:
    """Counts of `Reading.missing` or `ListFeatures.missing`, for people."""
    return "".join(f", {n:,} candidates {key.replace('_', ' ')}" for key, n in counts.items())
