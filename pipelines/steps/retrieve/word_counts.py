"""Number of passages in which each word of the questions occurs: counted shard by shard, and added up in
levels.

With the sums, each shard's BM25 scores are those of one index over everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from answermill.indexing.shards.bm25 import GlobalStatistics
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.parquet_folder import Part, PartWriter, read_batches
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions
from answermill.pipelines.steps.retrieve.block_order import bin_of
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import Pass, PlacedPart, Timer
from answermill.schemas.record import Record, column, record

FOLDER = "words"


@record
class WordCount(Record):
    """Number of passages in which a word of the questions occurs."""

    word: str = column(pa.string(), "as Lucene's analyser gives it")
    passages: int = column(pa.int64(), "passages that hold it")


class CountWords(UnitWork):
    """The number of a shard → its size, and the number of its passages that have each word of the
    questions."""

    def __init__(self, target: Pass, asked: AskedQuestions, shards: RunShards) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._shards = target, asked, shards

    def work(self, unit: int) -> None:
        timer, frequencies = Timer(), dict[str, int]()
        with Meter(self._target.step.work, unit) as meter, self._shards.open(unit) as shard:
            with timer.on("bm25"):
                size = shard.bm25.statistics()
            for block in self._asked.read(range(self._asked.blocks)):
                with timer.on("bm25"):
                    frequencies.update(shard.bm25.document_frequencies(block.texts))
                meter.add(len(block.questions))
            parts = {self._target.folder: write_words(frequencies, self._target, unit)}
            self._target.write(
                unit, parts, PassCounts(documents=size.documents, tokens=size.tokens) + timer.counts()
            )


class AddCounts(UnitWork):
    """Up to PARTS_PER_MERGE parts of words → one with their sums."""

    def __init__(self, source: Pass, target: Pass) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._source, self._target = source, target

    def work(self, unit: int) -> None:
        timer, units = Timer(), bin_of(unit, self._source.units)
        words = add_words(self._source.parts(0, units))
        counts = sum((self._source.report(number).counts for number in units), PassCounts())
        parts = {self._target.folder: write_words(words, self._target, unit)}
        self._target.write(unit, parts, counts + timer.counts())


def add_words(parts: list[PlacedPart]) -> Counter[str]:
    """The sums over these parts; words that no passage has are included."""
    words: Counter[str] = Counter()
    for folder, part in parts:
        for batch in read_batches(folder, part, rows=8_192):
            words.update(dict(zip(batch["word"].to_pylist(), batch["passages"].to_pylist(), strict=True)))
    return words


def write_words(words: Mapping[str, int], target: Pass, unit: int) -> Sequence[Part]:
    writer = PartWriter(target.step.run / target.folder, WordCount, unit)
    with writer:
        writer.write([WordCount(word, words[word]) for word in sorted(words)])
    return writer.parts


def read_statistics(source: Pass) -> GlobalStatistics:
    """The counts of a pass that is left with one part."""
    counts = source.report(0).counts
    return GlobalStatistics(counts.documents, counts.tokens, add_words(source.all_parts()))
