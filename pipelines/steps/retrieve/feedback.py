"""RM3 over all shards (`retrieve.rm3`): three passes between the count of questions' words and the search.

The shards are searched by BM25 for a few passages of each question; the words of the best of all shards are
read, a unit for each group of questions; and each shard counts them. With the sums, `Expansions` makes the
weighted words that the search looks for in place of the question. These are of the whole corpus, so n shards
give what one gives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from answermill.indexing.shards.lucene.bm25 import contents_of, words_of
from answermill.indexing.shards.lucene.feedback import Bag, Feedback, candidate_words, expanded
from answermill.indexing.shards.lucene.jvm import find_java, start
from answermill.indexing.shards.lucene.statistics import GlobalStatistics
from answermill.indexing.shards.rank_fusion import Fused
from answermill.pipelines.config.job_file import Job, Retrieve
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.parquet_folder import PartWriter, read_batches
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions, Block
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import Pass, PlacedPart, Timer, by_block
from answermill.pipelines.steps.retrieve.shard_hits import fuse_block
from answermill.pipelines.steps.retrieve.word_counts import read_statistics, write_counts
from answermill.pipelines.steps.retrieve.write_blocks import Fetched, hits_of_group, merge_parts
from answermill.schemas.corpus import Passage
from answermill.schemas.record import Record, column, record

FirstPassages: TypeAlias = Sequence[tuple[float, Bag]]
"""Score and candidate words of a question's first passages, best first."""


@record
class FeedbackWord(Record):
    """A word of one of a question's first passages. Rows are ordered by block, question, rank, and word."""

    block: int = column(pa.int32(), "number of the question's block")
    question: int = column(pa.int32(), "the question's place in the block, from 0")
    rank: int = column(pa.int32(), "the passage's rank by BM25, from 1")
    score: float = column(pa.float64(), "its score")
    word: str = column(pa.string(), "as Lucene's analyser gives it")
    count: int = column(pa.int32(), "how often it is in the passage")


def first_settings(settings: Retrieve) -> Retrieve:
    """The settings of the search for the first passages."""
    assert settings.rm3 is not None
    return settings.model_copy(update={"sources": ["bm25"], "depth": settings.rm3.passages, "rm3": None})


def feedback_of(settings: Retrieve) -> Feedback:
    """RM3's settings."""
    assert settings.rm3 is not None
    return Feedback(**settings.rm3.model_dump())


def first_passages(
    ranked: Iterable[Sequence[Fused]], passages: Mapping[str, Passage], language: str
) -> list[FirstPassages]:
    """The first passages of each question. The JVM must be started."""
    several = list[FirstPassages]()
    for hits in ranked:
        first = (passages[hit.passage_id] for hit in hits)
        words = words_of([contents_of(passage.title, passage.text) for passage in first], language)
        scores = [hit.sources["bm25"][0] for hit in hits]
        several.append(list(zip(scores, map(candidate_words, words), strict=True)))
    return several


class ReadFeedback(UnitWork):
    """The number of a group → the words of its questions' first passages."""

    def __init__(
        self, target: Pass, asked: AskedQuestions, shards: RunShards, settings: Retrieve, hits: Pass
    ) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._shards = target, asked, shards
        self._settings, self._hits = first_settings(settings), hits

    def work(self, unit: int) -> None:
        timer, target, settings = Timer(), self._target, self._settings
        job = self._shards.job
        start(find_java(job.workers.java), job.workers.java_heap)
        writer = PartWriter(target.folder, FeedbackWord, unit)

        with Meter(target.step.work, unit) as meter, writer, timer.on("bm25"):
            parts = hits_of_group(unit, self._hits, self._asked, self._shards.count)
            lists = merge_parts(parts, settings.depth)
            blocks = list(self._asked.read(self._asked.group(unit)))
            ranked = [
                fuse_block(lists.get(block.number, {}), len(block.questions), settings.fusion_k)
                for block in blocks
            ]
            fetched = Fetched(self._shards, list(chain.from_iterable(chain.from_iterable(ranked))))
            for block, hits in zip(blocks, ranked, strict=True):
                passages = fetched.passages(list(chain.from_iterable(hits)))
                writer.write(_rows(block.number, first_passages(hits, passages, job.index.language)))
                meter.add(len(block.questions))
        target.write(unit, writer.parts, timer.counts())


def _rows(block: int, several: Sequence[FirstPassages]) -> list[FeedbackWord]:
    return [
        FeedbackWord(block, question, rank, score, word, int(words[word]))
        for question, passages in enumerate(several)
        for rank, (score, words) in enumerate(passages, 1)
        for word in sorted(words)
    ]


class CountFeedback(UnitWork):
    """The number of a shard → the number of its passages that have each word of all first passages."""

    def __init__(self, target: Pass, asked: AskedQuestions, shards: RunShards, feedback: Pass) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._shards, self._feedback = target, asked, shards, feedback

    def work(self, unit: int) -> None:
        timer, target, frequencies = Timer(), self._target, dict[str, int]()
        with Meter(target.step.work, unit) as meter, self._shards.open(unit) as shard, timer.on("bm25"):
            for group, part in zip(self._asked.groups, self._feedback.parts(self._asked.groups), strict=True):
                new = {word: 1.0 for word in _words(part) if word not in frequencies}
                frequencies |= shard.bm25.document_frequencies([new])
                meter.add(self._asked.questions_in(self._asked.group(group)))
            size = shard.bm25.statistics()
        write_counts(target, unit, frequencies, PassCounts(**asdict(size)) + timer.counts())


def _words(part: PlacedPart) -> list[str]:
    columns = [batch.column("word") for batch in read_batches(*part, ["word"], rows=65_536)]
    words: list[str] = pc.unique(pa.chunked_array(columns, pa.string())).to_pylist()
    return words


class Expansions:
    """The weighted words of questions, by what the passes have left."""

    def __init__(
        self, job: Job, settings: Retrieve, statistics: GlobalStatistics, feedback: Pass, counts: Pass
    ) -> None:
        """`statistics` of the questions' own words."""
        self._job, self._settings, self._feedback = job, feedback_of(settings), feedback
        self.statistics = with_words(statistics, read_statistics(counts))
        """Of the added words too."""

    def bags(self, group: int, blocks: Iterable[Block]) -> Iterator[list[dict[str, float]]]:
        """The weighted words of each question of a group's blocks."""
        (part,) = self._feedback.parts([group])
        by_number = dict(by_block(part))
        for block in blocks:
            table = by_number.get(block.number)
            first = _by_question(table) if table is not None else {}
            several = [first.get(question, ()) for question in range(len(block.questions))]
            yield expand(block, several, self.statistics, self._job.index.language, self._settings)


def _by_question(table: pa.Table) -> dict[int, FirstPassages]:
    """The first passages of each question of a block that has some, by its place."""
    passages: dict[int, dict[int, tuple[float, dict[str, float]]]] = defaultdict(dict)
    columns = (table[name].to_pylist() for name in ("question", "rank", "score", "word", "count"))
    for question, rank, score, word, count in zip(*columns, strict=True):
        passages[question].setdefault(rank, (score, {}))[1][word] = count
    return {question: [ranks[rank] for rank in sorted(ranks)] for question, ranks in passages.items()}


def expand(
    block: Block,
    several: Iterable[FirstPassages],
    statistics: GlobalStatistics,
    language: str,
    settings: Feedback,
) -> list[dict[str, float]]:
    """The weighted words of each question of a block. The JVM must be started."""
    documents, frequencies = statistics.size.documents, statistics.frequencies
    return [
        expanded(question, passages, frequencies, documents, settings)
        for question, passages in zip(words_of(block.texts, language), several, strict=True)
    ]


def with_words(one: GlobalStatistics, other: GlobalStatistics) -> GlobalStatistics:
    """Statistics of one corpus, of the words of both."""
    return replace(one, frequencies={**one.frequencies, **other.frequencies})
