"""Columns of the tables that people and other tools write: the field that each holds, by its usual names or
by those that the user gives, as `--columns question_id=qid` or `columns = ["question_id=qid"]` in a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from answermill.files.atomic_files import sha256
from answermill.pipelines.data.inputs.text_lines import bad
from answermill.pipelines.errors import BAD_DATA, SETTINGS, USAGE, JobError

_QUESTION_IDS = ("question_id", "query_id", "qid", "topic_id", "topic")
_ROW_IDS = (*_QUESTION_IDS[:-1], "id", "topic", "number", "num", "idx", "index")  # where a row is a question
_QUESTIONS = ("question", "query", "question_text", "query_text")
_SENTENCES = ("sentence", "text", "sentence_text")
_CANDIDATE_IDS = (
    "candidate_id",
    "sentence_id",
    "passage_id",
    "docno",
    "corpus_id",
    "doc_id",
    "document_id",
    "pid",
)
_LABELS = ("label", "relevance", "rel", "judgment", "judgement", "grade")


@dataclass(frozen=True, slots=True)
class TableKind:
    """A kind of table by its fields."""

    fields: Mapping[str, tuple[str, ...]]
    """Field → usual names of its column, the surest first; case, blanks, hyphens and underscores do not
    matter, and of 'metadata.question_id' the last part is the name."""
    header: tuple[str, ...] = ()
    """Fields of a TSV without a header line; none if it must have one."""


QUESTIONS = TableKind(
    {"question_id": _ROW_IDS, "text": ("text", *_QUESTIONS), "well_formed": ("well_formed",)},
    ("question_id", "text"),
)
SPLITS = TableKind({"question_id": _ROW_IDS, "split": ("split",)}, ("question_id", "split"))
ANSWERS = TableKind({"question_id": _ROW_IDS, "answer": ("answers", "answer")}, ("question_id", "answer"))
SENTENCE_LABELS = TableKind(
    {
        "question_id": _QUESTION_IDS,
        "sentence_id": ("sentence_id",),  # not candidate_id: those of a data set are not the corpus's
        "text": _SENTENCES,
        "label": _LABELS,
    }
)
_BY_TEXT = (
    "labels by a sentence's text get its id in the step `propagate`, which writes RUN/labels/sentences: give "
    "that folder"
)
CANDIDATES = TableKind(
    {
        "question_id": _QUESTION_IDS,
        "question": _QUESTIONS,
        "doc_id": ("doc_id", "document_id"),
        "title": ("title", "document_title"),
        "candidate_id": ("candidate_id", "sentence_id", "docno", "pid"),
        "position": ("position", "sentence_index"),
        "text": (*_SENTENCES, "passage", "answer"),
        "label": _LABELS,
    }
)
QRELS = TableKind(
    {"question_id": _QUESTION_IDS, "candidate_id": _CANDIDATE_IDS, "label": (*_LABELS, "score")}
)
SCORES = TableKind({"question_id": _QUESTION_IDS, "candidate_id": _CANDIDATE_IDS, "score": ("score",)})
EXPORTS = TableKind(
    {
        "task_id": ("task_id",),
        "text_hash": ("text_hash",),
        "label": ("label", "answer"),
        "annotator": ("annotator",),
    }
)
_KINDS = (QUESTIONS, SPLITS, ANSWERS, SENTENCE_LABELS, CANDIDATES, QRELS, SCORES, EXPORTS)


@dataclass(frozen=True, slots=True)
class Columns:
    """The user's own names of columns."""

    named: Mapping[str, str] = field(default_factory=dict)
    """Name that we know → column of the file."""
    key: str = "--columns"
    """Where the user writes them: the option, or the key of a job file."""
    are_of_several: bool = False
    """True if they are of several tables: one that lacks a column may have a usual name in its place."""

    @classmethod
    def of(cls, written: Sequence[str], key: str = "--columns", are_of_several: bool = False) -> Columns:
        """The names of 'question_id=qid' and the like. Raises JobError as `parse` raises ValueError: 2 for an
        option, 78 for a key of a file."""
        try:
            return cls(parse(written), key, are_of_several)
        except ValueError as e:
            raise JobError(f"{key}: {e}", USAGE if key.startswith("-") else SETTINGS) from e

    def find(self, kind: TableKind, names: Iterable[str]) -> dict[str, str]:
        """Field → its column, of the fields that a table with these columns has.

        >>> Columns({"text": "frage"}).find(QUESTIONS, ["Query-ID", "frage", "text"])
        {'text': 'frage', 'question_id': 'Query-ID'}
        >>> AS_NAMED.find(QUESTIONS, ["ID", "Text", "text", "id"])
        {'question_id': 'id', 'text': 'text'}
        """
        free = dict.fromkeys(names)
        column_of: dict[str, str] = {}
        absent = set()
        for name, column in self.named.items():
            if (known := _field(kind, name)) is not None:
                if column in free:
                    column_of[known] = column
                    del free[column]
                elif not self.are_of_several:
                    absent.add(known)

        plain = {_plain(column): column for column in reversed(free)}
        for known, usual in kind.fields.items():
            present = (name for name in usual if _plain(name) in plain)
            column = next((name if name in free else plain[_plain(name)] for name in present), "")
            if column and known not in column_of and known not in absent:
                column_of[known] = column
        return column_of

    def refuse_others(self, kind: TableKind) -> None:
        """Raise JobError (2, or 78 of a file's key) for a name that no column of the kind has, unless it may
        be of another table."""
        for name in () if self.are_of_several else self.named:
            if _field(kind, name) is None:
                written, known = f"{name}={self.named[name]}", ", ".join(kind.fields)
                problem = f"{self.key}: {written!r}: a table of this kind has no {name}; it may have {known}"
                raise JobError(problem, USAGE if self.key.startswith("-") else SETTINGS)

    def refuse_absent(self, path: Path, where: int | None, kind: TableKind, names: Sequence[str]) -> None:
        """Raise JobError (65) if a table with these columns lacks one that the user has given for it; and as
        `refuse_others`."""
        self.refuse_others(kind)
        column_of = self.find(kind, names)
        for name, column in self.named.items():
            known = _field(kind, name)
            if known is not None and known not in column_of:
                raise self.missing(path, where, name, names, f"no column {column!r}, which is to be {name}")

    def missing(
        self, path: Path, where: int | None, name: str, names: Iterable[str], problem: str = ""
    ) -> JobError:
        """An error (65) about a table, or its row at `where`, without a column that is needed."""
        written = f"{name}=NAME"
        written = f"{self.key} {written}" if self.key.startswith("-") else f'{self.key} = ["{written}"]'
        problem = problem or f"no column {name}"
        names = list(names)
        problem += f"; it has {', '.join(names)}. If one of these holds it, write {written}"
        if name == "candidate_id" and {"text", "label"} <= self.find(SENTENCE_LABELS, names).keys():
            problem += f"; {_BY_TEXT}"
        return JobError(f"{path}: {problem}", BAD_DATA) if where is None else bad(path, where, problem)

    def digest(self, file: Path) -> str:
        """SHA-256 of a file, with the names that say how it is read, as the input of a step."""
        names = "".join(f" {name}={column}" for name, column in sorted(self.named.items()))
        return sha256(file) + names

    def is_header(self, kind: TableKind, cells: Sequence[str]) -> bool:
        """True if these cells of a table's first line are names of columns: of the kind's, or the user's."""
        return bool(self.find(kind, cells)) or bool(set(self.named.values()) & set(cells))


AS_NAMED = Columns()
"""The usual names alone."""


def parse(written: Sequence[str]) -> dict[str, str]:
    """Name that we know → column, of 'question_id=qid' and the like. Raises ValueError if a name is not
    known, or given twice."""
    named: dict[str, str] = {}
    for text in written:
        name, equals, column = (part.strip() for part in text.partition("="))
        known = sorted({field for kind in _KINDS for field in kind.fields} | {"question", "sentence"})
        if not equals or not column:
            raise ValueError(f"{text!r}: write NAME=COLUMN, e.g. question_id=qid")
        if name not in known and not any(_field(kind, name) for kind in _KINDS):
            raise ValueError(f"{text!r}: no table has {name!r}; known: {', '.join(known)}")
        if name in named:
            raise ValueError(f"{text!r}: {name} is {named[name]} already")
        named[name] = column
    return named


def _field(kind: TableKind, name: str) -> str | None:
    """The field of the kind that a name of ours means: itself, or the one whose column may have this name."""
    if name in kind.fields:
        return name
    if name == "score":  # BEIR's name of a label, and ours of a run's scores, which come beside it
        return None
    return next((known for known, usual in kind.fields.items() if name in usual), None)


def _plain(name: str) -> str:
    """A column's name without case, blanks, hyphens, underscores, and anything before a dot.

    >>> _plain("Query-ID"), _plain("metadata.question id"), _plain("_id")
    ('queryid', 'questionid', 'id')
    """
    return re.sub(r"[\W_]+", "", name.rpartition(".")[2].casefold())
