"""answers.html, answers.csv and answers.xlsx: all answers, to filter and for spreadsheets.

CSV begins with a byte order mark, by which Excel knows that it is UTF-8. A text that a spreadsheet would
compute as a formula gets an apostrophe before it, since texts are of the web. An .xlsx has the texts as they
are, numbers as numbers wherever it is opened, and a filter on each column; XlsxWriter writes it, which is an
extra, since not everybody needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from answermill.files.atomic_files import replacing, whole_text
from answermill.files.extras import ExtraMissing, need
from answermill.pipelines.look.answers.answer_rows import COLUMNS, Judge, answer_batches
from answermill.pipelines.look.answers.answers_page import answers_page
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.schemas.ranked import Answer

PAGE, CSV, EXCEL = "answers.html", "answers.csv", "answers.xlsx"
_MARK = "\ufeff".encode()
_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"
"""What a spreadsheet computes, or takes away: OWASP's list for CSV injection."""
SHEET_ROWS = 1_048_575
"""Rows of an Excel sheet below its head."""
_CELL = 32_767
"""Characters of an Excel cell."""
_WIDTHS = {"question": 45, "answer": 70, "declined": 30, "title": 30, "url": 30}
_CREATED = datetime(2000, 1, 1)
"""The same in every file, so that the same answers are the same bytes."""


def write_answers(
    answers: Folder[Answer] | None,
    folder: Path,
    run: str,
    judge: Judge | None,
    *,
    excel: bool | None,
    former: Collection[str],
) -> list[str]:
    """Write all answers into `folder`; returns the names of the files. None of `answers`: there are none.

    `run`: its name for people. `excel`: whether .xlsx is written; None = where a former report wrote one and
    there is a library for it. Files of a former report, `former`, that are not written again are removed, as
    they are of other answers. Raises ExtraMissing if Excel is asked for and there is no library.
    """
    if excel:
        check_excel()
    written = []
    if answers is not None:
        with whole_text(folder / PAGE) as write:
            for piece in answers_page(run, answers.rows, answer_batches(answers, judge)):
                write(piece)
        write_csv(folder / CSV, answer_batches(answers, judge))
        written = [PAGE, CSV]
        if excel or (excel is None and EXCEL in former and _has_excel()):
            write_excel(folder / EXCEL, answer_batches(answers, judge))
            written.append(EXCEL)

    for name in {PAGE, CSV, EXCEL} & {*former} - {*written}:
        (folder / name).unlink(missing_ok=True)
    return written


def write_csv(file: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Write the file whole."""
    with replacing(file) as temporary, temporary.open("wb") as opened:
        opened.write(_MARK + ",".join(COLUMNS).encode() + b"\n")
        for batch in batches:
            csv.write_csv(harmless(batch), opened, csv.WriteOptions(include_header=False))


def harmless(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, with an apostrophe before each text that would be a formula.

    >>> harmless(pa.record_batch({"answer": ["=1+1", "It is 4.", None]})).column("answer").to_pylist()
    ["'=1+1", 'It is 4.', None]
    """
    columns = [_harmless(column) if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.record_batch(columns, names=batch.schema.names)


def _harmless(texts: pa.Array) -> pa.Array:
    is_formula = pc.match_substring_regex(texts, _FORMULA)
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", texts, ""), texts)


def check_excel() -> None:
    """Raises ExtraMissing if there is no library to write .xlsx."""
    need("xlsxwriter", "excel", "answers.xlsx")


def _has_excel() -> bool:
    try:
        check_excel()
    except ExtraMissing:
        return False
    return True


def write_excel(file: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Write the file whole, row by row; the rows of a sheet at most, and the characters of a cell."""
    import xlsxwriter

    with replacing(file) as temporary:
        book = xlsxwriter.Workbook(str(temporary), {"constant_memory": True})
        book.set_properties({"created": _CREATED})
        sheet, bold = book.add_worksheet("answers"), book.add_format({"bold": True})
        for place, name in enumerate(COLUMNS):
            sheet.set_column(place, place, _WIDTHS.get(name, 12))
            sheet.write_string(0, place, name, bold)

        last = 0
        for last, row in enumerate(_rows(batches), 1):
            for place, value in enumerate(row):
                if isinstance(value, str):
                    sheet.write_string(last, place, value[:_CELL])
                elif value is not None:
                    sheet.write_number(last, place, value)
        sheet.freeze_panes(1, 0)
        sheet.autofilter(0, 0, last, len(COLUMNS) - 1)
        book.close()


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Values of the rows that a sheet can hold."""
    rows = (row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True))
    return (row for _, row in zip(range(SHEET_ROWS), rows, strict=False))
