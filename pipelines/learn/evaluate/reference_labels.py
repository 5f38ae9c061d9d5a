"""The labels that scores are measured against: an AS2 data set, a folder below labels/, TREC or BEIR qrels,
or a table of question_id, candidate_id, label.

A data set is closed: a score for an id that it does not have is an error. The others are open: a candidate
that they do not name is unjudged, and counted as such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from answermill.pipelines.data.formats import read_dataset, recognise
from answermill.pipelines.data.formats.format import Form, table_form
from answermill.pipelines.data.inputs.columns import QRELS
from answermill.pipelines.data.inputs.text_lines import bad
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.learn.evaluate.candidate_values import (
    CandidateValues,
    Value,
    read_parquet,
    read_text,
)
from answermill.pipelines.runs.manifests.manifest import MANIFEST, read_manifest
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.specs.propagate import PROPAGATE, SENTENCE_LABELS
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.schemas.labels import DocumentLabel, PassageLabel, SentenceLabel
from answermill.schemas.record import Record

_IDS: Mapping[type[Record], str] = {
    SentenceLabel: "sentence_id",
    PassageLabel: "passage_id",
    DocumentLabel: "doc_id",
}
_LEAST, _MOST = -100, 100
_FORMS = "a data set, a labels/ folder, TREC or BEIR qrels, or a table of question_id, candidate_id, label"


@dataclass(frozen=True, slots=True)
class ReferenceLabels:
    """Labels by question and candidate: 0 or less = wrong, 1 or more = correct, and how much so.

    Raises JobError (65) if there is no label, or one is not a whole number within bounds.
    """

    values: CandidateValues
    closed: bool
    questions: Mapping[str, str]
    """question id → its text, if the file has it."""

    @property
    def source(self) -> str:
        """The file, for messages."""
        return str(self.values.files[0][0])

    def __post_init__(self) -> None:
        if not len(self.values):
            raise JobError(f"{self.source}: no label in it", BAD_DATA)
        label = self.values.value
        for n in np.flatnonzero(~((label == np.round(label)) & (label >= _LEAST) & (label <= _MOST)))[:1]:
            raise JobError(
                f"{self.values.where(n)}: label {label[n]:g}; it must be a whole number from {_LEAST} to "
                f"{_MOST}",
                BAD_DATA,
            )


def read_labels(path: Path, form: Form = None) -> ReferenceLabels:
    """The labels of a file or folder; `form` is that of a data set whose form is not recognised.

    Raises JobError: 66 if the file is missing, 65 with the line if a row is wrong or there is no label at
    all.
    """
    if not path.exists():
        raise JobError(f"{path}: no such file or folder", INPUT_MISSING)
    if path.is_dir():
        return ReferenceLabels(_folder(path), closed=False, questions={})

    name, columns = table_form(form)
    if name or recognise(path, columns):
        texts: dict[str, str] = {}
        return ReferenceLabels(
            CandidateValues.from_rows(path, _dataset(path, form, texts)), closed=True, questions=texts
        )

    values = (
        read_parquet(path, QRELS, columns)
        if path.name.endswith(".parquet")
        else CandidateValues.from_rows(path, read_text(path, QRELS, columns, _qrel))
    )

    return ReferenceLabels(values, closed=False, questions={})


def texts_of(
    path: Path, form: Form, pairs: Collection[tuple[str, str]]
) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """(question id → its text, (question id, candidate id) → its text) for these pairs, as far as the labels
    have texts: a data set has both, labels/sentences the sentences, and the questions are in its run."""
    wanted, asked = set(pairs), {question_id for question_id, _ in pairs}
    questions: dict[str, str] = {}
    texts: dict[tuple[str, str], str] = {}
    if path.is_dir():
        manifest = read_manifest(path)
        if manifest is not None and manifest.record == SentenceLabel.__name__:
            for label in Folder.open(path, SENTENCE_LABELS).where("question_id", asked):
                texts[label.question_id, label.sentence_id] = label.text
        run = path.absolute().parent.parent
        if (folder := QUESTIONS.find(run)) is not None:
            questions = {row.question_id: row.text for row in folder.where("question_id", asked)}
        return questions, {pair: text for pair, text in texts.items() if pair in wanted}

    name, columns = table_form(form)
    if name or recognise(path, columns):
        for row in read_dataset(path, form):
            if row.question_id in asked:
                questions[row.question_id] = row.question
                if (row.question_id, row.candidate_id) in wanted:
                    texts[row.question_id, row.candidate_id] = row.text
    return questions, texts


def _dataset(path: Path, form: Form, texts: dict[str, str]) -> Iterator[Value]:
    """The labels of a data set, whose questions are written into `texts`."""
    for n, row in enumerate(read_dataset(path, form)):
        texts.setdefault(row.question_id, row.question)
        yield n, row.question_id, row.candidate_id, row.label


def _folder(path: Path) -> CandidateValues:
    manifest = read_manifest(path)
    record = next((r for r in _IDS if manifest and r.__name__ == manifest.record), None)
    if record is None:
        content = f"holds {manifest.record}" if manifest else f"has no {MANIFEST}"
        raise JobError(
            f"{path} {content}; give labels/sentences for scores of sentences, labels/passages for those of "
            "passages, which `answermill propagate` writes",
            BAD_DATA,
        )
    spec = next(folder for folder in PROPAGATE if folder.record is record)
    rows = (row.to_dict() for row in Folder.open(path, spec).read())
    values = ((n, row["question_id"], row[_IDS[record]], row["label"]) for n, row in enumerate(rows))
    return CandidateValues.from_rows(path, values)


def _qrel(path: Path, number: int, text: str) -> tuple[str, str, str]:
    """Question, candidate and label of a line of TREC's four columns, or of BEIR's three, between any white
    space; ids that hold blanks stand between tabs."""
    cells, tabs = text.split(), [cell.strip() for cell in text.split("\t")]
    # Of three cells between tabs with one blank in them, 'q1 0<tab>d1<tab>1' alone is TREC's.
    if len(tabs) in (3, 4) and all(tabs) and (len(cells) != 4 or (len(tabs) == 3 and cells[1] != "0")):
        cells = tabs
    if len(cells) not in (3, 4):
        raise bad(path, number, f"{len(cells)} columns, where qrels have 4 (BEIR's 3); give {_FORMS}")
    return cells[0], cells[-2], cells[-1]
