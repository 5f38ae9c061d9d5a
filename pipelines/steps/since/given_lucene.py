"""A Lucene index of others in place of indexing the words of the passages: `index.lucene`.

Every page of the run has one passage, and is a document of the index. That the index's words are by the
analyser of `index.language` is tried on a few passages.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from answermill.files.atomic_files import sha256
from answermill.indexing.shards.lucene.bm25 import words_of
from answermill.indexing.shards.lucene.given_index import IndexUnfit, ids_of, index_files, known_words
from answermill.indexing.shards.lucene.jvm import find_java, start
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.steps.index.passage_rows import rows_between
from answermill.pipelines.steps.since.given_vectors import first_repeated, rows_of_pages
from answermill.schemas.corpus import Passage

TRIED = 16
"""Passages whose words are looked for in the index."""
LEAST_KNOWN = 0.9
"""Smallest share of their words that the index must have: another stemmer makes a third of them others."""


def inputs(job: Job) -> dict[str, str]:
    """'lucene' → digest of the index: of the file that lists its segments, which have ids of their own; empty
    if the job names none."""
    if job.index.lucene is None:
        return {}
    folder = _folder(job)
    return {
        "lucene": " ".join(sha256(file) for file in index_files(folder) if file.name.startswith("segments"))
    }


def check(job: Job, passages: Folder[Passage]) -> None:
    """Refuse an index that cannot be read as it is, or is not of these passages. Raises JobError: 65, and 78
    if pages have several passages, or its words are by another analyser."""
    folder = _folder(job)
    start(find_java(job.workers.java), job.workers.java_heap)
    try:
        ids = ids_of(folder)
    except IndexUnfit as e:
        raise JobError(f"index.lucene: {e}", BAD_DATA) from None
    if repeated := first_repeated(ids):
        raise JobError(f"index.lucene: {folder} has the document {repeated!r} twice", BAD_DATA)
    pages = [pa.array([], pa.string())]
    for part in passages.parts:
        pages += [batch.column("doc_id") for batch in read_batches(passages.path, part, ["doc_id"])]
    rows_of_pages(pa.chunked_array(pages).combine_chunks(), ids, folder, "index.lucene")

    places = sorted({*np.linspace(0, passages.rows - 1, min(TRIED, passages.rows)).astype(np.int64).tolist()})
    texts = [passage.text for row in places for passage in rows_between(passages, row, row + 1)]
    words = sorted({word for counts in words_of(texts, job.index.language) for word in counts})
    known = known_words(folder, words)
    if known < LEAST_KNOWN * len(words):
        raise JobError(
            f"index.lucene: {folder} has {known:,} of {len(words):,} words of {len(texts)} passages, by the "
            f"analyser of index.language = {job.index.language!r}; give the language that it was built for, "
            "or an index by Anserini's usual analyser",
            SETTINGS,
        )


def _folder(job: Job) -> Path:
    return job.tree(str(job.index.lucene))
