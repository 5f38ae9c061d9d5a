"""What training data of passages is made of: the rules for it, and a question with its windows and hard negatives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from answermill.indexing.labels.windows import Group, SentenceRun, passage
from answermill.indexing.passages.text import fold
from answermill.pipelines.data.publish.split_plan import RightSentences, check_split
from answermill.pipelines.data.splits import Split
from answermill.pipelines.errors import USAGE, JobError
from answermill.schemas.corpus import Document, Passage, Question, Sentence
from answermill.schemas.labels import LabelledPassage, LabelledSentence

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
    judged: frozenset[str]
    """Ids of its labelled sentences, correct or not."""
    near: RightSentences
    """What is correct for it, or for a question that is nearly the same."""
    windows: dict[str, set[SentenceRun]] = field(default_factory=dict)
    """doc_id → its windows."""
    negatives: list[Passage] = field(default_factory=list)
    """Best first."""

    def looks_correct(self, sentences: Iterable[Sentence]) -> bool:
        """Whether one of the sentences that nobody judged for the question is correct for one that is nearly the same, or has
        the text of a correct one."""
        return any(
            each.sentence_id not in self.judged and self.near.has(each.sentence_id, fold(each.text)) for each in sentences
        )

    def rows(self, documents: Mapping[str, CutDocument]) -> Iterator[LabelledPassage]:
        """The windows in reading order, document by document, then the hard negatives by rank."""
        runs = ((doc_id, run) for doc_id in sorted(self.windows) for run in sorted(self.windows[doc_id]))
        yield from (self._row(passage(*documents[doc_id], run), "window") for doc_id, run in runs)
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
