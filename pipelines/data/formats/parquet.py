"""Parquet: `LabelledCandidate` rows, or the columns question_id, question, document_id, document_title,
sentence_index, sentence, label (document_id and document_title may be null). Optional columns of
`LabelledCandidate` may be missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from answermill.files.parquet_files import DAMAGE, open_parquet
from answermill.pipelines.data.formats.format import FileHead, Format, TableOptions
from answermill.pipelines.data.formats.rows_in_order import Row
from answermill.pipelines.data.inputs.columns import CANDIDATES, Columns
from answermill.pipelines.data.inputs.parquet_batches import parquet_rows
from answermill.pipelines.data.inputs.tables import id_of
from answermill.pipelines.data.inputs.text_lines import bad
from answermill.schemas.labels import OPTIONAL, RETRIEVAL, LabelledCandidate

OURS = tuple(name for name in LabelledCandidate.schema().names if name not in OPTIONAL)
SHARED = ("question_id", "question", "document_id", "document_title", "sentence_index", "sentence", "label")
_MAY_BE_NULL = {"document_id", "document_title", *OPTIONAL}
_WHOLE = {name for name in RETRIEVAL if pa.types.is_integer(LabelledCandidate.schema().field(name).type)}
# Columns that may hold numbers; all others must hold text.
_NUMBERS = {"question_id", "position", "sentence_index", "label", *RETRIEVAL}


def is_parquet(head: FileHead) -> bool:
    """True if the name and the columns are those of the format."""
    try:
        return (
            head.path.name.endswith(".parquet")
            and columns_of(_ours(open_parquet(head.path).schema_arrow.names, head.columns)) is not None
        )
    except DAMAGE:
        return False


def read_parquet(path: Path, counted: Counter[str], options: TableOptions) -> Iterator[Row]:
    """Candidates: the rows. Positions must count from 0 without gaps. A missing candidate id is made:
    '<document_id>-<sentence_index>', as WikiQA makes its own, or the index alone."""

    names: dict[str, str] = {}

    def choose(schema: pa.Schema) -> list[str]:
        options.columns.refuse_absent(path, None, CANDIDATES, schema.names)
        present = _ours(schema.names, options.columns)
        columns = columns_of(present)
        if columns is None:
            known = f"neither the columns {', '.join(OURS)} nor {', '.join(SHARED)}"
            raise options.columns.missing(path, None, "question_id", schema.names, f"has {known}")
        optional = [name for name in OPTIONAL if columns == OURS and name in present]
        names.update({present[name]: name for name in (*columns, *optional)})
        return list(names)

    previous, due = None, 0
    for number, values in parquet_rows(path, choose):
        position, row = _row(path, number, {names[column]: value for column, value in values.items()})
        due = due + 1 if row.question_id == previous else 0
        previous = row.question_id
        if position != due:
            raise bad(path, number, f"position {position} where {due} is due in question {previous!r}")
        yield row


def columns_of(present: Collection[str]) -> tuple[str, ...] | None:
    """Columns of a file that are read: one of the two sets; None if it has neither."""
    return next((names for names in (OURS, SHARED) if set(names) <= set(present)), None)


def _ours(names: Sequence[str], columns: Columns) -> dict[str, str]:
    """Our name → column of a file with these columns, which has our names or those that the user gives."""
    return {name: name for name in names} | {
        name: column for name, column in columns.named.items() if column in names
    }


def _row(path: Path, number: int, cells: dict[str, Any]) -> tuple[int, Row]:
    """(position, row) of row `number`, from 1."""
    if empty := [name for name, value in cells.items() if value is None and name not in _MAY_BE_NULL]:
        raise bad(path, number, f"no {', '.join(empty)}")

    texts = ((name, value) for name, value in cells.items() if name not in _NUMBERS and value is not None)
    if wrong := [name for name, value in texts if not isinstance(value, str)]:
        raise bad(path, number, f"{wrong[0]} is {str(cells[wrong[0]])[:60]!r}; give text")

    for name in RETRIEVAL:
        if (value := cells.get(name)) is not None and not _is_number(name, value):
            kind = "a whole number of at least 0" if name in _WHOLE else "a finite number"
            raise bad(path, number, f"{name} is {str(value)[:60]!r}; give {kind}, or null")

    if cells["label"] not in (0, 1):
        raise bad(path, number, f"label {cells['label']!r}; it must be 0 or 1")

    question_id, question, label = cells["question_id"], cells["question"], int(cells["label"])
    if not isinstance(question_id, str):
        question_id = id_of(path, number, "question id", question_id)
    if "position" in cells:
        row = Row(
            number,
            question_id,
            question,
            cells["text"],
            label,
            cells["candidate_id"],
            cells["doc_id"],
            cells["title"],
        )
        return cells["position"], row._replace(optional={name: cells.get(name) for name in OPTIONAL})

    position, doc_id, title = (
        cells["sentence_index"],
        cells["document_id"] or "",
        cells["document_title"] or "",
    )
    candidate_id = f"{doc_id}-{position}" if doc_id else str(position)

    return position, Row(number, question_id, question, cells["sentence"], label, candidate_id, doc_id, title)


def _is_number(name: str, value: Any) -> bool:
    """True if it can be a value of that column of `RETRIEVAL`."""
    if isinstance(value, bool) or not isinstance(value, int if name in _WHOLE else (int, float)):
        return False
    return value >= 0 if name in _WHOLE else math.isfinite(value)


FORMAT = Format(
    name="parquet",
    about=f"Parquet with the columns of LabelledCandidate, or {', '.join(SHARED)}",
    read=read_parquet,
    recognise=is_parquet,
    options=TableOptions,
)
