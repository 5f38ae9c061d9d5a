"""Probes: what each changes, that right answers stay right, and whom each misleads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest

from answermill.pipelines.learn.audit import probes
from answermill.pipelines.learn.audit.probes import PROBES, probe
from answermill.ranking.reranker import order_by
from answermill.ranking.rerankers.baselines.overlap import Overlap
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import Candidate, CandidateKind, RankedList

ASKED = "Which city is the capital?"
CANDIDATES = [("Wrong one.", 0), ("The capital is Paris.", 1), ("Wrong two is here.", 0)]


def rows(candidates: Sequence[tuple[str, int]] = CANDIDATES, name: str = "q") -> list[LabelledCandidate]:
    return [
        LabelledCandidate(name, ASKED, f"c{n}", f"d{n}", "", n, text, label)
        for n, (text, label) in enumerate(candidates)
    ]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        (
            "longer_wrong",
            [("Wrong one. Wrong two is here.", 0), CANDIDATES[1], ("Wrong two is here. Wrong one.", 0)],
        ),
        ("longer_right", [CANDIDATES[0], ("The capital is Paris. Wrong one.", 1), CANDIDATES[2]]),
        ("right_first", [CANDIDATES[1], CANDIDATES[0], CANDIDATES[2]]),
        ("right_last", [CANDIDATES[0], CANDIDATES[2], CANDIDATES[1]]),
        ("no_shared_words", [CANDIDATES[0], ("The is Paris.", 1), CANDIDATES[2]]),
        ("repeated_question", [*CANDIDATES, (ASKED, 0)]),
        ("foil", [*CANDIDATES, ("city is the capital: Wrong one.", 0)]),
    ],
)
def test_a_probe_changes_what_it_says(name: str, changed: list[tuple[str, int]]) -> None:
    result = PROBES[name](rows())
    assert [(row.text, row.label) for row in result] == changed
    assert [row.position for row in result] == list(range(len(result)))
    assert len({row.candidate_id for row in result}) == len(result)


def test_every_probe_is_tried_above() -> None:
    mark = test_a_probe_changes_what_it_says.pytestmark[0]  # type: ignore[attr-defined]
    assert [case[0] for case in mark.args[1]] == list(PROBES)


class By:
    """Reranker by a function of a candidate."""

    name: ClassVar[str] = "by"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, key: Callable[[Candidate], float]) -> None:
        self._key = key

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [order_by(ranked, [self._key(c) for c in ranked.candidates], "by") for ranked in lists]


def differences(reranker: object, lists: list[list[LabelledCandidate]]) -> dict[str, float]:
    probed = probe(reranker, lists)  # type: ignore[arg-type]
    assert probed.p1 == 1 and probed.questions == len(lists)
    return {name: change.difference for name, change in probed.probes.items() if change.difference}


def test_who_reads_the_answer_is_not_misled() -> None:
    assert differences(By(lambda c: "Paris" in c.text), [rows()]) == {}


def test_who_likes_short_texts_is_misled_by_longer_right_ones() -> None:
    lists = [rows([("Wrong one, and a long one.", 0), ("Paris it is", 1), ("Wrong two, a long one too.", 0)])]
    assert differences(By(lambda c: -len(c.text)), lists) == {"longer_right": -1}


def test_who_looks_at_the_place_is_misled_by_it() -> None:
    lists = [rows([("Paris.", 1), ("Wrong.", 0)])]
    assert differences(By(lambda c: -c.position), lists) == {"right_last": -1}


def test_who_counts_the_questions_words_is_misled_by_them() -> None:
    misled = differences(Overlap(), [rows([("It is the odd one.", 0), ("The capital is Paris.", 1)])])
    assert misled == {"no_shared_words": -1, "repeated_question": -1, "foil": -1}


def test_questions_without_a_right_or_a_wrong_candidate_are_left_out() -> None:
    lists = [rows(), rows([("Wrong.", 0)]), rows([("Right.", 1)])]
    assert probe(By(lambda c: "Paris" in c.text), lists).questions == 1  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no question has a right candidate and a wrong one"):
        probe(By(len), lists[1:])  # type: ignore[arg-type]


def test_a_candidate_that_is_dropped_is_not_first() -> None:
    class None_(By):
        def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
            return [RankedList(ranked.question, ()) for ranked in lists]

    assert probes.first_is_right(None_(len), [rows()]).tolist() == [0.0]  # type: ignore[arg-type]
