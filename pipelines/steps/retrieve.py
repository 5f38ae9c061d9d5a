"""Retrieve: questions in; for each the best passages of all shards out, by BM25, by dense vectors, and fused.

Questions that the job's rules refuse, or its sample leaves out, are kept in questions_rejects/.
Every shard first tells how often the questions' words occur in it; with the sum, each shard's BM25 scores are those of
one index over everything. Then each block of questions meets each shard; what moves between workers is arrays of
(passage, score), merged two by two, ties broken by id. Passages are fetched once the best are known.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from indexing.shards.bm25 import GlobalStatistics
from indexing.shards.dense import Encoder, find_model
from indexing.shards.fusion import Best, Fused, fuse, merge
from indexing.shards.jvm import anserini_jar, find_java
from indexing.shards.shard import Shard
from pipelines.config.job_file import Job, Retrieve
from pipelines.errors import SETTINGS, JobError
from pipelines.execution.parquet_folder import Folder, PartWriter
from pipelines.execution.progress import progress
from pipelines.execution.runner import pipeline
from pipelines.execution.step import Report, Step, total
from pipelines.inputs.questions import Chosen, choose, told
from pipelines.steps.models import passage_encoder, use_threads
from schemas.atomic_files import sha256
from schemas.corpus import Passage, Question, Rejected
from schemas.ranked import Hit
from schemas.record import Record

OUTPUTS: Mapping[str, type[Record]] = {
    "questions": Question,
    "retrieved": Hit,
    "questions_rejects": Rejected,
}
SOURCES = ("bm25", "dense")
OPEN_SHARDS = 4
BLOCKS_PER_SEARCH = 16
Vectors: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Block:
    """One unit of work: some questions."""

    number: int
    questions: tuple[Question, ...]

    @property
    def texts(self) -> list[str]:
        return [question.text for question in self.questions]


Found: TypeAlias = dict[str, list[Best]]
"""Source → the best passages of each question of a block."""


def questions_file(job: Job) -> Path:
    if job.retrieve is None:
        raise JobError("the job has no [retrieve] section; add one with `questions`", SETTINGS)
    return job.path(job.retrieve.questions)


def chosen(job: Job) -> Chosen:
    """The questions to be asked, and those that are not. Raises JobError as `questions.choose` does."""
    file = questions_file(job)
    assert job.retrieve is not None  # `questions_file` has refused a job without it
    return choose(file, job.retrieve)


def check_engines(job: Job) -> None:
    """Refuse a job whose Java, Lucene or encoder is not there. Raises JavaMissing or ModelMissing."""
    find_java(job.workers.java)
    anserini_jar()
    for name in (job.index.encoder, job.index.question_encoder):
        if name is not None:
            find_model(name)


def step(job: Job, run: Path) -> Step:
    """The retrieve step of a run. Raises JobError where shards/ or the questions are missing."""
    shards = Folder.open(run / "shards", Passage, "index")
    questions = sha256(questions_file(job))
    assert job.retrieve is not None  # `questions_file` has refused a job without it
    settings = job.retrieve.model_dump(exclude={"questions"}) | {"question_encoder": job.index.question_encoder}
    return Step(run, "retrieve", OUTPUTS, settings, {"questions": questions, "shards": shards.manifest.fingerprint})


def retrieve(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; returns its summary line."""
    this = step(job, run)
    settings = job.retrieve
    assert settings is not None
    if this.is_complete():
        return summary(run) + " (complete)"
    this.begin()
    given = chosen(job)
    questions = given.questions
    starts = range(0, len(questions), settings.block)
    blocks = [Block(n, questions[start : start + settings.block]) for n, start in enumerate(starts)]
    done = this.reports.read()
    left = [block for block in blocks if block.number not in done]
    folders = [run / "shards" / part.file for part in Folder.open(run / "shards", Passage, "index").parts]
    with (
        progress("retrieve", len(blocks), this.reports.count),
        pipeline(beam_options, job.workers.processes, len(left)) as root,
    ):
        define(root, left, folders, job, settings, this)
    reports = [*this.reports.read().values(), reject(given, this, len(blocks))]
    counts = total(reports)
    if counts["questions"] != len(questions):
        raise RuntimeError(f"{len(questions)} questions came in, {counts['questions']} were searched")
    this.finish(reports, counts)
    return summary(run)


def define(
    root: beam.Pipeline, blocks: Sequence[Block], folders: Sequence[Path], job: Job, settings: Retrieve, this: Step
) -> None:
    """The pipeline: count words over shards, encode questions, search each block in each shard, merge, fuse, fetch."""
    shards = root | "Shards" >> beam.Create(list(enumerate(folders))) | "Spread shards" >> beam.Reshuffle()  # (number, folder)
    statistics = (
        shards
        | "Count words" >> beam.ParDo(CountWords(blocks, job, settings))  # GlobalStatistics of one shard
        | "Over all shards" >> beam.CombineGlobally(add)  # GlobalStatistics
    )
    asked = (
        root
        | "Blocks" >> beam.Create(list(blocks))  # Block
        | "Spread blocks" >> beam.Reshuffle()
        | "Encode questions" >> beam.ParDo(EncodeQuestions(job, settings))  # (block number, Asked)
    )
    searches = [(n, folder, first) for n, folder in enumerate(folders) for first in range(0, len(blocks), BLOCKS_PER_SEARCH)]
    (
        root
        | "Searches" >> beam.Create(searches)  # (shard number, folder, first of some blocks)
        | "Spread searches" >> beam.Reshuffle()
        | "Search" >> beam.ParDo(Search(blocks, job, settings), beam.pvalue.AsSingleton(statistics), beam.pvalue.AsDict(asked))
        # (block number, Found in one shard)
        | "Merge shards" >> beam.CombinePerKey(MergeFound(settings.depth))  # (block number, Found)
        | "Fuse and fetch" >> beam.ParDo(FuseAndFetch(blocks, folders, job, settings, this))
    )


def add(shares: Iterable[GlobalStatistics]) -> GlobalStatistics:
    """The sum; `GlobalStatistics()` of no shard."""
    return sum(shares, GlobalStatistics())


class CountWords(beam.DoFn):
    """(number, folder) of a shard → how big it is and how often the questions' words occur in it."""

    def __init__(self, blocks: Sequence[Block], job: Job, settings: Retrieve) -> None:
        self._texts = [text for block in blocks for text in block.texts] if "bm25" in settings.sources else []
        self._open = OpenShards(job)

    def process(self, element: tuple[int, Path]) -> Iterator[GlobalStatistics]:
        if self._texts:
            yield self._open(element[1]).bm25.share(self._texts)


@dataclass(frozen=True, slots=True)
class Asked:
    """A block's questions as vectors [questions, d], and the fingerprint of the encoder that made them."""

    vectors: Vectors
    encoder: str


class EncodeQuestions(beam.DoFn):
    """A block → its number and its questions' vectors; None where the dense index is not searched."""

    def __init__(self, job: Job, settings: Retrieve) -> None:
        self._job, self._dense = job, "dense" in settings.sources

    def setup(self) -> None:
        if self._dense:
            use_threads()
        self._encoder = passage_encoder(self._job) if self._dense else None

    def process(self, block: Block) -> Iterator[tuple[int, Asked | None]]:
        yield block.number, encode(block, self._encoder) if self._encoder else None


def encode(block: Block, encoder: Encoder) -> Asked:
    return Asked(encoder.encode_questions(block.texts), encoder.fingerprint)


class Search(beam.DoFn):
    """Some blocks in one shard → for each (block number, the best of the shard for each question).

    A shard is opened, and its checksums compared, once for many questions.
    """

    def __init__(self, blocks: Sequence[Block], job: Job, settings: Retrieve) -> None:
        self._blocks, self._settings = list(blocks), settings
        self._open = OpenShards(job)

    def process(
        self, element: tuple[int, Path, int], statistics: GlobalStatistics, asked: Mapping[int, Asked | None]
    ) -> Iterator[tuple[int, Found]]:
        number, folder, first = element
        for block in self._blocks[first : first + BLOCKS_PER_SEARCH]:
            found = search(self._open(folder), number, block, asked[block.number], statistics, self._settings)
            yield block.number, found


def search(
    shard: Shard, number: int, block: Block, asked: Asked | None, statistics: GlobalStatistics, settings: Retrieve
) -> Found:
    """One shard's best for each question of a block, by each source. Raises ShardMismatch where another encoder built it."""
    hits = {}
    if "bm25" in settings.sources:
        hits["bm25"] = shard.bm25.search(block.texts, settings.depth, statistics)
    if asked is not None:
        shard.check_encoder(asked.encoder)
        hits["dense"] = shard.dense.search(asked.vectors, settings.depth)
    return {
        source: [Best.of(number, rows, shard.passage_ids(rows), scores) for rows, scores in best]
        for source, best in hits.items()
    }


class MergeFound:
    """What several shards found for a block, merged; takes its own results again, in any order and grouping."""

    def __init__(self, depth: int) -> None:
        self._depth = depth

    def __call__(self, parts: Iterable[Found]) -> Found:
        parts = list(parts)
        sources = parts[0].keys() if parts else ()
        return {
            source: [merge(bests, self._depth) for bests in zip(*(part[source] for part in parts), strict=True)]
            for source in sources
        }


class FuseAndFetch(beam.DoFn):
    """(block number, the best of all shards) → parts of questions/ and retrieved/; and the unit's report."""

    def __init__(self, blocks: Sequence[Block], folders: Sequence[Path], job: Job, settings: Retrieve, this: Step) -> None:
        self._blocks = {block.number: block for block in blocks}
        self._folders, self._settings, self._step = list(folders), settings, this
        self._open = OpenShards(job)

    def process(self, element: tuple[int, Found]) -> None:
        block, found = self._blocks[element[0]], element[1]
        fused = [
            fuse({source: best[n] for source, best in found.items()}, self._settings.fusion_k)
            for n in range(len(block.questions))
        ]
        write_block(block, fused, fetch(fused, lambda number: self._open(self._folders[number])), self._step)


def fetch(fused: Iterable[Sequence[Fused]], shard: Callable[[int], Shard]) -> dict[str, Passage]:
    """The passages of all lists by id, each read once, shard by shard."""
    rows: dict[int, set[int]] = {}
    for one in (one for ranked in fused for one in ranked):
        rows.setdefault(one.shard, set()).add(one.row)
    return {
        passage.passage_id: passage
        for number, wanted in sorted(rows.items())
        for passage in shard(number).passages(sorted(wanted))
    }


def write_block(block: Block, fused: Sequence[Sequence[Fused]], passages: Mapping[str, Passage], this: Step) -> None:
    """Write a block's questions and hits, and report it."""
    questions = PartWriter(this.run / "questions", Question, block.number)
    retrieved = PartWriter(this.run / "retrieved", Hit, block.number)
    with questions, retrieved:
        questions.write(block.questions)
        for question, ranked in zip(block.questions, fused, strict=True):
            retrieved.write([to_hit(question, rank, one, passages[one.passage_id]) for rank, one in enumerate(ranked, 1)])
    counts = {
        "questions": len(block.questions),
        "without_hits": sum(not ranked for ranked in fused),
        "hits": retrieved.part.rows,
        **{source: sum(source in one.found_by for ranked in fused for one in ranked) for source in SOURCES},
    }
    this.reports.write(Report(block.number, {"questions": questions.part, "retrieved": retrieved.part}, counts))


def to_hit(question: Question, rank: int, one: Fused, passage: Passage) -> Hit:
    """The row of retrieved/."""
    bm25, dense = (one.found_by.get(source, (None, None)) for source in SOURCES)
    return Hit(
        question_id=question.question_id,
        question=question.text,
        rank=rank,
        fused_score=one.score,
        bm25_score=bm25[0],
        bm25_rank=bm25[1],
        dense_score=dense[0],
        dense_rank=dense[1],
        passage=passage,
    )


def reject(given: Chosen, this: Step, unit: int) -> Report:
    """Keep the questions that are not asked; the unit after the last."""
    writer = PartWriter(this.run / "questions_rejects", Rejected, unit)
    with writer:
        writer.write(given.rejects)
    counts = {"questions_given": len(given.questions) + len(given.rejects), "questions_rejects": writer.part.rows}
    reasons = {f"rejected.{reason}": n for reason, n in sorted(given.reasons.items())}
    return Report(unit, {"questions_rejects": writer.part}, counts | reasons)


class OpenShards:
    """Opens shards once per worker and keeps the last few open. Loads nothing before the first call."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._open: OrderedDict[Path, Shard] = OrderedDict()

    def __call__(self, folder: Path) -> Shard:
        if folder not in self._open:
            self._open[folder] = Shard.open(folder, find_java(self._job.workers.java), self._job.workers.java_heap)
        self._open.move_to_end(folder)
        while len(self._open) > OPEN_SHARDS:
            self._open.popitem(last=False)[1].close()
        return self._open[folder]


def summary(run: Path) -> str:
    """One line for people, from the manifest."""
    counts = Counter(Folder.open(run / "retrieved", Hit, "retrieve").manifest.counts)
    questions = f"{counts['questions']:,} questions"
    if counts["questions_rejects"]:
        reasons = Counter({k.removeprefix("rejected."): n for k, n in counts.items() if k.startswith("rejected.")})
        questions = (
            f"{counts['questions_given']:,} given = {questions} + {counts['questions_rejects']:,} rejects ({told(reasons)})"
        )
    return (
        f"retrieve   {questions}, {counts['hits']:,} passages ({counts['bm25']:,} by BM25, "
        f"{counts['dense']:,} by dense); {counts['without_hits']:,} questions found none"
    )
