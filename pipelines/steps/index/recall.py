"""Recall of a dense index that is not exact: the share of the nearest passages that its search finds.

Questions are sentences of passages that a hash of the id chooses, the last that the training sample would
take, encoded as questions: the step knows no other questions. Exact search is that of the stored vectors.
Shards are opened one after the other, in the command's process.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from answermill.indexing.shards.rank_fusion import Best, candidates, merge
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.shard_files import CODED
from answermill.indexing.shards.tombstones import ROWS
from answermill.indexing.shards.vectors.coded_index import CodedIndex
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.runs.manifests.manifest import fetch_shard
from answermill.pipelines.runs.parquet_folder import Folder, Part
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.specs.index import INDEX, SHARDS, IndexCounts
from answermill.pipelines.steps.index.passage_rows import last_by_hash, rows_between
from answermill.pipelines.steps.models import command_threads, passage_encoder, use_threads, vector_search
from answermill.schemas.corpus import Passage

NEAREST = 100
QUESTIONS = 256
_ROWS_AT_ONCE = 8_192
Vectors = npt.NDArray[np.float32]


def is_measured(job: Job, run: Path) -> bool:
    """True if the recall of the run's shards was measured with the job's width of search. Raises JobError
    (78) if it is below `index.min_recall`."""
    counts, width = INDEX.counts_of(SHARDS.manifest(run)), vector_search(job, NEAREST)
    if (counts.recall_probes, counts.recall_candidates) != (width.probes, width.candidates):
        return False
    _check(job, counts)
    return True


def measure(job: Job, passages: Folder[Passage], folder: Path, parts: Iterable[Part]) -> IndexCounts:
    """The recall of the shards in a folder, as counts. Raises JobError (78) if it is below
    `index.min_recall`."""
    use_threads(command_threads())
    rows = last_by_hash(passages, QUESTIONS)
    texts = [passage.sentences[0].text for row in rows for passage in rows_between(passages, row, row + 1)]
    if not texts:
        return IndexCounts()
    print_line(f"index      measuring the recall with {len(texts):,} sentences")
    questions, width = passage_encoder(job).encode_questions(texts), vector_search(job, NEAREST)

    nearest = [merge([], NEAREST)] * len(texts)
    searched = [candidates([], width.candidates)] * len(texts)
    for number, part in enumerate(parts):
        copy = fetch_shard(folder / part.file, part.sha256, lambda name: name.startswith((f"{CODED}/", ROWS)))
        index = Shard.open(copy, verify=False, digest=part.sha256).dense
        assert isinstance(index, CodedIndex)
        for n, best in enumerate(exact(index, questions, number)):
            nearest[n] = merge([nearest[n], best], NEAREST)
        for n, (own, scores, values) in enumerate(index.search(questions, width)):
            best = Best.of(number, own, _names(number, own), scores, values)
            searched[n] = candidates([searched[n], best], width.candidates)

    hits = sum(
        len({*nearest[n].ids.tolist()} & {*merge([searched[n]], NEAREST).ids.tolist()})
        for n in range(len(texts))
    )
    counts = IndexCounts(
        recall_questions=len(texts),
        recall_wanted=sum(map(len, nearest)),
        recall_found=hits,
        recall_probes=width.probes,
        recall_candidates=width.candidates,
    )
    _check(job, counts)
    return counts


def exact(index: CodedIndex, questions: Vectors, shard: int) -> list[Best]:
    """The NEAREST of a shard's vectors [rows, d] for each question [questions, d], by exact search of some
    thousand rows at a time, but for rows that are gone."""
    vectors, live = index.vectors, np.flatnonzero(index.live)
    nearest = [merge([], NEAREST)] * len(questions)
    for start in range(0, len(live), _ROWS_AT_ONCE):
        rows = live[start : start + _ROWS_AT_ONCE]
        scores = questions @ vectors[rows].T
        for n, own in enumerate(scores):
            best = np.argpartition(-own, min(NEAREST, len(own)) - 1)[:NEAREST].astype(np.int64)
            part = Best.of(shard, rows[best], _names(shard, rows[best]), own[best].astype(np.float64))
            nearest[n] = merge([nearest[n], part], NEAREST)
    return nearest


def _names(shard: int, rows: npt.NDArray[np.int64]) -> list[str]:
    """Names of rows of a shard, in place of the passages' ids."""
    return [f"{shard}#{row}" for row in rows.tolist()]


def _check(job: Job, counts: IndexCounts) -> None:
    index = job.index
    if counts.recall < index.min_recall:
        probes = index.probes or "by the number of cells"
        rescore = counts.recall_candidates // NEAREST
        raise JobError(
            f"index: recall@{NEAREST} is {counts.recall:.3f}, below index.min_recall = "
            f"{index.min_recall:g}: of the {NEAREST} nearest passages of {counts.recall_questions:,} "
            f"sentences the search finds that share. Raise index.probes (now {probes}) or index.rescore "
            f"(now {rescore}), and the shards stay as they are; or give index.vectors with longer codes",
            SETTINGS,
        )
