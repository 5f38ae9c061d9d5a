"""A data-set format as the package knows it: its name, its reader, its mark of recognition, and its
options."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from answermill.pipelines.data.formats.rows_in_order import Row
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns
from answermill.pipelines.data.inputs.text_lines import open_bytes
from answermill.pipelines.errors import USAGE, JobError
from answermill.schemas.labels import OPTIONAL
from answermill.schemas.plug_ins import PlugInUnusable, guarded, running

_HEAD_BYTES = 1 << 20  # less could be all one class of ASNQ
_LINE_BYTES = 1 << 25  # a line of Natural Questions is a whole page


class Options(BaseModel):
    """The options of a format. A format that has some declares a subclass, with a described field for
    each."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TableOptions(Options):
    """The options of a format that is a table with names of columns."""

    columns: Columns = Field(
        AS_NAMED, exclude=True, description="names of its columns, as `--columns` gives them"
    )


OptionsT = TypeVar("OptionsT", bound=Options)


class TableForm(NamedTuple):
    """How a data set is to be read: the name of its format, None to recognise it, and the user's names of its
    columns."""

    name: str | None = None
    columns: Columns = AS_NAMED


Form: TypeAlias = str | TableForm | None
"""The format of a data set, by its name alone or with names of columns; None to recognise it."""


def table_form(form: Form) -> TableForm:
    return form if isinstance(form, TableForm) else TableForm(form)


@dataclass(frozen=True)
class FileHead:
    """The beginning of a file, for formats to recognise their own."""

    path: Path
    text: str
    """The first MiB without its byte order mark; '' if the file is Parquet, or no UTF-8 text."""
    lines: tuple[str, ...]
    r"""The whole lines of `text` that are not blank, without \n or \r\n."""

    columns: Columns = AS_NAMED
    """The user's names of a table's columns."""

    @classmethod
    def of(cls, path: Path, columns: Columns = AS_NAMED) -> FileHead:
        """The head of a file, of which no more than the first MiB is read. A file that is Parquet, missing or
        damaged has the head of an empty one."""
        if path.name.endswith(".parquet"):
            return cls(path, "", (), columns)
        try:
            with open_bytes(path) as file:
                first = file.read(_HEAD_BYTES)
            cut = len(first) == _HEAD_BYTES
            text = first.decode("utf-8", errors="ignore" if cut else "strict").removeprefix("\ufeff")
        except (JobError, OSError, EOFError, zlib.error, UnicodeDecodeError):
            return cls(path, "", (), columns)
        lines = text.split("\n")[: -1 if cut else None]
        filled = tuple(line.removesuffix("\r") for line in lines if line.strip())
        return cls(path, text, filled, columns)

    @property
    def first_character(self) -> str:
        """The first character that is not blank; '' if there is none."""
        return self.text.lstrip()[:1]

    @cached_property
    def first_object(self) -> Mapping[str, Any]:
        """The JSON object on the first line, which may be longer than the head; empty if there is none."""
        if self.first_character != "{":
            return {}
        with open_bytes(self.path) as file:
            try:
                value = json.loads(file.readline(_LINE_BYTES))
            except (ValueError, RecursionError, OSError, EOFError, zlib.error):
                return {}
        return value if isinstance(value, dict) else {}


def _never(head: FileHead) -> bool:
    return False


@dataclass(frozen=True)
class Format(Generic[OptionsT]):
    """A data-set format; `answermill.pipelines.data.formats.FORMATS` has one line for each."""

    name: str
    about: str
    """Content of the files, in a line."""
    read: Callable[[Path, Counter[str], OptionsT], Iterator[Row]]
    """(file, counter of what is left out or decided, options) → the candidates, a question's one after the
    other."""
    options: type[OptionsT]
    recognise: Callable[[FileHead], bool] = _never
    """True for the head of a file of this format; a format without this must be given by name."""

    def parse_options(self, values: Mapping[str, Any]) -> OptionsT:
        """The options with these values, which may be text. Raises JobError (2) if one is unknown or
        wrong."""
        try:
            return self.options(**{name.replace("-", "_"): value for name, value in values.items()})
        except ValidationError as e:
            error = e.errors()[0]
            name = str(error["loc"][0])
            known = "; ".join(self.describe_options()) or "none"
            if name not in self.options.model_fields:
                raise JobError(
                    f"{_flag(name)}: {self.name} has no such option; its options: {known}", USAGE
                ) from e
            problem = f"{_flag(name)} {error['input']}: {error['msg'][:1].lower()}{error['msg'][1:]}"
            raise JobError(f"{problem}; options of {self.name}: {known}", USAGE) from e

    def describe_options(self) -> list[str]:
        """A line for each option: its name, its meaning and its default."""
        fields = self.options.model_fields.items()
        return [
            f"{_flag(name)}: {field.description} (default: {_default(field.default)})"
            for name, field in fields
            if not field.exclude
        ]


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _default(value: object) -> str:
    return "none" if value is None else str(value)


_TEXTS = ("question_id", "question", "text", "doc_id", "title")


def plugged_in(name: str, added: object) -> Format[Any]:
    """The format under this name. Raises PlugInUnusable if it is none; what it gives later raises
    PlugInFailed, with the file and the place of a row."""
    if not isinstance(added, Format):
        raise PlugInUnusable(f"the data-set format {name!r} is a {type(added).__name__}, and no Format")
    if not (isinstance(added.options, type) and issubclass(added.options, Options)):
        raise PlugInUnusable(
            f"the data-set format {name!r} names {added.options!r} as its options; they are Options, or a "
            "subclass"
        )

    def read(path: Path, counted: Counter[str], options: Options) -> Iterator[Row]:
        module = getattr(added.read, "__module__", "") or ""
        with running(f"{path}: the data-set format {name!r}", module):
            for row in added.read(path, counted, options):
                _check_row(row)
                yield row

    recognise = guarded(f"the data-set format {name!r} looks at a file", added.recognise, object)
    return replace(added, name=name, read=read, recognise=recognise)


def _check_row(row: object) -> None:
    """Raises TypeError or ValueError if this is no row that can be a candidate."""
    if not isinstance(row, Row):
        raise TypeError(f"it gave a {type(row).__name__}, and no Row")
    texts = [(name, getattr(row, name)) for name in _TEXTS]
    for name, text in [*texts, ("candidate_id", "" if row.candidate_id is None else row.candidate_id)]:
        if not isinstance(text, str):
            raise TypeError(f"row {row.where}: {name} is {text!r:.40}, and no text")
        if not _is_unicode(text):
            raise ValueError(f"row {row.where}: {name} has half a surrogate pair")
    if row.label not in (0, 1):
        raise ValueError(f"row {row.where}: label is {row.label!r:.40}, and neither 1 nor 0")
    if unknown := [name for name in row.optional if name not in OPTIONAL]:
        raise ValueError(
            f"row {row.where}: no column {unknown[0]!r}; optional ones are {', '.join(OPTIONAL)}"
        )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
