"""What training data of passages is made of: the rules for it, and a question with its windows and hard negatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from indexing.annotation.splits import Split
from indexing.labels.windows import Group, SentenceRun, passage
from pipelines.errors import USAGE, JobError
from pipelines.publish.split_plan import check_split
from schemas.corpus import Document, Passage, Question, Sentence
from schemas.labels import LabelledPassage, LabelledSentence

CutDocument: TypeAlias = tuple[Document, list[Sentence]]
"""A document and its sentences."""


@dataclass(frozen=True, slots=True)
class PassageRules:
    """Which windows and hard negatives are made, and how questions are divided into splits."""

    group: Group = "all"
    places: int = 5
    max_tokens: int = 200
    negatives: int = 5
    shares: tuple[float, ...] = (0.8, 0.1, 0.1)
    """Shares of the questions, in the order of SPLITS."""
    seed: int = 0
    similar: float = 0.8
    """Jaccard similarity of their words from which two questions are nearly the same."""
    documents_apart: bool = True
    """Whether no document may be in two splits."""

    def __post_init__(self) -> None:
        for name, least in {"places": 1, "max_tokens": 10, "negatives": 0}.items():
            if (value := getattr(self, name)) < least:
                raise JobError(f"--{name.replace('_', '-')} {value}: give at least {least}", USAGE)
        check_split(self)


@dataclass(slots=True)
class QuestionPassages:
    """A question, its split, and what becomes its rows."""

    question: Question
    split: Split
    correct: frozenset[str]
    """Ids of its correct sentences, those of labels that were left out too."""
    windows: dict[str, set[SentenceRun]] = field(default_factory=dict)
    """doc_id → its windows."""
    negatives: list[Passage] = field(default_factory=list)
    """Best first."""

    def rows(self, documents: Mapping[str, CutDocument]) -> Iterator[LabelledPassage]:
        """The windows by passage id, then the hard negatives by rank."""
        passages = (passage(*documents[doc_id], run) for doc_id, runs in self.windows.items() for run in runs)
        yield from (self._row(each, "window") for each in sorted(passages, key=lambda each: each.passage_id))
        yield from (self._row(each, "retrieved") for each in self.negatives)

    def _row(self, shown: Passage, source: str) -> LabelledPassage:
        sentences = tuple(LabelledSentence(s.sentence_id, s.text, int(s.sentence_id in self.correct)) for s in shown.sentences)
        return LabelledPassage(
            question_id=self.question.question_id,
            question=self.question.text,
            passage_id=shown.passage_id,
            doc_id=shown.doc_id,
            title=shown.title,
            text=shown.text,
            label=max((sentence.label for sentence in sentences), default=0),
            source=source,
            sentences=sentences,
        )


@dataclass(frozen=True, slots=True)
class TrainingPassages:
    """Training data, a question at a time."""

    questions: tuple[QuestionPassages, ...]
    """By id; questions without a window are left out."""
    documents: Mapping[str, CutDocument]
    counts: Mapping[str, int]
    """How much came in, was used and was left out."""

    def rows(self) -> Iterator[tuple[Split, list[LabelledPassage]]]:
        """The split and the rows of each question."""
        for question in self.questions:
            yield question.split, list(question.rows(self.documents))
