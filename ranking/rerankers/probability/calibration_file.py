"""File of a calibration: small JSON, which says of which plan it is and on which labels it rests.

With another plan the scores have another meaning, and the probabilities none: it is refused. The first
answers of the labelled questions are in the file, so that any `max_wrong` can be promised from it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator

from answermill.files.atomic_files import write_text
from answermill.ranking.entry import FileMissing, StageBefore
from answermill.ranking.evaluation.calibration import Calibration
from answermill.ranking.rerankers.blend.weights import Interval
from answermill.ranking.rerankers.probability.bar import CONFIDENCE, Bar, FirstAnswers, promised
from answermill.ranking.rerankers.probability.confidence_features import feature_names
from answermill.schemas.section import Section

Probability = Annotated[float, Field(ge=0, le=1)]


class PlanStage(Section):
    """A stage of the plan that was calibrated."""

    key: str
    reranker: str
    model: str | None
    settings: dict[str, Any]
    """Settings that decide its scores; for a file its digest."""


class PartAnswers(Section):
    """First answers of one part of the labelled questions, a value for each question."""

    probability: list[Probability]
    right: list[Literal[0, 1]]
    answerable: list[Literal[0, 1]]
    """1 if the labels have a correct candidate of the question, in its list or not."""

    @model_validator(mode="after")
    def _has_as_many_values(self) -> Self:
        if not len(self.probability) == len(self.right) == len(self.answerable):
            raise ValueError("probability, right and answerable differ in length")
        return self

    @property
    def first_answers(self) -> FirstAnswers:
        return FirstAnswers(np.array(self.probability, np.float64), np.array(self.right, np.bool_))


class CalibrationFile(Section):
    """Contents of a calibration file."""

    format: Literal[1] = 1
    plan: Annotated[list[PlanStage], Field(min_length=1)]
    """Stages of the plan, in order."""
    labels: str
    """Name of the labels."""
    features: list[str]
    weights: list[float]
    bias: float
    """P = sigmoid(weights · features + bias)."""
    fitted: PartAnswers
    """The part on which the probabilities were fitted."""
    held_back: PartAnswers
    """The part on which a promise is tested."""
    folds: int
    ece: Interval
    """Expected calibration error of the first answers, each with a probability that was fitted without its
    fold."""
    brier: Interval
    """Mean squared difference between the same probabilities and what is right."""
    revision: str

    @model_validator(mode="after")
    def _has_the_features_of_its_plan(self) -> Self:
        if tuple(self.features) != feature_names(self.stages) or len(self.weights) != len(self.features):
            raise ValueError("the features are not those of the plan's stages, with a weight each")
        return self

    @property
    def stages(self) -> list[str]:
        """Keys of the plan's stages."""
        return [stage.key for stage in self.plan]

    @property
    def calibration(self) -> Calibration:
        return Calibration(tuple(self.weights), self.bias)

    @property
    def questions(self) -> int:
        """Labelled questions."""
        return len(self.fitted.right) + len(self.held_back.right)

    @property
    def without_answer(self) -> int:
        """Labelled questions without an answer."""
        return self.questions - sum(self.fitted.answerable) - sum(self.held_back.answerable)

    @classmethod
    def read(cls, file: Path) -> CalibrationFile:
        """Contents of a file. Raises ValueError with what is wrong, and what to do; FileMissing if it is not
        there."""
        try:
            return cls.model_validate_json(file.read_bytes())
        except FileNotFoundError as e:
            raise FileMissing(f"{file}: no such file; give one that `answermill calibrate` wrote") from e
        except OSError as e:
            raise ValueError(f"{file}: {e.strerror}; give a file that `answermill calibrate` wrote") from e
        except ValidationError as e:
            first = e.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(
                f"{file} is no calibration: {place + ': ' if place else ''}{first['msg']}; calibrate again"
            ) from e

    def write(self, file: Path) -> None:
        """Write the file whole, or not at all; a line for each entry."""
        entries = (f" {json.dumps(key)}: {json.dumps(value)}" for key, value in self.model_dump().items())
        write_text(file, "{\n" + ",\n".join(entries) + "\n}\n")

    def check_plan(self, before: Sequence[StageBefore], where: str) -> None:
        """Raises ValueError, with the first difference, if the stages are not those that were calibrated."""
        here = [stage.key for stage in before]
        if here != self.stages:
            raise ValueError(
                f"{where} is of another plan: of the stages {', '.join(self.stages)}, and here are "
                f"{', '.join(here) or 'none'} before it; {ADVICE}"
            )
        for known, stage in zip(self.plan, before, strict=True):
            if difference := _difference(known, stage):
                raise ValueError(f"{where} is of another plan: {known.key} had {difference}; {ADVICE}")

    def bar(self, max_wrong: float, confidence: float = CONFIDENCE) -> Bar:
        """The lowest bar at which at most `max_wrong` of the answers are wrong. Raises ValueError, with why,
        if the labels cannot promise it, as those cannot that have no question without an answer."""
        if not self.without_answer:
            raise ValueError(
                f"{self.labels}: each of the {self.questions} questions has an answer, so nothing can be "
                "promised where some have none; calibrate on labels with questions that the pages do not "
                "answer, or give min_probability, which promises nothing"
            )
        return promised(self.fitted.first_answers, self.held_back.first_answers, max_wrong, confidence)


ADVICE = "run `answermill calibrate` on a run of this plan, or leave the stage out"


def _difference(known: PlanStage, stage: StageBefore) -> str:
    """What differs, such as 'keep = 60, and has 20'; '' if nothing that is known does."""
    if known.reranker != stage.reranker:
        return f"the reranker {known.reranker}, and has {stage.reranker}"
    if stage.model is not None and known.model != stage.model:
        return stage.another_model(known.model)
    here = json.loads(stage.settings) if stage.settings else known.settings
    former = (json.loads(stage.defaults) if stage.defaults else {}) | known.settings
    for key in sorted({*known.settings, *here}):
        if former.get(key) != here.get(key):
            return f"{key} = {former.get(key)}, and has {here.get(key)}"
    return ""
