"""Whatever bytes a file of the user's has, a reader reads it, or refuses it with 65 and its name; nothing
else is raised."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.pipelines.data.formats import read_dataset
from answermill.pipelines.data.inputs.label_tables import label_batches
from answermill.pipelines.data.inputs.tables import read_questions, read_splits
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.steps.ingest.domain_filter import read_list
from answermill.schemas.labels import LabelledCandidate

ROWS = [
    {
        "question_id": f"q{n}",
        "question": f"Who is {n}?",
        "sentence": f"It is {n}, “so”.",
        "label": n % 2,
        "split": "dev",
    }
    for n in range(12)
]
CANDIDATES = [
    LabelledCandidate(f"q{n}", f"Who is {n}?", "0", "", "", 0, f"It is {n}.", n % 2) for n in range(12)
]


def tsv() -> bytes:
    lines = ["\t".join(ROWS[0]), *("\t".join(map(str, row.values())) for row in ROWS)]
    return "".join(line + "\n" for line in lines).encode()


def parquet(compression: str, table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=5, compression=compression)
    return sink.getvalue().to_pybytes()


JSONL = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
TABLE, SET = pa.Table.from_pylist(ROWS), LabelledCandidate.table(CANDIDATES)
WHOLE = {
    "a.tsv": tsv(),
    "a.jsonl": JSONL,
    "b.jsonl.gz": gzip.compress(JSONL, mtime=0),
    "c.tsv.gz": gzip.compress(tsv(), mtime=0),
    "a.parquet": parquet("none", TABLE),
    "b.parquet": parquet("snappy", TABLE),
    "set.parquet": parquet("snappy", SET),
}
READERS = {
    "questions": read_questions,
    "labels": lambda path: list(label_batches(path)),
    "splits": read_splits,
    "data set": lambda path: list(read_dataset(path, "parquet" if path.suffix == ".parquet" else "tsv")),
    "domains": read_list,
}
CHANGES = st.lists(st.tuples(st.floats(0, 0.999), st.binary(max_size=3)), min_size=1, max_size=4)
"""(share of the file before it, the bytes written there; none = the file is cut off there)."""


@pytest.mark.parametrize("name", WHOLE)
@given(changes=CHANGES)
def test_a_damaged_file_is_read_or_refused_with_its_name(tmp_path_factory, name, changes):
    content = bytearray(WHOLE[name])
    for share, written in changes:
        place = int(share * len(content))
        content[place : place + len(written) if written else None] = written
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    for read in READERS.values():
        try:
            read(path)
        except JobError as e:
            assert str(path) in str(e) and e.code == BAD_DATA


def test_the_whole_files_are_read(tmp_path):
    for name, content in WHOLE.items():
        path = tmp_path / name
        path.write_bytes(content)
        if name != "set.parquet":
            assert len(read_questions(path)) == len(read_splits(path)) == 12
            assert sum(batch.num_rows for batch in READERS["labels"](path)) == 12
        if name in ("a.tsv", "c.tsv.gz", "set.parquet"):
            assert len(READERS["data set"](path)) == 12
