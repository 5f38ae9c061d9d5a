"""A TOML file of settings → a checked, frozen section: overrides laid over it, dates filled in, its keys
listed, its mistakes explained."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, PrivateAttr, ValidationError
from pydantic.fields import FieldInfo

from answermill.files.remote import as_path
from answermill.files.store import fetch, fetch_tree, store_of
from answermill.pipelines.config.rerank_section import further_keys, settings_of, with_stages
from answermill.pipelines.errors import SETTINGS, JobError, no_file, setting_error
from answermill.pipelines.specs.shipped_plans import SHIPPED, shipped_file
from answermill.ranking.entry import StageSettings
from answermill.schemas import plug_ins
from answermill.schemas.section import Section

LATEST = "latest"
"""Value of a key `since`: the last good run in the folder that the run is in."""
_DATE = re.compile(r"\{date(?::([^{}]*))?\}")


class SettingsFile(Section):
    """A whole file of settings. Paths in it are relative to the file's folder, or URLs."""

    _folder: Path = PrivateAttr(Path())

    @property
    def folder(self) -> Path:
        """The folder that holds the file."""
        return self._folder

    def path(self, written: str) -> Path:
        """A path that is written in the file, as this process reaches it; or a fitted file that ships, such
        as 'shipped:first'. Raises JobError (78) if none of that name ships."""
        if written.startswith(SHIPPED):
            try:
                return shipped_file(written)
            except ValueError as e:
                raise setting_error(e) from e
        path = as_path(written)
        if path.is_absolute():
            return path
        joined = self._folder / path
        return joined if store_of(joined).is_local else joined.resolve()

    def file(self, written: str) -> Path:
        """A file that is named in the file, or this machine's copy of it."""
        return fetch(self.path(written))

    def tree(self, written: str) -> Path:
        """A folder that is named in the file, or this machine's copy of it."""
        return fetch_tree(self.path(written))


F = TypeVar("F", bound=SettingsFile)


def read(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The tables of a TOML file, with `overrides` like 'index.shards=4' or 'rerank.stages.0.keep=20' laid
    over them.

    Raises JobError: 66 if there is no such file, 78 if it is not TOML, or if an override does not fit;
    OSError if it cannot be read.
    """
    try:
        settings = tomllib.loads(as_path(path).read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise no_file(
            path,
            advice="`answermill recipe job` writes a job for your pages, `answermill sample` one for its "
            "own, `answermill recipe peasi` a training file",
        ) from None
    except (ValueError, RecursionError) as e:  # no TOML, not UTF-8, numbers too long, brackets too deep
        raise JobError(f"{path}: not valid TOML: {e}", SETTINGS) from e

    lay_over(settings, overrides)
    return settings


def read_with_plan(path: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """A job file's settings with `overrides` laid over them: those of stages change the stages of the plan
    that the file, or one of them, names. Raises JobError as `read`; 78 if no such plan ships."""
    of_plan = [override for override in overrides if override.startswith("rerank.plan=")]
    settings = read(path, of_plan)

    section = settings.get("rerank")
    changes_stages = any(override.startswith("rerank.stages.") for override in overrides)
    if changes_stages and isinstance(section, dict) and "plan" in section:
        try:
            settings["rerank"] = {**with_stages(section), "plan": None}
        except ValueError as e:
            raise setting_error(e, f"{path}: rerank") from e

    lay_over(settings, [override for override in overrides if override not in of_plan])
    return settings


def lay_over(settings: dict[str, Any], overrides: Sequence[str]) -> None:
    """Change the settings to what the overrides say. Raises JobError (78) if one does not fit."""
    for override in overrides:
        _override(settings, override)


def filled(
    settings: Mapping[str, Any], latest: Callable[[], str | None], today: Callable[[], date]
) -> dict[str, Any]:
    """The settings with their date, and with a run in place of `since = "latest"`; None takes nothing over.
    Both are asked for where they are needed. Raises as `date_of`."""
    filled_in: dict[str, Any] = dated(settings, lambda: date_of(settings, today))
    for section in filled_in.values():
        if isinstance(section, dict) and section.get("since") == LATEST:
            section["since"] = latest()
    return filled_in


def utc_today() -> date:
    return datetime.now(UTC).date()


def date_of(settings: Mapping[str, Any], today: Callable[[], date] = utc_today) -> date:
    """The date of a job: its key `date`, else `today`. Raises JobError (78) if the key has no date."""
    written = settings.get("date")
    if written is None:
        return today()
    if not isinstance(written, date) or isinstance(written, datetime):
        raise JobError(f"date: give a date without quotes, such as 2026-01-31, not {written!r}", SETTINGS)
    return written


def dated(value: Any, day: Callable[[], date]) -> Any:
    """The value, and all that it holds, in which the day stands in place of `{date}` and `{date:FORMAT}`.

    >>> dated({"input": ["crawl/{date}/*.warc.gz", "{date:%Y/%m}"], "depth": 20}, lambda: date(2026, 1, 31))
    {'input': ['crawl/2026-01-31/*.warc.gz', '2026/01'], 'depth': 20}
    """
    if isinstance(value, str):
        return _DATE.sub(lambda match: day().strftime(match[1] or "%Y-%m-%d"), value)
    if isinstance(value, Mapping):
        return {key: dated(inner, day) for key, inner in value.items()}
    return [dated(inner, day) for inner in value] if isinstance(value, list) else value


def check(settings: Mapping[str, Any], kind: type[F], path: Path) -> F:
    """The tables of the file at `path`, checked. Raises JobError (78) with a line for each key or value that
    is wrong."""
    folder = as_path(path).resolve().parent
    if store_of(folder).is_local:
        plug_ins.look_in(folder)

    try:
        checked = kind.model_validate(settings)
    except ValidationError as e:
        raise JobError(
            "\n".join(f"{path}: {explain(error, kind, settings)}" for error in e.errors()), SETTINGS
        ) from e
    checked._folder = folder
    return checked


def keys(kind: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    """Every key of a kind of file: (key, type, default, meaning)."""
    yield from _keys(kind, "")


def _keys(section: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    for name, field in section.model_fields.items():
        inner = _section(field.annotation)
        if inner is not None:
            repeated = "[]" if "list" in str(field.annotation) else ""
            yield from _keys(inner, f"{prefix}{name}{repeated}.")
            if inner is StageSettings:
                for settings, key, rerankers in further_keys():
                    _, kind, default, meaning = _key(key, settings.model_fields[key])
                    yield (
                        f"{prefix}{name}{repeated}.{key}",
                        kind,
                        default,
                        f"{', '.join(rerankers)}: {meaning}",
                    )
            continue

        key, kind, default, meaning = _key(name, field)
        yield prefix + key, kind, default, meaning


def _key(name: str, field: FieldInfo) -> tuple[str, str, str, str]:
    """A field's name, type, default and meaning."""
    return (
        name,
        _written(field.annotation),
        "required" if field.is_required() else repr(field.default),
        field.description or "",
    )


def _written(annotation: Any) -> str:
    """A type as people write it, without its bounds: `list[int]`, `'auto' or 'cpu'`, `float or None`."""
    inner = get_args(annotation)
    match get_origin(annotation):
        case None:
            return "None" if annotation is type(None) else annotation.__name__
        case typing.Annotated:
            return _written(inner[0])
        case typing.Literal:
            return " or ".join(map(repr, inner))
        case typing.Union | types.UnionType:
            return " or ".join(map(_written, inner))
        case origin:
            return f"{origin.__name__}[{', '.join(map(_written, inner))}]"


def _section(annotation: Any) -> type[BaseModel] | None:
    """The Section inside an annotation such as `Ingest | None` or `Annotated[list[StageSettings], …]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    sections = (_section(inner) for inner in getattr(annotation, "__args__", ()))
    return next((section for section in sections if section), None)


def _override(settings: dict[str, Any], override: str) -> None:
    key, equals, written = override.partition("=")
    if not equals or not key:
        raise JobError(f"--set {override}: write key=value, e.g. --set index.shards=4", SETTINGS)

    try:
        value = tomllib.loads(f"value = {written}")["value"]
    except (ValueError, RecursionError):
        value = written

    *parents, last = key.split(".")
    place: Any = settings
    for depth, name in enumerate(parents):
        if isinstance(place, list):
            place = place[_position(place, name, override)]
        elif isinstance(place, dict):
            place = place.setdefault(name, {})
        else:
            raise JobError(
                f"--set {override}: {'.'.join(parents[:depth])} is a value, not a section", SETTINGS
            )

    if isinstance(place, list):
        place[_position(place, last, override)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise JobError(f"--set {override}: {'.'.join(parents)} is a value, not a section", SETTINGS)


def _position(values: list[Any], name: str, override: str) -> int:
    if not name.isdecimal() or int(name) >= len(values):
        raise JobError(
            f"--set {override}: no item {name!r}; the job has {len(values)}, counted from 0", SETTINGS
        )
    return int(name)


def explain(error: Mapping[str, Any], kind: type[BaseModel], settings: Any) -> str:
    """One line for one pydantic error in `settings`: the key, what is wrong with it, and the nearest known
    key."""
    location = error["loc"]
    where = ".".join(map(str, location)) or "job"
    if error["type"] == "extra_forbidden":
        # A section that is chosen by its content lists its own keys.
        context = error.get("ctx", {})
        known = context.get("known") or list(_fields_at(kind, location[:-1], settings))
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.4)
        meant = context.get("hint", f"; did you mean {near[0]!r}?" if near else ".")
        return f"unknown key {where}{meant} Known here: {', '.join(known)}"

    if error["type"] == "missing":
        return f"{where} is missing"

    message, value = error["msg"].removeprefix("Value error, "), repr(error["input"])
    is_said = isinstance(error["input"], dict) or value in message
    needs_list = error["type"] in ("list_type", "tuple_type") and isinstance(error["input"], str)
    advice = f"; write [{json.dumps(error['input'], ensure_ascii=False)}]" if needs_list else ""
    return f"{where}: {message}" + ("" if is_said else f", not {value}") + advice


def _fields_at(section: type[BaseModel], location: Sequence[str | int], settings: Any) -> Sequence[str]:
    """The keys of the section at that location of the settings."""
    for name in location:
        settings = settings[name]
        if section is StageSettings:
            section = settings_of(settings)
        elif isinstance(name, str) and name in section.model_fields:
            section = _section(section.model_fields[name].annotation) or section
    return list(section.model_fields)
