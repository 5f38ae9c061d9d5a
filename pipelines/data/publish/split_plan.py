"""Which split each question and each document belongs to, so that no split leaks into another (WQA §3.3).

Questions that one document answers stay together, and so do questions that are nearly the same. Of a document that answers
neither of two questions only one split has the labels. (By such documents most questions of a crawl hang together; to keep
those in one split would leave one split.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from answermill.indexing.passages.text import fold
from answermill.pipelines.data.splits import Split, near_duplicates, owners, split
from answermill.pipelines.errors import USAGE, JobError
from answermill.schemas.labels import SentenceLabel

Key: TypeAlias = tuple[str, str]
"""What two questions can share: ('document', doc_id) or ('question', the first of those that are nearly the same)."""


class SplitRules(Protocol):
    """How questions are divided into splits."""

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the questions, in the order of SPLITS."""
        ...

    @property
    def seed(self) -> int: ...

    @property
    def similar(self) -> float:
        """Jaccard similarity of their words from which two questions are nearly the same."""
        ...

    @property
    def documents_apart(self) -> bool:
        """Whether no document may be in two splits."""
        ...


def check_split(rules: SplitRules) -> None:
    """Raises JobError (2) if the rules are no rules, as the command line has them."""
    if not 0 < rules.similar <= 1:
        raise JobError(f"--similar {rules.similar:g}: give a similarity above 0 and at most 1, e.g. 0.8", USAGE)
    if len(rules.shares) != 3 or not all(share >= 0 for share in rules.shares) or abs(sum(rules.shares) - 1) > 1e-6:
        shares = " ".join(f"{share:g}" for share in rules.shares)
        raise JobError(f"--split {shares}: give shares of train, dev and test that add up to 1, e.g. 0.8 0.1 0.1", USAGE)


@dataclass(frozen=True, slots=True)
class RightSentences:
    """The right sentences of questions that are nearly the same."""

    ids: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    """Folded."""

    def has(self, sentence_id: str, folded: str) -> bool:
        """Whether the sentence, or its folded text, is among them."""
        return sentence_id in self.ids or folded in self.texts


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The splits of questions, and of what questions share."""

    questions: Mapping[str, str]
    """question_id → its text."""
    near: Mapping[str, str]
    """question_id → the first of the questions that are nearly the same; only questions with labels and a split."""
    split_of: Mapping[str, Split]
    owner: dict[Key, Split]
    """The split that alone may have the labels of a document, or of questions that are nearly the same."""
    right: Mapping[str, RightSentences]
    """The first of questions that are nearly the same → what is right for one of them, labels that are left out too."""

    @classmethod
    def make(
        cls,
        labels: Sequence[SentenceLabel],
        questions: Mapping[str, str],
        rules: SplitRules,
        splits: Mapping[str, Split] | None = None,
    ) -> SplitPlan:
        """From the labels; `splits` (question_id → split), if there are some, take the place of `rules.shares`."""
        labelled = {label.question_id for label in labels if splits is None or label.question_id in splits}
        near = near_duplicates({q: questions[q] for q in labelled if q in questions}, rules.similar)
        known = [label for label in labels if label.question_id in near]
        apart = rules.documents_apart
        together = _links(known, near, lambda label: apart and label.label == 1)
        split_of = split(together, rules.shares, rules.seed) if splits is None else splits
        owner = owners(_links(known, near, lambda label: apart), split_of) | owners(together, split_of)
        right: dict[str, RightSentences] = defaultdict(RightSentences)
        for label in known:
            if label.label:
                of_near = right[near[label.question_id]]
                of_near.ids.add(label.sentence_id)
                of_near.texts.update([fold(label.text)] if label.text else [])
        return cls(questions, near, split_of, owner, dict(right))

    def right_for_near(self, question_id: str) -> RightSentences:
        """What is right for the question, or for one that is nearly the same."""
        return self.right.get(self.near.get(question_id, question_id), RightSentences())

    @property
    def near_duplicate_count(self) -> int:
        """How many questions are nearly the same as an earlier one."""
        return len(self.near) - len(set(self.near.values()))

    def refusal(self, label: SentenceLabel) -> str | None:
        """Why a label is left out; None if it is not."""
        q = label.question_id
        if q not in self.near:
            return "not_in_split_file" if q in self.questions else "unknown_question"
        for kind, name in (("question", self.near[q]), ("document", label.doc_id)):
            if self.owner.get((kind, name), self.split_of[q]) != self.split_of[q]:
                return f"{kind}_of_another_split"
        return None


def _links(
    labels: Iterable[SentenceLabel], near: Mapping[str, str], by_document: Callable[[SentenceLabel], bool]
) -> dict[str, set[Key]]:
    """question_id → its text, or one near it, and the documents of those of its labels that `by_document` selects."""
    links: dict[str, set[Key]] = {}
    for label in labels:
        keys = links.setdefault(label.question_id, {("question", near[label.question_id])})
        if by_document(label):
            keys.add(("document", label.doc_id))
    return links
