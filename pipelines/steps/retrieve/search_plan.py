"""The passes of retrieve in their order, by the folders that they write.

    vectors       of the questions                        a unit: some blocks of questions
    words         in how many passages a word occurs      a shard
    words-1 …     the sums over all shards                up to 32 parts, in levels until one is left
    hits          the best of a shard for each question   a shard and a batch of questions
    hits-1 …      the best of all shards                  up to 32 parts of a batch, in levels until one is left
    passages      the passages of the best                a shard
    passages-1 …  the same, of more than 32 shards        up to 32 parts of a batch, in levels until 32 are left

The last pass is the step itself: it writes the fused lists with their passages, a block of questions at a
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from answermill.pipelines.config.job_file import Job, Retrieve
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.retrieve import PassCounts, RetrieveCounts
from answermill.pipelines.steps.retrieve import (
    asked_questions,
    block_order,
    fetch_passages,
    shard_hits,
    word_counts,
)
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestion, AskedQuestions, write_asked
from answermill.pipelines.steps.retrieve.block_order import MergeParts, bins
from answermill.pipelines.steps.retrieve.fetch_passages import FetchedPassage, FetchPassages
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import Pass, Turn, folder_of
from answermill.pipelines.steps.retrieve.shard_hits import QuestionVector, ShardHit, merge_tables
from answermill.pipelines.steps.retrieve.shard_search import VECTORS, EncodeQuestions, SearchShard
from answermill.pipelines.steps.retrieve.word_counts import AddCounts, CountWords, WordCount
from answermill.pipelines.steps.retrieve.write_blocks import Passes, WriteBlock
from answermill.schemas.corpus import Question
from answermill.schemas.record import Record


def write_questions(
    questions: Sequence[Question],
    pending: Sequence[int],
    block_size: int,
    step: Step[RetrieveCounts],
    job: Job,
) -> AskedQuestions:
    """Write the questions of the pending blocks for the workers, unless that is done."""
    asking = step.within("asked", {asked_questions.FOLDER: AskedQuestion}, PassCounts, {})
    Commit(asking).begin(job.workers)
    return write_asked(asking, questions, pending, block_size)


def plan(
    asked: AskedQuestions, questions: int, shards: RunShards, settings: Retrieve, step: Step[RetrieveCounts]
) -> list[Turn]:
    """The passes that search the asked questions, of `questions` in all; the last one is the step itself."""
    return _Plan(asked, shards, settings, step).turns(questions)


class _Plan:
    """Builds the passes one after the other."""

    def __init__(
        self, asked: AskedQuestions, shards: RunShards, settings: Retrieve, step: Step[RetrieveCounts]
    ) -> None:
        self._asked, self._shards, self._settings, self._step = asked, shards, settings, step
        self._turns: list[Turn] = []

    def turns(self, questions: int) -> list[Turn]:
        asked, settings = self._asked, self._settings
        vectors = self._vectors() if "dense" in settings.sources else None
        words = self._words() if "bm25" in settings.sources else None
        hits = self._hits(words, vectors)
        passages = self._passages(hits)
        sizes = [min(settings.block, questions - first) for first in range(0, questions, settings.block)]
        work = WriteBlock(Passes(words, vectors, hits, passages), asked, settings, self._step)
        return [*self._turns, Turn("Write blocks", self._step, work, sizes, asked.numbers)]

    def _vectors(self) -> Pass:
        asked = self._asked
        in_batch = asked.blocks_per_batch // asked.blocks_per_encoding
        vectors = self._pass(VECTORS, QuestionVector, asked.encodings, in_batch)
        sizes = [asked.questions_in(asked.encoding(number)) for number in range(asked.encodings)]
        return self._add(
            "Encode questions", vectors, EncodeQuestions(vectors, asked, self._shards.job), sizes
        )

    def _words(self) -> Pass:
        count = self._shards.count
        words = self._pass(word_counts.FOLDER, WordCount, count, count)
        self._add(
            "Count words",
            words,
            CountWords(words, self._asked, self._shards),
            [self._asked.part.rows] * count,
        )
        while words.in_batch > 1:
            sums = self._level(words, WordCount, 1)
            words = self._add(f"Add {sums.folder}", sums, AddCounts(words, sums), [0] * sums.units)
        return words

    def _hits(self, words: Pass | None, vectors: Pass | None) -> Pass:
        asked, shards = self._asked, self._shards
        hits = self._pass(shard_hits.FOLDER, ShardHit, asked.batches * shards.count, shards.count)
        work = SearchShard(hits, asked, shards, self._settings, words=words, vectors=vectors)
        self._add("Search", hits, work, self._sizes(hits))
        while hits.in_batch > 1:
            best = self._level(hits, ShardHit, asked.batches)
            combine = partial(merge_tables, depth=self._settings.depth)
            rows = shard_hits.ROWS_PER_GROUP
            merging = MergeParts(hits, best, asked, record=ShardHit, rows_per_group=rows, combine=combine)
            hits = self._add(f"Merge {best.folder}", best, merging, self._sizes(best))
        return hits

    def _passages(self, hits: Pass) -> Pass:
        asked, count = self._asked, self._shards.count
        passages = self._pass(fetch_passages.FOLDER, FetchedPassage, count, count, spans_batches=True)
        self._add(
            "Fetch", passages, FetchPassages(hits, passages, asked, self._shards), [asked.part.rows] * count
        )
        while passages.in_batch > block_order.PARTS_PER_MERGE:
            joined = self._level(passages, FetchedPassage, asked.batches)
            rows = fetch_passages.ROWS_PER_GROUP
            merging = MergeParts(passages, joined, asked, record=FetchedPassage, rows_per_group=rows)
            passages = self._add(f"Merge {joined.folder}", joined, merging, self._sizes(joined))
        return passages

    def _pass(
        self, folder: str, record: type[Record], units: int, in_batch: int, spans_batches: bool = False
    ) -> Pass:
        """A pass within the step. Its parts depend on the step's own settings and on the division of the
        questions."""
        asked = self._asked
        inputs = {
            "asked": asked.part.sha256,
            "blocks": f"{asked.blocks_per_batch}",
            "bins": f"{block_order.PARTS_PER_MERGE}",
        }
        batches = range(asked.batches if spans_batches else 1)
        folders = [folder_of(folder, batch, spans_batches) for batch in batches]
        step = self._step.within(folder, dict.fromkeys(folders, record), PassCounts, inputs)
        return Pass(step, folder, units, in_batch, spans_batches)

    def _level(self, source: Pass, record: type[Record], batches: int) -> Pass:
        """The pass that merges the parts of another one."""
        name, _, level = source.folder.partition("-")
        count = bins(source.in_batch)
        return self._pass(f"{name}-{int(level or 0) + 1}", record, batches * count, count)

    def _sizes(self, parts: Pass) -> list[int]:
        """Questions of each unit, which is of one batch."""
        asked = self._asked
        return [asked.questions_in(asked.batch(unit // parts.in_batch)) for unit in range(parts.units)]

    def _add(self, label: str, new: Pass, work: UnitWork, sizes: Sequence[int]) -> Pass:
        self._turns.append(Turn(label, new.step, work, sizes, partial(range, new.units)))
        return new
