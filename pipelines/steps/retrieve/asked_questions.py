"""The questions that are searched, as a file in the step's work folder: workers read from it those that they
need.

A block is a unit of the step, and a part of retrieved/. Blocks form groups of some 1,000 questions, which are
encoded, and later merged and written, together; groups form batches of up to 50,000 questions, and a shard is
searched for a batch at a time. The file holds the blocks that were not done when it was written. A run that
was stopped goes on with the same file, since all that was searched belongs to its batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from answermill.indexing.shards.lucene.statistics import Scoring
from answermill.pipelines.config.job_file import Job, Retrieve
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.failures import HasLimits
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Part, PartWriter, read_batches, read_rows
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.retrieve import PassCounts, RetrieveCounts
from answermill.schemas.corpus import Question
from answermill.schemas.record import Record, column, record

QUESTIONS_PER_GROUP = 1_024
QUESTIONS_PER_BATCH = 50_000
FOLDER = "asked"


def settings_of(job: Job) -> Retrieve:
    """The job's [retrieve]. Raises JobError (78) if it has none."""
    if job.retrieve is None:
        raise JobError("the job has no [retrieve] section; add one with `questions`", SETTINGS)
    return job.retrieve


def scoring_of(settings: Retrieve) -> Scoring:
    """BM25's constants and the weight of titles."""
    return Scoring(settings.k1, settings.b, settings.title_weight)


@record
class AskedQuestion(Record):
    """A question that is searched."""

    block: int = column(pa.int32(), "number of the block that it is in")
    question_id: str = column(pa.string(), "Question.question_id")
    text: str = column(pa.string(), "Question.text")


@dataclass(frozen=True, slots=True)
class Block:
    """One unit of the step: some questions."""

    number: int
    questions: tuple[Question, ...]

    @property
    def texts(self) -> list[str]:
        return [question.text for question in self.questions]


@dataclass(frozen=True, slots=True)
class AskedQuestions:
    """The file, and the division of its questions into blocks, groups and batches. It is sent to workers in
    place of the questions.

    >>> asked = AskedQuestions(Path(), Part("part", 250, 0, ""), 10, 4, 3)
    >>> asked.group(6), asked.questions_in(asked.group(6)), asked.batch(2)
    (range(24, 25), 10, range(6, 7))
    """

    folder: Path
    part: Part
    block_size: int
    """Questions of a block; the last one may have fewer."""
    blocks_per_group: int
    groups_per_batch: int

    @classmethod
    def cut(cls, folder: Path, part: Part, block_size: int) -> AskedQuestions:
        """The usual division of a file."""
        blocks = max(1, QUESTIONS_PER_GROUP // block_size)
        groups = max(1, QUESTIONS_PER_BATCH // (blocks * block_size))
        return cls(folder, part, block_size, blocks, groups)

    @property
    def blocks(self) -> range:
        """The places of all blocks in the file."""
        return range(-(-self.part.rows // self.block_size))

    @property
    def groups(self) -> range:
        """The numbers of all groups."""
        return range(-(-len(self.blocks) // self.blocks_per_group))

    @property
    def batches(self) -> range:
        """The numbers of all batches."""
        return range(-(-len(self.groups) // self.groups_per_batch))

    def group(self, number: int) -> range:
        """The places of a group's blocks in the file."""
        return self.blocks[number * self.blocks_per_group : (number + 1) * self.blocks_per_group]

    def batch(self, number: int) -> range:
        """The numbers of a batch's groups."""
        return self.groups[number * self.groups_per_batch : (number + 1) * self.groups_per_batch]

    def questions_in(self, places: range) -> int:
        """Number of questions in the blocks at these places."""
        return min(places.stop * self.block_size, self.part.rows) - places.start * self.block_size

    def read(self, places: range) -> Iterator[Block]:
        """The blocks at these places, one after the other."""
        start = places.start * self.block_size
        rows = read_rows(self.folder, self.part, AskedQuestion, start, start + self.questions_in(places))
        for number, block in groupby(rows, key=lambda row: row.block):
            yield Block(number, tuple(Question(row.question_id, row.text) for row in block))

    def numbers(self) -> list[int]:
        """The numbers of the blocks, in the order of the file."""
        batches = read_batches(self.folder, self.part, ["block"], rows=65_536)
        return list(dict.fromkeys(number for batch in batches for number in batch["block"].to_pylist()))

    def groups_with(self, blocks: Collection[int]) -> set[int]:
        """The numbers of the groups that have one of these blocks."""
        wanted = set(blocks)
        return {n // self.blocks_per_group for n, number in enumerate(self.numbers()) if number in wanted}


def write_asked(
    step: Step[RetrieveCounts],
    questions: Sequence[Question],
    pending: Sequence[int],
    block_size: int,
    limits: HasLimits,
) -> AskedQuestions:
    """The file with the questions of the pending blocks: the existing one, if it has them, else a new one.

    It is the only unit of a step within the step.
    """
    asking = _asking(step)
    Commit(asking).begin(limits)
    if asking.reports.has(0):
        asked = written_asked(step, block_size)
        if set(pending) <= set(asked.numbers()):
            return asked
        asking.reports.forget([0])

    folder = asking.run / FOLDER
    writer = PartWriter(folder, AskedQuestion, 0)
    with writer:
        for number in pending:
            block = questions[number * block_size : (number + 1) * block_size]
            writer.write([AskedQuestion(number, question.question_id, question.text) for question in block])

    report = asking.reports.write(Report(0, {FOLDER: writer.parts}, PassCounts()))
    return AskedQuestions.cut(folder, report.parts[FOLDER][0], block_size)


def written_asked(step: Step[RetrieveCounts], block_size: int) -> AskedQuestions:
    """The file that `write_asked` has left."""
    asking = _asking(step)
    report = asking.reports.read_one(0)
    assert report is not None  # the command writes it before any unit
    return AskedQuestions.cut(asking.run / FOLDER, report.parts[FOLDER][0], block_size)


def _asking(step: Step[RetrieveCounts]) -> Step[PassCounts]:
    return step.within("asked", {FOLDER: AskedQuestion}, PassCounts, {})
