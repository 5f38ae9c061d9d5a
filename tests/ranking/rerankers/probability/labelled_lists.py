"""Labelled lists of a plan of two stages, in which a high score of the second says that the first is
right."""

from __future__ import annotations

import numpy as np

from answermill.ranking.rerankers.probability.calibrating import LabelledList
from answermill.ranking.rerankers.probability.calibration_file import PlanStage
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import Candidate, Hit, RankedList, StageScore

STAGES = ("words", "model")
PLAN = [
    PlanStage(key="words", reranker="overlap", model=None, settings={"keep": 9}),
    PlanStage(key="model", reranker="cascade", model="abc", settings={"keep": None}),
]


def ranked_list(question_id: str, *scores: tuple[float, float]) -> RankedList:
    """A list in this order, with these scores of STAGES."""
    question = Question(question_id, "Why?")
    candidates = []
    for n, values in enumerate(scores):
        passage = Passage(f"d{n}#0", f"d{n}", "", "", 0, 2, f"It {n}.", ())
        hit = Hit(question_id, question.text, n + 1, 1.0, None, None, None, None, passage)
        stages = tuple(StageScore(name, value, n + 1) for name, value in zip(STAGES, values, strict=True))
        candidates.append(Candidate(hit, None, n, stages))
    return RankedList(question, tuple(candidates))


def drawn(number: int, seed: int = 0, unanswerable: float = 0.3) -> list[LabelledList]:
    """Lists of five candidates, of which the first is right with the probability sigmoid(its score of the
    second stage); the others are wrong."""
    generator = np.random.default_rng(seed)
    lists = []
    for n in range(number):
        has_answer = generator.random() >= unanswerable
        scores = np.sort(generator.normal(0, 2, (5, 2)), axis=0)[::-1] + (2.0 if has_answer else -2.0)
        scores[1:] -= 4
        is_right = has_answer and generator.random() < 1 / (1 + np.exp(-scores[0, 1]))
        ranked = ranked_list(f"q{n}", *(tuple(row) for row in scores.tolist()))
        lists.append(LabelledList(ranked, (bool(is_right), False, False, False, False), bool(has_answer)))
    return lists
