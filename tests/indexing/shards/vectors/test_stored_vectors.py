"""Stored vectors are near the given ones, and rounding them again changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from answermill.indexing.shards.vectors.stored_vectors import (
    NUMBERS,
    SCALES,
    Form,
    StoredVectors,
    pack,
    rounded,
    unpack,
)


@pytest.mark.parametrize(("form", "error"), [("fp16", 2**-11), ("int8", 1 / 254)])
def test_what_was_rounded_is_near_and_stays_the_same_when_it_is_rounded_again(
    form: Form, error: float
) -> None:
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((2_000, 32)).astype(np.float32) * generator.uniform(
        0.01, 9, (2_000, 1)
    )
    vectors = vectors.astype(np.float32)
    vectors[7] = 0
    once = rounded(vectors, form)
    assert (np.abs(once - vectors) <= 1.001 * error * np.abs(vectors).max(axis=1, keepdims=True)).all()
    for first, second in zip(pack(once, form), pack(rounded(once, form), form), strict=True):
        assert first is second or (first is not None and (first == second).all())
    assert (rounded(once, form) == once).all()


@pytest.mark.parametrize("form", ["fp16", "int8"])
def test_stored_vectors_are_mapped_and_not_loaded(form: Form, tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).standard_normal((50, 8)).astype(np.float32)
    numbers, scales = pack(vectors, form)
    np.save(tmp_path / NUMBERS, numbers)
    if scales is not None:
        np.save(tmp_path / SCALES, scales)
    stored = StoredVectors.open(tmp_path)
    assert isinstance(stored._numbers, np.memmap) and len(stored) == 50
    assert (stored[np.array([3, 3, 49])] == unpack(numbers, scales)[[3, 3, 49]]).all()
