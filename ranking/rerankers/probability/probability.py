"""`probability`: each candidate's probability of being right, by a calibration of the plan before it.

The order stays as it is. A probability is that of a logistic regression of a candidate's features in its list
(`confidence_features.py`); where it would rise from one rank to the next it is that of the rank before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from answermill.ranking.evaluation.calibration import Calibration
from answermill.ranking.reranker import Resources, order_by
from answermill.ranking.rerankers.probability import ProbabilityStage
from answermill.ranking.rerankers.probability.calibration_file import CalibrationFile
from answermill.ranking.rerankers.probability.confidence_features import list_features
from answermill.schemas.arrays import Floats
from answermill.schemas.ranked import CandidateKind, RankedList


class Probability:
    """Probabilities of sentences."""

    name: ClassVar[str] = "probability"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, calibration: Calibration, stages: Sequence[str]) -> None:
        """`stages`: keys of the stages before it, whose scores are the features."""
        self._calibration, self._stages = calibration, tuple(stages)

    @classmethod
    def load(cls, resources: Resources) -> Self:
        file = resources.path(resources.stage(ProbabilityStage).calibration_file)
        content = CalibrationFile.read(file)
        content.check_plan(resources.before, f"calibration_file {file}")
        return cls(content.calibration, content.stages)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [
            order_by(ranked, probabilities(ranked, self._calibration, self._stages), self.name)
            for ranked in lists
        ]


class ProbabilityOfPassages(Probability):
    """Probabilities of passages."""

    name: ClassVar[str] = "probability_passages"
    reads: ClassVar[CandidateKind] = "passage"
    writes: ClassVar[CandidateKind] = "passage"


def probabilities(ranked: RankedList, calibration: Calibration, stages: Sequence[str]) -> Floats:
    """[candidates]: probabilities in the list's order, none above the one before. Raises ValueError like
    `list_features`."""
    if not ranked.candidates:
        return np.empty(0)
    return np.minimum.accumulate(calibration(list_features(ranked, stages)))
