"""The labels that scores are measured against: an AS2 data set, a folder below labels/, TREC or BEIR qrels,
or a Parquet of question_id, candidate_id, label.

A data set is closed: a score for an id that it does not have is an error. The others are open: a candidate
that they do not name is unjudged, and counted as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from answermill.pipelines.data.formats import read_dataset, recognise
from answermill.pipelines.data.inputs.text_lines import lines
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.learn.evaluate.candidate_values import (
    CandidateValues,
    Value,
    number_of,
    read_parquet,
)
from answermill.pipelines.runs.manifests.manifest import MANIFEST, read_manifest
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.specs.propagate import PROPAGATE
from answermill.schemas.labels import DocumentLabel, PassageLabel, SentenceLabel
from answermill.schemas.record import Record

_IDS: Mapping[type[Record], str] = {
    SentenceLabel: "sentence_id",
    PassageLabel: "passage_id",
    DocumentLabel: "doc_id",
}
_LEAST, _MOST = -100, 100
_FORMS = "a data set, a labels/ folder, TREC or BEIR qrels, or a Parquet of question_id, candidate_id, label"


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


def read_labels(path: Path, form: str | None = None) -> ReferenceLabels:
    """The labels of a file or folder; `form` is that of a data set whose form is not recognised.

    Raises JobError: 66 if the file is missing, 65 with the line if a row is wrong or there is no label at
    all.
    """
    if not path.exists():
        raise JobError(f"{path}: no such file or folder", INPUT_MISSING)
    if path.is_dir():
        return ReferenceLabels(_folder(path), closed=False, questions={})

    if form or recognise(path):
        texts: dict[str, str] = {}
        return ReferenceLabels(
            CandidateValues.from_rows(path, _dataset(path, form, texts)), closed=True, questions=texts
        )

    values = (
        read_parquet(path, "label")
        if path.name.endswith(".parquet")
        else CandidateValues.from_rows(path, _qrels(path))
    )

    return ReferenceLabels(values, closed=False, questions={})


def _dataset(path: Path, form: str | None, texts: dict[str, str]) -> Iterator[Value]:
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
            f"{path} {content}; give one of the folders below labels/, which `answermill propagate` writes",
            BAD_DATA,
        )
    spec = next(folder for folder in PROPAGATE if folder.record is record)
    rows = (row.to_dict() for row in Folder.open(path, spec).read())
    values = ((n, row["question_id"], row[_IDS[record]], row["label"]) for n, row in enumerate(rows))
    return CandidateValues.from_rows(path, values)


def _qrels(path: Path) -> Iterator[Value]:
    """TREC: question, iteration, candidate, label between blanks. BEIR: a header; question, candidate, label
    between tabs."""
    for number, text in lines(path):
        cells = text.split("\t") if "\t" in text else text.split()
        if not cells or (number == 1 and cells[:2] == ["query-id", "corpus-id"]):
            continue
        if len(cells) not in (3, 4):
            raise JobError(
                f"{path}:{number}: {len(cells)} columns, where qrels have 4 (BEIR's 3); give {_FORMS}",
                BAD_DATA,
            )
        yield number, cells[0], cells[-2], number_of(path, number, "label", cells[-1])
