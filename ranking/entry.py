"""Facts about a reranker that the registry knows before it is loaded: its settings, its checkpoint, its
training.

A method's package declares its entries in its `__init__.py`, which imports neither torch nor its own model: a
job file is checked, and `--help` answers, without them. `ranking/rerankers/registry.py` has one line per
package.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from answermill.files.model_files import check_ended
from answermill.ranking.context import Part, Reading, check_one_text
from answermill.schemas.arrays import StagePrecision
from answermill.schemas.plug_ins import PlugInUnusable, is_ours, running, said
from answermill.schemas.section import Section

if TYPE_CHECKING:
    from answermill.ranking.reranker import Reranker, Resources, SentenceCoder

SHIPPED = Path(__file__).with_name("checkpoints")
"""Folder of the checkpoints that the package ships: a sub-folder for each, named as `Entry.checkpoint`."""


REFUSING = {"missing_context", "int8_loss"}
"""Keys of stages that may refuse to rank, and decide no score."""


@dataclass(frozen=True, slots=True)
class StageBefore:
    """An earlier stage of the plan, whose scores the candidates have."""

    key: str
    """Key of its scores in a candidate's `stages`."""
    reranker: str
    model: str | None = None
    """Digest of its checkpoint, or of the encoder that it uses; None if it has no model or none was
    computed."""
    settings: str = ""
    """`decisive_settings` as JSON; '' if not known."""
    defaults: str = ""
    """`defaults` of its settings, as JSON; '' if not known."""

    def another_model(self, known: str | None) -> str:
        """Words for a model that is not the known one, by both digests."""
        return f"another model (its checkpoint's or index.encoder's digest was {known}, and is {self.model})"


class StageSettings(Section):
    """One stage of the rerank plan. A reranker with further keys has a subclass that adds them."""

    reranker: str = Field(description="name in the registry, e.g. 'overlap'")
    name: str = Field("", description="key of the stage's scores; the reranker's name if empty")
    keep: int | None = Field(None, ge=1, description="candidates kept per question; all if absent")
    checkpoint: str | None = Field(
        None,
        description="model folder, or name of a shipped checkpoint, for rerankers that have one; the "
        "reranker's shipped one if absent. For models that others have published also a hub name",
    )

    @property
    def key(self) -> str:
        """The stage's name in a plan: the key of its scores; of 'module:Class' the class."""
        return self.name or self.reranker.rpartition(":")[2]

    def check_scores(self, before: Sequence[StageBefore]) -> None:
        """Raises ValueError if a setting needs scores that none of the stages before this one gives."""


class ContextStage(StageSettings):
    """A stage that may read a candidate's title and neighbours (`ranking/context.py`)."""

    missing_context: Literal["count", "refuse"] = Field(
        "count",
        description="if it reads titles, or neighbours, and no candidate of all the data has any: 'count' "
        "ranks without them "
        "and counts the candidates, 'refuse' ends with an error (65)",
    )


class TransformerStage(ContextStage):
    """A stage whose model the packed encoder computes."""

    precision: StagePrecision = Field(
        "auto",
        description="arithmetic; 'auto' is bf16 where the machine multiplies it natively, fp16 on older "
        "graphics cards, else fp32; 'int8' is for processors, and for a checkpoint whose loss by it "
        "`answermill int8` measured",
    )
    int8_loss: Annotated[float, Field(ge=0, le=100)] | Literal["any"] = Field(
        0.2,
        description="for precision = 'int8': points, of 100, that the checkpoint may have lost of the metric "
        "that was measured; 'any' takes one that was not measured too",
    )


class OneTextStage(ContextStage):
    """A stage that reads a candidate's parts as one text."""

    context: list[Literal["sentence", "title", "previous", "next"]] = Field(
        ["sentence"],
        description="what is read as one text, in this order; a title comes first and ends with a full stop "
        "for cross_encoder "
        "and late_interaction, else it stands before the rest as it does before an indexed passage's text",
    )

    @property
    def reading(self) -> Reading:
        """Parts that are read as the candidate's text."""
        return Reading(tuple(self.context))

    @field_validator("context")
    @classmethod
    def _check_context(cls, context: list[Part]) -> list[Part]:
        check_one_text(context)
        return context


@dataclass(frozen=True, slots=True)
class FileName:
    """Mark of a key that names a file or a model folder, or a list of them, whose contents decide the
    result."""

    required: bool = False
    """True for data, which must be a file; False if it may also be the name of a model."""


class FileMissing(ValueError):
    """A file or a checkpoint that a stage's setting names is not there. The message names it, and what to
    give."""

    exit_code = 66


class TrainingSettings(Section):
    """Section of a training file that names the model to train. Each method has a subclass with its own
    keys."""

    reranker: str = Field(description="model to train")

    @property
    def title(self) -> str:
        """Title of the training in a few words, for display."""
        return self.reranker


def file_keys(section: type[Section]) -> dict[str, FileName]:
    """Keys of a section that are marked as `FileName`."""
    fields = section.model_fields.items()
    return {key: mark for key, field in fields for mark in field.metadata if isinstance(mark, FileName)}


def decisive_settings(stage: StageSettings, files: Mapping[str, str]) -> dict[str, Any]:
    """Settings that decide the scores beside the model, for a file its digest. `files`: 'KEY of STAGE' →
    digest, of the files that the plan's stages name."""
    settings = stage.model_dump(exclude={"reranker", "name", "checkpoint"} | REFUSING)
    named = {key: files.get(f"{key} of {stage.key}") for key in file_keys(type(stage)) if settings[key]}
    return settings | named


def defaults(kind: type[StageSettings]) -> dict[str, Any]:
    """Default of each key of a stage that need not be written; it holds where a file was written before there
    was the key.

    >>> defaults(StageSettings)
    {'name': '', 'keep': None, 'checkpoint': None}
    """
    fields = kind.model_fields.items()
    return {
        key: field.get_default(call_default_factory=True) for key, field in fields if not field.is_required()
    }


def file_names(settings: Section) -> Iterator[tuple[str, bool]]:
    """(name, whether it must be a file) of every file or model folder that the settings name."""
    for key, mark in file_keys(type(settings)).items():
        value = getattr(settings, key)
        yield from (
            (name, mark.required) for name in ([value] if isinstance(value, str) else value or ()) if name
        )


@dataclass(frozen=True, slots=True)
class Training:
    """Training of a reranker's checkpoint: a section of the training file, and the task that it builds.

    Entries whose checkpoints have one format share it. The key `reranker` of the section is that format's
    name.
    """

    section: str
    """Key of the section in a training file. If several trainings share it, its key `reranker` selects
    one."""
    settings: type[TrainingSettings]
    task: str
    """'module:function' that builds it: from an `answermill.ranking.training.inputs.TrainingInputs` to a
    `Built`."""
    learns_from: Literal["candidates", "passages"] = "candidates"
    """Rows that the files of [data] hold: labelled candidates, or passages as `answermill passages` writes
    them."""
    distils: bool = False
    """True if it can learn from teachers too: the training file may have a section [distil]."""
    start: str | None = None
    """'module:function' that loads a checkpoint for a training to begin with: from its folder, and a function
    from a transformer's name to its folder, to (model, tokenizer). None if no training begins with one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A reranker's line in the registry. Locations are constants of the code: configuration never names a
    module."""

    name: str
    """Name of the reranker in job files, equal to `name` of its class."""
    location: str
    """'module:Class' of the `Reranker`, imported when a plan needs it."""
    settings: type[StageSettings] = StageSettings
    former: str | None = None
    """Former name, which job files may still use and no list shows."""
    checkpoint: str | None = None
    """Name of its checkpoint format, and of its folder in `SHIPPED` if one is shipped; None if it has no
    model."""
    uses_encoder: bool = False
    """True if it scores by the job's dense encoder, whose settings and files then decide the output of the
    plan."""
    pretrained: str | None = None
    """Description of the published model that its stage's key `checkpoint` names by folder or hub name;
    None if it takes no such model."""
    sentence_codes: str | None = None
    """'module:Class' of the `SentenceCoder` that encodes all sentences when they are indexed; None if nothing
    is stored."""
    training: Training | None = None
    pairwise: bool = False
    """True if it scores every candidate, and each score depends only on the question's text and the parts
    read of the candidate."""
    by_kinds: Mapping[tuple[str, str | None], str] = field(default_factory=dict)
    """A stage's keys `reads` and `writes` → 'module:Class' of the `Reranker` of these kinds of candidates;
    `location` for others."""

    @property
    def stores_vectors(self) -> bool:
        """True if an encoder's vectors are stored of sentences, rather than codes of its checkpoint."""
        return self.uses_encoder or self.pretrained is not None

    @property
    def reranker(self) -> type[Reranker]:
        """Class of the reranker; reading it imports the module."""
        return checked_class(self.name, resolve(self.location))

    def reranker_of(self, stage: StageSettings | Mapping[str, Any]) -> type[Reranker]:
        """Class of the reranker of a stage, by its settings; it imports the module."""
        values = stage if isinstance(stage, Mapping) else stage.model_dump()
        kinds = str(values.get("reads")), values.get("writes")
        return checked_class(self.name, resolve(self.by_kinds.get(kinds, self.location)))

    @property
    def coder(self) -> type[SentenceCoder] | None:
        """Class that encodes sentences when they are indexed; reading it imports the module."""
        return None if self.sentence_codes is None else resolve(self.sentence_codes)

    def stage(self, **settings: Any) -> StageSettings:
        """A stage of this reranker. Raises pydantic's ValidationError if a key or value is wrong."""
        return self.settings(reranker=self.name, **settings)

    def folder(
        self, checkpoint: str | Path | None = None, model: Callable[[str], Path] = Path
    ) -> Path | None:
        """The folder of a stage's checkpoint: the one given, else the shipped one; None if the reranker has
        no model.

        `model` maps the name of a published model to its folder. Raises ValueError if a checkpoint is given
        to a reranker without a model, if its training has not ended, or if none is given and none is shipped;
        FileMissing if it is not there; and the errors of `model`.
        """
        if self.pretrained is not None:
            if checkpoint is None:
                raise ValueError(
                    f"{self.name} needs `checkpoint`: the folder, or the hub name, of {self.pretrained}"
                )
            return model(str(checkpoint))

        if self.checkpoint is None:
            if checkpoint is not None:
                raise ValueError(
                    f"{self.name} takes no checkpoint, but {str(checkpoint)!r} is given; leave it out"
                )
            return None

        if checkpoint is not None:
            folder = checkpoint_at(Path(checkpoint), str(checkpoint))
            if not folder.exists():
                raise FileMissing(
                    f"{folder} is no checkpoint of {self.checkpoint}: there is no such folder; the package "
                    f"comes with {', '.join(shipped_checkpoints())}"
                )
            check_ended(folder)
            return folder
        if (SHIPPED / self.checkpoint / "config.json").is_file():
            return SHIPPED / self.checkpoint

        raise ValueError(f"{self.name} needs a checkpoint: the folder that `answermill train` wrote")

    def load(self, resources: Resources) -> Reranker:
        """The reranker, ready to score. Raises ValueError if its checkpoint is missing or unusable, and
        PlugInFailed for other errors of a plug-in's code."""
        kind = self.reranker_of(resources.settings)
        with running(f"the reranker {self.name!r} cannot be loaded", kind.__module__, but=ValueError):
            reranker = kind.load(resources)
            if lacking := [member for member in MEMBERS if not hasattr(reranker, member)]:
                raise TypeError(f"`load` gave a {type(reranker).__name__}, which has no {lacking[0]}")
            return reranker


def shipped_checkpoints() -> list[str]:
    """Names of the checkpoints that come with the package."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / "config.json").is_file())


def checkpoint_at(path: Path, name: str) -> Path:
    """The folder at the path; if nothing is there, that of the shipped checkpoint of this name, if one is
    shipped."""
    return SHIPPED / name if name in shipped_checkpoints() and not path.exists() else path


MEMBERS = ("name", "reads", "writes", "rerank")
"""Members of a `Reranker` that is loaded."""
_KINDS = {("passage", "passage"), ("passage", "sentence"), ("sentence", "sentence")}


def checked_class(name: str, reranker: Any) -> type[Reranker]:
    """The class of a reranker. Raises PlugInUnusable if it is none, or its kinds of candidates are."""
    if not isinstance(reranker, type):
        raise PlugInUnusable(
            f"the reranker {name!r} is a {type(reranker).__name__}, and neither an Entry nor the class of a "
            "reranker"
        )
    if lacking := [member for member in (*MEMBERS, "load") if not hasattr(reranker, member)]:
        raise PlugInUnusable(
            f"the reranker {name!r} is neither an Entry nor the class of a reranker: it has no {lacking[0]}"
        )
    check_kinds(name, reranker)
    return reranker


def check_kinds(name: str, reranker: Any) -> None:
    """Raise PlugInUnusable if a reranker, or a class of them, reads or writes no kind of candidates, or
    writes passages where it reads sentences."""
    kinds = reranker.reads, reranker.writes
    if kinds not in _KINDS:
        raise PlugInUnusable(
            f"the reranker {name!r} reads {kinds[0]!r} and writes {kinds[1]!r}; it reads 'sentence' and "
            "writes 'sentence', or reads 'passage' and writes 'passage' or 'sentence'"
        )


def resolve(location: str) -> Any:
    """The object at 'module:name'. Raises PlugInUnusable if it is another package's, and cannot be
    imported."""
    module, _, name = location.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as e:  # anything may happen in the code of others
        if is_ours(module):
            raise
        raise PlugInUnusable(f"{location} cannot be imported: {said(e)}") from e
