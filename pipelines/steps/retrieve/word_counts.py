"""In how many passages of each shard a word is, and the sums over all shards, which decide BM25's scores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from answermill.indexing.shards.lucene.statistics import GlobalStatistics, ShardSize
from answermill.pipelines.runs.parquet_folder import PartWriter, read_batches
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.pipelines.steps.retrieve.passes import Pass
from answermill.schemas.record import Record, column, record


@record
class WordCount(Record):
    """Number of passages in which a word of the questions occurs."""

    word: str = column(pa.string(), "as Lucene's analyser gives it; after a tab, one of titles")
    passages: int = column(pa.int64(), "passages that hold it")


def write_counts(target: Pass, shard: int, frequencies: Mapping[str, int], counts: PassCounts) -> None:
    """Write and report a shard's counts, as the pass' unit of its number."""
    writer = PartWriter(target.folder, WordCount, shard)
    with writer:
        writer.write([WordCount(word, frequencies[word]) for word in sorted(frequencies)])
    target.write(shard, writer.parts, counts)


def read_statistics(words: Pass) -> GlobalStatistics:
    """The sum over all shards. With it, each shard's BM25 scores are those of one index over everything.

    Raises RuntimeError if two shards were asked for different words.
    """
    size, names, passages = PassCounts(), pa.array([], pa.string()), np.empty(0, np.int64)
    for report in words.reports(range(words.units)):
        size += report.counts
        (part,) = report.parts[words.folder.name]
        batches = read_batches(words.folder, part, rows=65_536)
        table = pa.Table.from_batches(batches, WordCount.schema()).combine_chunks()

        # All shards have the same words, in the same order: numbers are added without looking up words.
        if report.unit == 0:
            names, passages = table["word"], np.zeros(len(table), np.int64)
        if not table["word"].equals(names):
            raise RuntimeError(f"shard {report.unit} has counted other words than shard 0")
        passages += table["passages"].to_numpy()

    counted = ShardSize(size.documents, size.tokens, size.titles, size.title_tokens)
    return GlobalStatistics(counted, dict(zip(names.to_pylist(), passages.tolist(), strict=True)))
