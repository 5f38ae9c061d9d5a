"""Labels of sentences become labels of the passages and documents that hold them (WQA §3.1, §3.3).

Pure functions over ids. A label names its sentence by id, or by its text, and then holds for every sentence of the
corpus with that text (letter case and white space folded), on whichever page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.corpus import Passage
from schemas.labels import DocumentLabel, PassageLabel, SentenceLabel


@dataclass(frozen=True, slots=True)
class GivenLabel:
    """A label as people gave it; `number` is its place in the file, and exactly one of `sentence_id` and `text` is given."""

    number: int
    question_id: str
    sentence_id: str | None
    text: str | None
    label: int


def fold(text: str) -> str:
    """The text with letter case and white space folded: what 'the same sentence' means."""
    return " ".join(text.casefold().split())


class GivenLabels:
    """Given labels, found by the sentence that they are of."""

    def __init__(self, labels: Iterable[GivenLabel]) -> None:
        self._by_id: dict[str, list[GivenLabel]] = {}
        self._by_text: dict[str, list[GivenLabel]] = {}
        for given in labels:
            if given.sentence_id is not None:
                self._by_id.setdefault(given.sentence_id, []).append(given)
            else:
                self._by_text.setdefault(fold(given.text or ""), []).append(given)

    def of(self, passages: Iterable[Passage]) -> tuple[list[SentenceLabel], set[int]]:
        """The labels of these passages' sentences, each sentence and question once, and the numbers of the given labels used.

        Where a label by id and one by text speak of the same sentence, the one by id holds: it is the more precise.
        """
        found: dict[tuple[str, str], SentenceLabel] = {}
        used: set[int] = set()
        for passage in passages:
            for sentence in passage.sentences:
                by_text, by_id = self._by_text.get(fold(sentence.text), []), self._by_id.get(sentence.sentence_id, [])
                for given in by_text + by_id:
                    found[given.question_id, sentence.sentence_id] = SentenceLabel(
                        given.question_id, sentence.sentence_id, passage.doc_id, sentence.text, given.label
                    )
                    used.add(given.number)
        return [found[key] for key in sorted(found)], used


def propagate(labels: Sequence[SentenceLabel], passages: Iterable[Passage]) -> list[PassageLabel]:
    """The passages that hold a labelled sentence, positive if one of theirs is correct; by question id, then passage id."""
    of_sentence: dict[str, list[SentenceLabel]] = {}
    for label in labels:
        of_sentence.setdefault(label.sentence_id, []).append(label)
    made = []
    for passage in passages:
        of_question: dict[str, list[SentenceLabel]] = {}
        for sentence in passage.sentences:
            for label in of_sentence.get(sentence.sentence_id, ()):
                of_question.setdefault(label.question_id, []).append(label)
        for question_id, held in of_question.items():
            ids = tuple(label.sentence_id for label in held)
            made.append(PassageLabel(question_id, passage.passage_id, passage.doc_id, max(label.label for label in held), ids))
    return sorted(made, key=lambda label: (label.question_id, label.passage_id))


def documents(labels: Iterable[SentenceLabel]) -> list[DocumentLabel]:
    """The documents that hold a labelled sentence, positive if one of theirs is correct; by question id, then document id."""
    best: dict[tuple[str, str], int] = {}
    for label in labels:
        key = (label.question_id, label.doc_id)
        best[key] = max(best.get(key, 0), label.label)
    return [DocumentLabel(question_id, doc_id, label) for (question_id, doc_id), label in sorted(best.items())]
