"""Drawing of a question's list: every sentence that could be in it is drawn, or left out with a reason."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from answermill.indexing.passages.text import fold, holds
from answermill.pipelines.data.publish.left_out import Reason
from answermill.pipelines.data.publish.lists.list_rules import (
    FILLERS,
    KINDS,
    Kind,
    ListRules,
    PlacedSentence,
    RetrievedSentence,
)
from answermill.pipelines.data.publish.lists.list_sources import Sentences
from answermill.pipelines.data.publish.question_splits import QuestionSplits
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.schemas.labels import SentenceLabel

RANDOM_TRIES = 1_000  # most sentences that a question draws: many may be of another split

Verdict: TypeAlias = tuple[PlacedSentence, Reason | None]
"""A sentence, and the reason why it may not be a wrong one of the list; None if it may."""


@dataclass(frozen=True, slots=True)
class ListQuestion:
    """A question, and all that decides which sentences may be in its list."""

    question_id: str
    labels: Sequence[SentenceLabel]
    """Its labels, by sentence id."""
    right_documents: Set[str]
    """Documents of labels that say right, also of labels that are left out."""
    answers: Sequence[str]
    """Its answer strings, folded."""
    retrieved: Mapping[str, RetrievedSentence]
    """sentence_id → its place in the ranking."""
    sentences: Sentences
    splits: QuestionSplits

    def place(self, sentence_id: str) -> PlacedSentence | None:
        """The sentence in the best passage that holds it; None if it is in none."""
        retrieved = self.retrieved.get(sentence_id)
        return self.sentences.get(sentence_id, retrieved.passage_id if retrieved else None)

    def order(self, place: PlacedSentence) -> tuple[int, tuple[int, ...], str, int]:
        """Sort key of a list: retrieved sentences in their order, then the others, by document."""
        retrieved = self.retrieved.get(place.sentence_id)
        return (0, retrieved.position, "", 0) if retrieved else (1, (), place.doc_id, place.start)

    def refusal(self, place: PlacedSentence, right_texts: Set[str], judged: bool = False) -> Reason | None:
        """Reason why it may not be a wrong sentence of the list; None if it may."""
        text = fold(place.text)
        if text in right_texts:
            return Reason.TEXT_OF_A_RIGHT_ONE
        if not judged and self.splits.right_for_near(self.question_id).has(place.sentence_id, text):
            return Reason.RIGHT_FOR_A_NEAR_QUESTION
        if place.doc_id in self.right_documents and any(holds(text, answer) for answer in self.answers):
            return Reason.ANSWER_STRING
        return (
            Reason.DOCUMENT_OF_ANOTHER_SPLIT
            if self.splits.is_elsewhere(self.question_id, place.doc_id)
            else None
        )


@dataclass(slots=True)
class Drawn:
    """The sentences of a list, and the number of those that are left out, by reason."""

    right: list[PlacedSentence] = field(default_factory=list)
    wrong: list[tuple[PlacedSentence, Kind]] = field(default_factory=list)
    left_out: Counter[Reason] = field(default_factory=Counter)
    documents: set[str] = field(default_factory=set)
    """Documents of the wrong ones, and of those left out only because the list has their text."""
    instead: int = 0
    """Number of wrong ones that make up for kinds with too few."""
    missing: int = 0
    """Number of wrong ones that no kind has."""


def draw_list(question: ListQuestion, rules: ListRules) -> Drawn:
    """The question's list; without a right sentence an empty one."""
    left_out: Counter[Reason] = Counter()
    right: dict[str, PlacedSentence] = {}  # by folded text
    judged: dict[str, PlacedSentence] = {}  # by id; those judged wrong

    for label in question.labels:
        place, reason = question.place(label.sentence_id), question.splits.refusal(label)
        if reason or place is None:
            left_out[reason or Reason.UNKNOWN_SENTENCE] += 1
        elif not label.label:
            judged[label.sentence_id] = place
        elif (text := fold(place.text)) in right:
            left_out[Reason.SAME_TEXT] += 1
        else:
            right[text] = place

    if not right:
        left_out[Reason.QUESTION_WITHOUT_ANSWER] += len(judged)
        return Drawn(left_out=left_out)

    drawn = draw(candidates(question, right.values(), judged, rules), rules.quotas(), right.keys())
    drawn.right = list(right.values())
    drawn.left_out += left_out
    return drawn


def candidates(
    question: ListQuestion,
    right: Collection[PlacedSentence],
    judged: Mapping[str, PlacedSentence],
    rules: ListRules,
) -> dict[Kind, Iterator[Verdict]]:
    """Kind → its sentences in the order of drawing: first those judged wrong, then by a hash of the seed.

    Raises JobError (65) while they are read, if a retrieved sentence is in no passage.
    """
    right_texts = {fold(place.text) for place in right}
    right_texts |= {fold(label.text) for label in question.labels if label.label and label.text}
    seen = {label.sentence_id for label in question.labels}

    # The documents of right sentences, the passages with one, and the best of other documents: all by
    # sentence ids.
    documents, right_ids = {place.doc_id for place in right}, {place.sentence_id for place in right}
    passages = [set(ids) for doc_id in documents for ids in question.sentences.passages(doc_id)]
    own = {sentence_id for ids in passages for sentence_id in ids}
    near = {sentence_id for ids in passages if not right_ids.isdisjoint(ids) for sentence_id in ids}
    others = {
        s for s, retrieved in question.retrieved.items() if retrieved.doc_id not in question.right_documents
    }
    judged_elsewhere = {s for s, place in judged.items() if place.doc_id not in documents}

    def verdicts(sentence_ids: Set[str]) -> Iterator[Verdict]:
        shuffled = rules.drawn(question.question_id, sentence_ids - (seen - judged.keys()))
        for sentence_id in sorted(shuffled, key=lambda name: name not in judged):
            place = judged.get(sentence_id) or question.place(sentence_id)
            if place is None:
                raise JobError(
                    f"question {question.question_id!r}: retrieved sentence {sentence_id!r} is in no "
                    "passage; retrieve again",
                    BAD_DATA,
                )
            yield place, question.refusal(place, right_texts, sentence_id in judged)

    pool = question.sentences.anywhere
    generator = random.Random(f"{rules.seed}:{question.question_id}")
    order = generator.sample(range(len(pool)), min(RANDOM_TRIES, len(pool)))
    unrelated = (pool[n] for n in order if pool[n].doc_id not in question.right_documents)
    return {
        "passage": verdicts(near),
        "document": verdicts(own - near),
        "retrieved": verdicts(others | judged_elsewhere),
        "random": (
            (p, question.refusal(p, right_texts)) for p in unrelated if p.sentence_id not in seen | others
        ),
    }


def draw(candidates: Mapping[Kind, Iterator[Verdict]], quotas: Mapping[Kind, int], texts: Set[str]) -> Drawn:
    """Wrong sentences up to the quotas, as far as the kinds have them; others make up for a kind with too
    few.

    No text is drawn twice, or is one of `texts` (folded). Every candidate is drawn or left out with its
    reason, apart from random ones, which are read as far as they are needed.
    """
    drawn, taken = Drawn(), set(texts)

    def take(kind: Kind, number: int) -> int:
        """Draw up to `number` of a kind; returns how many it lacks."""
        while number and (verdict := next(candidates[kind], None)):
            place, reason = verdict
            if reason is None:
                drawn.documents.add(place.doc_id)
                reason = Reason.SAME_TEXT if fold(place.text) in taken else None
            if reason is not None:
                drawn.left_out[reason] += 1
                continue
            taken.add(fold(place.text))
            drawn.wrong.append((place, kind))
            number -= 1
        return number

    lacking = drawn.missing = sum(take(kind, quota) for kind, quota in quotas.items())
    for kind in FILLERS:
        drawn.missing = take(kind, drawn.missing)
    drawn.instead = lacking - drawn.missing

    for kind in KINDS:
        if kind != "random":
            drawn.left_out.update(reason or Reason.NOT_DRAWN for _, reason in candidates[kind])

    return drawn
