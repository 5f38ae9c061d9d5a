"""Materials of a folder that a card describes: a checkpoint, another model, or a data set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from answermill.files.model_files import read_table
from answermill.pipelines.data.push import CARD
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.look.materials.facts import Kind, Link, Material, find, named_in
from answermill.ranking.entry import SHIPPED, shipped_checkpoints

SET_FILES = (CARD, "passages.json", "sentences.json")
OWN_LICENCE = "Apache-2.0"
_BASES = {"encoder": "begun with", "easi": "EASI begun with", "embeddings": "word vectors"}
"""Key of a training's section → the way in which the checkpoint rests on what it names."""
_PARTS = {"body": "body", "words": "word pieces"}
"""Key of config.json → the same."""
_SETTINGS = re.compile(r"```json\n(.*?)\n```", re.DOTALL)
_TRAINED = re.compile(r"^- Trained on (?P<name>.+)\. Licence of the data: (?P<licence>.+)\.$", re.MULTILINE)
_TEACHER = re.compile(r"^Learnt from (\S+) \(weights ", re.MULTILINE)
_SOURCES = re.compile(r"^## Sources and licences\n\n.*?\n\n(?P<lines>(- .*\n)*)", re.MULTILINE)


def of_model(folder: Path, name: str) -> Iterator[Material]:
    """A checkpoint or another model, and the data set that its card names. Raises JobError (65) if the head
    of its card, or its config.json, is damaged."""
    is_shipped = folder.parent == SHIPPED
    card, head, config = _card(folder), _head(folder), _config(folder)
    links = [
        *_settings_links(card, folder),
        *_config_links(config),
        *_head_links(head),
    ]
    if teacher := _TEACHER.search(card):
        links.append(Link(teacher[1], "taught by"))

    source = "LICENSE of this package" if is_shipped else f"{folder / CARD}, its head"
    licence = OWN_LICENCE if is_shipped else _licence(head)
    trained = _TRAINED.search(card)
    if trained is not None:
        links.append(Link(trained["name"], "trained on"))
    kind: Kind = "checkpoint" if "format" in config else "model"
    yield Material(name, kind, licence, source if licence else "", rests_on=_resolved(links))

    if trained is not None:
        stated = f"{name}'s card"
        links = [Link(each.name, "made of") for each in named_in(trained["name"])]
        yield Material(trained["name"], "data set", trained["licence"], stated, rests_on=tuple(links))


def of_set(folder: Path, name: str) -> Iterator[Material]:
    """A data set that `answermill publish`, `sentences` or `passages` wrote, and its sources."""
    card, head = _card(folder), _head(folder)
    section = _SOURCES.search(card)
    sources = [line.removeprefix("- ") for line in section["lines"].splitlines()] if section else []
    links = [Link(source, "source") for source in sources if source.strip() and "not stated" not in source]
    licence = _licence(head)
    yield Material(
        name, "data set", licence, f"{folder / CARD}, its head" if licence else "", "", tuple(links)
    )

    for link in links:
        _, _, stated = link.name.rpartition(": ")
        parts = tuple(Link(each.name, "names") for each in named_in(link.name))
        yield Material(
            link.name, "data set", stated if stated != link.name else "", f"{name}'s card", rests_on=parts
        )


def named(name: str) -> list[Material]:
    """What the table, or the package, has under a name, before what only that rests on; nothing if both do
    not know it."""
    if (material := find(name)) is not None:
        return [material]
    return list(of_model(SHIPPED / name, name)) if name in shipped_checkpoints() else []


def _config(folder: Path) -> Mapping[str, Any]:
    """The table in a model's config.json; an empty one without the file."""
    try:
        return read_table(folder / "config.json")
    except ValueError as e:
        raise JobError(str(e), BAD_DATA) from e


def _card(folder: Path) -> str:
    try:
        return (folder / CARD).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _head(folder: Path) -> Mapping[str, Any]:
    """The YAML that a card begins with, as the hub reads it; nothing without one."""
    text = _card(folder)
    if not text.startswith("---"):
        return {}
    from huggingface_hub import RepoCard  # takes half a second, so not at the top

    try:
        head: Mapping[str, Any] = RepoCard(text, ignore_metadata_errors=True).data.to_dict()
    except Exception as e:  # YAML's errors are those of a library below
        raise JobError(f"{folder / CARD}: its head is damaged ({e}); mend it", BAD_DATA) from e
    return head


def _licence(head: Mapping[str, Any]) -> str:
    named = head.get("license_name") if head.get("license") == "other" else None
    return str(named or head.get("license") or "")


def _settings_links(card: str, folder: Path) -> Iterator[Link]:
    """Models that the training's settings, which stand in the card, name."""
    block = _SETTINGS.search(card)
    try:
        tables = json.loads(block[1]) if block else {}
    except ValueError as e:
        raise JobError(
            f"{folder / CARD}: its settings are no JSON ({e}); copy the card again", BAD_DATA
        ) from e
    for table in filter(lambda each: isinstance(each, Mapping), tables.values()):
        yield from (Link(str(table[key]), way) for key, way in _BASES.items() if table.get(key))
        yield from (Link(str(teacher), "taught by") for teacher in table.get("teachers") or ())


def _config_links(config: Mapping[str, Any]) -> Iterator[Link]:
    """Models whose weights a checkpoint holds differences to, by its config.json."""
    for key, way in _PARTS.items():
        if isinstance(table := config.get(key), Mapping) and "model" in table:
            yield Link(str(table["model"]), way)


def _head_links(head: Mapping[str, Any]) -> Iterator[Link]:
    for key, way in (("base_model", "begun with"), ("datasets", "trained on")):
        values = head.get(key) or []
        yield from (Link(str(value), way) for value in ([values] if isinstance(values, str) else values))


def _resolved(links: list[Link]) -> tuple[Link, ...]:
    """The links by the names that the table has, each material once, in its first way."""
    named: dict[str, str] = {}
    for link in links:
        material = find(link.name)
        named.setdefault(material.name if material else link.name, link.way)
    return tuple(Link(name, way) for name, way in named.items())
