from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from answermill.indexing.labels import hash_join
from answermill.indexing.labels.hash_join import Buckets, hashes

KEYS = [f"key {n % 700}" for n in range(2_000)] + ["", "ÄÖÜ", "x" * 100_000]
QUERIES = [f"key {n}" for n in range(0, 900, 3)] * 2 + ["", "ÄÖÜ", "x" * 100_000, "y" * 100_000]


def table(folder: Path, settle: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> Buckets:
    """KEYS with their places as `row`, written in two batches."""
    batches = [
        pa.record_batch({"key": pa.array(KEYS[part]), "row": pa.array(range(*part.indices(len(KEYS))))})
        for part in (slice(0, 900), slice(900, None))
    ]
    buckets = Buckets(folder, "rows")
    buckets.write(batches, len(KEYS), settle)
    return buckets


@pytest.mark.parametrize("rows_of_a_file", [1 << 18, 100])
@pytest.mark.parametrize("collide", [False, True])
def test_every_query_meets_every_row_of_its_key_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_of_a_file: int, collide: bool
) -> None:
    """Whatever the number of files, and even if all keys have few hashes."""
    monkeypatch.setattr(hash_join, "ROWS", rows_of_a_file)
    if collide:
        monkeypatch.setattr(
            hash_join, "hashes", lambda strings: hashes(strings) & np.uint64(0xC000000000000001)
        )

    buckets = table(tmp_path)
    assert len(list(tmp_path.iterdir())) == (1 if rows_of_a_file > len(KEYS) else 32)
    assert buckets.count() == len(KEYS)
    pairs = buckets.join(pa.array(QUERIES))
    assert pairs is not None
    query, rows = pairs
    expected = Counter(
        (q, row) for q, text in enumerate(QUERIES) for row, key in enumerate(KEYS) if key == text
    )
    assert Counter(zip(query.tolist(), rows["row"].to_pylist(), strict=True)) == expected


def test_what_settle_returns_is_what_is_stored(tmp_path: Path) -> None:
    buckets = table(tmp_path, lambda rows: rows.filter(pa.compute.less(rows["row"], 700)))
    assert buckets.count() == 700


def test_a_table_that_was_never_written_has_no_answer(tmp_path: Path) -> None:
    assert Buckets(tmp_path, "rows").join(pa.array(QUERIES)) is None


def test_a_hash_is_the_same_in_every_process_and_on_every_machine() -> None:
    # Of no bytes, by the specification of XXH3.
    assert hashes(pa.array(["text", ""])[1:]).tolist() == [0x2D06800538D394C2]
