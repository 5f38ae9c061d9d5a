"""The training file: what is trained, on which data, and how.

[model]
reranker = "cosinet"
form = "birnn"

[data]
name = "WikiQA"
licence = "Microsoft Research Data License"
train = ["WikiQA-train.tsv"]
dev = ["WikiQA-dev.tsv"]

[train]
epochs = 3

The first section says what is trained. Its name and its keys are declared by the `Training` of the reranker's
entry in the registry; several rerankers may share a section, and its key `reranker` then says which. Nothing
here imports a model.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from answermill.pipelines.config import toml_file
from answermill.pipelines.config.local_paths import local_path
from answermill.pipelines.config.toml_file import SettingsFile
from answermill.pipelines.config.toml_file import keys as section_keys
from answermill.ranking.entry import FileName, Training, TrainingSettings, checkpoint_at
from answermill.ranking.evaluation.metrics import check_metric
from answermill.ranking.rerankers.registry import trainings
from answermill.schemas.section import Count, Section


class Distil(Section):
    """Teachers, whose logits were written before (MHS §3.2, §3.3)."""

    tables: Annotated[list[str], FileName(required=True), Field(min_length=1)] = Field(
        description="runs or their scored/ folders, or Parquets with a column for each teacher, that hold "
        "the training pairs"
    )
    teachers: Annotated[list[str], Field(min_length=1)] = Field(
        description="stages or columns, in the order of the heads; their scores must be logits"
    )
    strategy: Literal["single", "sum", "round_robin", "mhs"] = Field(
        description="one teacher, in every head; the sum of all teachers' losses; each step another "
        "teacher; a teacher per head"
    )
    alpha: float = Field(
        0.5, ge=0, le=1, description="weight of the labels' loss; 1 - alpha that of the teachers (Eq. 1)"
    )
    tau: float = Field(3.0, gt=0, description="temperature of both softened distributions (Eq. 2, 3)")
    weights: list[Annotated[float, Field(ge=0)]] = Field(
        [], description="λ of each head (mhs, single) or of each teacher (Eq. 4); all 1 if empty"
    )
    loss: Literal["kl", "margin_mse"] = Field(
        "kl",
        description="what a teacher teaches: its probability of each pair (Eq. 2, 3); or by how much it "
        "prefers a question's "
        "right candidates to its wrong ones",
    )

    @model_validator(mode="after")
    def _check_tau(self) -> Self:
        if self.loss == "margin_mse" and "tau" in self.model_fields_set:
            raise ValueError("tau softens probabilities, and loss = 'margin_mse' has none; leave it out")
        return self


class Data(Section):
    """Data that the model learns from."""

    name: str = Field(description="name of the training data, for the card")
    licence: str = Field(description="licence of the training data, for the card")
    train: Annotated[list[str], FileName(required=True), Field(min_length=1)] = Field(
        description="data sets, in any format that `answermill dataset` reads; for [peasi] what `answermill "
        "passages` writes"
    )
    dev: Annotated[list[str], FileName(required=True), Field(min_length=1)] = Field(
        description="data sets that the dev score is measured on"
    )
    form: str | None = Field(None, description="format of all of them, if it is not recognised")
    columns: list[str] | None = Field(
        None, description="names of their columns, if they are unusual, e.g. ['question=frage']"
    )

    @field_validator("train", "dev")
    @classmethod
    def _check_files(cls, names: list[str]) -> list[str]:
        counts = Counter(str(Path(name)) for name in names)
        for name in (name for name, count in counts.items() if count > 1):
            raise ValueError(f"{name!r} is named twice; leave one out")
        return names


class Train(Section):
    """Settings of the training itself. The defaults are Cosinet's for list-wise training (§5.2)."""

    epochs: Count = Field(3, description="passes over the training data")
    batch: Count = Field(1, description="list models: questions per step, with all their candidates")
    learning_rate: float = Field(
        2e-4, gt=0, description="highest learning rate; Cosinet takes 2e-4 list-wise, 2e-3 pointwise"
    )
    schedule: Literal["slanted", "linear", "constant"] = Field(
        "slanted", description="slanted triangle; linear warm-up and decay; or a constant rate"
    )
    warm_up: float = Field(0.1, ge=0, lt=1, description="share of the steps in which 'linear' rises")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of AdamW")
    clip: float | None = Field(
        None, gt=0, description="greatest norm of a step's gradient; not limited if absent"
    )
    evaluate_every: int = Field(
        0, ge=0, description="steps between evaluations; 0 = one at the end of each epoch"
    )
    patience: int | None = Field(
        None,
        ge=1,
        description="evaluations without a better dev score after which training stops; never if absent",
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        "fp32",
        description="precision of the matrix products; bf16 is faster on processors and graphics cards that "
        "have it in hardware, fp16 on cards before Ampere; 'auto' = what this machine has, and it goes onto "
        "the card",
    )
    accumulate: Count | None = Field(
        None,
        description="batches of one step, whose mean gradient it takes; processes of torchrun share them. 1 "
        "if absent",
    )
    metric: str = Field("MAP", description="dev score: MAP, MRR, P@k, nDCG@k")
    protocol: Literal["raw", "answerable", "clean"] = Field(
        "answerable", description="which dev questions count"
    )
    seed: int = Field(
        0, ge=0, lt=2**32, description="seed of the initial weights and of the order of the questions"
    )
    threads: Count = Field(1, description="threads of torch on the CPU")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="where it trains; 'auto' = CUDA if there is a device"
    )

    @field_validator("metric")
    @classmethod
    def _check_metric(cls, metric: str) -> str:
        check_metric(metric)
        return metric


class TrainJob(SettingsFile):
    """A whole training. One further section, which the registry declares, says what is trained."""

    model_config = ConfigDict(extra="allow")

    distil: Distil | None = None
    data: Data
    train: Train = Train()

    @property
    def section(self) -> str:
        """Key of the section that says what is trained."""
        (name,) = self.__pydantic_extra__ or {}
        return name

    @property
    def trained(self) -> TrainingSettings:
        """The section that says what is trained."""
        settings: TrainingSettings = (self.__pydantic_extra__ or {})[self.section]
        return settings

    @property
    def training(self) -> Training:
        """Entry of what is trained in the registry."""
        return _sections()[self.section][self.trained.reranker]

    def path(self, written: str) -> Path:
        """A path that is written in the file; the name of a shipped checkpoint, where no file has that name,
        is its folder."""
        return checkpoint_at(super().path(str(local_path(written))), written)

    def tables(self) -> dict[str, Any]:
        """The file's tables, what is trained first, without keys that are None."""
        tables = self.model_dump(exclude_none=True)
        return {self.section: tables.pop(self.section), **tables}

    @model_validator(mode="before")
    @classmethod
    def _read_trained_section(cls, tables: Any) -> Any:
        """Replace the further section with its settings."""
        if not isinstance(tables, Mapping):
            return tables
        sections = _sections()
        known = [*sections, *cls.model_fields]
        if unknown := [key for key in tables if key not in known]:
            raise _refusal([_unknown(known, (key,), tables[key]) for key in unknown])
        names = [key for key in tables if key in sections]
        if len(names) != 1:
            choices = (f"[{name}] ({', '.join(trainings)})" for name, trainings in sections.items())
            raise ValueError(f"give one of the sections that say what is trained: {', '.join(choices)}")
        (name,) = names
        return {**tables, name: _settings(name, tables[name], sections[name])}

    @model_validator(mode="after")
    def _check_teachers(self) -> Self:
        if self.distil is not None and not self.training.distils:
            students = sorted(name for name, training in trainings().items() if training.distils)
            raise ValueError(
                f"[distil] is for {', '.join(students)}, not for {self.trained.reranker}; leave it out"
            )
        return self


def load_job(path: Path, overrides: Sequence[str] = ()) -> TrainJob:
    """The training of a TOML file. Raises JobError as `job_file.load` does."""
    return toml_file.check(toml_file.read(path, overrides), TrainJob, path)


def keys() -> Iterator[tuple[str, str, str, str]]:
    """Every key of a training file: (key, type, default, meaning). The meaning names the rerankers that have
    the key, unless all of the section do."""
    for section, by_name in _sections().items():
        rerankers: dict[tuple[str, str, str, str], list[str]] = {}
        for name, training in by_name.items():
            for key, kind, default, meaning in section_keys(training.settings):
                values = " or ".join(by_name) if key == "reranker" else kind
                rerankers.setdefault((key, values, default, meaning), []).append(name)
        for (key, kind, default, meaning), names in rerankers.items():
            yield (
                f"{section}.{key}",
                kind,
                default,
                meaning if len(names) == len(by_name) else f"{', '.join(names)}: {meaning}",
            )

    yield from section_keys(TrainJob)


def _sections() -> dict[str, dict[str, Training]]:
    """Key of a section → the trainings that it may describe, by the value of its key `reranker`."""
    sections: dict[str, dict[str, Training]] = {}
    for name, training in sorted(trainings().items()):
        sections.setdefault(training.section, {})[name] = training
    return sections


def _settings(section: str, table: Any, choices: Mapping[str, Training]) -> TrainingSettings:
    """The settings of what is trained. Raises ValidationError with the keys as they are in the file."""
    name = table.get("reranker") if isinstance(table, Mapping) else None
    if name is not None and name not in choices:
        near = difflib.get_close_matches(str(name), choices, n=1)
        message = f"unknown reranker {name!r}" + (f"; did you mean {near[0]!r}?" if near else ".")
        if name in trainings():
            message = f"{name!r} is trained by a section [{trainings()[name].section}], not by this one."
        message += f" Known here: {', '.join(choices)}"
        error = PydanticCustomError("unknown_reranker", "{message}", {"message": message})
        raise _refusal([InitErrorDetails(type=error, loc=(section, "reranker"), input={})])
    settings = (choices[name] if name else next(iter(choices.values()))).settings
    try:
        return settings.model_validate(table)
    except ValidationError as e:
        raise _refusal([_below(section, error, settings, choices) for error in e.errors()]) from e


def _below(
    section: str, error: ErrorDetails, settings: type[TrainingSettings], choices: Mapping[str, Training]
) -> InitErrorDetails:
    """An error in a section's table as one in the file."""
    location = section, *error["loc"]
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        owners = [name for name, training in choices.items() if key in training.settings.model_fields]
        hint = f": {', '.join(owners)} has it, but this trains another reranker." if owners else None
        return _unknown(list(settings.model_fields), location, error["input"], hint)
    return InitErrorDetails(type=error["type"], loc=location, input=error["input"], ctx=error.get("ctx", {}))


def _unknown(
    known: list[str], location: tuple[str | int, ...], value: Any, hint: str | None = None
) -> InitErrorDetails:
    context = {"known": known} if hint is None else {"known": known, "hint": hint}
    error = PydanticCustomError("extra_forbidden", "Extra inputs are not permitted", context)
    return InitErrorDetails(type=error, loc=location, input=value)


def _refusal(errors: list[InitErrorDetails]) -> ValidationError:
    return ValidationError.from_exception_data(TrainJob.__name__, errors)
