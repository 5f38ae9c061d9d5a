"""Parts of training data of passages: the rules for it, and a question with its windows and hard
negatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from answermill.indexing.labels.windows import Group, SentenceRun, passage
from answermill.indexing.passages.text import fold
from answermill.pipelines.data.publish.left_out import Reason
from answermill.pipelines.data.publish.question_splits import RightSentences, SplitRules
from answermill.pipelines.data.splits import Split
from answermill.pipelines.errors import USAGE, JobError
from answermill.schemas.corpus import Document, Passage, Question, Sentence
from answermill.schemas.labels import LabelledPassage, LabelledSentence

CutDocument: TypeAlias = tuple[Document, list[Sentence]]
"""A document and its sentences."""


@dataclass(frozen=True)
class PassageRules(SplitRules):
    """Rules for windows, hard negatives and splits."""

    group: Group = "all"
    places: int = 5
    max_tokens: int = 200
    negatives: int = 5

    def __post_init__(self) -> None:
        for name, least in {"places": 1, "max_tokens": 10, "negatives": 0}.items():
            if (value := getattr(self, name)) < least:
                raise JobError(f"--{name.replace('_', '-')} {value}: give at least {least}", USAGE)
        super().__post_init__()


@dataclass(slots=True)
class QuestionPassages:
    """A question, its split, and the passages of its rows."""

    question: Question
    split: Split
    correct: Set[str]
    """Ids of its correct sentences, also of labels that were left out."""
    judged: Set[str]
    """Ids of its labelled sentences, correct or not."""
    near: RightSentences
    """Correct sentences of it, and of questions that are nearly the same."""
    windows: dict[str, set[SentenceRun]] = field(default_factory=dict)
    """doc_id → its windows."""
    negatives: list[Passage] = field(default_factory=list)
    """Hard negatives, best first."""

    def refusal(self, sentences: Sequence[Sentence]) -> Reason | None:
        """Reason why these sentences are no negative of the question; None if they are one.

        A sentence that nobody judged looks correct if it is so for a question that is nearly the same, or has
        the text of a correct one.
        """
        if any(sentence.sentence_id in self.correct for sentence in sentences):
            return Reason.CORRECT
        unjudged = (sentence for sentence in sentences if sentence.sentence_id not in self.judged)
        return (
            Reason.LOOKS_CORRECT
            if any(self.near.has(s.sentence_id, fold(s.text)) for s in unjudged)
            else None
        )

    def rows(self, documents: Mapping[str, CutDocument]) -> Iterator[LabelledPassage]:
        """The windows in reading order, document by document, then the hard negatives by rank."""
        runs = ((doc_id, run) for doc_id in sorted(self.windows) for run in sorted(self.windows[doc_id]))
        yield from (self._row(passage(*documents[doc_id], run), "window") for doc_id, run in runs)
        yield from (self._row(negative, "retrieved") for negative in self.negatives)

    def _row(self, content: Passage, source: str) -> LabelledPassage:
        sentences = tuple(
            LabelledSentence(
                s.sentence_id, s.text, int(s.sentence_id in self.correct), s.sentence_id in self.judged
            )
            for s in content.sentences
        )

        return LabelledPassage(
            question_id=self.question.question_id,
            question=self.question.text,
            passage_id=content.passage_id,
            doc_id=content.doc_id,
            title=content.title,
            text=content.text,
            label=max((sentence.label for sentence in sentences), default=0),
            source=source,
            sentences=sentences,
        )
