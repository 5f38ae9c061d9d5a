"""The section [rerank] of a job file: the stages of the plan, and which of its answers are given.

The entry of a stage's reranker in the registry declares its keys. Nothing here imports a reranker: entries
name their settings, and those import no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self, TypeAlias

from pydantic import Field, PlainValidator, SerializeAsAny, model_validator

from answermill.pipelines.config.caps import Caps
from answermill.pipelines.specs.shipped_plans import PlanName, shipped_stages
from answermill.ranking.entry import StageSettings
from answermill.ranking.rerankers.probability import ProbabilityStage
from answermill.ranking.rerankers.registry import find, known
from answermill.schemas.section import Count, Section


def stage_of(table: Any) -> StageSettings:
    """A table of `rerank.stages`, as the settings of its reranker. Raises ValueError if it is unknown or a
    key is wrong."""
    if isinstance(table, StageSettings):
        return table
    return settings_of(table).model_validate(table)


RerankStage: TypeAlias = SerializeAsAny[Annotated[StageSettings, PlainValidator(stage_of)]]
"""Type of a field that holds a stage."""


class AnswerSettings(Caps):
    """Answers that are given: how many of a question, from which sources, and of which probability. Below the
    bar answers/ says none."""

    most: Count = Field(1, description="answers of a question in answers/; no two of them say the same")

    min_probability: float | None = Field(
        None, ge=0, le=1, description="least probability of an answer that is given; it promises nothing"
    )
    max_wrong: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="largest share of wrong answers among those given, which chooses the bar, on the labels "
        "of the plan's calibration; the promise is for questions like theirs",
    )
    confidence: float = Field(
        0.9, gt=0, lt=1, description="probability, over the labels, that the promise of `max_wrong` holds"
    )

    @model_validator(mode="after")
    def _has_at_most_one_bar(self) -> Self:
        if self.min_probability is not None and self.max_wrong is not None:
            raise ValueError("give one of min_probability and max_wrong")
        # A manifest holds the default too.
        if self.max_wrong is None and self.confidence != type(self).model_fields["confidence"].default:
            raise ValueError("confidence is that of the promise of max_wrong; give both, or neither")
        return self

    @property
    def has_bar(self) -> bool:
        return self.min_probability is not None or self.max_wrong is not None


class Rerank(Section):
    """Ranked passages in, scored candidates out."""

    plan: PlanName | None = Field(
        None,
        exclude=True,  # its stages decide the rows
        description="name of a plan that ships, in place of `stages`; `answermill plan JOB.toml "
        "--explain-plan` says what it does",
    )
    stages: Annotated[list[RerankStage], Field(min_length=1)] = Field(
        description="the plan, in order, if no `plan` is named"
    )
    allow_empty: bool = Field(
        False,
        description="the step may keep none of its candidates, over all questions; else that is an error "
        "(65)",
    )
    since: str | None = Field(
        None,
        description="folder of an earlier run, or 'latest'; stages that score each pair by itself take over "
        "the scores that a stage of it with the same model and settings has given to the same texts",
    )
    answers: AnswerSettings = AnswerSettings()

    @model_validator(mode="before")
    @classmethod
    def _takes_a_shipped_plan(cls, section: Any) -> Any:
        return with_stages(section) if isinstance(section, Mapping) else section

    @model_validator(mode="after")
    def _has_probabilities_to_compare(self) -> Self:
        if self.answers.has_bar and not isinstance(self.stages[-1], ProbabilityStage):
            raise ValueError(
                "answers has a bar for probabilities, and the last stage gives none; end the plan with "
                'reranker = "probability"'
            )
        return self


def with_stages(section: Mapping[str, Any]) -> Mapping[str, Any]:
    """A section [rerank] with the stages of the plan that it names. Raises ValueError if no such plan ships,
    or stages are given as well."""
    plan = section.get("plan")
    if plan is None:
        return section
    if "stages" in section:
        raise ValueError("`plan` and `stages` are both given; leave one out")
    return {**section, "stages": shipped_stages(plan)}


def settings_of(table: Any) -> type[StageSettings]:
    """The class of a stage's settings. Raises ValueError if its reranker is unknown, with the known ones and
    the nearest."""
    name = table.get("reranker") if isinstance(table, Mapping) else None
    # StageSettings itself reports a missing `reranker`.
    return find(name).settings if isinstance(name, str) else StageSettings


def further_keys() -> Iterator[tuple[type[StageSettings], str, list[str]]]:
    """The keys that only some rerankers have: (settings that declare it, key, those rerankers), in the order
    of names."""
    owners: dict[tuple[type[StageSettings], str], list[str]] = {}
    for name, entry in sorted(known().items()):
        for key in entry.settings.model_fields:
            if key not in StageSettings.model_fields:
                owner = next(
                    kind
                    for kind in reversed(entry.settings.__mro__)
                    if key in getattr(kind, "model_fields", ())
                )
                owners.setdefault((owner, key), []).append(name)
    return ((owner, key, names) for (owner, key), names in owners.items())
