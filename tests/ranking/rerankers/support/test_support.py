"""Evidence of other candidates: who speaks for whom, with which weight, and what it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import exp
from pathlib import Path

import numpy as np
import pytest

from answermill.ranking.entry import StageBefore
from answermill.ranking.reranker import Reranker, order_by
from answermill.ranking.rerankers.registry import find, load_reranker
from answermill.ranking.rerankers.support.best_others import BestOthers
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.ranked import Candidate, Hit, RankedList
from testing.tiny import checkpoint

VECTORS = {"east": [2.0, 0.0], "north": [0.0, 3.0], "north-east": [1.0, 1.0], "west": [-1.0, 0.0]}
ROWS = [("east", 3.0), ("north", 1.0), ("north-east", 1.0), ("west", -2.0)]
BEFORE = [StageBefore("first", "overlap")]


class Compass:
    """An encoder of directions."""

    def encode_sentences(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([VECTORS[text] for text in texts], np.float32)


def candidate(text: str) -> Candidate:
    """A candidate whose id is its text."""
    sentence = Sentence(text, 0, len(text), text)
    passage = Passage(f"{text}#0", text, "", "", 0, len(text), text, (sentence,))
    return Candidate(Hit("q", "Where?", 1, 1.0, None, None, None, None, passage), sentence, 0)


def ranked(rows: Sequence[tuple[str, float]], question: str = "Where?") -> RankedList:
    """Texts with their score in the stage `first`; equal ones are in their order."""
    asked = RankedList(Question("q", question), tuple(candidate(text) for text, _ in rows))
    return order_by(asked, [score for _, score in rows], "first")


def by_vectors(**settings: object) -> Reranker:
    return load_reranker("support_vectors", encoder=Compass, before=BEFORE, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def by_pairs(tmp_path_factory: pytest.TempPathFactory) -> Reranker:
    folder = tmp_path_factory.mktemp("cascade")
    return load_reranker("support_pairs", checkpoint("support_pairs", folder), before=BEFORE, others=2)


@pytest.fixture(params=["vectors", "pairs"])
def support(request: pytest.FixtureRequest, by_pairs: Reranker) -> Reranker:
    """Either reranker, of two others."""
    return by_pairs if request.param == "pairs" else by_vectors(others=2)


def scores(reranker: Reranker, came: RankedList) -> dict[str, float]:
    (left,) = reranker.rerank([came])
    return {each.text: each.stages[-1].score for each in left.candidates}


def test_the_best_others_speak_and_the_better_ones_weigh_more() -> None:
    others = BestOthers.of(np.array([2.0, 5.0, 1.0, 8.0]), ["a", "b", "c", "d"], 2)
    assert others.places.tolist() == [[3, 1], [3, 0], [3, 1], [1, 0]]
    z = (np.array([2.0, 5.0, 1.0, 8.0]) - 4) / np.sqrt(7.5)
    assert others.weights[0].tolist() == pytest.approx(
        [exp(z[3]) / (exp(z[3]) + exp(z[1])), exp(z[1]) / (exp(z[3]) + exp(z[1]))]
    )
    assert others.weights.sum(axis=1) == pytest.approx(1)


def test_equal_scores_weigh_the_same_and_ids_decide_who_speaks() -> None:
    others = BestOthers.of(np.full(4, 0.3), ["d", "b", "a", "c"], 2)
    assert others.places.tolist() == [[2, 1], [2, 3], [1, 3], [2, 1]]
    assert (others.weights == 0.5).all()


def test_the_score_by_vectors_is_the_weighted_mean_of_the_cosines() -> None:
    asked = ranked([("east", 1.0), ("north", 1.0), ("north-east", 1.0), ("west", 1.0)])
    half = round(0.5**0.5, 6)
    assert scores(by_vectors(others=3), asked) == pytest.approx(
        {"east": (half - 1) / 3, "north": half / 3, "north-east": half / 3, "west": (-1 - half) / 3},
        abs=1e-6,
    )
    assert scores(by_vectors(others=1), ranked(ROWS)) == pytest.approx(
        {"east": 0, "north": 0, "north-east": half, "west": -1}, abs=1e-6
    )


def test_a_pair_is_the_candidate_as_an_answer_to_the_question_and_the_other(
    by_pairs: Reranker, tmp_path: Path
) -> None:
    alone = load_reranker("cascade", checkpoint("cascade", tmp_path))
    asked = ranked([("east", 1.0), ("north", 1.0), ("north-east", 1.0)])
    pairs = {
        other: scores(alone, ranked([("east", 0.0)], question=f"Where? {other}"))["east"]
        for other in ("north", "north-east")
    }
    assert pairs["north"] != pairs["north-east"]
    assert scores(by_pairs, asked)["east"] == pytest.approx(sum(pairs.values()) / 2, abs=1e-6)


def test_the_order_of_the_list_decides_no_score(support: Reranker) -> None:
    first = scores(support, ranked(ROWS))
    assert len(set(first.values())) > 1
    for order in permutations(ROWS):
        candidates = {each.text: each for each in ranked(ROWS).candidates}
        shuffled = RankedList(Question("q", "Where?"), tuple(candidates[text] for text, _ in order))
        assert scores(support, shuffled) == first


def test_other_questions_of_the_call_decide_no_score(support: Reranker) -> None:
    some, other = ranked(ROWS), ranked(ROWS[:3], question="And then?")
    assert support.rerank([some, other]) == support.rerank([some]) + support.rerank([other])


def test_a_single_candidate_scores_zero_and_no_candidate_is_no_matter(support: Reranker) -> None:
    empty = RankedList(Question("q", "Where?"), ())
    assert scores(support, ranked(ROWS[:1])) == {"east": 0}
    assert support.rerank([empty, ranked(ROWS[:1]), empty])[::2] == [empty, empty]


def test_equal_scores_keep_the_order_of_the_list() -> None:
    asked = ranked([("north", 0.0), ("east", 0.0)])
    (left,) = by_vectors().rerank([asked])
    assert [each.text for each in left.candidates] == ["north", "east"]
    assert {each.stages[-1].score for each in left.candidates} == {0}


def test_another_stage_s_score_can_choose_the_others() -> None:
    asked = order_by(ranked(ROWS), [0.0, 0.0, 0.0, 9.0], "second")
    before = [*BEFORE, StageBefore("second", "overlap")]
    last = load_reranker("support_vectors", encoder=Compass, before=before, others=1)
    first = load_reranker("support_vectors", encoder=Compass, before=before, others=1, by="first")
    assert scores(last, asked)["north"] == 0 and scores(last, asked)["east"] == -1
    assert scores(first, asked)["east"] == pytest.approx(0)
    assert scores(first, asked) == scores(by_vectors(others=1), ranked(ROWS))


def test_a_plan_that_begins_with_it_chooses_by_the_rank_of_retrieval() -> None:
    asked = RankedList(Question("q", "Where?"), tuple(candidate(text) for text in VECTORS))
    assert scores(load_reranker("support_vectors", encoder=Compass), asked).keys() == VECTORS.keys()


@pytest.mark.parametrize(
    ("before", "says"),
    [
        (BEFORE, "support_vectors: by = 'last': no stage before this one has that key; known here: first"),
        ([], "by = 'last': no stage before this one has that key; here are none; leave `by` out"),
    ],
)
def test_a_stage_that_is_not_before_it_is_refused(before: list[StageBefore], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        find("support_vectors").stage(by="last").check_scores(before)
    with pytest.raises(ValueError, match=says):
        load_reranker("support_vectors", encoder=Compass, before=before, by="last")


def test_pairs_are_counted_beside_candidates(by_pairs: Reranker) -> None:
    by_pairs.costs()  # type: ignore[attr-defined]
    by_pairs.rerank([ranked(ROWS), ranked(ROWS[:2])])
    costs = by_pairs.costs()  # type: ignore[attr-defined]
    assert (costs["candidates"], costs["pairs"]) == (6, 4 * 2 + 2 * 1)
    assert costs["layer_tokens"] == 2 * costs["tokens"] > 0 and "full_layer_tokens" not in costs
