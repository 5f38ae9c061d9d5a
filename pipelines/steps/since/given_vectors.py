"""The vectors of passages that a FAISS file of others holds, such as DPR's `index.dpr`, in place of encoding
the same texts again: `index.faiss`.

The file is an exact index (IndexFlatIP), and `index.faiss_ids` has the page's id of each of its rows, one a
line: DPR's `index_meta.dpr` is a pickle, and no pickle is read. Every page of the run has one passage, and
every passage one row. That the vectors are by the job's encoder is tried on a few passages.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from answermill.files.atomic_files import sha256
from answermill.files.store import fetch
from answermill.indexing.shards.shard_builder import PassageEncoder
from answermill.indexing.shards.vectors.exact_index import DenseIndex
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError, counted
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.steps.index.passage_rows import rows_between
from answermill.pipelines.steps.since.earlier_vectors import KnownVectors, keys_of_batch
from answermill.schemas.arrays import Rows
from answermill.schemas.corpus import Passage

TRIED = 16
"""Passages whose vectors are compared with the encoder's."""
LEAST_COSINE = 0.99
"""Smallest cosine of a given vector and the encoder's: encoders in half precision differ by less."""
_PICKLE = b"\x80"  # its first byte, which no id has
_CONVERT = (
    "where you trust it, type: python -c \"import pickle; print(*pickle.load(open('{}', 'rb')), sep='\\n')\" "
    "> ids.txt, and name that"
)


def given_inputs(job: Job) -> dict[str, str]:
    """'faiss' and 'faiss_ids' → SHA-256 of the files; empty if the job names none."""
    written = {"faiss": job.index.faiss, "faiss_ids": job.index.faiss_ids}
    return {name: _digest(*_stamp(job, path)) for name, path in written.items() if path is not None}


def _stamp(job: Job, written: str) -> tuple[Path, int, int]:
    path = fetch(job.path(written))
    return path, path.stat().st_size, path.stat().st_mtime_ns


@lru_cache(maxsize=8)
def _digest(path: Path, size: int, time: int) -> str:
    """Computed once in a process: such a file has gigabytes."""
    return sha256(path)


def given_vectors(job: Job, encoder: PassageEncoder, passages: Folder[Passage]) -> KnownVectors:
    """An encoder that takes every vector from the job's FAISS file, which stays on the disk; 32 bytes a
    passage are in memory. Raises JobError (65) if file, ids and passages do not belong together."""
    file, ids_file = (fetch(job.path(str(name))) for name in (job.index.faiss, job.index.faiss_ids))
    index, ids = _index(file, encoder.dimension), _ids(ids_file)
    if index.rows != len(ids):
        raise JobError(
            f"index.faiss: {file} has {counted(index.rows, 'vector')}, {ids_file} {counted(len(ids), 'id')}; "
            "give the ids of its rows, one a line",
            BAD_DATA,
        )
    pages, keys = [pa.array([], pa.string())], [np.empty((0, 2), np.uint64)]
    for part in passages.parts:
        for batch in read_batches(passages.path, part, ["doc_id", "title", "text"]):
            pages.append(batch.column("doc_id"))
            keys.append(keys_of_batch(batch))
    rows = rows_of_pages(pa.chunked_array(pages).combine_chunks(), ids, ids_file, "index.faiss")
    places = np.stack([np.zeros_like(rows), rows], 1)
    return KnownVectors(encoder, np.concatenate(keys), places, lambda shard: index)


def check_given(known: KnownVectors, encoder: PassageEncoder, passages: Folder[Passage]) -> None:
    """Compare the vectors of a few passages with the encoder's. Raises JobError (78) if one is another's."""
    number = min(TRIED, passages.rows)
    places = sorted({*np.linspace(0, passages.rows - 1, number).astype(np.int64).tolist()})
    tried = [passage for row in places for passage in rows_between(passages, row, row + 1)]
    texts = [(passage.title, passage.text) for passage in tried]
    theirs, own = known.encode_passages(texts), encoder.encode_passages(texts)
    lengths = np.linalg.norm(theirs, axis=1) * np.linalg.norm(own, axis=1)
    cosines = (theirs * own).sum(axis=1) / np.maximum(lengths, 1e-12)
    for passage, cosine in zip(tried, cosines.tolist(), strict=True):
        if not cosine >= LEAST_COSINE:
            raise JobError(
                f"index.faiss: the vector of passage {passage.passage_id} is not by index.encoder "
                f"({encoder.name}): their cosine is {cosine:.3f}, where at least {LEAST_COSINE} is wanted; "
                "give the encoder that the file was built with, or the right ids",
                SETTINGS,
            )


def _index(file: Path, dimension: int) -> DenseIndex:
    try:
        index = DenseIndex.open(file, mapped=True)
    except (ValueError, RuntimeError) as e:
        reason = e if isinstance(e, ValueError) else f"{file} is no index of FAISS"
        raise JobError(
            f"index.faiss: {reason}; give an exact index, which DPR calls flat", BAD_DATA
        ) from None
    if index.vectors.shape[1] != dimension:
        raise JobError(
            f"index.faiss: the vectors of {file} have {index.vectors.shape[1]} numbers, those of "
            f"index.encoder {dimension}; give the encoder that the file was built with",
            BAD_DATA,
        )
    return index


def _ids(file: Path) -> pa.Array:
    """The ids of a text file, one a line."""
    content = file.read_bytes()
    if content.startswith(_PICKLE):
        raise JobError(
            f"index.faiss_ids: {file} is a pickle, which is never read; {_CONVERT.format(file.name)}",
            BAD_DATA,
        )
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as e:
        raise JobError(f"index.faiss_ids: {file} is not UTF-8 ({e}); give one id a line", BAD_DATA) from None
    ids = pa.array([line.strip() for line in lines], pa.string())
    if repeated := first_repeated(ids):
        raise JobError(
            f"index.faiss_ids: {file} has the id {repeated!r} twice; give each row its own", BAD_DATA
        )
    return ids


def rows_of_pages(pages: pa.Array, ids: pa.Array, file: Path, key: str) -> Rows:
    """[passages]: the row of each passage, by the id of its page, in an index of others that has these `ids`
    in `file`. Raises JobError with the `key` of the job, 78 if a page has several passages, 65 if one is not
    there."""
    if repeated := first_repeated(pages):
        raise JobError(
            f"{key}: page {repeated} has several passages, and a row of the index is of one; set "
            "ingest.passages = 'dpr' and ingest.passage_words to more than the longest page has",
            SETTINGS,
        )
    rows = pc.index_in(pages, value_set=ids)
    if rows.null_count:
        first = pages.filter(pc.is_null(rows))[0].as_py()
        raise JobError(
            f"{key}: {counted(rows.null_count, 'page')} of {len(pages):,} are not in the index, page {first} "
            f"first: its id is not in {file}; ingest the pages alone that the file was built of",
            BAD_DATA,
        )
    numbers: Rows = rows.to_numpy().astype(np.int64)
    return numbers


def first_repeated(values: pa.Array) -> str | None:
    """A value that is there more than once; None if there is none."""
    counts = pc.value_counts(values)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    return str(repeated[0]["values"]) if len(repeated) else None
