"""Export files as rows with their places: a JSON list, JSON lines, JSON objects over several lines, or CSV,
plain or gzip, one row in memory at a time.

UTF-8 with or without its mark, or UTF-16 with it. A file that was cut off is an error with the place, never
fewer rows.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeAlias

import ijson

from answermill.pipelines.data.annotation_tools.spreadsheet import unquote
from answermill.pipelines.data.annotation_tools.tool import FileKind
from answermill.pipelines.data.inputs.columns import AS_NAMED, EXPORTS, Columns
from answermill.pipelines.data.inputs.table_rows import header_names
from answermill.pipelines.data.inputs.text_lines import (
    SEPARATOR_LINE,
    bad,
    csv_reader,
    refuse_half_pairs,
    refuse_other_kinds,
)
from answermill.pipelines.errors import BAD_DATA, JobError, check_file

NumberedRow: TypeAlias = tuple[int, Mapping[str, Any]]
"""(place, values) of a row; the place is the line in JSON lines and CSV, the number of the record in a JSON
list; from 1."""
AGAIN = "export it again, whole"
CHUNK = 1 << 16
_NO_JSON = re.compile(r"\b(?:NaN|-?Infinity)\b")
DEEPEST = 100
"""Levels of lists and objects in a record; no tool writes more than ten."""


class ExportFile:
    """A file of rows. `position`: number of its `size` bytes that have been read."""

    def __init__(self, path: Path, columns: Columns = AS_NAMED) -> None:
        """Finds out the kind of the file. `columns`: the user's names of those of CSVs, of which this one may
        have others. Raises JobError: 66 if it is missing, 65 if it cannot be read."""
        columns.refuse_others(EXPORTS)
        in_small_letters = {name: column.casefold() for name, column in columns.named.items()}
        self._columns = replace(columns, named=in_small_letters, are_of_several=True)
        self.columns: list[str] = []
        """Those of a CSV, in small letters, once it is read."""
        check_file(path)
        self.path, self.size, self.position = path, path.stat().st_size, 0
        self._where, self._unit = 0, "line"
        with path.open("rb") as file:
            refuse_other_kinds(path, file.read(16))
        with self._text("") as text:
            first = ""
            while not first and (chunk := text.read(CHUNK)):
                first = chunk.lstrip()[:1]
        self.kind: FileKind = "list" if first == "[" else "lines" if first == "{" else "csv"
        self._is_list = self.kind == "list"
        if self.kind == "lines" and self._goes_on():
            self.kind = "list"

    def rows(self) -> Iterator[NumberedRow]:
        """All rows. Raises JobError (65) with the place where one is broken or the file is cut off."""
        rows = {"list": self._list, "lines": self._lines, "csv": self._csv}[self.kind]
        self._where, self._unit = 0, "record" if self.kind == "list" else "line"
        with self._text("" if self.kind == "csv" else "\n") as text:
            yield from rows(text)

    def _goes_on(self) -> bool:
        """True if the first object goes on in the second line, which begins no other object."""
        with self._text("\n") as text:
            filled = (line.strip() for line in text if line.strip())
            first, second = next(filled), next(filled, "{")
            return not first.endswith("}") and not second.startswith("{")

    @contextmanager
    def _text(self, newline: str) -> Iterator[IO[str]]:
        with self.path.open("rb") as raw:
            self._raw = raw
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            try:
                binary = gzip.GzipFile(fileobj=raw) if packed else raw
                marked = binary.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff")
                yield io.TextIOWrapper(binary, "utf-16" if marked else "utf-8-sig", newline=newline)
            except UnicodeDecodeError as e:
                problem = "it is not UTF-8, or ends within a character; a spreadsheet saves it as 'CSV UTF-8'"
                raise self._bad(f"{problem}; {AGAIN} ({e.reason})") from e
            except (EOFError, gzip.BadGzipFile, zlib.error) as e:
                raise self._bad(f"the gzip breaks off here or is damaged; {AGAIN} ({e})") from e

    def bad(self, where: int, what: str) -> JobError:
        """An error about the row at this place."""
        return (
            bad(self.path, where, what)
            if self._unit == "line"
            else JobError(f"{self.path}: record {where}: {what}", BAD_DATA)
        )

    def _bad(self, what: str) -> JobError:
        """An error about the text after the last whole row."""
        return self.bad(self._where + 1, what)

    def _at(self, where: int) -> None:
        self._where, self.position = where, self._raw.tell()

    def _lines(self, text: IO[str]) -> Iterator[NumberedRow]:
        for line, line_text in enumerate(text, 1):
            if line_text.strip():
                try:
                    row = json.loads(line_text)
                except (ValueError, RecursionError) as e:
                    raise bad(
                        self.path, line, f"no whole JSON object; is the file cut off here? {AGAIN} ({e})"
                    ) from e
                refuse_half_pairs(self.path, line, line_text, row)
                yield line, self._object(row)
            self._at(line)

    def _list(self, text: IO[str]) -> Iterator[NumberedRow]:
        events = _Events(text, is_one=self._is_list)
        try:
            rows = ijson.items(ijson.parse(self._shallow(events)), "item" if self._is_list else "")
            for number, row in enumerate(rows, 1):
                yield number, self._object(row)
                self._at(number)
        except ijson.JSONError as e:
            problem, _, excerpt = str(e).partition("\n")
            near = f", near {line!r}" if (line := excerpt.partition("\n")[0].strip()) else ""
            place = f"before character {events.characters:,}"
            why = f"is the file cut off here? {AGAIN}"
            if no_json := _NO_JSON.search(excerpt):
                why = f"{no_json[0]} is no value of JSON: write null in its place"
            raise self._bad(f"{place}: {problem}{near}; {why}") from e
        except OverflowError as e:
            raise self._bad(f"{e}; {AGAIN}") from e

    def _shallow(self, events: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        """The same events. Raises JobError (65) if they are nested deeper than DEEPEST: memory grows with the
        square of the depth."""
        depth = 0
        for event in events:
            if event[0] in ("start_array", "start_map"):
                depth += 1
                if depth > DEEPEST:
                    raise self._bad(f"lists or objects {DEEPEST} deep in each other; no export that is known")
            elif event[0] in ("end_array", "end_map"):
                depth -= 1
            yield event

    def _object(self, row: Any) -> Mapping[str, Any]:
        if not isinstance(row, dict):
            raise self._bad(f"not a JSON object: {str(row)[:60]}; no export that is known")
        return row

    def _csv(self, text: IO[str]) -> Iterator[NumberedRow]:
        lines = _Lines(text)
        before, header = 1, next(lines, "")
        if SEPARATOR_LINE.fullmatch(header.strip()):  # Excel's, which says what the header shows too
            before, header = 2, next(lines, "")
        names, delimiter = self._header(header)
        reader = csv_reader(lines, delimiter)
        began = before + 1
        try:
            for cells in reader:
                if any(cells):
                    yield began, self._cells(names, cells, began, lines)
                self._at(reader.line_num + before)
                began = reader.line_num + before + 1
        except csv.Error as e:
            raise bad(self.path, began, f"this row has no end, or its quotes are wrong ({e}); {AGAIN}") from e

    def _header(self, line: str) -> tuple[list[str], str]:
        """The field of each column, as `_fields`, and the separator of cells: a comma, a spreadsheet's
        semicolon or a tab."""
        for delimiter in ",;\t":
            names = [
                unquote(name).strip().casefold() for name in next(csv.reader([line], delimiter=delimiter), [])
            ]
            if "task_id" in self._columns.find(EXPORTS, names):
                return self._fields(names), delimiter
        if not line.strip():
            raise JobError(f"{self.path}: no record in it; leave it out, or export again", BAD_DATA)
        problem = f"no column task_id in the header, and no JSON: {line.strip()[:80]}"
        names_kept = "task_id, text_hash, label, annotator"
        raise bad(
            self.path,
            1,
            f"{problem}; the pack's columns {names_kept} must keep their names, or be named by --columns",
        )

    def _fields(self, columns: list[str]) -> list[str]:
        """The field that each column holds, or its own name; '' of one that another was named in place of.
        Raises JobError (65) if a column comes twice, or two may be the label."""
        self.columns = list(header_names(self.path, 1, columns))
        column_of = self._columns.find(EXPORTS, self.columns)
        labels = [column for column in self.columns if column in EXPORTS.fields["label"]]
        if len(labels) > 1 and column_of["label"] not in self._columns.named.values():
            either = " or ".join(f"{self._columns.key} label={column}" for column in labels)
            raise bad(self.path, 1, f"{' and '.join(labels)}: either may be the label; write {either}")

        field_of = {column: field for field, column in column_of.items()}
        usual = set(chain(*EXPORTS.fields.values()))
        return [field_of.get(column, "" if column in usual else column) for column in self.columns]

    def _cells(self, names: list[str], cells: list[str], line: int, lines: _Lines) -> Mapping[str, str]:
        """A row; cells that a spreadsheet left out at its end are empty, unless the file ends in the middle
        of them."""
        if len(cells) > len(names) and any(cells[len(names) :]):
            raise bad(self.path, line, f"{len(cells)} cells where the header has {len(names)}; {AGAIN}")
        if len(cells) < len(names) and not lines.ended:
            raise bad(self.path, line, f"the file ends after {len(cells)} of {len(names)} cells; {AGAIN}")
        return {
            name: unquote(cell)
            for name, cell in zip(names, cells + [""] * (len(names) - len(cells)), strict=False)
            if name
        }


class _Events:
    """What ijson reports of a text of JSON; `characters` is the number of those read so far.

    ijson 3.6 makes an event without a value of a whole number that Python refuses to read, one of 4,301
    digits or more, and a look at it ends the process. So events are taken from its parser, which says
    that something went wrong before they are looked at.
    """

    def __init__(self, text: IO[str], is_one: bool) -> None:
        """`is_one`: the text is one value, not several after each other."""
        self._text, self._is_one, self.characters = text, is_one, 0

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """The events, those before a fault first. Raises ijson.JSONError, or OverflowError of a number."""
        events = ijson.sendable_list()
        parser = ijson.basic_parse_coro(events, multiple_values=not self._is_one)
        chunk = " "
        while chunk:
            chunk = self._text.read(CHUNK)
            self.characters += len(chunk)
            try:
                parser.send(chunk.encode()) if chunk else parser.close()
            except ijson.JSONError:
                yield from events
                raise
            except (ValueError, ArithmeticError, SystemError) as e:
                yield from events[:-1]  # the last one is the number's, and has no value
                raise OverflowError("a number that is too long to be read") from e
            yield from events
            events.clear()


class _Lines:
    r"""A text's lines; `ended`: True if the last one had its line end. Where the first line ends in \n or
    \r\n, a \r alone is a blank: pandas writes it without the quotes that CSV has around a line end."""

    def __init__(self, text: IO[str]) -> None:
        self._text, self.ended = text, True
        self._ends: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline()
        if not line:
            raise StopIteration
        self._ends = self._ends or (("\n",) if line.endswith("\n") else ("\n", "\r"))
        while line.endswith("\r") and "\r" not in self._ends:
            line = f"{line[:-1]} {self._text.readline()}"
        self.ended = line.endswith(self._ends)
        return line
