"""A user's Parquet file is read, or refused where Arrow would end the process."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.files.parquet_files import DEEPEST, check_depth, open_parquet
from tests.deep_parquet import deep_parquet

ROOT = Path(__file__).parents[2]
OPEN_THEIR_OWN = {
    "files/disk_store.py",
    "files/object_store.py",
    "files/parquet_files.py",
    "indexing/shards/shard.py",
    "pipelines/look/verify/rows.py",
    "pipelines/runs/manifests/manifest.py",
    "pipelines/runs/parquet_folder.py",
    "pipelines/steps/index/delta.py",
    "pipelines/steps/index/index_growth.py",
    "pipelines/steps/index/passage_rows.py",
    "pipelines/steps/ingest/crawl_files.py",
    "pipelines/steps/ingest/fetched_records.py",
    "pipelines/steps/ingest/wanted_records.py",
    "pipelines/steps/since/earlier_vectors.py",
}
"""What opens files of runs by Arrow alone. A dataset of the first two is opened after `check_depth`."""

Folders = pytest.TempPathFactory
types = st.recursive(
    st.sampled_from([pa.int64(), pa.string(), pa.bool_(), pa.timestamp("us", "UTC"), pa.decimal128(9, 2)]),
    lambda inner: (
        inner.map(pa.list_)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda fields: pa.struct([(f"f{n}", each) for n, each in enumerate(fields)])
        )
        | inner.map(lambda each: pa.map_(pa.string(), each))
    ),
    max_leaves=8,
)


@given(kinds=st.lists(types, min_size=1, max_size=4))
def test_the_depth_is_that_of_the_deepest_column(kinds: list[pa.DataType], tmp_path_factory: Folders) -> None:
    path = tmp_path_factory.mktemp("deep") / "a.parquet"
    schema = pa.schema([(f"c{n}", kind) for n, kind in enumerate(kinds)])
    pq.write_table(schema.empty_table(), path)
    with open_parquet(path) as file:
        columns = [file.schema.column(n).path for n in range(file.metadata.num_columns)]
    depth = max(column.count(".") + 1 for column in columns)  # the root is a group too
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("answermill.files.parquet_files.DEEPEST", depth)
        check_depth(path)
        patch.setattr("answermill.files.parquet_files.DEEPEST", depth - 1)
        with pytest.raises(pa.ArrowInvalid, match=f"nested more than {depth - 1} deep"):
            check_depth(path)


def test_what_is_as_deep_as_it_may_be_is_read_and_what_is_deeper_is_not(tmp_path: Path) -> None:
    with open_parquet(deep_parquet(tmp_path / "a.parquet", DEEPEST)) as file:
        assert file.read().num_rows == 0
    with pytest.raises(pa.ArrowInvalid, match=f"nested more than {DEEPEST} deep"):
        open_parquet(deep_parquet(tmp_path / "b.parquet", DEEPEST + 1))


@pytest.mark.parametrize("kept", [0, 3, 7])
def test_a_file_that_is_too_short_is_arrow_s_to_refuse(kept: int, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1PAR1"[:kept])
    with pytest.raises((pa.ArrowInvalid, OSError)):
        open_parquet(tmp_path / "a.parquet")


@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_damaged_footer_is_an_error_or_is_read(place: int, byte: int, tmp_path_factory: Folders) -> None:
    path = tmp_path_factory.mktemp("damaged") / "a.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": [["x"], []]}), path)
    content = bytearray(path.read_bytes())
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[start + place % (len(content) - start)] = byte
    path.write_bytes(content)
    try:
        with open_parquet(path) as file:
            assert file.metadata.num_columns >= 0
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        pass


def test_files_of_users_are_opened_here_alone() -> None:
    opens = re.compile(r"\bpq\.(ParquetFile|read_\w+)\(|\bds\.dataset\(")
    files = {
        str(path.relative_to(ROOT))
        for folder in ("files", "indexing", "ranking", "pipelines")
        for path in (ROOT / folder).rglob("*.py")
        if opens.search(path.read_text(encoding="utf-8"))
    }
    assert files == OPEN_THEIR_OWN
