"""Training of the quantizer that all shards of a run share, on vectors of passages that a hash of the id
chooses; so it does not depend on the number of shards.

A pass before the shards encodes the passages, a unit for each shard, and writes the vectors of those that
were chosen. The others stay in the blocks that the shard's build goes on with, so that nothing is encoded
twice; a run in an object store, which keeps no blocks, encodes the sample twice. The command then trains on
one thread, and writes `shards/quantizer.faiss`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from answermill.files.store import fetch, sha256, store_of
from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.kept_blocks import KeptBlocks
from answermill.indexing.shards.shard_builder import Coding, blocks_of, encoded
from answermill.indexing.shards.shard_files import QUANTIZER, read_shard_file
from answermill.indexing.shards.vectors.quantizer import Quantizer, sample_size
from answermill.indexing.shards.vectors.stored_vectors import rounded
from answermill.indexing.shards.vectors.vector_kinds import FLAT, VectorsUnfit
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.engine.protocol import Engine
from answermill.pipelines.engine.runner import carry, define
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.manifest import fetch_shard
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Folder, Part, PartWriter, read_batches
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.specs.index import SHARDS, IndexCounts
from answermill.pipelines.steps.index.passage_rows import is_sampled, rows_between
from answermill.pipelines.steps.index.shard_ranges import ShardRange
from answermill.pipelines.steps.model_work import ModelWork
from answermill.pipelines.steps.models import passage_encoder
from answermill.pipelines.steps.since.earlier_vectors import KnownVectors
from answermill.pipelines.steps.since.given_vectors import given_vectors
from answermill.schemas.arrays import Vectors
from answermill.schemas.corpus import Passage
from answermill.schemas.record import Record, column, record
from answermill.schemas.vector_column import VECTOR, from_column, to_column

FOLDER = "vectors"


@record
class SampledVector(Record):
    """A vector that the quantizer is trained on. Rows are in the order of passages/."""

    vector: tuple[float, ...] = column(VECTOR, "the vector")


def known_encoder(
    job: Job,
    passages: Folder[Passage],
    former: Folder[Passage] | None,
    only: Mapping[int, npt.NDArray[np.int64]] | None = None,
) -> Encoder | KnownVectors:
    """The job's encoder of passages, which takes over what the former run's shards hold, or the job's FAISS
    file; `only`: see `KnownVectors.of_shards`. Raises JobError as `given_vectors`."""
    encoder = passage_encoder(job)
    if job.index.faiss is not None:
        return given_vectors(job, encoder, passages)
    if former is None:
        return encoder
    stored = None if job.index.vectors == FLAT else job.index.stored_vectors
    return KnownVectors.of_shards(encoder, former, stored, only)


class EncodePassages(ModelWork):
    """The number of a shard → the vectors of its passages that are in the sample; the others are kept for its
    build."""

    def __init__(
        self,
        job: Job,
        passages: Folder[Passage],
        units: Sequence[ShardRange],
        *,
        encoding: Step[IndexCounts],
        step: Step[IndexCounts],
        former: Folder[Passage] | None,
    ) -> None:
        super().__init__(encoding.name, encoding.work, IndexCounts)
        self._job, self._passages, self._units, self._former = job, passages, units, former
        self._encoding, self._step = encoding, step

    def load(self) -> None:
        self._encoder = known_encoder(self._job, self._passages, self._former)
        index, rows = self._job.index, self._passages.rows
        self._share = sample_size(index.vectors, self._encoder.dimension, rows) / max(rows, 1)

    def work(self, unit: int) -> None:
        began, span = time.perf_counter(), self._units[unit]
        writer = PartWriter(self._encoding.run / FOLDER, SampledVector, unit)
        with Meter(self._encoding.work, unit) as meter:
            with writer:
                rows = rows_between(self._passages, span.start, span.stop)
                for block in blocks_of(rows, self._encoder.at_once):
                    vectors = to_column(self._sampled(block, unit))
                    writer.write_table(pa.Table.from_arrays([vectors], schema=SampledVector.schema()))
                    meter.add(len(block))
            counts = IndexCounts(dense_ms=round(1000 * (time.perf_counter() - began)))
            self._encoding.reports.write(Report(unit, {FOLDER: writer.parts}, counts))

    def _sampled(self, block: Sequence[Passage], unit: int) -> Vectors:
        """The sampled vectors of a block, [sampled, d]."""
        chosen = [n for n, passage in enumerate(block) if is_sampled(passage.passage_id, self._share)]
        if store_of(self._step.work).is_local and not self._step.reports.has(unit):
            kept = KeptBlocks(self._step.work / "blocks")
            return encoded(block, self._encoder, kept)[chosen]
        return self._encoder.encode_passages([(block[n].title, block[n].text) for n in chosen])


def trained(
    job: Job,
    passages: Folder[Passage],
    units: Sequence[ShardRange],
    step: Step[IndexCounts],
    *,
    former: Folder[Passage] | None,
    beam_options: Sequence[str],
) -> Part:
    """The file with the quantizer of the run: the one that is there if the shards were begun with it, else a
    new one. Raises VectorsUnfit if the passages are too few for the kind."""
    path, name = SHARDS.path(step.run) / QUANTIZER, f"{SHARDS.name}/{QUANTIZER}"
    encoding = _encoding(step)
    training = step.within("quantizer", {}, IndexCounts, {})
    report = training.reports.read_one(0)
    digest = _digest_of_shards(step) if report is None else report.digests[QUANTIZER]

    if digest is None or not path.is_file() or sha256(path) != digest:
        for each in (encoding, training):
            Commit(each).begin(job.workers)
        training.reports.forget([0])
        sizes = [unit.stop - unit.start for unit in units]
        work = EncodePassages(job, passages, units, encoding=encoding, step=step, former=former)
        carry(encoding, len(units), work, beam_options, job.workers.processes, sizes=sizes, what="passages")
        vectors = list(_sample(encoding, len(units)))
        if not vectors:
            raise VectorsUnfit(f"index.vectors: {job.index.vectors!r} is trained on passages; give flat")
        sample = np.concatenate(vectors)
        print_line(f"index      training on {len(sample):,} vectors")
        index = job.index
        quantizer = Quantizer.train(index.vectors, rounded(sample, index.stored_vectors), passages.rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        quantizer.write(path)
        new = sha256(path)
        # Shards of another quantizer would not fit the others. The report comes last: after a kill it is the
        # old quantizer's, or there is none.
        if digest is not None and new != digest:
            step.reports.forget(step.reports.numbers())
        training.reports.write(Report(0, {}, IndexCounts(), {QUANTIZER: new}))

    return Part(name, 0, path.stat().st_size, sha256(path))


def join_encoding(
    engine: Engine,
    job: Job,
    passages: Folder[Passage],
    units: Sequence[ShardRange],
    *,
    step: Step[IndexCounts],
    former: Folder[Passage] | None,
) -> None:
    """Do a machine's share of the pass that encodes the passages."""
    encoding = _encoding(step)
    work = EncodePassages(job, passages, units, encoding=encoding, step=step, former=former)
    define(engine, encoding, len(units), work)


def _encoding(step: Step[IndexCounts]) -> Step[IndexCounts]:
    """The pass that encodes the passages."""
    return step.within(FOLDER, {FOLDER: SampledVector}, IndexCounts, {})


def encoding_counts(step: Step[IndexCounts], unit: int) -> IndexCounts:
    """The counts of a shard's unit in that pass; zeros if there was none."""
    report = _encoding(step).reports.read_one(unit)
    return IndexCounts() if report is None else report.counts


def _sample(encoding: Step[IndexCounts], units: int) -> Iterator[Vectors]:
    """The sampled vectors, part by part."""
    for unit in range(units):
        report = encoding.reports.read_one(unit)
        assert report is not None  # `carry` has raised if one is missing
        for batch in read_batches(encoding.run / FOLDER, report.parts[FOLDER][0], ["vector"]):
            if batch.num_rows:
                yield from_column(batch.column("vector"))


def _digest_of_shards(step: Step[IndexCounts]) -> str | None:
    """SHA-256 of the quantizer that the shards were built with that are there; None if there are none."""
    for report in step.reports.each():
        part = report.parts[SHARDS.name][0]
        folder = fetch_shard(SHARDS.path(step.run) / part.file, part.sha256, lambda name: False)
        coded = read_shard_file(folder, part.sha256).coded
        return None if coded is None else coded.quantizer
    return None


def coding_of(job: Job, run: Path) -> Coding | None:
    """The form of the run's dense index, with its quantizer; None if it is exact."""
    if job.index.vectors == FLAT:
        return None
    path = fetch(SHARDS.path(run) / QUANTIZER)
    return Coding(job.index.vectors, Quantizer.open(path, sha256(path)), job.index.stored_vectors)
