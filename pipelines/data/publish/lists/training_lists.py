"""Lists of sentences for training: labels of a run's sentences in; answer sentence selection data, in train, dev and test, out.

A question's list has its right sentences and wrong ones of four kinds in given shares (`list_rules.Kind`). Wrong is what was
judged so, and what nobody judged, with four exceptions: a sentence of a right one's document that holds an answer string is
neither right nor wrong; nor is one with the text of a right one, or that is right for a question that is nearly the same; and a
text is once in a list. Every sentence that could have
been in a list is counted, as used or by why it was not. Questions and documents are kept apart as those of passages are.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from answermill.indexing.passages.text import fold, holds, one_line
from answermill.pipelines.data.publish.lists.list_rules import FILLERS, KINDS, Kind, ListRules, Place
from answermill.pipelines.data.publish.lists.list_sources import ReadPassages, ReadRanking, Retrieved, Sentences, drawn_passages
from answermill.pipelines.data.publish.split_plan import SplitPlan
from answermill.pipelines.data.splits import CLAIMS, SPLITS, Split
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.schemas.labels import LabelledCandidate, SentenceLabel

RANDOM_PASSAGES = 2_000  # of the whole corpus; every question draws from their sentences
RANDOM_TRIES = 1_000  # sentences that a question draws at the most: many may be of another split


@dataclass(frozen=True, slots=True)
class TrainingLists:
    """The lists of each split, and what became of everything that could have been in them."""

    lists: Sequence[tuple[Split, Sequence[LabelledCandidate]]]
    """By split, then by question id."""
    counts: Counter[str]


def build(
    labels: Iterable[SentenceLabel],
    questions: Mapping[str, str],
    ranking: ReadRanking,
    passages: ReadPassages,
    passage_ids: Iterable[tuple[str, str]],
    rules: ListRules | None = None,
    splits: Mapping[str, Split] | None = None,
    answers: Mapping[str, Sequence[str]] | None = None,
) -> TrainingLists:
    """The lists; nothing depends on the order of what comes in.

    `questions` maps ids to texts; `passage_ids` are the (passage_id, doc_id) of all passages, read if random sentences are
    drawn. `splits` (question_id → split), if there are some, take the place of `rules.shares`; `answers` are the answer strings
    of each question.

    Raises JobError (65) if no label can be used, or if what was retrieved is not of these passages.
    """
    rules, all_labels = rules or ListRules(), list(labels)
    plan = SplitPlan.make(all_labels, questions, rules, splits)
    of_question: dict[str, list[SentenceLabel]] = defaultdict(list)
    for label in sorted(all_labels, key=lambda label: (label.question_id, label.sentence_id)):
        of_question[label.question_id].append(label)
    own = {q: {label.doc_id for label in own_labels if label.label} for q, own_labels in of_question.items() if q in plan.near}
    own_right = {q: docs for q, docs in own.items() if docs}
    retrieved = Retrieved(ranking(own_right.keys()) if own_right else (), own_right, rules.depth)
    random_passages = drawn_passages(passage_ids, RANDOM_PASSAGES, rules.seed) if rules.quotas()["random"] else []
    whole = {label.doc_id for label in all_labels}
    sentences = Sentences(
        passages(whole | retrieved.documents() | {doc_id for _, doc_id in random_passages}),
        whole,
        retrieved.places(),
        {passage_id for passage_id, _ in random_passages},
    )
    counts = Counter(questions=len(of_question), questions_near_duplicates=plan.near_duplicate_count)
    if answers is not None:
        counts["questions_without_answer_strings"] = sum(not answers.get(q) for q in of_question)
    lists = {}
    for split in CLAIMS:
        for q, own_labels in of_question.items():
            if (plan.split_of[q] if q in plan.near else CLAIMS[-1]) == split:
                drawing = _Drawing(
                    q, own_labels, plan, retrieved if own.get(q) else None, sentences, rules, (answers or {}).get(q, ())
                )
                rows = drawing.rows()
                counts.update(drawing.counts)
                if rows:
                    lists[q] = rows
    outcomes = sum(n for name, n in counts.items() if name.startswith(("candidates_left_out_", "negatives_", "positives")))
    if counts["candidates"] != outcomes:
        raise RuntimeError(f"{counts['candidates']} candidates came in, {outcomes} were used or left out")
    if not lists:
        raise JobError(f"no label can be used: {json.dumps(counts)}", BAD_DATA)
    counts["questions_left_out"] = counts["questions"] - len(lists)
    if splits is not None:
        counts["split_file_questions_without_labels"] = len(splits.keys() - of_question.keys())
    ordered = sorted(lists, key=lambda q: (SPLITS.index(plan.split_of[q]), q))
    return TrainingLists([(plan.split_of[q], lists[q]) for q in ordered], counts)


class _Drawing:
    """Draws a question's list, and counts all that could have been in it."""

    def __init__(
        self,
        question_id: str,
        labels: Sequence[SentenceLabel],
        plan: SplitPlan,
        retrieved: Retrieved | None,
        sentences: Sentences,
        rules: ListRules,
        answers: Sequence[str],
    ) -> None:
        """`retrieved`: None for a question without a right sentence."""
        self._id, self._labels, self._plan, self._rules, self._sentences = question_id, labels, plan, rules, sentences
        self._own = retrieved.own(question_id) if retrieved else {}
        self._others = retrieved.others(question_id) if retrieved else {}
        self._answers = [fold(one_line(answer)) for answer in answers]
        self._right_texts = {fold(label.text) for label in labels if label.label and label.text}
        self._right_documents = {label.doc_id for label in labels if label.label}
        self._texts: set[str] = set()  # folded, of what is in the list
        self._seen = {label.sentence_id for label in labels}
        self._list: list[tuple[Place, int]] = []
        self.counts: Counter[str] = Counter()

    def rows(self) -> list[LabelledCandidate]:
        """The list in the order of retrieval, then what was not retrieved, by document; [] without a right sentence."""
        judged = self._take_labels()
        if not self._list:
            return []
        right = {place.sentence_id for place, _ in self._list}
        drawn = {kind: iter(self._eligible(kind, judged, right)) for kind in KINDS}
        missing = 0
        for kind, quota in self._rules.quotas().items():
            missing += quota - self._draw(kind, drawn[kind], quota)
        for kind in FILLERS:
            instead = self._draw(kind, drawn[kind], missing)
            self.counts["instead_of_other_kinds"] += instead
            missing -= instead
        self.counts["questions_short_of_negatives"] += missing > 0
        for kind in KINDS[:-1]:  # of random ones there is no end
            for _ in drawn[kind]:
                self._leave_out("not_drawn")
        text = self._plan.questions[self._id]
        return [
            LabelledCandidate(
                self._id, text, p.sentence_id, p.doc_id, p.title, n, p.text, label, p.previous, p.next, place=p.number
            )
            for n, (p, label) in enumerate(sorted(self._list, key=lambda each: self._order(each[0])))
        ]

    def _take_labels(self) -> dict[str, Place]:
        """Puts the right sentences into the list; returns those that were judged wrong."""
        judged: dict[str, Place] = {}
        right: list[Place] = []
        for label in self._labels:
            place = self._place(label.sentence_id)
            reason = self._plan.refusal(label) or ("unknown_sentence" if place is None else None)
            if reason or place is None:
                self._leave_out(reason or "", considered=True)
            elif label.label:
                right.append(place)
            else:
                judged[label.sentence_id] = place
        for place in right:
            self._right_texts.add(fold(place.text))
            self.counts["candidates"] += 1
            self._put(place, 1, "positives")
        if not right:
            for _ in judged:
                self._leave_out("question_without_answer", considered=True)
        return judged

    def _eligible(self, kind: Kind, judged: Mapping[str, Place], right: Set[str]) -> Iterator[Place]:
        """The sentences of a kind that may be in the list, as they are drawn: first those that were judged wrong, then by a
        hash. Those that may not are counted."""
        if kind == "random":
            yield from (place for place in self._at_random() if self._may_stand(place))
            return
        documents = {place.doc_id for place, label in self._list if label}
        near = {
            s
            for doc_id in documents
            for passage in self._sentences.passages(doc_id)
            if not right.isdisjoint(passage)
            for s in passage
        }
        if kind == "passage":
            ids = near
        elif kind == "document":
            ids = {s for doc_id in documents for passage in self._sentences.passages(doc_id) for s in passage} - near
        else:
            ids = {*self._others, *(s for s, place in judged.items() if place.doc_id not in documents)}
        of_kind = self._rules.drawn(self._id, ids - (self._seen - judged.keys()))
        for sentence_id in sorted(of_kind, key=lambda each: each not in judged):
            place = judged.get(sentence_id) or self._place(sentence_id)
            if place is None:
                raise JobError(
                    f"question {self._id!r}: retrieved sentence {sentence_id!r} is in no passage; retrieve again", BAD_DATA
                )
            if self._may_stand(place, sentence_id in judged):
                yield place

    def _at_random(self) -> Iterator[Place]:
        """Sentences of random passages of other documents, in an order of the question's own."""
        pool, elsewhere = self._sentences.anywhere, self._seen | self._others.keys()
        for n in random.Random(f"{self._rules.seed}:{self._id}").sample(range(len(pool)), min(RANDOM_TRIES, len(pool))):
            place = pool[n]
            if place.doc_id not in self._right_documents and place.sentence_id not in elsewhere:
                yield place

    def _may_stand(self, place: Place, judged: bool = False) -> bool:
        """Whether it may be a wrong sentence of the list; counts it."""
        self.counts["candidates"] += 1
        text, split = fold(place.text), self._plan.split_of[self._id]
        if text in self._right_texts:
            return self._leave_out("text_of_a_right_one")
        if not judged and self._plan.right_for_near(self._id).has(place.sentence_id, text):
            return self._leave_out("right_for_a_near_question")
        if place.doc_id in self._right_documents and any(holds(text, answer) for answer in self._answers):
            return self._leave_out("answer_string")
        if self._rules.documents_apart and self._plan.owner.get(("document", place.doc_id), split) != split:
            return self._leave_out("document_of_another_split")
        return True

    def _draw(self, kind: Kind, places: Iterator[Place], number: int) -> int:
        """Puts up to `number` of the sentences into the list; returns how many it was."""
        before = self.counts[f"negatives_{kind}"]
        while self.counts[f"negatives_{kind}"] < before + number and (place := next(places, None)):
            if self._rules.documents_apart:
                self._plan.owner.setdefault(("document", place.doc_id), self._plan.split_of[self._id])
            self._put(place, 0, f"negatives_{kind}")
        return self.counts[f"negatives_{kind}"] - before

    def _put(self, place: Place, label: int, counted_as: str) -> None:
        if (text := fold(place.text)) in self._texts:
            self._leave_out("same_text")
            return
        self._texts.add(text)
        self._list.append((place, label))
        self.counts[counted_as] += 1

    def _leave_out(self, reason: str, considered: bool = False) -> bool:
        self.counts["candidates"] += considered
        self.counts[f"candidates_left_out_{reason}"] += 1
        return False

    def _place(self, sentence_id: str) -> Place | None:
        retrieved = self._own.get(sentence_id) or self._others.get(sentence_id)
        return self._sentences.get(sentence_id, retrieved.passage_id if retrieved else None)

    def _order(self, place: Place) -> tuple[int, tuple[int, ...], str, int]:
        retrieved = self._own.get(place.sentence_id) or self._others.get(place.sentence_id)
        return (0, retrieved.position, "", 0) if retrieved else (1, (), place.doc_id, place.start)
