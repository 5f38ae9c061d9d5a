"""Data sets of answer sentence selection, on which the five papers train and measure, as streams of
`LabelledCandidate`.

A reader yields the candidates of a file's questions, in their original order, with their labels. Nothing is
lower-cased, tokenised, sampled or left out: to drop questions without an answer is the protocol of the
caller. If a format itself must leave something out, or decide, its reader counts it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from pyarrow import ArrowException
from pyarrow.parquet import read_metadata

from answermill.pipelines.data.formats import (
    insuranceqa,
    named_rows,
    natural_questions,
    parquet,
    squad,
    tabular,
    trecqa,
    yahooqa,
)
from answermill.pipelines.data.formats.format import (
    FileHead,
    Form,
    Format,
    TableOptions,
    plugged_in,
    table_form,
)
from answermill.pipelines.data.formats.rows_in_order import in_order
from answermill.pipelines.data.formats.tabular import label_advice
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns
from answermill.pipelines.data.inputs.text_lines import csv_header, lines
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError, check_file
from answermill.schemas import plug_ins
from answermill.schemas.labels import LabelledCandidate

_TRIED = 10_000  # lines of a file that is not recognised, which may not be text

FORMATS: dict[str, Format[Any]] = {
    known.name: known
    for known in (  # a file has the first of these formats that recognises it
        tabular.WIKIQA,
        trecqa.FORMAT,
        squad.FORMAT,
        yahooqa.FORMAT,
        natural_questions.NQ_LA,
        natural_questions.NQ_ASNQ,
        insuranceqa.FORMAT,
        named_rows.CSV,
        named_rows.JSONL,
        tabular.ASNQ,
        tabular.TSV,
        parquet.FORMAT,
    )
}


def read_dataset(
    path: Path, form: Form = None, *, counted: Counter[str] | None = None, **options: Any
) -> Iterator[LabelledCandidate]:
    """The candidates of a file, one at a time. `form` is the name of its format; None to recognise it.

    A question's candidates are consecutive, their positions 0..n-1 in original order; question ids are
    unique. `options` are those of the format. `counted` has the numbers of what the format leaves out or
    decides, when the stream has ended.

    Raises JobError at once: 66 if the file is missing, 2 if the format or an option is unknown, 65 if the
    file is not recognised; and while it reads: 65, with the line, if a row is wrong. No row is skipped for
    being wrong.
    """
    check_file(path)
    name, columns = table_form(form)
    name = name or recognise(path, columns)
    known = ", ".join(reader.name for reader in known_formats())
    known += " (`answermill dataset --form list` says what they are)"
    if name is None:
        _refuse_unreadable(path)
        problem = f"not recognised as a data set; name its form, one of: {known}{_first_line(path)}"
        raise JobError(f"{path}: {problem}", BAD_DATA)
    if name not in FORMATS and not plug_ins.is_known(plug_ins.FORMATS, name):
        raise JobError(f"{path}: unknown form {name!r}; known: {known}", USAGE)
    reader = find_format(name)
    if columns.named:
        if not issubclass(reader.options, TableOptions):
            raise JobError(f"{path}: {columns.key} is for tables, and {name} has its own columns", USAGE)
        options = {**options, "columns": columns}
    return in_order(
        path, reader.read(path, Counter() if counted is None else counted, reader.parse_options(options))
    )


def known_formats() -> list[Format[Any]]:
    """All formats that a list shows and that recognise files: ours, then those of installed plug-ins."""
    return [*FORMATS.values(), *plug_ins.usable(plug_ins.FORMATS, find_format).values()]


def find_format(name: str) -> Format[Any]:
    """The format of that name, ours or a plug-in's, which is known. Raises PlugInUnusable."""
    if name in FORMATS:
        return FORMATS[name]
    return plugged_in(name, plug_ins.load(plug_ins.FORMATS, name))


def code_of_form(form: Form) -> dict[str, str]:
    """'code of FORM' → revision of a plug-in's code, for a fingerprint; empty for one of our forms, and for
    one that is to be recognised."""
    name = table_form(form).name
    if name is None or name in FORMATS or not plug_ins.is_known(plug_ins.FORMATS, name):
        return {}
    return {f"code of {name}": plug_ins.digest(plug_ins.FORMATS, name)}


def row_count(files: Iterable[Path]) -> int | None:
    """Number of rows in the files, for progress; None if one of them does not give it before it is read."""
    try:
        return sum(int(read_metadata(file).num_rows) for file in files)
    except (ArrowException, OSError):
        return None


def by_question(rows: Iterable[LabelledCandidate]) -> Iterator[list[LabelledCandidate]]:
    """The candidates of a data set, as one list for each question."""
    for _, group in groupby(rows, key=lambda row: row.question_id):
        yield list(group)


def _refuse_unreadable(path: Path) -> None:
    """Raise JobError (65) where a file that no format recognises is empty, or its first lines cannot be read
    as text: it may be packed, a spreadsheet, or of another encoding."""
    if not path.stat().st_size:
        raise JobError(f"{path}: the file is empty", BAD_DATA)
    if not path.name.endswith(".parquet"):
        deque(islice(lines(path), _TRIED), maxlen=0)


def _first_line(path: Path) -> str:
    """The cells of a first line that looks like a table's, or its keys, for a message; '' where it does
    not."""
    head = FileHead.of(path)
    rows = [line.split("\t") for line in head.lines]
    if rows and len(rows[0]) > 1 and (about_labels := label_advice(rows)):
        return f". {about_labels}"

    names = rows[0] if rows else []
    if len(names) == 1:
        is_csv = path.name.lower().removesuffix(".gz").endswith(".csv")
        names = csv_header(head.lines[0]) if is_csv else list(head.first_object)
    if len(names) < 2:
        return ""
    advice = "write --columns question=NAME text=NAME label=NAME"
    return f". Its first line has {', '.join(names)[:120]}; if these are columns, {advice}"


def recognise(path: Path, columns: Columns = AS_NAMED) -> str | None:
    """The name of a file's format, by its name and its first MiB, or its first line of JSON.

    None if it is no data set that we know, or could be two. Natural Questions are recognised as 'nq-la',
    never as 'nq-asnq'.
    """
    head = FileHead.of(path, columns)
    return next((known.name for known in known_formats() if known.recognise(head)), None)


def describe_formats() -> Iterator[str]:
    """Lines for people: each format, and below it its options."""
    for known in known_formats():
        yield f"{known.name:<12} {known.about}"
        yield from (f"{'':<14} {option}" for option in known.describe_options())
