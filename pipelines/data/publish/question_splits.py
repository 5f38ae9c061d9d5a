"""The split that each question and each document belongs to, so that no split leaks into another (WQA §3.3).

Questions that one document answers stay together, and so do questions that are nearly the same. If a document
answers neither of two questions, only one split has its labels. (Such documents connect most questions of a
crawl; to keep these in one split would leave one split.)
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeAlias

from answermill.indexing.passages.text import fold
from answermill.pipelines.data.publish.left_out import Reason
from answermill.pipelines.data.splits import CLAIMS, Split, near_duplicates, owners, split
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError
from answermill.schemas.labels import SentenceLabel

SharedKey: TypeAlias = tuple[str, str]
"""Something that two questions can share: ('document', doc_id) or ('question', the first of those that are
nearly the same)."""


@dataclass(frozen=True, kw_only=True)
class SplitRules:
    """Rules that divide questions into splits; every kind of training data adds its own."""

    shares: tuple[float, ...] = (0.8, 0.1, 0.1)
    """Shares of the questions, in the order of SPLITS."""
    seed: int = 0
    similar: float = 0.8
    """Jaccard similarity of their words from which two questions are nearly the same."""
    documents_apart: bool = True
    """True if no document may be in two splits."""

    def __post_init__(self) -> None:
        """Raise JobError (2) for values that make no sense, in the words of the command line."""
        if not 0 < self.similar <= 1:
            raise JobError(
                f"--similar {self.similar:g}: give a similarity above 0 and at most 1, e.g. 0.8", USAGE
            )
        if len(self.shares) != 3 or not adds_up(self.shares):
            shares = " ".join(f"{share:g}" for share in self.shares)
            raise JobError(
                f"--split {shares}: give shares of train, dev and test that add up to 1, e.g. 0.8 0.1 0.1",
                USAGE,
            )

    def settings(self, drawn: bool) -> dict[str, Any]:
        """The rules for a summary, those of the splits last; without shares if the splits are not `drawn` by
        them."""
        last = [rule.name for rule in fields(SplitRules)]
        values = asdict(self) if drawn else asdict(self) | {"shares": None}
        return dict(sorted(values.items(), key=lambda item: item[0] in last))


def adds_up(shares: Sequence[float]) -> bool:
    """True if these are shares of 1.

    >>> adds_up((0.5, 0.5)), adds_up((1.5, -0.5))
    (True, False)
    """
    return all(share >= 0 for share in shares) and abs(sum(shares) - 1) <= 1e-6


@dataclass(frozen=True, slots=True)
class LabelledQuestions:
    """Labels and their questions: the material of every kind of training data."""

    labels: Sequence[SentenceLabel]
    questions: Mapping[str, str]
    """question_id → its text."""
    splits: Mapping[str, Split] | None = None
    """question_id → split, if a file gives them; these take the place of `SplitRules.shares`."""


@dataclass(frozen=True, slots=True)
class RightSentences:
    """The right sentences of questions that are nearly the same."""

    ids: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    """Their folded texts."""

    def has(self, sentence_id: str, folded: str) -> bool:
        """True if the sentence, or its folded text, is among them."""
        return sentence_id in self.ids or folded in self.texts


@dataclass(frozen=True, slots=True)
class QuestionSplits:
    """The splits of questions, and of the keys that they share."""

    labelled: LabelledQuestions
    near: Mapping[str, str]
    """question_id → the first of the questions that are nearly the same; only questions with labels and a
    split."""
    split_of: Mapping[str, Split]
    documents_apart: bool
    owner: dict[SharedKey, Split]
    """The split that alone may have the labels of a document, or of questions that are nearly the same."""
    right: Mapping[str, RightSentences]
    """The first of questions that are nearly the same → sentences that are right for any of them, also by
    labels that are left out."""

    @classmethod
    def make(cls, labelled: LabelledQuestions, rules: SplitRules) -> QuestionSplits:
        """Divide the questions that have labels."""
        labels, questions, splits = labelled.labels, labelled.questions, labelled.splits
        chosen = {label.question_id for label in labels if splits is None or label.question_id in splits}
        near = near_duplicates({q: questions[q] for q in chosen if q in questions}, rules.similar)
        known = [label for label in labels if label.question_id in near]

        # Documents that answer tie questions together; other documents only belong to one split.
        apart = rules.documents_apart
        together = _links(known, near, lambda label: apart and label.label == 1)
        split_of = split(together, rules.shares, rules.seed) if splits is None else splits
        owner = owners(_links(known, near, lambda label: apart), split_of) | owners(together, split_of)

        right: dict[str, RightSentences] = defaultdict(RightSentences)
        for label in known:
            if label.label:
                right[near[label.question_id]].ids.add(label.sentence_id)
                right[near[label.question_id]].texts.update([fold(label.text)] if label.text else [])

        return cls(labelled, near, split_of, apart, owner, dict(right))

    def right_for_near(self, question_id: str) -> RightSentences:
        """The right sentences of the question and of those that are nearly the same."""
        return self.right.get(self.near.get(question_id, question_id), RightSentences())

    def refusal(self, label: SentenceLabel) -> Reason | None:
        """Reason why a label is left out; None if it is not."""
        q = label.question_id
        if q not in self.near:
            return Reason.NOT_IN_SPLIT_FILE if q in self.labelled.questions else Reason.UNKNOWN_QUESTION
        if self.owner.get(("question", self.near[q]), self.split_of[q]) != self.split_of[q]:
            return Reason.QUESTION_OF_ANOTHER_SPLIT
        return Reason.DOCUMENT_OF_ANOTHER_SPLIT if self.is_elsewhere(q, label.doc_id) else None

    def is_elsewhere(self, question_id: str, doc_id: str) -> bool:
        """True if the document belongs to another split than the question's."""
        return self.owner.get(("document", doc_id), self.split_of[question_id]) != self.split_of[question_id]

    def claim(self, question_id: str, doc_ids: Iterable[str]) -> None:
        """Give the documents that no split owns to the question's."""
        if self.documents_apart:
            for doc_id in doc_ids:
                self.owner.setdefault(("document", doc_id), self.split_of[question_id])

    def by_claim(self, question_ids: Iterable[str]) -> list[str]:
        """The questions in the order in which they claim documents: by split, then in the given order."""
        return sorted(question_ids, key=lambda q: CLAIMS.index(self.split_of.get(q, CLAIMS[-1])))

    def account(self, used: int, counts: Mapping[str, int]) -> Counter[str]:
        """The counts, and those of the questions, of which `used` are in the set. Raises JobError (65) if
        none is."""
        if not used:
            raise JobError(f"no label can be used: {json.dumps(counts)}", BAD_DATA)
        labelled = {label.question_id for label in self.labelled.labels}
        account = Counter(counts)
        account["questions"] = len(labelled)
        account["questions_left_out"] = len(labelled) - used
        account["questions_near_duplicates"] = len(self.near) - len(set(self.near.values()))
        if self.labelled.splits is not None:
            account["split_file_questions_without_labels"] = len(self.labelled.splits.keys() - labelled)
        return account


def _links(
    labels: Iterable[SentenceLabel], near: Mapping[str, str], by_document: Callable[[SentenceLabel], bool]
) -> dict[str, set[SharedKey]]:
    """question_id → its keys: the first near question, and the documents of the labels that `by_document`
    selects."""
    links: dict[str, set[SharedKey]] = {}
    for label in labels:
        keys = links.setdefault(label.question_id, {("question", near[label.question_id])})
        if by_document(label):
            keys.add(("document", label.doc_id))
    return links
