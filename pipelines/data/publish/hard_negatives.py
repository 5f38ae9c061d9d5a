"""Hard negatives: windows that begin where the first retrieved passages begin, and hold no correct sentence (WQA §3.3).

So length does not tell them from positives: a window is longer than a passage cut for retrieval, and a model would learn
that. (Where they begin still could: a negative begins as a retrieved passage does, a positive at any sentence.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

from answermill.indexing.labels.windows import SentenceRun, passage
from answermill.pipelines.data.publish.cut_documents import ReadDocuments, WindowStart, cut, read_only, windows_at
from answermill.pipelines.data.publish.passage_set import CutDocument, PassageRules, QuestionPassages
from answermill.pipelines.data.publish.split_plan import Key
from answermill.pipelines.data.splits import CLAIMS, Split
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.schemas.corpus import Passage, Sentence
from answermill.schemas.ranked import Hit

ReadHits: TypeAlias = Callable[[Set[str]], Iterable[Hit]]
"""question_ids → the hits of these questions, and perhaps of others."""
_DOCUMENTS_AT_ONCE = 1_000  # held in memory, cut into sentences


class Retrieved(NamedTuple):
    """A passage that was retrieved for a question."""

    rank: int
    passage_id: str
    start: WindowStart | None
    """Its first sentence; None if no sentence begins in it, as may be with passages of `passages = "dpr"`."""
    correct: str | None
    """Why it may hold a correct sentence, as the counts name it; None if it does not."""


def choose(
    questions: Mapping[str, QuestionPassages],
    documents: Mapping[str, CutDocument],
    hits: ReadHits,
    owner: dict[Key, Split] | None,
    rules: PassageRules,
    counts: Counter[str],
) -> dict[str, list[WindowStart]]:
    """question_id → where its hard negatives begin, best first; counts what is left out.

    The document of a negative belongs to the split that takes it first, if documents have an `owner`. `documents` are those
    with labels: in no other can a window hold a correct sentence, or be one of the question's own.
    """
    retrieved = _retrieved(questions, hits)
    own = {
        each.start
        for q, ranked in retrieved.items()
        for each in ranked
        if each.start is not None and each.start[0] in questions[q].windows
    }
    runs: Mapping[WindowStart, SentenceRun] = dict(windows_at(own, documents, rules.max_tokens))
    chosen: dict[str, list[WindowStart]] = {q: [] for q in questions}

    def refusal(question: QuestionPassages, each: Retrieved) -> str | None:
        if each.correct:
            return each.correct
        if each.start is None:
            return "without_sentence"
        doc_id, run = each.start[0], runs.get(each.start)
        if run and (reason := correct_in(question, documents[doc_id][1][slice(*run)])):
            return reason
        if run in question.windows.get(doc_id, ()):
            return "same_as_window"
        if owner is not None and owner.setdefault(("document", doc_id), question.split) != question.split:
            return "document_of_another_split"
        return None

    for name in CLAIMS:
        for q, question in questions.items():
            if question.split != name:
                continue
            for each in sorted(retrieved[q], key=lambda each: (each.rank, each.passage_id)):
                if len(chosen[q]) == rules.negatives:
                    break
                if reason := refusal(question, each):
                    counts[f"retrieved_left_out_{reason}"] += 1
                elif each.start is not None:
                    chosen[q].append(each.start)
            counts["questions_short_of_negatives"] += len(chosen[q]) < rules.negatives
    return chosen


def correct_in(question: QuestionPassages, sentences: Sequence[Sentence]) -> str | None:
    """Why these sentences are no negative of the question, as the counts name it; None if they are one."""
    if any(sentence.sentence_id in question.correct for sentence in sentences):
        return "correct"
    return "looks_correct" if question.looks_correct(sentences) else None


def _retrieved(questions: Mapping[str, QuestionPassages], hits: ReadHits) -> dict[str, list[Retrieved]]:
    """question_id → what was retrieved for it, in any order."""
    retrieved: dict[str, list[Retrieved]] = {q: [] for q in questions}
    for hit in hits(questions.keys()):
        if (question := questions.get(hit.question_id)) is not None:
            sentences = hit.passage.sentences
            start = (hit.passage.doc_id, sentences[0].sentence_id) if sentences else None
            correct = correct_in(question, sentences)
            retrieved[hit.question_id].append(Retrieved(hit.rank, hit.passage.passage_id, start, correct))
    return retrieved


def cut_windows(
    starts: Set[WindowStart],
    documents: Mapping[str, CutDocument],
    read: ReadDocuments,
    rules: PassageRules,
    sentence_tokens: int,
) -> dict[WindowStart, Passage]:
    """The window that begins at each start. `documents` are some of the documents; others are read.

    Raises JobError (65) if a document has no such sentence.
    """
    others = read_only({doc_id for doc_id, _ in starts} - documents.keys(), read)
    blocks = iter(lambda: cut(islice(others, _DOCUMENTS_AT_ONCE), sentence_tokens), {})
    passages: dict[WindowStart, Passage] = {}
    for block in chain([documents], blocks):
        passages |= {start: passage(*block[start[0]], run) for start, run in windows_at(starts, block, rules.max_tokens)}
    if missing := sorted(starts - passages.keys()):
        raise JobError(
            f"a retrieved passage begins with sentence {missing[0][1]!r}, which is not in the documents "
            f"({len(missing)} such passages); retrieve again from these documents, or give --negatives 0",
            BAD_DATA,
        )
    return passages
