"""Input of a builder of a training, and its result.

A registry entry's `Training.task` names the builder: a function from `TrainingInputs` to `Built`. It makes
the model, on the device and ready to learn, and raises ValueError for settings that cannot work.
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


class NothingToLearn(ValueError):
    """The data hold nothing to learn from."""

    exit_code = 65


def check_answered(answered: Sequence[object], questions: Sequence[object]) -> None:
    """Raise NothingToLearn if none of the questions has an answer."""
    if not answered:
        raise NothingToLearn(
            f"none of the {len(questions)} questions has an answer; there is nothing to learn from"
        )


@dataclass(frozen=True, slots=True)
class TrainingInputs(Generic[Settings]):
    """Inputs from which a training is built."""

    settings: Settings
    """Section of the training file that names the model to train."""
    recipe: Recipe
    """Hyperparameters; the seed also decides initial weights and batches."""
    learn: Sequence[Sequence[Any]]
    """Rows to learn from, by question: `LabelledCandidate` or `LabelledPassage`, by
    `Training.learns_from`."""
    dev: Sequence[Sequence[Any]]
    """Rows for the dev score, in the same form."""
    path: Callable[[str], Path] = Path
    """Maps a path in the training file to the path on this machine."""
    model: Callable[[str], Path] = Path
    """Maps a transformer's name, or its folder, to its folder. Raises RuntimeError if it is not available."""
    texts: Callable[[str], Iterator[str]] = lambda name: iter(())
    """Maps a data set or text file that the settings name to its texts."""
    batch: int | None = None
    """Questions per step; None if the training file gives no number."""
    teachers: Sequence[npt.NDArray[np.float32]] = ()
    """Teachers' logits [candidates, teachers] for each question to learn from; empty without [distil]."""
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
    """Starting point, and number of tokens and parts left out, as a line for display."""
    tokens: float = 0.0
    """Tokens of a mean batch, for display; 0 if no transformer learns."""


def missing(counts: Mapping[str, int]) -> str:
    """Counts of `Reading.missing` or `ListFeatures.missing`, for display."""
    return "".join(f", {n:,} candidates {key.replace('_', ' ')}" for key, n in counts.items())
