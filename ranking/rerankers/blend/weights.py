"""Weights of a stage, from its settings or from a file that records their fit; refused if they do not fit the
plan.

A file of weights is small JSON. It names the reranker and the model of each stage whose scores it weighs:
with another one the scores have another meaning, and the weights none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from answermill.files.atomic_files import write_text
from answermill.ranking.entry import FileMissing, StageBefore
from answermill.ranking.reranker import Resources
from answermill.ranking.rerankers.blend import WeighedStage, WeightTable
from answermill.ranking.rerankers.blend.score_columns import EXIT, RETRIEVAL, known_names
from answermill.schemas.section import Section


@dataclass(frozen=True, slots=True)
class FitOptions:
    """Regularisation of a fit, and its cross-validation."""

    penalty: float = 0.005
    """Weight of the squares of the weights in the loss."""
    folds: int = 5
    seed: int = 0
    """Seed of the folds."""


USUAL_FIT = FitOptions()
_ADVICE = (
    "give `weights` by hand, or a file that `answermill weights` fits to the labels of a run of this plan"
)


class Interval(Section):
    """A metric's mean over the questions, from 0 to 1, with its 95 % interval."""

    value: float
    low: float
    high: float


class Fit(Section):
    """One table of weights, with the data and figures of its fit."""

    weights: WeightTable
    questions: int = Field(ge=1, description="with a correct candidate in their list")
    without_answer: int = Field(
        ge=0, description="questions whose list holds no correct candidate: nothing to learn from"
    )
    candidates: int
    penalty: float
    folds: int
    alone: dict[str, dict[str, Interval]]
    """Name of a score → metric → value when that score alone orders the lists."""
    blend: dict[str, Interval]
    """Metric → value when the lists are ordered by weights fitted without their questions
    (cross-validation)."""
    best: str
    """Name of the score with the highest MRR."""
    gain: dict[str, Interval]
    """Metric → the blend's value minus that of `best`."""


class FittedStage(Section):
    """A stage whose scores were weighed."""

    reranker: str
    model: str | None


class WeightsFile(Section):
    """Contents of a file of weights."""

    format: Literal[1] = 1
    stages: dict[str, FittedStage]
    """Key of a stage, or `EXIT` for the model whose exits prune → the stage at the time of the fit."""
    fits: Annotated[list[Fit], Field(min_length=1)]
    """One fit, or one for each exit but the last."""
    revision: str

    @classmethod
    def of(
        cls,
        fits: Sequence[Fit],
        rerankers: Mapping[str, str],
        models: Mapping[str, str | None],
        revision: str,
        exit_of: str | None = None,
    ) -> WeightsFile:
        """File of the fits. `rerankers`: key of a stage in the plan → reranker; `models`: key → digest of its
        model; `exit_of`: key of the stage whose exits prune."""
        keys = {name: exit_of if name == EXIT else name for fit in fits for name in fit.weights}
        stages = {
            name: FittedStage(reranker=rerankers[key], model=models[key])
            for name, key in sorted(keys.items())
            if key is not None and key in rerankers
        }
        return cls(stages=stages, fits=list(fits), revision=revision)

    @classmethod
    def read(cls, file: Path) -> WeightsFile:
        """Contents of a file. Raises ValueError with what is wrong, and what to do; FileMissing if it is not
        there."""
        try:
            return cls.model_validate_json(file.read_bytes())
        except FileNotFoundError as e:
            raise FileMissing(f"{file}: no such file; give one that `answermill weights` wrote") from e
        except OSError as e:
            raise ValueError(f"{file}: {e.strerror}; give a file that `answermill weights` wrote") from e
        except ValidationError as e:
            first = e.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(
                f"{file} is no file of weights: {place + ': ' if place else ''}{first['msg']}; fit them again"
            ) from e

    def write(self, file: Path) -> None:
        """Write the file whole, or not at all."""
        write_text(file, self.model_dump_json(indent=1) + "\n")


def load_weights(resources: Resources, exits: bool = False) -> list[Mapping[str, float]]:
    """Tables of weights of a stage: none, one or, with `exits`, perhaps one for each exit but the last.

    Raises ValueError if a score is named that no stage before gives, an index is not searched, or the weights
    were fitted for another plan.
    """
    settings = resources.stage(WeighedStage)
    if settings.weights_file is not None:
        file = resources.path(settings.weights_file)
        content = WeightsFile.read(file)
        tables: list[Mapping[str, float]] = [fit.weights for fit in content.fits]
        where = f"weights_file {file}"
    else:
        content, tables, where = None, [settings.weights] if settings.weights is not None else [], "weights"

    before = {stage.key: stage for stage in resources.before}
    known = known_names(list(before), resources.indexes)
    for table in tables:
        _check_names(table, known, where, exits)

    if content is not None:
        itself = StageBefore(settings.key, settings.reranker, resources.model_digest)
        _check_plan(content, before | ({EXIT: itself} if exits else {}), where)
        if len(tables) > 1 and not exits:
            raise ValueError(
                f"{where} has weights for {len(tables)} exits; {settings.reranker} takes one table"
            )

    return tables


def _check_names(table: Mapping[str, float], known: list[str], where: str, exits: bool) -> None:
    for name in table:
        if name not in known and not (exits and name == EXIT):
            if name in RETRIEVAL:
                raise ValueError(f"{where}: {name}: the job does not search this index (retrieve.sources)")
            here = ", ".join([*([EXIT] if exits else []), *known])
            raise ValueError(
                f"{where}: no stage before this one gives the score {name!r}; known here: {here}"
            )
    if exits and not table.get(EXIT):
        raise ValueError(f"{where}: the exits' scores have no weight; name it too: {EXIT} = 1.0")


def _check_plan(content: WeightsFile, stages: Mapping[str, StageBefore], where: str) -> None:
    for key in {name for fit in content.fits for name in fit.weights} - set(RETRIEVAL):
        fitted, stage = content.stages.get(key), stages[key]
        if fitted is None:
            raise ValueError(
                f"{where} does not say for which stage {key!r} its weights were fitted; {_ADVICE}"
            )
        if fitted.reranker != stage.reranker:
            raise ValueError(
                f"{where} was fitted for another plan: {key} was a stage of {fitted.reranker}, and is one "
                f"of {stage.reranker}; {_ADVICE}"
            )

        if stage.model is not None and fitted.model != stage.model:
            raise ValueError(
                f"{where} was fitted for another plan: {key} had {stage.another_model(fitted.model)}; "
                f"{_ADVICE}"
            )
