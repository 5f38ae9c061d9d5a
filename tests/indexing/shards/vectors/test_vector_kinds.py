"""A kind of dense index that cannot be had is refused with what to type."""

from __future__ import annotations

from importlib import metadata

import pytest

from answermill.indexing.shards.vectors import vector_kinds
from answermill.indexing.shards.vectors.vector_kinds import (
    FaissTwice,
    VectorsUnfit,
    check_faiss,
    empty_index,
    factory_string,
)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (
            "nonsense",
            r"FAISS makes no 'nonsense' of vectors of 32 numbers \(could not parse.*\); give flat, hnsw",
        ),
        ("IVF4,PQ7", r"FAISS makes no 'IVF4,PQ7' of vectors of 32 numbers"),
        ("PQ8", r"'PQ8' is IndexPQ, which is neither of cells .* nor a graph"),
        ("IVF4,PQ8x4fs", r"IndexIVFPQFastScan, which is neither"),
        ("IVF4,PQ8,Refine(SQ8)", r"IndexRefine, which is neither"),
    ],
)
def test_a_string_that_faiss_or_a_shard_does_not_take_is_refused(kind: str, says: str) -> None:
    with pytest.raises(VectorsUnfit, match=says):
        empty_index(kind, 32, 1_000)


def test_ivfpq_needs_a_dimension_that_eight_divides() -> None:
    with pytest.raises(VectorsUnfit, match="the encoder makes 30; give ivfrabitq"):
        empty_index("ivfpq", 30, 1_000)


def test_a_word_has_sizes_for_the_vectors_of_the_whole_index() -> None:
    assert factory_string("ivfpq", 384, 100_000) == "IVF1024,PQ48"
    assert factory_string("ivfrabitq", 384, 10_000_000) == "RR384,IVF16384_HNSW32,RaBitQ"
    assert factory_string("IVF7,SQ8", 384, 100_000) == "IVF7,SQ8"
    for kind in vector_kinds.WORDS:
        assert empty_index(kind, 384, 100_000).d == 384


def test_two_packages_of_faiss_are_refused_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name in installed:
            return "1.15.1"
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(vector_kinds, "version", version)
    installed = {"faiss-cpu"}
    check_faiss()
    installed = {"faiss-cpu", "faiss-gpu"}
    with pytest.raises(FaissTwice, match=r"pip uninstall -y faiss-cpu faiss-gpu, then pip install faiss-cpu"):
        check_faiss()
