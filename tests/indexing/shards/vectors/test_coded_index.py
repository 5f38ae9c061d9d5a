"""Codes do not depend on the shard that they are in, candidates are never cut at random, and scores are
exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from answermill.files.atomic_files import sha256
from answermill.indexing.shards.rank_fusion import Best, candidates, merge
from answermill.indexing.shards.vectors.coded_index import CodedIndex, CodedWriter
from answermill.indexing.shards.vectors.quantizer import Quantizer
from answermill.indexing.shards.vectors.stored_vectors import Form
from answermill.indexing.shards.vectors.vector_kinds import VectorSearch, VectorsUnfit

ROWS, DIMENSION = 900, 16
KINDS = ("IVF16,PQ4x4", "IVF16,RaBitQ", "RR16,IVF16,RaBitQ", "IVF16,SQ8", "IVF16_HNSW4,SQ4")
Vectors = npt.NDArray[np.float32]


def drawn(seed: int, rows: int) -> Vectors:
    """Vectors of length 1 around 30 centres, of which some are twice there."""
    centres = np.random.default_rng(0).standard_normal((30, DIMENSION))
    generator = np.random.default_rng(seed)
    vectors = centres[generator.integers(0, 30, rows)] + 0.4 * generator.standard_normal((rows, DIMENSION))
    vectors[rows // 2 :][:20] = vectors[: min(20, rows - rows // 2)]
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def trained(kind: str, folder: Path) -> Quantizer:
    Quantizer.train(kind, drawn(1, ROWS), ROWS).write(folder / "quantizer.faiss")
    return Quantizer.open(folder / "quantizer.faiss", sha256(folder / "quantizer.faiss"))


def index_of(vectors: Vectors, quantizer: Quantizer, folder: Path, form: Form = "fp16") -> CodedIndex:
    writer = CodedWriter(quantizer, form)
    for start in range(0, len(vectors), 100):
        writer.add(vectors[start : start + 100])
    writer.write(folder)
    return CodedIndex.open(folder, quantizer)


def ranking(shards: list[tuple[CodedIndex, npt.NDArray[np.int64]]], questions: Vectors, width: VectorSearch):
    """[questions]: (id, score) of the best 5, merged over shards. A shard is an index, and the vectors that
    its rows are."""
    by_shard = [index.search(questions, width) for index, _ in shards]
    lists = []
    for n in range(len(questions)):
        parts = [
            Best.of(0, rows, [f"{row:05d}" for row in shards[shard][1][rows].tolist()], scores, values)
            for shard, (rows, scores, values) in enumerate(hits[n] for hits in by_shard)
        ]
        best = merge([candidates(parts, width.candidates)], 5)
        lists.append(list(zip(best.ids.tolist(), best.scores.tolist(), strict=True)))
    return lists


@pytest.mark.parametrize("kind", KINDS)
def test_shards_of_any_size_give_the_candidates_and_scores_of_one(kind: str, tmp_path: Path) -> None:
    vectors, questions, width = drawn(2, ROWS), drawn(3, 40), VectorSearch(probes=1, candidates=6)
    quantizer = trained(kind, tmp_path)
    whole = ranking([(index_of(vectors, quantizer, tmp_path / "whole"), np.arange(ROWS))], questions, width)
    order = np.random.default_rng(4).permutation(ROWS)
    cuts = [order[:1], order[1:8], order[8:400], order[400:]]
    shards = [(index_of(vectors[rows], quantizer, tmp_path / f"{n}"), rows) for n, rows in enumerate(cuts)]
    assert ranking(shards, questions, width) == whole
    assert [ranking(shards, questions[n : n + 1], width)[0] for n in range(5)] == whole[:5]

    # The width decides: a wide search finds other passages.
    assert ranking(shards, questions, VectorSearch(16, 200)) != whole


@pytest.mark.parametrize("form", ["fp16", "int8"])
def test_scores_are_inner_products_of_the_stored_vectors(form: Form, tmp_path: Path) -> None:
    index = index_of(drawn(2, ROWS), trained("IVF16,SQ8", tmp_path), tmp_path / "x", form)
    questions = drawn(3, 5)
    for question, (rows, scores, _) in zip(
        questions, index.search(questions, VectorSearch(16, 50)), strict=True
    ):
        exact = index.vectors[rows].astype(np.float64) @ question.astype(np.float64)
        assert scores == pytest.approx(exact, abs=1e-6) and len(rows) >= 50


def test_every_candidate_that_ties_with_the_last_is_returned(tmp_path: Path) -> None:
    vectors = drawn(2, ROWS)
    vectors[100:400] = vectors[100]
    index = index_of(vectors, trained("IVF16,PQ4x4", tmp_path), tmp_path / "x")
    rows, _, values = index.search(vectors[100:101], VectorSearch(1, 10))[0]
    assert set(range(100, 400)) <= set(rows.tolist())
    assert (np.diff(values) <= 0).all() and len(rows) < ROWS


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_gone_are_as_if_they_had_never_been(kind: str, tmp_path: Path) -> None:
    vectors, questions, width = drawn(2, ROWS), drawn(3, 40), VectorSearch(probes=2, candidates=6)
    quantizer, gone = trained(kind, tmp_path), np.arange(0, ROWS, 4)
    left = np.delete(np.arange(ROWS), gone)
    index_of(vectors, quantizer, tmp_path / "all")
    index = CodedIndex.open(tmp_path / "all", quantizer, gone)
    wanted = index_of(vectors[left], quantizer, tmp_path / "left")
    assert ranking([(index, np.arange(ROWS))], questions, width) == ranking(
        [(wanted, left)], questions, width
    )


def test_a_graph_does_not_find_rows_that_are_gone(tmp_path: Path) -> None:
    vectors, questions, width = drawn(2, ROWS), drawn(3, 40), VectorSearch(0, 20)
    quantizer, gone = trained("hnsw", tmp_path), np.arange(0, ROWS, 4)
    whole = index_of(vectors, quantizer, tmp_path / "all").search(questions, width)
    lists = CodedIndex.open(tmp_path / "all", quantizer, gone).search(questions, width)
    for (rows, scores, _), (all_rows, all_scores, _) in zip(lists, whole, strict=True):
        former = dict(zip(all_rows.tolist(), all_scores.tolist(), strict=True))
        assert len(rows) >= 20 and (rows % 4 > 0).all()
        assert {row: score for row, score in former.items() if row % 4} == {
            row: score for row, score in zip(rows.tolist(), scores.tolist(), strict=True) if row in former
        }


def test_a_graph_finds_nearly_all_and_a_second_build_is_the_same(tmp_path: Path) -> None:
    vectors, questions = drawn(2, ROWS), drawn(3, 40)
    quantizer = trained("hnsw", tmp_path)
    index = index_of(vectors, quantizer, tmp_path / "a")
    index_of(vectors, quantizer, tmp_path / "b")
    assert (tmp_path / "a/graph.faiss").read_bytes() == (tmp_path / "b/graph.faiss").read_bytes()
    nearest = np.argsort(-(questions @ vectors.T), axis=1)[:, :10]
    lists = index.search(questions, VectorSearch(0, 20))
    hits = sum(len({*rows.tolist()} & {*nearest[n].tolist()}) for n, (rows, _, _) in enumerate(lists))
    assert hits >= 0.98 * nearest.size


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    index = index_of(np.empty((0, DIMENSION), np.float32), trained("IVF16,SQ8", tmp_path), tmp_path / "x")
    assert index.search(drawn(3, 1), VectorSearch(1, 5))[0][0].tolist() == []


def test_a_vector_that_fp16_cannot_hold_is_refused_with_its_row(tmp_path: Path) -> None:
    writer = CodedWriter(trained("IVF16,SQ8", tmp_path), "fp16")
    with pytest.raises(ValueError, match="vector 1 is not finite"):
        writer.add(np.array([[1] * DIMENSION, [1e6] * DIMENSION], np.float32))


def test_too_few_vectors_for_the_cells_or_the_codes_are_refused() -> None:
    with pytest.raises(
        VectorsUnfit, match="has 64 cells, and is trained on 20 vectors; give fewer cells, or flat"
    ):
        Quantizer.train("IVF64,SQ8", drawn(1, 40)[:20], 40)
    with pytest.raises(VectorsUnfit, match=r"'ivfpq' cannot be trained on 40 vectors.*give flat"):
        Quantizer.train("ivfpq", drawn(1, 40), 40)


def test_the_same_sample_gives_the_same_quantizer_and_another_file_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Quantizer.train("RR16,IVF16,PQ4x4", drawn(1, ROWS), ROWS).write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(ValueError, match="is not the quantizer 0000"):
        Quantizer.open(tmp_path / "a", "0" * 64)
