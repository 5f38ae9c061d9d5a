"""Hard negatives: windows that begin where the first retrieved passages begin, and hold no correct sentence.

Not WQA's, whose negatives hold a sentence that was judged wrong (§3.3). Their length does not distinguish
them from positives: a window is longer than a passage cut for retrieval, and a model would learn that. (Their
start still could: a negative begins as a retrieved passage does, a positive at any sentence.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

from answermill.indexing.labels.windows import SentenceRun, passage
from answermill.pipelines.data.publish.cut_documents import (
    ReadDocuments,
    WindowStart,
    cut,
    read_only,
    windows_at,
)
from answermill.pipelines.data.publish.left_out import Reason
from answermill.pipelines.data.publish.passage_set import CutDocument, PassageRules, QuestionPassages
from answermill.pipelines.data.publish.question_splits import QuestionSplits
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.schemas.corpus import Passage
from answermill.schemas.ranked import Hit

ReadHits: TypeAlias = Callable[[Set[str]], Iterable[Hit]]
"""question_ids → the hits of these questions, and perhaps of others."""
_DOCUMENTS_AT_ONCE = 1_000  # held in memory, cut into sentences


class RetrievedPassage(NamedTuple):
    """A passage that was retrieved for a question; sorts by rank."""

    rank: int
    passage_id: str
    start: WindowStart | None
    """Its first sentence; None if no sentence begins in it, as may be with passages of `passages = "dpr"`."""
    refusal: Reason | None
    """Reason why its own sentences are no negative; None if they may be one."""


def choose(
    questions: Mapping[str, QuestionPassages],
    documents: Mapping[str, CutDocument],
    hits: ReadHits,
    splits: QuestionSplits,
    rules: PassageRules,
) -> tuple[dict[str, list[WindowStart]], Counter[Reason]]:
    """question_id → starts of its hard negatives, best first; and the number left out, by reason.

    The document of a negative belongs to the split that takes it first. `documents` are those with labels: in
    no other can a window hold a correct sentence, or be one of the question's own.
    """
    retrieved = _retrieved(questions, hits)
    starts = {
        (q, candidate.start)
        for q, ranked in retrieved.items()
        for candidate in ranked
        if candidate.start is not None
    }
    labelled = {start for q, start in starts if start[0] in questions[q].windows}
    runs: Mapping[WindowStart, SentenceRun] = dict(windows_at(labelled, documents, rules.max_tokens))

    def refusal(q: str, start: WindowStart) -> Reason | None:
        doc_id, run = start[0], runs.get(start)
        if run and (reason := questions[q].refusal(documents[doc_id][1][slice(*run)])):
            return reason
        if run in questions[q].windows.get(doc_id, ()):
            return Reason.SAME_AS_WINDOW
        return Reason.DOCUMENT_OF_ANOTHER_SPLIT if splits.is_elsewhere(q, doc_id) else None

    chosen: dict[str, list[WindowStart]] = {q: [] for q in questions}
    left_out: Counter[Reason] = Counter()
    for q in splits.by_claim(questions):
        for candidate in sorted(retrieved[q], key=lambda passage: (passage.rank, passage.passage_id)):
            if len(chosen[q]) == rules.negatives:
                break
            if candidate.start is None:
                left_out[candidate.refusal or Reason.WITHOUT_SENTENCE] += 1
            elif reason := candidate.refusal or refusal(q, candidate.start):
                left_out[reason] += 1
            else:
                chosen[q].append(candidate.start)
                splits.claim(q, [candidate.start[0]])

    return chosen, left_out


def _retrieved(
    questions: Mapping[str, QuestionPassages], hits: ReadHits
) -> dict[str, list[RetrievedPassage]]:
    """question_id → the passages retrieved for it, in any order."""
    retrieved: dict[str, list[RetrievedPassage]] = {q: [] for q in questions}
    for hit in hits(questions.keys()):
        if (question := questions.get(hit.question_id)) is not None:
            sentences = hit.passage.sentences
            start = (hit.passage.doc_id, sentences[0].sentence_id) if sentences else None
            candidate = RetrievedPassage(hit.rank, hit.passage.passage_id, start, question.refusal(sentences))
            retrieved[hit.question_id].append(candidate)
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
        passages |= {
            start: passage(*block[start[0]], run)
            for start, run in windows_at(starts, block, rules.max_tokens)
        }

    if missing := sorted(starts - passages.keys()):
        raise JobError(
            f"a retrieved passage begins with sentence {missing[0][1]!r}, which is not in the documents "
            f"({len(missing)} such passages); retrieve again from these documents, or give --negatives 0",
            BAD_DATA,
        )

    return passages
