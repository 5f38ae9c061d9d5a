"""Probes of a reranker: changes of labelled lists that leave the right answers right, and what each does to
P@1. A model that reads the answer ignores them; one that looks at length, place or the question's words does
not (ColDeR, Fayyaz et al. 2025, asks the same of retrievers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from answermill.ranking.evaluation.significance import Comparison, compare
from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import ranked_by
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.baselines.same_answer import folded
from answermill.schemas.arrays import Floats
from answermill.schemas.labels import LabelledCandidate

Rows = Sequence[LabelledCandidate]
_LISTS = 64  # handed to a reranker at once
_QUESTION_WORDS = frozenset(("what", "who", "whom", "whose", "which", "when", "where", "why", "how"))


def longer_wrong(rows: Rows) -> Rows:
    """Each wrong candidate is followed by the next wrong one in its text, so that it is about twice as
    long."""
    wrong = [row for row in rows if not row.label]
    after = {row.candidate_id: wrong[(n + 1) % len(wrong)].text for n, row in enumerate(wrong)}
    return [row if row.label else replace(row, text=f"{row.text} {after[row.candidate_id]}") for row in rows]


def longer_right(rows: Rows) -> Rows:
    """Each right candidate is followed by the first wrong one in its text."""
    wrong = next(row.text for row in rows if not row.label)
    return [replace(row, text=f"{row.text} {wrong}") if row.label else row for row in rows]


def right_last(rows: Rows) -> Rows:
    """The right candidates are at the end of the list."""
    return _in_order([*(row for row in rows if not row.label), *(row for row in rows if row.label)])


def right_first(rows: Rows) -> Rows:
    """The right candidates are at the beginning of the list."""
    return _in_order([*(row for row in rows if row.label), *(row for row in rows if not row.label)])


def no_shared_words(rows: Rows) -> Rows:
    """Right candidates lose the words that they share with the question, but for short ones."""
    asked = {word for word in folded(rows[0].question).split() if len(word) > 3}
    changed = []
    for row in rows:
        kept = [word for word in row.text.split() if folded(word) not in asked]
        changed.append(replace(row, text=" ".join(kept)) if row.label and kept else row)
    return changed


def repeated_question(rows: Rows) -> Rows:
    """The question itself is one more candidate, a wrong one."""
    return _with_wrong(rows, rows[0].question)


def foil(rows: Rows) -> Rows:
    """One more candidate looks right: the question's words, then the first wrong sentence."""
    wrong = next(row.text for row in rows if not row.label)
    words = [word for word in rows[0].question.rstrip("? ").split() if folded(word) not in _QUESTION_WORDS]
    return _with_wrong(rows, f"{' '.join(words)}: {wrong}")


PROBES: Mapping[str, Callable[[Rows], Rows]] = MappingProxyType(
    {
        probe.__name__: probe
        for probe in (
            longer_wrong,
            longer_right,
            right_first,
            right_last,
            no_shared_words,
            repeated_question,
            foil,
        )
    }
)
"""Name of a probe → the change that it makes to a question's candidates."""


@dataclass(frozen=True, slots=True)
class Probed:
    """P@1 of a reranker on lists as they are, and the comparison with each probe's."""

    questions: int
    p1: float
    probes: Mapping[str, Comparison]
    """`difference` is what the probe adds to P@1, from 0 to 1."""


def probe(reranker: Reranker, lists: Sequence[Rows]) -> Probed:
    """Run all probes over the lists that have a right candidate and a wrong one. Raises ValueError if there
    is none."""
    used = [rows for rows in lists if len({row.label > 0 for row in rows}) == 2]
    if not used:
        raise ValueError("no question has a right candidate and a wrong one")
    plain = first_is_right(reranker, used)
    probes = {
        name: compare(plain, first_is_right(reranker, [change(rows) for rows in used]))
        for name, change in PROBES.items()
    }
    return Probed(len(used), float(plain.mean()), probes)


def first_is_right(reranker: Reranker, lists: Sequence[Rows]) -> Floats:
    """[lists]: 1 if the candidate that the reranker puts first is right; 0 too where it keeps none."""
    return np.array(list(_first_is_right(reranker, lists)), np.float64)


def _first_is_right(reranker: Reranker, lists: Sequence[Rows]) -> Iterator[float]:
    for start in range(0, len(lists), _LISTS):
        block = lists[start : start + _LISTS]
        reranked = ranked_by(reranker, [ranked_list(rows) for rows in block], f"ranker {reranker.name}")
        for rows, ranked in zip(block, reranked, strict=True):
            right = {row.candidate_id for row in rows if row.label}
            yield float(bool(ranked.candidates) and ranked.candidates[0].candidate_id in right)


def _with_wrong(rows: Rows, text: str) -> Rows:
    """The rows, and a wrong candidate of its own document at the end."""
    added = LabelledCandidate(
        rows[0].question_id, rows[0].question, "probe", "probe", rows[-1].title, len(rows), text, 0
    )
    return [*rows, added]


def _in_order(rows: Rows) -> Rows:
    return [replace(row, position=n) for n, row in enumerate(rows)]
