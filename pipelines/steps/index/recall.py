"""Recall of a dense index that is not exact: the share of the nearest passages that its search finds.

Questions are sentences of passages that a hash of the id chooses, the last that the training sample would
take, encoded as questions: the step knows no other questions. Exact search is that of the stored vectors.
Shards are opened one after the other, in the command's process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from answermill.indexing.shards.rank_fusion import Best, candidates, merge
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.shard_files import CODED
from answermill.indexing.shards.tombstones import ROWS
from answermill.indexing.shards.vectors.coded_index import CodedIndex
from answermill.indexing.shards.vectors.vector_kinds import VectorSearch
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
TIMES = (1, 2, 4)
"""How many times as wide as by itself an index may be searched where the job leaves its width open."""
_ROWS_AT_ONCE = 8_192
_NOISE = 1e-5  # bound of the error of a sum in float32, as a share of it
Vectors = npt.NDArray[np.float32]


def widths(job: Job) -> list[VectorSearch]:
    """Widths of search to choose from, the narrowest first; one if the job gives its keys."""
    times = (1,) if job.index.probes and job.index.rescore else TIMES
    return [vector_search(job, NEAREST, each) for each in times]


def is_measured(job: Job, run: Path) -> bool:
    """True if the recall of the run's shards was measured with a width that the job would choose. Raises
    JobError (78) if none reaches `index.min_recall`."""
    counts, chosen = INDEX.counts_of(SHARDS.manifest(run)), widths(job)
    width = VectorSearch(counts.recall_probes, counts.recall_candidates, times=counts.recall_times or 1)
    is_enough = counts.recall >= job.index.min_recall
    if width not in chosen or not (is_enough or width == chosen[-1]):
        return False
    _check(job, counts)
    return True


def measure(job: Job, passages: Folder[Passage], folder: Path, parts: Sequence[Part]) -> IndexCounts:
    """The recall of the shards in a folder, as counts, by the narrowest width that reaches
    `index.min_recall`. Raises JobError (78) if none does."""
    use_threads(command_threads())
    rows = last_by_hash(passages, QUESTIONS)
    texts = [passage.sentences[0].text for row in rows for passage in rows_between(passages, row, row + 1)]
    if not texts:
        return IndexCounts()
    print_line(f"index      measuring the recall with {len(texts):,} sentences")
    questions = passage_encoder(job).encode_questions(texts)

    def is_needed(name: str) -> bool:
        return name.startswith((f"{CODED}/", ROWS))

    def opened() -> Iterator[tuple[int, CodedIndex]]:
        for number, part in enumerate(parts):
            copy = fetch_shard(folder / part.file, part.sha256, is_needed)
            index = Shard.open(copy, verify=False, digest=part.sha256).dense
            assert isinstance(index, CodedIndex)
            yield number, index

    nearest = [merge([], NEAREST)] * len(texts)
    chosen = widths(job)
    for width in chosen:
        searched = [candidates([], width.candidates)] * len(texts)
        for number, index in opened():
            if width == chosen[0]:  # exact search too, while the shard is open
                for n, best in enumerate(exact(index, questions, number)):
                    nearest[n] = merge([nearest[n], best], NEAREST)
            for n, best in enumerate(_found(index, questions, width, number)):
                searched[n] = candidates([searched[n], best], width.candidates)

        counts = IndexCounts(
            recall_questions=len(texts),
            recall_wanted=sum(map(len, nearest)),
            recall_found=sum(map(as_near, nearest, searched)),
            recall_probes=width.probes,
            recall_candidates=width.candidates,
            recall_times=width.times,
        )
        if counts.recall >= job.index.min_recall:
            break
        print_line(f"index      recall@{NEAREST} is {counts.recall:.3f} at {width.times} × the usual width")
    _check(job, counts)
    return counts


def _found(index: CodedIndex, questions: Vectors, width: VectorSearch, shard: int) -> list[Best]:
    """What a search of this width finds of a shard for each question [questions, d]."""
    return [
        Best.of(shard, rows, _names(shard, rows), scores, values)
        for rows, scores, values in index.search(questions, width)
    ]


def as_near(nearest: Best, searched: Best) -> int:
    """Number of the first passages of a search that are as near as a question's nearest: of those that tie
    with the last of these, such as repeated ones, any are as good as others."""
    if not len(nearest):
        return 0
    last = float(nearest.scores.min())
    near = merge([searched], NEAREST).scores >= last - _NOISE * max(1.0, abs(last))
    return min(len(nearest), int(near.sum()))


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
        times = f", times {counts.recall_times}" if counts.recall_times > 1 else ""
        probes = index.probes or f"by the number of cells{times}"
        rescore = counts.recall_candidates // NEAREST
        raise JobError(
            f"index: recall@{NEAREST} is {counts.recall:.3f}, below index.min_recall = "
            f"{index.min_recall:g}: of the {NEAREST} nearest passages of {counts.recall_questions:,} "
            f"sentences the search finds that share. Raise index.probes (now {probes}) or index.rescore "
            f"(now {rescore}), and the shards stay as they are; or give index.vectors with longer codes",
            SETTINGS,
        )
