"""A search by torch gives the rows and scores of FAISS, bit for bit, on a processor and on a card."""

from pathlib import Path

import faiss
import numpy as np
import pytest
import torch

from answermill.indexing.shards.vectors.card_search import CardSearch
from answermill.indexing.shards.vectors.exact_index import DenseIndex, DenseWriter

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")),
]
BLOCKS = [
    pytest.param(None, 1 << 28, id="kept"),
    pytest.param(0, 4 * 48 * 100, id="sent in blocks"),
]


def drawn(rows: int, seed: int) -> np.ndarray:
    """Vectors of length 1, among which every tenth has an equal."""
    vectors = np.random.default_rng(seed).standard_normal((rows, 48)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[::10] = vectors[1::10]
    return vectors


def index_of(vectors: np.ndarray, search: CardSearch) -> DenseIndex:
    return DenseIndex(vectors, search.nearest)


def by_faiss(vectors: np.ndarray, folder: Path) -> DenseIndex:
    writer = DenseWriter(vectors.shape[1])
    writer.add(vectors)
    writer.write(folder / "dense.faiss")
    return DenseIndex.open(folder / "dense.faiss")


def same(one: DenseIndex, other: DenseIndex, questions: np.ndarray, depth: int) -> bool:
    pairs = zip(one.search(questions, depth), other.search(questions, depth), strict=True)
    return all(
        (rows.tolist(), scores.tobytes()) == (others.tolist(), their_scores.tobytes())
        for (rows, scores), (others, their_scores) in pairs
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("most", "block"), BLOCKS)
def test_rows_and_scores_are_those_of_faiss(device: str, most, block: int, tmp_path: Path) -> None:
    vectors, questions = drawn(1_000, 0), drawn(300, 1)  # more questions than one product has
    searched = index_of(vectors, CardSearch(vectors, device, most, block))
    whole = by_faiss(vectors, tmp_path)
    for depth in (1, 50, 2_000):
        assert same(searched, whole, questions[: 300 if depth == 50 else 20], depth)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("most", "block"), BLOCKS)
def test_every_vector_that_ties_with_the_last_is_returned(device: str, most, block: int) -> None:
    near, tied, far = np.eye(3, 48, dtype=np.float32)
    vectors = np.concatenate([[far] * 50, [tied] * 300, [near] * 2]).astype(np.float32)
    index = index_of(vectors, CardSearch(vectors, device, most, block))
    question = (3 * near + 2 * tied + far)[None]
    assert index.search(question, 3)[0][0].tolist() == [350, 351, *range(50, 350)]
    assert index.search(question, 2)[0][0].tolist() == [350, 351]
    assert len(index.search(question, 10_000)[0][0]) == 352


@pytest.mark.parametrize("most", [None, 0])
def test_the_nearest_are_found_in_every_block(most) -> None:
    vectors = drawn(95, 2)
    search = CardSearch(vectors, "cpu", most, block_bytes=vectors[:10].nbytes)
    sums, rows = search.nearest(vectors, 3)
    exact = vectors @ vectors.T
    assert {*(rows[:, 0] // 10).tolist()} == {*range(10)}  # the nearest of each is itself, or its equal
    assert sums == pytest.approx(np.sort(exact, axis=1)[:, :-4:-1], abs=1e-6)
    assert np.take_along_axis(exact, rows, 1) == pytest.approx(sums, abs=1e-6)


def test_products_are_of_whole_float32_whatever_the_process_has_set() -> None:
    vectors, seen = drawn(10, 3), []
    product = torch.Tensor.__matmul__
    usual = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                torch.Tensor,
                "__matmul__",
                lambda a, b: seen.append(torch.get_float32_matmul_precision()) or product(a, b),
            )
            CardSearch(vectors, "cpu").nearest(vectors, 1)
        assert seen == ["highest"] and torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(usual)


def test_an_empty_index_finds_nothing() -> None:
    index = DenseIndex.by_torch(np.empty((0, 8), np.float32), "cpu")
    assert index.search(np.ones((1, 8), np.float32), 5)[0][0].tolist() == []


def test_an_index_in_a_file_is_searched_by_torch_on_another_device(tmp_path: Path, monkeypatch) -> None:
    vectors = drawn(200, 4)
    whole = by_faiss(vectors, tmp_path)
    opened = DenseIndex.open(tmp_path / "dense.faiss", device="cpu:0")  # torch's name of the processor
    monkeypatch.setattr(faiss.IndexFlatIP, "search", None)  # is not called
    hits = opened.search(vectors[:20], 5)
    monkeypatch.undo()
    for (rows, scores), (others, their_scores) in zip(hits, whole.search(vectors[:20], 5), strict=True):
        assert (rows.tolist(), scores.tolist()) == (others.tolist(), their_scores.tolist())
