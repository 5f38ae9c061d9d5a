r"""Text files that people write, read by all commands in one way: UTF-8 with or without a byte order mark,
plain or gzip, in lines that end in \n or \r\n. A line that cannot be read is refused with the file and its
number, never skipped.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, cast

from answermill.files.store import fetch
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError

_IN_QUOTES = re.compile(r'"(?:[^"]|"")*"')
_DOUBLED = re.compile(r'"(?:[^"]*"")+[^"]*"')


def bad(path: Path, where: int | str, problem: str) -> JobError:
    """An error (65) about a place in a file: its line, from 1, or its path in a JSON file."""
    return JobError(f"{path}:{where}: {problem}", BAD_DATA)


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked if it is gzip, whatever its name. Raises JobError (66) if it is missing."""
    if not path.is_file():
        raise JobError(f"{path}: no such file", INPUT_MISSING)
    path = fetch(path)
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path)) if packed else path.open("rb")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""(line from 1, text without its \n or \r\n). Only \n ends a line: sentences hold lone \r and Unicode's
    separators.

    Raises JobError: 66 if the file is missing; 65, with the line, if it is not UTF-8 or its gzip is damaged.
    """
    number = 0
    with open_bytes(path) as file:
        try:
            for number, raw in enumerate(file, 1):
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as e:
            raise bad(
                path, number, f"byte {e.start + 1} of the line is not UTF-8; save the file as UTF-8"
            ) from e
        except (gzip.BadGzipFile, EOFError, zlib.error) as e:
            raise bad(path, number + 1, f"broken gzip: {e}") from e


def tab_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line from 1, cells) of a table with tabs. Raises JobError as `lines` and `tab_cells`."""
    return tab_cells(path, lines(path))


def tab_cells(path: Path, numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """(line, cells between tabs) of the lines, from the first, that have a filled cell.

    Quotes are text, with two exceptions, since spreadsheets and pandas write tables with the quotes of CSV:
    in a table whose first line has all its cells in quotes, those of every cell are taken off; and in other
    tables those of a cell whose inner quotes are all doubled, as in "What is ""mycelium""?". Raises JobError
    (65), with the line, if a table in quotes has a cell that goes on in the next line, or text beside its
    quotes.
    """
    in_quotes: bool | None = None
    for number, text in numbered:
        cells = text.split("\t")
        if not any(cells):
            continue
        if in_quotes is None:
            in_quotes = all(_IN_QUOTES.fullmatch(cell) for cell in cells if cell)
        if in_quotes:
            try:
                cells = next(csv.reader([text], delimiter="\t", strict=True))
            except csv.Error as e:
                problem = f"this table has its cells in quotes, and those of this line do not match ({e})"
                raise bad(path, number, f"{problem}; write each row in one line, or without quotes") from e
        elif '""' in text:
            cells = [cell[1:-1].replace('""', '"') if _DOUBLED.fullmatch(cell) else cell for cell in cells]
        yield number, cells


def csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line in which it begins, from 1, cells) of the rows of a CSV that have a filled cell.

    Commas are between cells; or semicolons, as some spreadsheets write, if the first line has no comma. Cells
    in quotes may hold them, and line ends.

    Raises JobError as `lines`, and 65 with the row's line if its quotes do not match.
    """
    numbered = lines(path)
    first = list(islice(numbered, 1))
    separator = ";" if first and ";" in first[0][1] and "," not in first[0][1] else ","
    texts = (f"{text}\n" for _, text in chain(first, numbered))
    reader = csv.reader(texts, delimiter=separator, strict=True)
    began = 1
    try:
        for cells in reader:
            if any(cells):
                yield began, cells
            began = reader.line_num + 1
    except csv.Error as e:
        problem = f"this row has no end, or its quotes do not match ({e})"
        raise bad(path, began, f"{problem}; put the whole cell in quotes, and double those in it") from e


def parse_json(path: Path, text: str, first_line: int = 1) -> Any:
    """The value of a JSON text that begins at `first_line` of the file.

    Raises JobError (65) if it is not JSON, is nested too deeply, or holds half a surrogate pair, which no
    UTF-8 file can hold.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as e:
        problem = f"not JSON: {e.msg} at column {e.colno}{_over_lines(path, text)}"
        raise bad(path, first_line + e.lineno - 1, problem) from e
    except ValueError as e:  # a number of thousands of digits
        raise bad(path, first_line, f"not JSON that can be read: {e}") from e
    except RecursionError as e:
        raise bad(path, first_line, "brackets in brackets, too deep to be read") from e
    refuse_half_pairs(path, first_line, text, value)
    return value


def refuse_half_pairs(path: Path, line: int, text: str, value: Any) -> None:
    """Raise JobError (65) if the value of a JSON text holds half a surrogate pair."""
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as e:
            raise bad(
                path, line, f"half a surrogate pair, \\u{ord(e.object[e.start]):04x}, which is no character"
            ) from e


def json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line from 1, object), one in memory at a time; empty lines are no rows."""
    for line, text in lines(path):
        if text.strip():
            row = parse_json(path, text, line)
            if not isinstance(row, dict):
                raise bad(path, line, f"not a JSON object: {text.strip()[:60]}{_over_lines(path, text)}")
            yield line, row


def _over_lines(path: Path, text: str) -> str:
    """Advice about a line that begins a list, or an object that goes on in the next line; '' of others."""
    start = text.strip()
    if start.startswith("["):
        return (
            f"; the file is a list: write each of its objects on a line, e.g. with `jq -c '.[]' {path.name}`"
        )
    if start.startswith("{") and not start.endswith("}"):
        name = path.name
        return f"; if the object goes on in the next lines, write it on one, e.g. with `jq -c . {name}`"
    return ""
