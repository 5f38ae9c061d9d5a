"""Tab-separated sets: WikiQA, ASNQ, and the plain `question, sentence, label` that people make of TREC-QA and
others.

A cell is the text between two tabs; quotes mean nothing in the published sets, and in others what
`text_lines.tab_cells` says. Without a column of question ids, a run of rows with the same question text is a
question, and its number in the file (from 0) makes its id, 'asnq-00017': a question keeps its id when others
are left out. The same text further down is refused, since in a table whose rows were shuffled each row would
be a question with one candidate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from answermill.pipelines.data.formats.format import FileHead, Format, Options, OptionsT, TableOptions
from answermill.pipelines.data.formats.rows_in_order import Row, field
from answermill.pipelines.data.inputs.columns import AS_NAMED, CANDIDATES, Columns
from answermill.pipelines.data.inputs.table_rows import header_names, without_blank_end
from answermill.pipelines.data.inputs.tables import BINARY
from answermill.pipelines.data.inputs.text_lines import bad, json_lines, lines, tab_cells, tab_lines
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError

WIKIQA_COLUMNS = ("QuestionID", "Question", "DocumentID", "DocumentTitle", "SentenceID", "Sentence", "Label")
_CLASSES = {"1": 0, "2": 0, "3": 0, "4": 1}  # of ASNQ
_LONGEST_LABEL, _MOST_LABELS = 30, 10  # characters and number of what may be labels of another kind
_TAB = "\t"
UNNAMED = ("question", "text", "label")  # the cells of a table without a header


class AsnqOptions(Options):
    questions: Path | None = Field(
        None, description="keep the questions of this list: a line each, or JSON lines"
    )
    split: str | None = Field(None, description="of the list `questions`, keep those of this split")


def read_wikiqa(path: Path, counted: Counter[str], options: Options) -> Iterator[Row]:
    """WikiQA as Microsoft publishes it (the seven columns of WIKIQA_COLUMNS, header first); ids are the set's
    own."""
    filled = _filled_lines(path)
    line, header = next(filled, (1, [""]))
    if tuple(header) != WIKIQA_COLUMNS:
        shown = _TAB.join(header)[:80]
        raise bad(path, line, f"not WikiQA's header {', '.join(WIKIQA_COLUMNS)}: {shown!r}")
    yield from parse_rows(path, filled, NamedCells("wikiqa", names_of(header) or (), BINARY))


def read_tsv(path: Path, counted: Counter[str], options: TableOptions) -> Iterator[Row]:
    """Labels as BINARY has them. With a header that names at least question, sentence and label, any order
    and the further columns of WikiQA; without one `question, sentence, label` or `question id, question,
    sentence, label`."""
    rows, columns = tab_lines(path), options.columns
    line, first = next(rows, (1, [""] * len(UNNAMED)))
    names = names_of(first, columns)
    if names is not None:
        _check_header(path, line, first, columns)
        width = len(header_names(path, line, first))
        names = names[:width]
    else:
        names = UNNAMED if len(first) == len(UNNAMED) else ("question_id", *UNNAMED)
        if columns.named or (columns.is_header(CANDIDATES, first) and first[-1].casefold() not in BINARY):
            absent = [name for name in UNNAMED if name not in columns.find(CANDIDATES, first)]
            raise columns.missing(path, line, absent[0] if absent else "question_id", first)
        if len(first) != len(names):
            raise bad(path, line, f"{len(first)} cells and no header; without one there must be 3 or 4")
        rows = tab_lines(path)
    filled = ((line, without_blank_end(cells, len(names))) for line, cells in rows)
    yield from parse_rows(path, filled, NamedCells("tsv", names, BINARY))


def _check_header(path: Path, line: int, cells: Sequence[str], columns: Columns) -> None:
    """Raise JobError (65) if a header has no question ids, but a column that is not known: they may be in
    it."""
    columns.refuse_absent(path, line, CANDIDATES, [cell.strip() for cell in cells])
    names = names_of(cells, columns) or ()
    unknown = [cell for cell, name in zip(cells, names, strict=True) if name is None and cell.strip()]
    if unknown and "question_id" not in names:
        missing = columns.missing(path, line, "question_id", cells)
        raise JobError(f"{missing}; else leave {', '.join(unknown)} out", BAD_DATA)


def read_asnq(path: Path, counted: Counter[str], options: AsnqOptions) -> Iterator[Row]:
    """ASNQ: question, sentence, class 1-4; 4 is positive (in the long answer, and holds the short one). No
    header.

    `questions` keeps the questions whose text is in a list, as the Cascade Transformer cuts ASNQ's dev set
    into dev and test (§5.1): text lines, or JSON lines with 'question' and, for `split`, 'split'. Counts
    'class 1' ... 'class 4' of the rows that it gives, 'rows of questions not listed', and 'listed questions
    not found'.
    """
    selected = None if options.questions is None else listed(options.questions, options.split)
    if selected is None and options.split is not None:
        raise JobError(f"{path}: split {options.split!r} is given, but no list of questions", USAGE)
    seen: set[str] = set()
    for row in parse_rows(
        path, _filled_lines(path), NamedCells("asnq", UNNAMED, _CLASSES), counted, selected
    ):
        if selected is not None:
            seen.add(row.question)
        yield row
    if selected is not None:
        counted["listed questions not found"] += len(selected) - len(seen)


def listed(path: Path, split: str | None = None) -> set[str]:
    """The question texts of a list. Raises JobError (65) if `split` leaves none."""
    if ".json" not in path.name:
        if split is not None:
            raise JobError(
                f"{path}: split {split!r} is given, but text lines name none; give JSON lines", USAGE
            )
        selected = {text for _, text in lines(path) if text.strip()}
    else:
        selected, splits = set(), set()
        for line, row in json_lines(path):
            text = field(path, line, row, "question", str)
            splits.add(field(path, line, row, "split", str) if split is not None else None)
            if split is None or row["split"] == split:
                selected.add(text)
        if not selected and splits:
            raise JobError(
                f"{path}: no question of split {split!r}; it has {', '.join(sorted(map(str, splits)))}",
                BAD_DATA,
            )

    if not selected:
        raise JobError(f"{path}: no question in it", BAD_DATA)

    return selected


def names_of(header: Sequence[str], columns: Columns = AS_NAMED) -> tuple[str | None, ...] | None:
    """The field of each cell; None if these cells do not name at least question, sentence and label."""
    cells = [cell.strip() for cell in header]
    column_of = {column: name for name, column in columns.find(CANDIDATES, cells).items()}
    return tuple(map(column_of.get, cells)) if set(UNNAMED) <= set(column_of.values()) else None


def table_format(head: FileHead) -> str | None:
    """The format of a table by its first lines, the header among them; None if it is none of these, or could
    be two.

    Judgements and runs have one word where we need questions and sentences, so half of the rows must have
    more in both. One row in ten may be broken: the reader then reports it.
    """
    if tuple(head.lines[0].split(_TAB)) == WIKIQA_COLUMNS:
        return "wikiqa"
    table = _rows_of(head)
    if names_of(table[0], head.columns) is not None:
        return "tsv"

    labels = _labels(table, BINARY | _CLASSES)
    if labels - _CLASSES.keys():
        return "tsv" if labels <= BINARY.keys() else None

    return "asnq" if labels - {"1", "2"} else None  # could be two labels, or ASNQ's two first classes


def label_advice(table: Sequence[Sequence[str]]) -> str:
    """Words about the labels of a table without a header whose rows are a question, a sentence and one of a
    few short words; '' of other tables, such as one whose first line may be a header, in single words."""
    if " " not in table[0][0].strip():
        return ""
    short = {cells[-1].casefold() for cells in table if len(cells[-1]) <= _LONGEST_LABEL}
    labels = _labels(table, short) if len(short) <= _MOST_LABELS else set()
    if labels == {"1"}:
        return "Its labels are all 1: name the form, tsv or asnq"
    if labels and labels <= {"1", "2"}:
        return "Its labels are 1 and 2: write 0 and 1, or name the form asnq, where both are wrong answers"
    named = ", ".join(map(repr, sorted(labels)))
    return f"Its rows end in {named}; without a header these are labels: write 0 and 1" if labels else ""


def _labels(table: Sequence[Sequence[str]], known: Container[str]) -> set[str]:
    """The labels of rows of question, sentence and a known label; none if the table is not of these."""
    rows = [cells for cells in table if len(cells) == 3 and cells[2].casefold() in known]
    worded = sum(" " in question and " " in text for question, text, _ in rows)
    if len(rows) * 10 < len(table) * 9 or worded * 2 < len(rows):
        return set()
    return {cells[2].casefold() for cells in rows}


def _rows_of(head: FileHead) -> list[list[str]]:
    """The cells of the first lines, which the reader may refuse for their quotes."""
    try:
        return [cells for _, cells in tab_cells(head.path, enumerate(head.lines, 1))]
    except JobError:
        return [text.split(_TAB) for text in head.lines]


def _filled_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    return ((line, text.split(_TAB)) for line, text in lines(path) if text)


@dataclass(frozen=True, slots=True)
class NamedCells:
    """The meaning of a table's cells."""

    form: str
    """Beginning of the ids of questions that have none."""
    names: Sequence[str | None]
    """Field of each cell."""
    labels: Mapping[str, int]
    """Cell of the label, in small letters → label."""


def parse_rows(
    path: Path,
    filled: Iterable[tuple[int, Sequence[str]]],
    table: NamedCells,
    counted: Counter[str] | None = None,
    selected: Container[str] | None = None,
) -> Iterator[Row]:
    """The rows of a table. Classes are counted in `counted`, if there is one; `selected` holds the questions
    to keep."""
    names, labels = table.names, table.labels
    question_cell, text_cell, label_cell = map(names.index, UNNAMED)
    id_cell = names.index("question_id") if "question_id" in names else None
    others = [(name, cell) for cell, name in enumerate(names) if name in ("doc_id", "title", "candidate_id")]
    previous, question_id = None, ""
    first_lines: dict[str, int] = {}  # of a question's text, in a table without ids

    for line, cells in filled:
        if len(cells) != len(names):
            raise bad(path, line, f"{len(cells)} cells; there must be {len(names)}")

        label = labels.get(cells[label_cell].strip().casefold())
        if label is None:
            known = ", ".join(filter(str.isdigit, labels))
            raise bad(path, line, f"label {cells[label_cell]!r}; it must be one of {known}")

        # Without a column of ids, the question's number in the file makes its id; questions that are left out
        # count too.
        question = cells[question_cell]
        if id_cell is not None:
            question_id = cells[id_cell]
        elif question != previous:
            if question in first_lines:
                raise bad(
                    path,
                    line,
                    f"the question {question[:60]!r} comes again; it began at {first_lines[question]}. In a "
                    "table without question ids its rows must stand together: sort the rows by question, or "
                    "add a column question_id",
                )
            question_id = f"{table.form}-{len(first_lines):05d}"
            previous, first_lines[question] = question, line

        if selected is not None and question not in selected:
            if counted is not None:
                counted["rows of questions not listed"] += 1
            continue

        if counted is not None:
            counted[f"class {cells[label_cell]}"] += 1
        optional: dict[str, Any] = {name: cells[cell] for name, cell in others}
        yield Row(line, question_id, question, cells[text_cell], label, **optional)


def _tabular(
    name: str,
    about: str,
    read: Callable[[Path, Counter[str], OptionsT], Iterator[Row]],
    options: type[OptionsT],
) -> Format[OptionsT]:
    """The format, which `table_format` recognises."""

    def recognise(head: FileHead) -> bool:
        return head.first_character not in ("", "{", "<") and table_format(head) == name

    return Format(name, about, read, options, recognise)


WIKIQA = _tabular(
    "wikiqa", "WikiQA's own TSV with its header; sentences of a Wikipedia summary", read_wikiqa, Options
)
ASNQ = _tabular(
    "asnq", "ASNQ: question, sentence, class 1-4 between tabs; 4 is positive", read_asnq, AsnqOptions
)
TSV = _tabular(
    "tsv",
    "question, sentence, label 0/1 between tabs, or any columns that a header names",
    read_tsv,
    TableOptions,
)
