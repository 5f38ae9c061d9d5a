"""Sources of lists of sentences: the ranking of each question, and the sentences of passages."""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

from answermill.pipelines.data.publish.lists.list_rules import PlacedSentence, RetrievedSentence
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.schemas.corpus import Passage
from answermill.schemas.ranked import Hit, ScoredCandidate

ReadRanking: TypeAlias = Callable[[Set[str]], Iterable[RetrievedSentence]]
"""question_ids → sentences retrieved for these questions, and perhaps for others; a sentence may occur
twice."""
ReadPassages: TypeAlias = Callable[[Set[str]], Iterable[Passage]]
"""doc_ids → all passages of these documents, and perhaps of others."""


class Sources(NamedTuple):
    """Readers of a run."""

    ranking: ReadRanking
    passages: ReadPassages
    passage_ids: Iterable[tuple[str, str]]
    """(passage_id, doc_id) of all passages; read if random sentences are drawn."""


def by_rank(hits: Iterable[Hit]) -> Iterator[RetrievedSentence]:
    """Sentences of retrieved passages: the best are those of the best passage, in reading order."""
    for hit in hits:
        passage = hit.passage
        for n, sentence in enumerate(passage.sentences):
            place = (hit.rank, n)
            yield RetrievedSentence(
                hit.question_id, sentence.sentence_id, passage.doc_id, passage.passage_id, place, place
            )


def by_stage(rows: Iterable[ScoredCandidate], stage: str) -> Iterator[RetrievedSentence]:
    """Sentences that a plan scored: the best are those that the stage kept, by its scores; then those that
    left at its exits, and those that left before it, the later the better.

    Raises JobError (78) at the end if it has scored none.
    """
    scored = 0
    for row in rows:
        if row.unit == "sentence":
            names = [entry.stage for entry in row.stages]
            scored += stage in names
            passed = names.index(stage) + 1 if stage in names else len(names)
            last_score, at_exit = row.fused_score, 0

            # The score that ranks it is the last that it got, at the exit where it left.
            if passed:
                last = row.stages[passed - 1]
                last_score, at_exit = last.score, last.exit or 0 if last.rank is None else 0

            left_here = (float(at_exit > 0), -float(at_exit))  # scores of different exits do not compare
            goodness = (
                float(stage not in names),
                -float(passed),
                *left_here,
                -last_score,
                float(row.position),
            )
            yield RetrievedSentence(
                row.question_id, row.candidate_id, row.doc_id, row.passage_id, goodness, (row.position,)
            )

    if not scored:
        raise JobError(
            f"--by {stage}: it has scored no sentence of these questions; name another stage, or 'retrieved'",
            SETTINGS,
        )


def first_retrieved(
    ranking: Iterable[RetrievedSentence], own: Mapping[str, Set[str]], depth: int
) -> dict[str, dict[str, RetrievedSentence]]:
    """question_id → sentence_id → its best place in the ranking: all sentences of the question's `own`
    documents, then the first `depth` of others, the best first."""
    inside: dict[str, dict[str, RetrievedSentence]] = {q: {} for q in own}
    outside: dict[str, dict[str, RetrievedSentence]] = {q: {} for q in own}

    def first(best: Mapping[str, RetrievedSentence]) -> dict[str, RetrievedSentence]:
        chosen = heapq.nsmallest(depth, best.values(), key=lambda s: (s.goodness, s.sentence_id))
        return {sentence.sentence_id: sentence for sentence in chosen}

    for sentence in ranking:
        q, name = sentence.question_id, sentence.sentence_id
        if q in own:
            best = (inside if sentence.doc_id in own[q] else outside)[q]
            best[name] = min(best.get(name, sentence), sentence, key=lambda s: s.goodness)
            if len(outside[q]) >= 8 * depth:  # so that memory holds few of each question
                outside[q] = first(outside[q])

    return {q: inside[q] | first(outside[q]) for q in own}


class Sentences:
    """The sentences of passages, with their neighbours there."""

    def __init__(
        self,
        passages: Iterable[Passage],
        whole: Collection[str],
        some: Collection[tuple[str, str]],
        anywhere: Collection[str] = (),
    ) -> None:
        """Keep all sentences of the documents `whole`; of others those that are in `some`, as (sentence_id,
        passage_id); and besides those of the passages `anywhere`."""
        anything: dict[str, PlacedSentence] = {}
        first: dict[str, tuple[int, PlacedSentence]] = {}
        self._exact: dict[tuple[str, str], PlacedSentence] = {}
        self._passages: dict[str, list[tuple[str, ...]]] = defaultdict(list)

        for passage in passages:
            for place in places(passage):
                if (key := (place.sentence_id, passage.passage_id)) in some:
                    self._exact[key] = place
                if passage.passage_id in anywhere:
                    anything[place.sentence_id] = min(anything.get(place.sentence_id, place), place)
                if passage.doc_id in whole:
                    first[place.sentence_id] = min(
                        first.get(place.sentence_id, (passage.start, place)), (passage.start, place)
                    )

            if passage.doc_id in whole:
                self._passages[passage.doc_id].append(tuple(s.sentence_id for s in passage.sentences))

        self._first = {sentence_id: place for sentence_id, (_, place) in first.items()}
        self.anywhere: Sequence[PlacedSentence] = sorted(anything.values())
        """The sentences of the passages `anywhere`, each once."""

    def get(self, sentence_id: str, passage_id: str | None = None) -> PlacedSentence | None:
        """The sentence in that passage; else in the first of its document's that holds it."""
        return self._exact.get((sentence_id, passage_id or "")) or self._first.get(sentence_id)

    def passages(self, doc_id: str) -> Sequence[tuple[str, ...]]:
        """The sentences of each passage of a whole document."""
        return self._passages.get(doc_id, ())


def places(passage: Passage) -> Iterator[PlacedSentence]:
    """The sentences of a passage."""
    texts = ["", *(sentence.text for sentence in passage.sentences), ""]
    for n, s in enumerate(passage.sentences):
        place = s.sentence_id, passage.doc_id, passage.passage_id, s.start
        yield PlacedSentence(*place, passage.title, s.text, texts[n], texts[n + 2], n)


def drawn_passages(ids: Iterable[tuple[str, str]], number: int, seed: int) -> list[tuple[str, str]]:
    """`number` of the (passage_id, doc_id), those whose hash with the seed is smallest; no order matters."""
    keyed = (
        (hashlib.sha256(f"{seed}:{passage_id}".encode()).digest(), passage_id, doc_id)
        for passage_id, doc_id in ids
    )
    return [(passage_id, doc_id) for _, passage_id, doc_id in heapq.nsmallest(number, keyed)]
