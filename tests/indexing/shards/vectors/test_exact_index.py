"""The dense index gives exact scores and never cuts a tie at random."""

from pathlib import Path

import faiss
import numpy as np
import pytest

from answermill.indexing.shards.vectors.exact_index import (
    AT_ONCE,
    DenseIndex,
    DenseWriter,
    exact_scores,
)


def index_of(vectors: np.ndarray, folder: Path) -> DenseIndex:
    writer = DenseWriter(vectors.shape[1])
    for start in range(0, len(vectors), 100):
        writer.add(vectors[start : start + 100])
    writer.write(folder / "dense.faiss")
    return DenseIndex.open(folder / "dense.faiss")


def test_row_is_vector_number_and_scores_are_inner_products(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((1_000, 48)).astype(np.float32)
    index = index_of(vectors, tmp_path)
    assert (index.vectors == vectors).all()
    questions = np.random.default_rng(1).standard_normal((20, 48)).astype(np.float32)
    exact = questions.astype(np.float64) @ vectors.astype(np.float64).T
    for n, (rows, scores) in enumerate(index.search(questions, 50)):
        assert rows.tolist() == np.argsort(-exact[n], kind="stable")[:50].tolist()
        assert scores == pytest.approx(exact[n, rows], abs=1e-6)


def test_a_score_does_not_depend_on_the_size_of_the_shard(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((500, 384)).astype(np.float32)
    questions = np.random.default_rng(1).standard_normal((7, 384)).astype(np.float32)
    whole = index_of(vectors, tmp_path).search(questions, 500)
    for start, stop in ((0, 1), (1, 4), (4, 500)):
        part = index_of(vectors[start:stop], tmp_path).search(questions[:3], 500)
        for (rows, scores), (all_rows, all_scores) in zip(part, whole, strict=False):
            by_row = dict(zip(all_rows.tolist(), all_scores.tolist(), strict=True))
            assert [by_row[row + start] for row in rows.tolist()] == scores.tolist()


def test_every_vector_that_ties_with_the_last_is_returned(tmp_path: Path) -> None:
    near, tied, far = np.eye(3, dtype=np.float32)
    vectors = np.concatenate([[near] * 2, [tied] * 300, [far] * 50]).astype(np.float32)
    index = index_of(vectors, tmp_path)
    question = np.array([[3, 2, 1]], np.float32)
    assert index.search(question, 3)[0][0].tolist() == list(range(302))
    assert index.search(question, 2)[0][0].tolist() == [0, 1]
    assert len(index.search(question, 303)[0][0]) == 352
    assert len(index.search(question, 10_000)[0][0]) == 352


def test_rows_that_are_gone_are_as_if_they_had_never_been(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((900, 8)).astype(np.float32)
    vectors[100:300] = vectors[100]  # ties, of which some are gone
    questions = np.concatenate([vectors[100:101], vectors[:11]])
    for gone in (np.arange(90, 110), np.arange(0, 880), np.arange(5, 895, 3), np.arange(900)):
        left = np.delete(np.arange(900), gone)
        index_of(vectors, tmp_path)
        index = DenseIndex.open(tmp_path / "dense.faiss", gone)
        wanted = index_of(vectors[left], tmp_path).search(questions, 30)
        for (rows, scores), (own, own_scores) in zip(index.search(questions, 30), wanted, strict=True):
            assert rows.tolist() == left[own].tolist() and scores.tolist() == own_scores.tolist()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_long_vectors_that_are_nearly_at_right_angles_to_the_question_are_found(
    tmp_path: Path, seed: int
) -> None:
    """Their sums in float32 are small, and as wrong as those of large ones."""
    random = np.random.default_rng(seed)
    centre, side = random.standard_normal((2, 384))
    side -= centre * (centre @ side) / (centre @ centre)
    vectors = (30 * centre + 1e-5 * random.standard_normal((20_000, 384))).astype(np.float32)
    question = (30 * side + 1e-5 * random.standard_normal((1, 384))).astype(np.float32)

    exact = exact_scores(vectors, question[0])
    best = np.lexsort((np.arange(len(vectors)), -exact))[:10]
    for index in (index_of(vectors, tmp_path), DenseIndex.by_torch(vectors, "cpu")):
        ((rows, scores),) = index.search(question, 10)
        assert rows[:10].tolist() == best.tolist() and scores[:10].tolist() == exact[best].tolist()


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    index = index_of(np.empty((0, 8), np.float32), tmp_path)
    assert index.search(np.ones((1, 8), np.float32), 5)[0][0].tolist() == []


def test_a_vector_that_is_not_finite_is_refused_with_its_row() -> None:
    writer = DenseWriter(2)
    writer.add(np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match="vector 4 is not finite"):
        writer.add(np.array([[1, 1], [1, np.nan]], np.float32))


def test_another_kind_of_faiss_index_is_refused(tmp_path: Path) -> None:
    import faiss

    faiss.write_index(faiss.IndexFlatL2(4), str(tmp_path / "l2.faiss"))
    with pytest.raises(ValueError, match="IndexFlatL2"):
        DenseIndex.open(tmp_path / "l2.faiss")


def test_a_question_has_the_hits_among_many_that_it_has_alone(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((500, 48)).astype(np.float32)
    index, questions = index_of(vectors, tmp_path), vectors[:AT_ONCE] + np.float32(0.1)
    usual = faiss.cvar.distance_compute_blas_threshold
    for question, (rows, scores) in zip(questions, index.search(questions, 50), strict=True):
        ((own_rows, own_scores),) = index.search(question[None], 50)
        assert (rows.tolist(), scores.tolist()) == (own_rows.tolist(), own_scores.tolist())
    assert faiss.cvar.distance_compute_blas_threshold == usual
