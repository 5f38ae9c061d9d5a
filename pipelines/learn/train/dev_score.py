"""Score of a checkpoint on labelled lists, by which its other forms are judged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.learn.evaluate.rank import RankOptions
from answermill.ranking.checkpoint import kind_of
from answermill.schemas.arrays import Floats


@dataclass(frozen=True, slots=True)
class DevScore:
    """The score that is to be kept: a metric of a reranker on a dev set."""

    dev: Path
    metric: str = "MAP"
    reranker: str | None = None
    """Reranker that loads the checkpoint; the one of the checkpoint's format if None."""
    settings: tuple[str, ...] = ()
    """Its stage settings, as for `evaluate`."""
    form: Form = None

    def reranker_of(self, checkpoint: Path) -> str:
        """Name of the reranker. Raises ValueError if the folder names none."""
        return self.reranker or kind_of(checkpoint)

    def of(self, checkpoint: Path) -> float:
        """The score, in percent. Raises the errors of `evaluate`."""
        return float(self.values(checkpoint).mean())

    def values(self, checkpoint: Path, *more: str) -> Floats:
        """[questions]: score of each question, in percent; `more`: settings after the others."""
        options = RankOptions(str(checkpoint), (*self.settings, *more))
        reranker = self.reranker_of(checkpoint)
        result = evaluate(reranker, self.dev, metrics=(self.metric,), form=self.form, ranker=options)
        return np.array([100 * question.value for question in result.questions])
