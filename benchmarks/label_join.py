"""The join of labels with sentences, by our own hash join on disk or by DuckDB: `benchmarks.propagation` runs
and measures it.

Both read the same labels and passages, fold texts by the same function, drop labels that repeat others,
refuse labels that contradict each other, and find for each part of passages/ the labels by id and by text of
its sentences, as one worker of the step does. `duckdb_whole` is DuckDB without parts: two queries over all
sentences that read the Parquet files and fold texts in SQL (lower case instead of Unicode's case folding, so
it is right for ASCII only).

    python -m benchmarks.label_join ENGINE RUN LABELS FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from answermill.indexing.labels.given_labels import GIVEN_LABEL, GivenLabels
from answermill.indexing.labels.label_lookup import labels_by_id, labels_by_text
from answermill.indexing.passages.text import fold_all
from answermill.pipelines.data.inputs.label_tables import label_batches
from answermill.pipelines.steps.propagate.passage_parts import PassageParts

Matches = tuple[int, int]
"""Number of pairs of a sentence and a label, and the sum of the labels' numbers; equal for all ways."""


def own(run: Path, labels: Path, folder: Path) -> Matches:
    """Join labels as the step does, some thousand passages at a time."""
    stored = GivenLabels(folder)
    stored.write(label_batches(labels))
    numbers = [
        lookup(sentences, stored).number
        for part in PassageParts.of(run, False)
        for sentences in part.sentences()
        for lookup in (labels_by_id, labels_by_text)
    ]
    return sum(map(len, numbers)), sum(int(array.sum()) for array in numbers)


def duckdb_parts(run: Path, labels: Path, folder: Path) -> Matches:
    """Two queries for each part of passages/."""
    database = _database(labels, folder)
    pairs = total = 0
    for part in PassageParts.of(run, False):
        columns = [{"sentence_id": s.sentence_id, "folded": fold_all(s.text)} for s in part.sentences()]
        database.register("sentences", pa.concat_tables([pa.table(column) for column in columns]))
        for join in (
            "join by_id using (sentence_id) where by_id.text is null or by_id.text = folded",
            "join by_text on by_text.text = folded",
        ):
            numbers = (
                database.sql(f"select number from sentences {join}").to_arrow_table()["number"].to_numpy()
            )
            pairs, total = pairs + len(numbers), total + int(numbers.sum())

    return pairs, total


def duckdb_whole(run: Path, labels: Path, folder: Path) -> Matches:
    """Two queries for all parts."""
    database = _database(labels, folder)
    sentences = (
        f"(select unnest(sentences, recursive := true) from read_parquet('{run}/passages/part-*')) as "
        "sentences"
    )
    folded = r"lower(regexp_replace(trim(sentences.text), '\s+', ' ', 'g'))"
    pairs = total = 0

    for join in (
        f"join by_id using (sentence_id) where by_id.text is null or by_id.text = {folded}",
        f"join by_text on by_text.text = {folded}",
    ):
        (count, numbers) = database.execute(
            f"select count(*), sum(number) from {sentences} {join}"
        ).fetchone()
        pairs, total = pairs + count, total + int(numbers)

    return pairs, total


def _database(labels: Path, folder: Path) -> Any:
    """A DuckDB database on disk with the tables `by_id` and `by_text`; one thread, as a worker process of
    ours."""
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    database = duckdb.connect(str(folder / "labels.duckdb"))
    for name, value in (("threads", "1"), ("memory_limit", "'1GB'"), ("temp_directory", f"'{folder}'")):
        database.execute(f"set {name} = {value}")
    database.execute("set preserve_insertion_order = false")

    def folded() -> Iterator[pa.RecordBatch]:
        for batch in label_batches(labels):
            columns = [
                fold_all(batch.column(name)) if name == "text" else batch.column(name)
                for name in GIVEN_LABEL.names
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=GIVEN_LABEL)

    database.register("batches", pa.RecordBatchReader.from_batches(GIVEN_LABEL, folded()))
    database.execute("create table labels as select * from batches")
    by_text = "case when sentence_id is null then text end"
    contradictions = database.execute(
        f"select min(number) from labels group by question_id, sentence_id, {by_text} having min(label) <> "
        "max(label)"
    ).fetchall()
    if contradictions:
        raise ValueError(f"labels contradict each other: {contradictions}")

    columns = "min(label) as label, min(number) as number from labels where sentence_id is"
    database.execute(
        f"create table by_id as select question_id, sentence_id, text, {columns} not null group by all"
    )
    database.execute(f"create table by_text as select question_id, text, {columns} null group by all")

    return database


ENGINES: dict[str, Callable[[Path, Path, Path], Matches]] = {
    "own": own,
    "duckdb_parts": duckdb_parts,
    "duckdb_whole": duckdb_whole,
}

if __name__ == "__main__":
    engine, *paths = sys.argv[1:]
    began = time.process_time()
    pairs, total = ENGINES[engine](*map(Path, paths))
    print(json.dumps({"pairs": pairs, "total": total, "cpu_seconds": time.process_time() - began}))
