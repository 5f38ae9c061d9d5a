"""A labelled data set as a job: its documents as pages, its questions and labels, and a job file that runs.

Candidates of one document are a page, in their order, a line each, so that no sentence crosses two of them;
a candidate without a document is a page by itself. A label names its sentence by its text. Where our rules
cut a candidate into several sentences, a wrong one's are all wrong, and a right one's label is its longest's.
A text that is right in one place of a question's list, and wrong in another, is right.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import write_text
from answermill.indexing.passages.sentences import sentence_spans
from answermill.indexing.passages.text import one_line
from answermill.pipelines.data.formats import read_dataset
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.data.recipes.job_recipe import JobChoices
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError, counted
from answermill.pipelines.runs.new_folder import new_folder
from answermill.schemas.labels import LabelledCandidate

PAGES, QUESTIONS, LABELS, SPLITS = "pages.jsonl", "questions.jsonl", "labels.jsonl", "splits.jsonl"
JOB = "job.toml"
_SPLIT_WORDS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "test": "test"}


@dataclass(slots=True)
class _Page:
    """A document as a page."""

    title: str = ""
    lines: dict[str, None] = field(default_factory=dict)
    """Texts of its candidates, in the order in which they were met, each once."""


@dataclass(slots=True)
class SetAsJob:
    """The pages, questions and labels of a data set, in memory."""

    pages: dict[str, _Page] = field(default_factory=dict)
    """By the document's id, or the digest of a text without one."""
    questions: dict[str, str] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    labels: dict[tuple[str, str], int] = field(default_factory=dict)
    """(question id, sentence) → its label."""
    tally: Counter[str] = field(default_factory=Counter)

    def add(self, rows: Iterable[LabelledCandidate], file: Path, split: str | None) -> None:
        """Take in the candidates of a file. Raises JobError (65) if a question is in another file too."""
        before = set(self.questions)
        for row in rows:
            if row.question_id in before:
                raise JobError(
                    f"{file}: question {row.question_id} is in another file already; write each file into "
                    "another folder, or give them a column question_id whose ids differ",
                    BAD_DATA,
                )
            self.questions[row.question_id] = one_line(row.question)
            if split is not None:
                self.splits[row.question_id] = split
            text = one_line(row.text)
            if not text:
                self.tally["candidates without a visible letter left out"] += 1
                continue
            page = self.pages.setdefault(row.doc_id or _digest(text), _Page())
            page.title = page.title or one_line(row.title)
            page.lines.setdefault(text)
            self._label(row.question_id, text, int(row.label))

    def _label(self, question_id: str, text: str, label: int) -> None:
        sentences = [text[start:end] for start, end in sentence_spans(text)] or [text]
        if len(sentences) > 1:
            self.tally[f"{'correct' if label else 'wrong'} candidates cut into several sentences"] += 1
            sentences = [max(sentences, key=len)] if label else sentences
        for sentence in sentences:
            key = question_id, sentence
            known = self.labels.setdefault(key, label)
            if known != label:
                self.tally["labels that contradict others of their text, which is correct"] += 1
                self.labels[key] = 1

    def files(self) -> Iterator[tuple[str, Iterable[Mapping[str, Any]]]]:
        """(name, rows) of each file of JSON lines."""
        yield (
            PAGES,
            (
                {"id": name, "title": page.title, "text": "\n".join(page.lines)}
                for name, page in self.pages.items()
            ),
        )
        yield QUESTIONS, ({"question_id": key, "text": text} for key, text in self.questions.items())
        yield (
            LABELS,
            (
                {"question_id": question_id, "sentence": sentence, "label": label}
                for (question_id, sentence), label in self.labels.items()
            ),
        )
        if len(self.splits) == len(self.questions):
            yield SPLITS, ({"question_id": key, "split": split} for key, split in self.splits.items())


def write_job(files: Sequence[Path], folder: Path, form: Form = None, **options: Any) -> Iterator[str]:
    """Write the data set of these files as a job into a folder that is new or empty; yields lines for people.
    Questions of files whose names say train, dev or test go into splits.jsonl as well, if all do.

    Memory grows with the texts. Raises JobError: 73 if the folder has files, 65 and 66 as `read_dataset`.
    """
    if not files:
        raise JobError("give at least one file", USAGE)
    whole, left_out = SetAsJob(), Counter[str]()
    with new_folder(folder):
        for file in files:
            rows = read_dataset(file, form, counted=left_out, **options)
            whole.add(rows, file, _split_of(file))

        for name, lines in whole.files():
            write_text(folder / name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines))
        choices = JobChoices(pages=[PAGES], questions=QUESTIONS, labels=LABELS, language="", min_words=0)
        write_text(folder / JOB, choices.text())

    yield from (f"{count:,} {what}" for what, count in sorted((left_out + whole.tally).items()) if count)
    sizes = (len(whole.pages), "page"), (len(whole.questions), "question"), (len(whole.labels), "label")
    yield f"written: {folder}: {', '.join(counted(number, what) for number, what in sizes)}"
    yield f"now `answermill run {folder / JOB} --out RUN`"


def _split_of(file: Path) -> str | None:
    """The split that a file's name says, if it says one.

    >>> [_split_of(Path(name)) for name in ("WikiQA-train.tsv", "dev.csv", "set.csv", "train-test.csv")]
    ['train', 'dev', None, None]
    """
    words = "".join(c if c.isalnum() else " " for c in file.name.lower()).split()
    splits = {_SPLIT_WORDS[word] for word in words if word in _SPLIT_WORDS}
    return splits.pop() if len(splits) == 1 else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
