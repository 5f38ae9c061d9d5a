from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ranking.baselines.similarity import Similarity
from schemas.corpus import Passage, Question, Sentence
from schemas.ranked import Candidate, Hit, RankedList

VECTORS = {"east": [2.0, 0.0], "north": [0.0, 3.0], "north-east": [1.0, 1.0], "west": [-1.0, 0.0], "nowhere": [0.0, 0.0]}


class Compass:
    """Texts are directions; counts how many it was asked for."""

    asked = 0

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([VECTORS[text] for text in texts], np.float32)

    def encode_sentences(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += len(texts)
        return self.encode_questions(texts)


def ranked(question: str, *texts: str) -> RankedList:
    made = []
    for n, text in enumerate(texts):
        sentence = Sentence(f"d@{n}", n, n + len(text), text)
        passage = Passage("d#0", "d", "", "", 0, 9, text, (sentence,))
        made.append(Candidate(Hit("q", question, 1, 0.0, None, None, None, None, passage), sentence, n))
    return RankedList(Question("q", question), tuple(made))


def test_the_score_is_the_cosine() -> None:
    (left,) = Similarity(Compass()).rerank([ranked("east", "west", "north", "east", "north-east")])
    assert [c.text for c in left.candidates] == ["east", "north-east", "north", "west"]
    assert [c.score for c in left.candidates] == pytest.approx([1.0, 0.707107, 0.0, -1.0])


def test_a_vector_of_length_zero_scores_zero() -> None:
    (left,) = Similarity(Compass()).rerank([ranked("east", "nowhere")])
    assert left.candidates[0].score == 0


def test_each_different_sentence_is_encoded_once() -> None:
    compass = Compass()
    Similarity(compass).rerank([ranked("east", "west", "north"), ranked("west", "north", "north", "west")])
    assert compass.asked == 2
