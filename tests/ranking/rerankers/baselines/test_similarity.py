from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from answermill.indexing.shards.sentence_codes import StoredCode
from answermill.ranking.context import Reading
from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.baselines import SimilarityStage
from answermill.ranking.rerankers.baselines.sentence_vectors import VectorForm, pack, row_bytes, unit, unpack
from answermill.ranking.rerankers.baselines.similarity import Similarity
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import Candidate, Hit, RankedList

VECTORS = {
    "east": [2.0, 0.0],
    "north": [0.0, 3.0],
    "north-east": [1.0, 1.0],
    "west": [-1.0, 0.0],
    "nowhere": [0.0, 0.0],
}


class Compass:
    """Texts are directions; counts how many it was asked for."""

    asked = 0

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([VECTORS[text] for text in texts], np.float32)

    def encode_sentences(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += len(texts)
        return self.encode_questions(texts)


def ranked(question: str, *texts: str) -> RankedList:
    candidates = []
    for n, text in enumerate(texts):
        sentence = Sentence(f"d@{n}", n, n + len(text), text)
        passage = Passage("d#0", "d", "", "", 0, 9, text, (sentence,))
        candidates.append(Candidate(Hit("q", question, 1, 0.0, None, None, None, None, passage), sentence, n))
    return RankedList(Question("q", question), tuple(candidates))


def test_the_score_is_the_cosine() -> None:
    (left,) = Similarity(Compass()).rerank([ranked("east", "west", "north", "east", "north-east")])
    assert [c.text for c in left.candidates] == ["east", "north-east", "north", "west"]
    assert [c.score for c in left.candidates] == pytest.approx([1.0, 0.707107, 0.0, -1.0])


def test_a_vector_of_length_zero_scores_zero() -> None:
    (left,) = Similarity(Compass()).rerank([ranked("east", "nowhere")])
    assert left.candidates[0].score == 0


class Recorder(Compass):
    """Keeps what it was asked for."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.passages: list[tuple[str, str]] = []

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        return np.ones((len(texts), 2), np.float32)

    def encode_sentences(self, texts: Sequence[str]) -> np.ndarray:
        self.sentences += texts
        return np.ones((len(texts), 2), np.float32)

    def encode_passages(self, titles_and_texts: Sequence[tuple[str, str]]) -> np.ndarray:
        self.passages += titles_and_texts
        return np.ones((len(titles_and_texts), 2), np.float32)


def test_with_a_context_titles_and_neighbours_are_encoded_too() -> None:
    rows = [
        LabelledCandidate("q", "Who?", f"c{n}", "d" if n < 2 else "e", "Opera" if n < 2 else "", n, text, 0)
        for n, text in enumerate(["He wrote.", "It failed.", "No."])
    ]
    titled, between = Recorder(), Recorder()
    by_title = Similarity(titled, Reading(("title", "sentence")))
    by_title.rerank([ranked_list(rows)])
    assert titled.passages == [("Opera", "He wrote."), ("Opera", "It failed."), ("", "No.")]
    assert by_title.costs() == {"without_title": 1} and not by_title.costs()
    Similarity(between, Reading(("previous", "sentence"))).rerank([ranked_list(rows)])
    assert between.sentences == ["He wrote.", "He wrote. It failed.", "No."] and not between.passages


@pytest.mark.parametrize(
    ("context", "says"), [(["sentence", "title"], "the title comes first"), (["title"], "name the candidate")]
)
def test_a_context_that_is_none_is_refused(context: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SimilarityStage(reranker="similarity", context=context)


def test_each_different_sentence_is_encoded_once() -> None:
    compass = Compass()
    Similarity(compass).rerank([ranked("east", "west", "north"), ranked("west", "north", "north", "west")])
    assert compass.asked == 2


@pytest.mark.parametrize(("form", "largest"), [("fp16", 5e-4), ("int8", 0.5 / 127)])
def test_a_packed_vector_is_near_and_depends_on_itself_alone(form: VectorForm, largest: float) -> None:
    vectors = unit(np.random.default_rng(0).normal(size=(50, 32)).astype(np.float32))
    vectors[7] = 0
    rows = pack(vectors, form)
    assert rows.shape == (50, row_bytes(form, 32)) and row_bytes("int8", 32) < row_bytes("fp16", 32)
    differences = np.abs(unpack(rows, form) - vectors)
    assert 0 < differences.max() <= largest and not differences[7].any()
    assert all((pack(vectors[n : n + 1], form) == rows[n]).all() for n in range(50))
    assert pack(vectors[:0], form).shape == (0, row_bytes(form, 32))


class Held:
    """A store of some vectors, packed."""

    def __init__(self, form: VectorForm, *texts: str) -> None:
        self._form, self._texts = form, texts

    def find(self, texts: Sequence[tuple[str, ...]]) -> list[StoredCode | None]:
        rows = pack(unit(Compass().encode_questions([text for (text,) in texts])), self._form)
        return [
            StoredCode(row[None], 0) if text in self._texts else None
            for (text,), row in zip(texts, rows, strict=True)
        ]


@pytest.mark.parametrize("form", ["fp16", "int8"])
def test_stored_and_missing_vectors_score_alike_and_are_counted(form: VectorForm) -> None:
    lists = [ranked("north", "west", "north-east", "nowhere"), ranked("east", "north-east", "north")]
    none, some = (
        Similarity(Compass(), form=form),
        Similarity(Compass(), form=form, store=Held(form, "north-east", "north")),
    )
    assert none.rerank(lists) == some.rerank(lists)
    assert none.costs() == {"sentences_stored": 0, "sentences_encoded": 4}
    assert some.costs() == {"sentences_stored": 2, "sentences_encoded": 2}
