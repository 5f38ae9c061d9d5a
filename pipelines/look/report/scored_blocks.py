"""scored/ as a stream of blocks: arrays of the whole lists of some questions.

Text is not read, and memory does not grow with the folder: a block ends with a list, after about ROWS rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from answermill.pipelines.runs.parquet_folder import Folder, Part, read_batches
from answermill.schemas.ranked import ScoredCandidate

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
ROWS = 32_768
COLUMNS = (
    "question_id",
    "unit",
    "candidate_id",
    "rank",
    "fate",
    "dropped_by",
    "position",
    "retrieved_rank",
    "bm25_rank",
    "dense_rank",
    "stages",
)


@dataclass(frozen=True, slots=True)
class ScoredBlock:
    """Candidates of some questions as arrays [n], in the order of the rows: a list's kept ones best first,
    then dropped ones, the last to leave first. Numbers are 0 where a column is null."""

    part: Part
    first_row: int
    """Row of the part that the block begins with."""
    question_ids: Sequence[str]
    begins: Ints
    """[questions + 1]: first row of each list in the block; the last is n."""
    question: Ints
    """Number of the candidate's question in the block."""
    candidate_id: pa.Array
    is_answer_kind: Bools
    """True if its kind is that in which its list ends: passages that left a plan of sentences cannot be its
    answers."""
    rank: Ints
    is_grouped: Bools
    dropped_by: Ints
    """Number of the stage that dropped it, in the plan; -1 if none did."""
    position: Ints
    retrieved_rank: Ints
    bm25_rank: Ints
    dense_rank: Ints
    score: Floats
    """[n, stages]: NaN without a score."""
    stage_rank: Ints
    """[n, stages]: 0 without a rank."""

    def __len__(self) -> int:
        return len(self.question)


def blocks(scored: Folder[ScoredCandidate], stages: Sequence[str]) -> Iterator[ScoredBlock]:
    """Blocks of a folder, part by part. `stages`: names of its plan's stages."""
    for part in scored.parts:
        row, batches = 0, list[pa.RecordBatch]()
        for batch in read_batches(scored.path, part, COLUMNS, rows=ROWS):
            batches.append(batch)
            table = pa.Table.from_batches(batches)

            # The last list may go on in the next batch.
            if whole := _last_begin(table.column("question_id")):
                yield _block(part, row, table.slice(0, whole), stages)
                row += whole
                batches = table.slice(whole).to_batches()

        if batches:
            yield _block(part, row, pa.Table.from_batches(batches), stages)


def _last_begin(question_id: pa.ChunkedArray) -> int:
    """First row of the last list; 0 if there is but one list."""
    last = question_id[-1]
    other = np.flatnonzero(pc.not_equal(question_id, last).to_numpy())
    return int(other[-1]) + 1 if len(other) else 0


def _block(part: Part, first_row: int, table: pa.Table, stages: Sequence[str]) -> ScoredBlock:
    columns = {name: table.column(name).combine_chunks() for name in COLUMNS}
    ids = columns["question_id"]
    begins = np.concatenate(
        [[0], 1 + np.flatnonzero(pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False))]
    )
    question = np.repeat(np.arange(len(begins)), np.diff([*begins, len(ids)]))
    is_sentence = pc.equal(columns["unit"], "sentence").to_numpy(zero_copy_only=False)
    is_kept = columns["rank"].is_valid().to_numpy(zero_copy_only=False)  # a list's first row, where any is
    ends_in_sentences = (is_sentence | ~is_kept)[begins]  # as `answer_kind`

    score, stage_rank = _stage_columns(columns["stages"], stages)
    return ScoredBlock(
        part=part,
        first_row=first_row,
        question_ids=ids.take(pa.array(begins)).to_pylist(),
        begins=np.concatenate([begins, [len(ids)]]).astype(np.int64),
        question=question.astype(np.int64),
        candidate_id=columns["candidate_id"],
        is_answer_kind=np.asarray(is_sentence == ends_in_sentences[question]),
        rank=_numbers(columns["rank"]),
        is_grouped=pc.equal(columns["fate"], "grouped").to_numpy(zero_copy_only=False),
        dropped_by=_stage_numbers(columns["dropped_by"], stages),
        position=_numbers(columns["position"]),
        retrieved_rank=_numbers(columns["retrieved_rank"]),
        bm25_rank=_numbers(columns["bm25_rank"]),
        dense_rank=_numbers(columns["dense_rank"]),
        score=score,
        stage_rank=stage_rank,
    )


def _numbers(column: pa.Array) -> Ints:
    return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _stage_numbers(names: pa.Array, stages: Sequence[str]) -> Ints:
    """Number of each name in the plan; -1 for null."""
    return np.asarray(
        pc.index_in(names, value_set=pa.array(stages, pa.string())).fill_null(-1).to_numpy(), np.int64
    )


def _stage_columns(column: pa.ListArray, stages: Sequence[str]) -> tuple[Floats, Ints]:
    """Scores and ranks of a column of lists of StageScores, [n, stages] each."""
    row = np.repeat(np.arange(len(column)), pc.list_value_length(column).to_numpy(zero_copy_only=False))
    name, value, rank, _ = column.flatten().flatten()
    stage = _stage_numbers(name, stages)
    known = stage >= 0
    score = np.full((len(column), len(stages)), np.nan)
    score[row[known], stage[known]] = value.to_numpy(zero_copy_only=False)[known]
    stage_rank = np.zeros((len(column), len(stages)), np.int64)
    stage_rank[row[known], stage[known]] = _numbers(rank)[known]
    return score, stage_rank
