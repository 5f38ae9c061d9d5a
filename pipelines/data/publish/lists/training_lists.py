"""Lists of sentences for training: labels of a run's sentences -> data of answer sentence selection, in
train, dev and test.

A question's list has its right sentences and wrong ones of four kinds in given shares (`list_rules.Kind`). A
sentence is wrong if it was judged so, or not judged, with four exceptions: a sentence of a right one's
document that holds an answer string is neither right nor wrong; nor is one with the text of a right one, or
that is right for a question that is nearly the same; and a text is once in a list. Every sentence that could
have been in a list is counted, as used or by the reason why it was not. Questions and documents are kept
apart as those of passages are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from answermill.indexing.passages.text import fold, one_line
from answermill.pipelines.data.publish.left_out import Reason, left_out_counts
from answermill.pipelines.data.publish.lists.list_drawing import Drawn, ListQuestion, draw_list
from answermill.pipelines.data.publish.lists.list_rules import KINDS, ListRules
from answermill.pipelines.data.publish.lists.list_sources import (
    Sentences,
    Sources,
    drawn_passages,
    first_retrieved,
)
from answermill.pipelines.data.publish.question_splits import LabelledQuestions, QuestionSplits
from answermill.pipelines.data.splits import SPLITS, Split
from answermill.schemas.labels import LabelledCandidate, SentenceLabel

RANDOM_PASSAGES = 2_000  # of the whole corpus; every question draws from their sentences


@dataclass(frozen=True, slots=True)
class TrainingLists:
    """The lists of each split, and counts of all that could have been in them."""

    lists: Sequence[tuple[Split, Sequence[LabelledCandidate]]]
    """The lists, by split, then by question id."""
    counts: Counter[str]


def build(
    labelled: LabelledQuestions,
    sources: Sources,
    rules: ListRules | None = None,
    answers: Mapping[str, Sequence[str]] | None = None,
) -> TrainingLists:
    """The lists; nothing depends on the order of the inputs. `answers` are the answer strings of each
    question.

    Raises JobError (65) if no label can be used, or if a retrieved sentence is in none of these passages.
    """
    rules, answer_strings = rules or ListRules(), answers or {}
    splits = QuestionSplits.make(labelled, rules)
    labels: dict[str, list[SentenceLabel]] = defaultdict(list)
    for label in sorted(labelled.labels, key=lambda label: (label.question_id, label.sentence_id)):
        labels[label.question_id].append(label)

    right_documents = {q: {label.doc_id for label in own if label.label} for q, own in labels.items()}
    own = {q: doc_ids for q, doc_ids in right_documents.items() if doc_ids and q in splits.near}
    retrieved = first_retrieved(sources.ranking(own.keys()) if own else (), own, rules.depth)
    ranked = [sentence for best in retrieved.values() for sentence in best.values()]
    random_passages = (
        drawn_passages(sources.passage_ids, RANDOM_PASSAGES, rules.seed) if rules.quotas()["random"] else []
    )
    whole = {label.doc_id for label in labelled.labels}
    sentences = Sentences(
        sources.passages(whole | {s.doc_id for s in ranked} | {doc_id for _, doc_id in random_passages}),
        whole,
        {(s.sentence_id, s.passage_id) for s in ranked},
        {passage_id for passage_id, _ in random_passages},
    )

    # One question after the other: the documents of its list then belong to its split.
    lists: dict[str, list[LabelledCandidate]] = {}
    counts: Counter[str] = Counter()
    left_out: Counter[Reason] = Counter()

    for q in splits.by_claim(labels):
        strings = [fold(one_line(answer)) for answer in answer_strings.get(q, ())]
        question = ListQuestion(
            q, labels[q], right_documents[q], strings, retrieved.get(q, {}), sentences, splits
        )
        drawn = draw_list(question, rules)
        left_out += drawn.left_out
        counts.update(_counts(drawn))
        if drawn.right:
            splits.claim(q, drawn.documents)
            lists[q] = _rows(question, drawn)

    counts["candidates"] = sum(
        counts[name] for name in ("positives", *(f"negatives_{kind}" for kind in KINDS))
    )
    counts["candidates"] += left_out.total()
    if answers is not None:
        counts["questions_without_answer_strings"] = sum(not answers.get(q) for q in labels)
    account = splits.account(len(lists), counts | left_out_counts("candidates", left_out))
    ordered = sorted(lists, key=lambda q: (SPLITS.index(splits.split_of[q]), q))

    return TrainingLists([(splits.split_of[q], lists[q]) for q in ordered], account)


def _counts(drawn: Drawn) -> dict[str, int]:
    """Counts of a list."""
    kinds = Counter(kind for _, kind in drawn.wrong)
    return {
        "positives": len(drawn.right),
        **{f"negatives_{kind}": kinds[kind] for kind in KINDS},
        "instead_of_other_kinds": drawn.instead,
        "questions_short_of_negatives": int(drawn.missing > 0),
    }


def _rows(question: ListQuestion, drawn: Drawn) -> list[LabelledCandidate]:
    """The list in the order of retrieval, then the sentences that were not retrieved, by document."""
    q, text = question.question_id, question.splits.labelled.questions[question.question_id]
    labelled = [*((place, 1) for place in drawn.right), *((place, 0) for place, _ in drawn.wrong)]
    ordered = sorted(labelled, key=lambda pair: question.order(pair[0]))
    return [
        LabelledCandidate(
            q, text, p.sentence_id, p.doc_id, p.title, n, p.text, label, p.previous, p.next, place=p.number
        )
        for n, (p, label) in enumerate(ordered)
    ]
