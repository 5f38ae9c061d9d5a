"""A question's list and its rows of scored/, in which several pages say when a bridge was opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from answermill.ranking.plan import Departure, Reranked
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.ranked import Candidate, Hit, RankedList, ScoredCandidate, StageScore

SAME = "The bridge was opened in May 1932."
KEPT = [
    (SAME, "http://www.a.org/1", "2020-02-01T00:00:00Z"),
    ("It is old.", "http://a.org/2", ""),
    ("the bridge was opened in may 1932", "http://b.org/1", "2019-01-01T00:00:00Z"),
    ("Nobody knows.", "http://b.org/1", "2019-01-01T00:00:00Z"),
]
DROPPED = [
    ("The bridge was opened in May 1932!", "http://blog.a.org/1", ""),
    ("The lost one.", "http://c.org/1", ""),
]


def outcome(kept: Sequence[tuple[str, str, str]] = KEPT) -> tuple[RankedList, list[ScoredCandidate]]:
    """A list, and its rows: the kept ones best first, then those that a stage has dropped."""
    candidates = []
    for n, (text, url, date) in enumerate([*kept, *DROPPED]):
        sentence = Sentence(f"d{n}@0", 0, len(text), text)
        passage = Passage(f"d{n}#0", f"d{n}", url, "T", 0, len(text), text, (sentence,), "w", n, "", date)
        hit = Hit("q", "When?", n + 1, 1.0, None, None, None, None, passage)
        candidates.append(Candidate(hit, sentence, n, (StageScore("s", 9.0 - n, n + 1),)))
    ranked = RankedList(Question("q", "When?"), tuple(candidates))
    left = tuple(Departure(c, "s") for c in reversed(candidates[len(kept) :]))
    return ranked, Reranked(replace(ranked, candidates=ranked.candidates[: len(kept)]), left).rows()
