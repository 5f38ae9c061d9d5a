"""What the registry knows of a reranker before it is loaded: its settings, its checkpoint, its training.

A method's package declares its entries in its `__init__.py`, which imports neither torch nor its own model: a job file is
checked, and `--help` answers, without them. `ranking/registry.py` has one line per package.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from schemas.section import Section

if TYPE_CHECKING:
    from ranking.reranker import Reranker


class StageSettings(Section):
    """One stage of the rerank plan. A reranker with keys of its own has a subclass that adds them."""

    reranker: str = Field(description="name in the registry, e.g. 'overlap'")
    name: str = Field("", description="key of its scores; the reranker's name if empty")
    keep: int | None = Field(None, ge=1, description="candidates kept per question; all if absent")
    checkpoint: str | None = Field(None, description="model folder, for rerankers that have one; the shipped one if absent")

    @property
    def key(self) -> str:
        """The stage's name in a plan: the key of its scores."""
        return self.name or self.reranker


@dataclass(frozen=True, slots=True)
class Training:
    """How a reranker's checkpoint is trained: a section of the training file, and the task that it builds."""

    section: str
    """Key of the section in a training file; rerankers that share one are told apart by its key `reranker`."""
    settings: type[Section]
    task: str
    """'module:function', called with a `ranking.training.inputs.TrainingInputs`; returns (Task, Dev, a line for people)."""
    learns_from: Literal["candidates", "passages"] = "candidates"


@dataclass(frozen=True, slots=True)
class Entry:
    """A reranker's line in the registry."""

    name: str
    """Of the reranker in job files; equal to the class' `name`."""
    reranker: str
    """'module:Class', loaded when a plan needs it. Constants of the code: configuration never names a module."""
    settings: type[StageSettings] = StageSettings
    checkpoint: str | None = None
    """Name of its checkpoint format, and of its folder in `ranking/checkpoints` if one is shipped; None if it has no model."""
    reads_scores: tuple[str, ...] = ()
    """Rerankers whose scores it uses where a stage before it has given them."""
    training: Training | None = None

    def load(self) -> type[Reranker]:
        """The reranker's class."""
        reranker: type[Reranker] = resolve(self.reranker)
        return reranker


def resolve(location: str) -> Any:
    """The object at 'module:name'."""
    module, _, name = location.partition(":")
    return getattr(importlib.import_module(module), name)
