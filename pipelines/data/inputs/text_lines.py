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
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

from answermill.files.store import fetch
from answermill.indexing.crawl.raw_page import MAX_BODY
from answermill.pipelines.errors import BAD_DATA, JobError, check_file

_IN_QUOTES = re.compile(r'"(?:[^"]|"")*"')
_QUOTED = re.compile(r'"(?:[^"]*"")+[^"]*"|"[^"\r]*\r[^"]*"')  # for what is in it: quotes, or a line end
_EMPTY = ('""', r"\N")  # a cell that DuckDB and Polars, or databases, leave empty in a table with tabs
_SEPARATOR = re.compile("[,;\t]")
SEPARATOR_LINE = re.compile('"?sep=([,;|\t])?"?', re.IGNORECASE)
"""A first line that Excel reads; a tab at its end may be lost."""
_OTHER_KINDS = (
    (re.compile(rb"PK\x03\x04|\xd0\xcf\x11\xe0"), "a spreadsheet or ZIP file", "save it as CSV UTF-8"),
    (re.compile(rb"PAR1\x15"), "Parquet", "save it as CSV, or name it .parquet where that is read"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "packed by bzip2", "unpack it, or pack it with gzip"),
    (re.compile(rb"\xfd7zXZ\x00"), "packed by xz", "unpack it, or pack it with gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "packed by Zstandard", "unpack it, or pack it with gzip"),
)


def bad(path: Path, where: int | str, problem: str) -> JobError:
    """An error (65) about a place in a file: its line, from 1, or its path in a JSON file."""
    return JobError(f"{path}:{where}: {problem}", BAD_DATA)


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked if it is gzip, whatever its name. Raises JobError: 66 if it is missing, 65
    as `refuse_other_kinds`."""
    check_file(path)
    local = fetch(path)
    with local.open("rb") as file:
        head = file.read(16)
    refuse_other_kinds(path, head)
    return cast(IO[bytes], gzip.open(local)) if head.startswith(b"\x1f\x8b") else local.open("rb")


def refuse_other_kinds(path: Path, head: bytes) -> None:
    """Raise JobError (65) if the first bytes of a file are those of a spreadsheet, of Parquet, or of a
    packer that is not read, whatever the file's name."""
    for start, kind, advice in _OTHER_KINDS:
        if start.match(head):
            raise JobError(f"{path}: this file is no text: it is {kind}; {advice}", BAD_DATA)


def lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""(line from 1, text without its \n or \r\n). Only \n ends a line: sentences hold lone \r and Unicode's
    separators. Raises JobError as `_lines_with_cr`."""
    for number, text in _lines_with_cr(path):
        yield number, text.removesuffix("\r")


def _lines_with_cr(path: Path) -> Iterator[tuple[int, str]]:
    r"""(line from 1, text without its \n).

    Raises JobError: 66 if the file is missing; 65, with the line, if it is not UTF-8, its gzip is damaged, or
    its lines end in \r alone, so that it has but one.
    """
    number = 0
    with open_bytes(path) as file:
        try:
            for number, raw in enumerate(file, 1):
                if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise bad(path, 1, "this file is UTF-16; save it as UTF-8")
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                if number == 1 and not text.endswith("\n") and "\r" in text.removesuffix("\r"):
                    problem = "the lines of this file end in \\r alone, as on old Macs"
                    raise bad(path, 1, f"{problem}; save it with the line ends of Unix or Windows")
                yield number, text.removesuffix("\n")
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
    r"""(line, cells between tabs) of the lines, from the first, that have a filled cell.

    Quotes are text, with two exceptions, since spreadsheets and pandas write tables with the quotes of CSV:
    in a table whose first line has all its cells in quotes, those of every cell are taken off; and in other
    tables those of a cell with a \r in it, or whose inner quotes are all doubled, as in "What is
    ""mycelium""?". There "" and databases' \N are empty cells.

    Raises JobError (65), with the line, if a table in quotes has a cell that goes on in the next line, or
    text beside its quotes.
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
                cells = next(csv_reader([text], "\t"))
            except csv.Error as e:
                problem = f"this table has its cells in quotes, and those of this line do not match ({e})"
                raise bad(path, number, f"{problem}; write each row in one line, or without quotes") from e
        elif any(mark in text for mark in (*_EMPTY, "\r")):
            cells = [_plain_cell(cell) for cell in cells]
        yield number, cells


def _plain_cell(cell: str) -> str:
    r"""A cell of a table without quotes: its text, '' if it is written as empty.

    >>> [_plain_cell(cell) for cell in ('"a ""b"" c"', '"a\rb"', '"a"', '""', r"\N")]
    ['a "b" c', 'a\rb', '"a"', '', '']
    """
    if cell in _EMPTY:
        return ""
    return cell[1:-1].replace('""', '"') if _QUOTED.fullmatch(cell) else cell


def csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line in which it begins, from 1, cells) of the rows of a CSV that have a filled cell.

    What is between cells: see `separator_of`; or a first line such as 'sep=;' says it, which is no row. Cells
    in quotes may hold them, and line ends.

    Raises JobError as `lines`, and 65 with the row's line if its quotes do not match.
    """
    numbered = _lines_with_cr(path)  # a cell may hold \r\n
    _, first = next(numbered, (1, ""))
    named = SEPARATOR_LINE.fullmatch(first.rstrip("\r"))
    texts = (f"{text}\n" for _, text in (numbered if named else chain([(1, first)], numbered)))
    reader = csv_reader(texts, (named[1] or "\t") if named else separator_of(first))
    began = start = 2 if named else 1
    try:
        for cells in reader:
            if any(cells):
                yield began, cells
            began = reader.line_num + start
    except csv.Error as e:
        problem = f"this row has no end, or its quotes do not match ({e})"
        if "new-line" in str(e):
            problem = "this row has a \\r outside quotes"
        raise bad(path, began, f"{problem}; put the whole cell in quotes, and double those in it") from e


def csv_reader(texts: Iterable[str], separator: str) -> Any:
    """The csv module's reader of lines, which refuses quotes that do not match, and a cell of more than
    MAX_BODY characters: one whose quotes do not end would take in the rest of a file."""
    csv.field_size_limit(MAX_BODY)
    return csv.reader(texts, delimiter=separator, strict=True)


def separator_of(first: str) -> str:
    """What is between the cells of a CSV, by its first line: the first comma, semicolon (of spreadsheets
    where a comma is in numbers) or tab that is not in quotes.

    >>> [separator_of(line) for line in ('id,text', 'q1;Really, a test?', '"a,b";c', 'id\\ttext', 'text')]
    [',', ';', ';', '\\t', ',']
    """
    separator = _SEPARATOR.search(_IN_QUOTES.sub("", first))
    return separator[0] if separator else ","


def csv_header(first: str) -> list[str]:
    """The cells of a CSV's first line; none if its quotes do not match, or it is Excel's 'sep=;'."""
    try:
        return next(csv_reader([first], separator_of(first)), [])
    except csv.Error:
        return []


def parse_json(path: Path, text: str, first_line: int = 1) -> Any:
    """The value of a JSON text that begins at `first_line` of the file.

    Raises JobError (65) if it is not JSON, is nested too deeply, or holds half a surrogate pair, which no
    UTF-8 file can hold.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as e:
        problem = f"not JSON: {e.msg.removesuffix(' at')} at column {e.colno}{_over_lines(path, text)}"
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
