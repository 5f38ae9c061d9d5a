"""Probability: a plan's last stage, which says how likely each candidate is right."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from answermill.ranking.entry import Entry, FileName, StageSettings


class ProbabilityStage(StageSettings):
    """A stage that gives probabilities and keeps the order."""

    calibration_file: Annotated[str, FileName(required=True)] = Field(
        description="file that `answermill calibrate` wrote for the stages before this one, relative to the "
        "job file"
    )


ENTRIES = (
    Entry(
        "probability",
        "answermill.ranking.rerankers.probability.probability:Probability",
        settings=ProbabilityStage,
    ),
    Entry(
        "probability_passages",
        "answermill.ranking.rerankers.probability.probability:ProbabilityOfPassages",
        settings=ProbabilityStage,
    ),
)
