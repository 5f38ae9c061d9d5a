"""The questions that are searched, as a file in the step's work folder: workers read from it the blocks that
they need.

A block is a unit of the step; blocks form batches of up to 50,000 questions, and a shard is opened once for
each batch. The file holds the blocks that were not done when it was written. A run that was stopped goes on
with the same file, since all that was searched belongs to its batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from answermill.pipelines.config.job_file import Job, Retrieve
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Part, PartWriter, read_batches, read_rows
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.schemas.corpus import Question
from answermill.schemas.record import Record, column, record

QUESTIONS_PER_SEARCH = 50_000
QUESTIONS_PER_ENCODING = 1_024
FOLDER = "asked"


def settings_of(job: Job) -> Retrieve:
    """The job's [retrieve]. Raises JobError (78) if it has none."""
    if job.retrieve is None:
        raise JobError("the job has no [retrieve] section; add one with `questions`", SETTINGS)
    return job.retrieve


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
    """The file, and the division of its questions into blocks and batches. It is sent to workers in place of
    the questions."""

    folder: Path
    part: Part
    block_size: int
    """Questions of a block; the last one may have fewer."""
    blocks_per_encoding: int
    blocks_per_batch: int
    """A multiple of `blocks_per_encoding`."""

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.part.rows // self.block_size)

    @property
    def encodings(self) -> int:
        """Number of runs of blocks that are encoded together."""
        return -(-self.blocks // self.blocks_per_encoding)

    @property
    def batches(self) -> int:
        return -(-self.blocks // self.blocks_per_batch)

    def batch(self, number: int) -> range:
        """The places of a batch's blocks in the file."""
        return range(self.blocks)[number * self.blocks_per_batch : (number + 1) * self.blocks_per_batch]

    def encoding(self, number: int) -> range:
        """The places of the blocks that are encoded together."""
        return range(self.blocks)[number * self.blocks_per_encoding : (number + 1) * self.blocks_per_encoding]

    def encodings_of(self, batch: int) -> range:
        """The numbers of the encodings of a batch."""
        per_batch = self.blocks_per_batch // self.blocks_per_encoding
        return range(self.encodings)[batch * per_batch : (batch + 1) * per_batch]

    def questions_in(self, places: range) -> int:
        """Number of questions in the blocks at these places."""
        return min(places.stop * self.block_size, self.part.rows) - min(
            places.start * self.block_size, self.part.rows
        )

    def read(self, places: range) -> Iterator[Block]:
        """The blocks at these places, one after the other."""
        start = places.start * self.block_size
        rows = read_rows(self.folder, self.part, AskedQuestion, start, start + self.questions_in(places))
        for number, block in groupby(rows, key=lambda row: row.block):
            yield Block(number, tuple(Question(row.question_id, row.text) for row in block))

    def numbers(self) -> list[int]:
        """The numbers of the blocks, in the order of the file."""
        numbers: list[int] = _numbers(self.folder, self.part).tolist()
        return numbers

    def place(self, number: int) -> int:
        """The place of the block of this number in the file."""
        return int(np.searchsorted(_numbers(self.folder, self.part), number))


@lru_cache(maxsize=4)
def _numbers(folder: Path, part: Part) -> npt.NDArray[np.int32]:
    batches = [
        batch.column("block").to_numpy() for batch in read_batches(folder, part, ["block"], rows=65_536)
    ]
    return np.unique(np.concatenate(batches))


def write_asked(
    asking: Step[PassCounts], questions: Sequence[Question], pending: Sequence[int], block_size: int
) -> AskedQuestions:
    """The file with the questions of the pending blocks: the existing one, if it has them, else a new one.

    `asking` is the step within the step whose only unit is the file.
    """
    encoding = max(1, QUESTIONS_PER_ENCODING // block_size)
    batch = encoding * max(1, QUESTIONS_PER_SEARCH // (encoding * block_size))
    folder = asking.run / FOLDER
    report = asking.reports.read_one(0)

    if report is not None:
        asked = AskedQuestions(folder, report.parts[FOLDER][0], block_size, encoding, batch)
        if set(pending) <= set(asked.numbers()):
            return asked
        asking.reports.forget([0])

    writer = PartWriter(folder, AskedQuestion, 0)
    with writer:
        for number in pending:
            block = questions[number * block_size : (number + 1) * block_size]
            writer.write([AskedQuestion(number, question.question_id, question.text) for question in block])

    report = asking.reports.write(Report(0, {FOLDER: writer.parts}, PassCounts(rows=writer.part.rows)))
    return AskedQuestions(folder, report.parts[FOLDER][0], block_size, encoding, batch)
