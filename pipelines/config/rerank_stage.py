"""A stage of the rerank plan in a job file; its reranker's entry in the registry declares its keys.

Nothing here imports a reranker: entries name their settings, and those import no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import PlainValidator, SerializeAsAny

from answermill.ranking.entry import StageSettings
from answermill.ranking.rerankers.registry import find, known


def stage_of(table: Any) -> StageSettings:
    """A table of `rerank.stages`, as the settings of its reranker. Raises ValueError if it is unknown or a
    key is wrong."""
    if isinstance(table, StageSettings):
        return table
    return settings_of(table).model_validate(table)


RerankStage: TypeAlias = SerializeAsAny[Annotated[StageSettings, PlainValidator(stage_of)]]
"""Type of a field that holds a stage."""


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
