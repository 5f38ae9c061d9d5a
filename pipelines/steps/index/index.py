"""Index: passages in; shards out, each with a Lucene index, a FAISS index and the passages themselves, in one
order; and, where the plan has a stage `hashing`, or a `similarity` with `stored`, the bits or vectors of its
sentences.

A shard is a run of rows of passages/, so building shuffles nothing; shards are built side by side.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from answermill.files.atomic_files import sha256
from answermill.files.store import publishing, store_of
from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.lucene.jvm import find_java
from answermill.indexing.shards.sentence_codes import TOKEN_BITS, CodeMaker
from answermill.indexing.shards.shard_builder import ShardReport, ShardSettings, build_shard
from answermill.indexing.shards.shard_files import SHARD_FILE
from answermill.indexing.shards.taken_shard import take_over_shard
from answermill.indexing.shards.vectors.vector_kinds import FLAT
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.config.step_code import StepCode
from answermill.pipelines.engine.protocol import Engine
from answermill.pipelines.engine.runner import carry, define
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Folder, Part
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.specs.index import INDEX, SHARDS, IndexCounts
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.steps.index import recall, sentence_codes
from answermill.pipelines.steps.index.delta import SINCE, Delta, fits, planned, written_plan
from answermill.pipelines.steps.index.index_growth import EarlierIndex, grow
from answermill.pipelines.steps.index.index_summary import summary
from answermill.pipelines.steps.index.passage_rows import Places, rows_at
from answermill.pipelines.steps.index.passages_fit import check_read
from answermill.pipelines.steps.index.shard_ranges import ShardRange, ranges, shards_of
from answermill.pipelines.steps.index.training_sample import (
    coding_of,
    encoding_counts,
    join_encoding,
    known_encoder,
    trained,
)
from answermill.pipelines.steps.model_work import ModelWork
from answermill.pipelines.steps.models import (
    check_engines,
    encoder_inputs,
    encoder_settings,
    passage_encoder,
)
from answermill.pipelines.steps.since import given_lucene
from answermill.pipelines.steps.since.earlier_vectors import KnownVectors
from answermill.pipelines.steps.since.former_run import former_run
from answermill.pipelines.steps.since.given_vectors import given_inputs
from answermill.schemas.corpus import Passage

CUT = ("shards", "passages_per_shard")
"""Keys that decide nothing but the places where the rows are cut into shards."""
WIDTH = ("probes", "rescore", "min_recall")
"""Keys that decide nothing in the shards: of the search of a dense index that is not exact, and of its
check."""
TAKEN = ("since", "faiss", "faiss_ids", "lucene")
"""Keys that say where vectors and words are taken from; the files of all but the first are inputs."""
CODED_KEYS = ("vectors", "stored_vectors")
"""Keys that an exact dense index leaves out, as it did before there was another."""


def step_of(job: Job, run: Path) -> Step[IndexCounts]:
    """The index step of a run. Raises JobError if passages/ is missing, ModelMissing if the encoder is."""
    passages = PASSAGES.open(run)
    others = {"question_encoder", *TAKEN, *WIDTH, *(CODED_KEYS if job.index.vectors == FLAT else ())}
    settings = job.index.model_dump(exclude=others) | _same_cut(job, passages.rows, run)
    inputs = {"passages": passages.digest()} | encoder_inputs(job, questions=False)
    inputs |= sentence_codes.inputs(job) | given_inputs(job) | given_lucene.inputs(job)
    step = Step(run, INDEX, settings, inputs)
    return replace(step, inputs=inputs | _since(job, step))


def _since(job: Job, step: Step[IndexCounts]) -> dict[str, str]:
    """The digest of the earlier run's shards, if shards of the run were taken over, or will be; those that
    are complete stay, whatever the job says now."""
    built = SHARDS.manifest(step.run)
    if built is not None:
        return {name: digest for name, digest in built.inputs.items() if name == SINCE}
    former = _former_shards(job, step.run)
    return {SINCE: former.digest()} if former is not None and fits(former, step, CUT) else {}


def _same_cut(job: Job, rows: int, run: Path) -> dict[str, Any]:
    """The keys by which the run's shards were cut, if the job's would cut these rows in the same places; else
    nothing."""
    built = SHARDS.manifest(run)
    shards, per_shard = (built.settings.get(key) for key in CUT) if built is not None else (None, None)
    if not isinstance(shards, int) or not isinstance(per_shard, int) or per_shard < 0:
        return {}
    is_same = ranges(rows, shards, per_shard) == shards_of(job, rows)
    return dict(zip(CUT, (shards, per_shard), strict=True)) if is_same else {}


def index(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; return its summary line."""
    step, is_exact = step_of(job, run), job.index.vectors == FLAT
    commit = Commit(step)
    if commit.is_complete() and (is_exact or recall.is_measured(job, run)):
        return summary(run) + " (complete)"

    _refuse_other_since(job, step)
    check_read(job, run)
    commit.begin(job.workers)
    passages, former = PASSAGES.open(run), _former(job, run)

    # The units are shards of the earlier run that are taken over, and then new ones.
    delta, units = None, shards_of(job, passages.rows)
    sizes = [unit.stop - unit.start for unit in units]
    if former is not None and SINCE in step.inputs:
        encoder = passage_encoder(job)  # held until the end, so that a worker in this process has it too
        delta = planned(job, former, passages, step, encoder)
        units, sizes = list(delta.new), delta.sizes
    elif former is not None:
        print_line(f"index.since: {former.path} is of other settings, so no shard is taken over whole")

    quantizer = None
    if not is_exact and delta is not None and delta.taken:
        quantizer = delta.quantizer(run)
    elif not is_exact:
        quantizer = trained(job, passages, units, step, former=former, beam_options=beam_options)

    work = BuildShard(job, passages, step, former, delta)
    outcome = carry(step, len(sizes), work, beam_options, job.workers.processes, sizes=sizes, what="passages")
    if outcome.counts.passages != passages.rows:
        raise RuntimeError(f"{passages.rows} passages came in, {outcome.counts.passages} were indexed")

    if quantizer is not None:
        counts = recall.measure(job, passages, SHARDS.path(run), outcome.parts(SHARDS.name))
        outcome.include(Report(len(sizes), {}, counts))
    commit.finish(outcome, () if quantizer is None else (quantizer,))
    return summary(run)


def join(job: Job, run: Path, block: str, engine: Engine) -> None:
    """Do a machine's share of the shards, or of the passages that are encoded before them."""
    step, passages, former = step_of(job, run), PASSAGES.open(run), _former(job, run)
    units = shards_of(job, passages.rows)
    if block != step.name:
        join_encoding(engine, job, passages, units, step=step, former=former)
        return
    delta = written_plan(job, former, passages, step) if former is not None and SINCE in step.inputs else None
    count = len(units) if delta is None else len(delta.sizes)
    define(engine, step, count, BuildShard(job, passages, step, former, delta))


def former_of_sample(job: Job, run: Path) -> EarlierIndex | None:
    """The earlier run of `index.since`, by the sample of the input that `run` has indexed without it; None if
    the job names none, or it is by another encoder."""
    former = _former(job, run)
    if former is None:
        return None
    return EarlierIndex.of(former, PASSAGES.open(run), fits(former, step_of(job, run), CUT))


def check(job: Job, run: Path) -> None:
    """Refuse what the step would refuse. Raises as `check_engines`, and JobError if the earlier run has no
    shards."""
    check_engines(job)
    _former_shards(job, run)


def _refuse_other_since(job: Job, step: Step[IndexCounts]) -> None:
    """Raises JobError (78) if damaged shards were taken over from another run than the job names now."""
    digest, former = step.inputs.get(SINCE), _former_shards(job, step.run)
    if digest is not None and (former is None or former.digest() != digest):
        raise JobError(
            f"index.since: {SHARDS.path(step.run)} was taken over from another run than "
            f"{'none' if former is None else former.run}, and what is damaged in it cannot be made again; "
            "name that run, or give --redo index",
            SETTINGS,
        )


def _former_shards(job: Job, run: Path) -> Folder[Passage] | None:
    earlier = former_run(job, "index", run)
    return None if earlier is None else SHARDS.open(earlier)


def _former(job: Job, run: Path) -> Folder[Passage] | None:
    """The shards whose vectors are taken over; None if there are none by this encoder."""
    shards = _former_shards(job, run)
    if shards is None:
        return None
    former, settings = shards.manifest, encoder_settings(job)
    digests = {digest for name, digest in former.inputs.items() if name.startswith("encoder ")}
    is_same = digests == set(encoder_inputs(job, questions=False).values())
    keys = ("encoder_tokens", "precision")
    if not is_same or any(former.settings.get(key) != settings[key] for key in keys):
        print_line(f"index.since: {shards.path} is by another encoder, so no vector is taken over")
        return None
    if "faiss" in former.inputs:
        print_line(f"index.since: {shards.path} has vectors of index.faiss, so no vector is taken over")
        return None

    stored = former.settings.get("stored_vectors")
    if stored is not None and (job.index.vectors == FLAT or stored != job.index.stored_vectors):
        print_line(f"index.since: {shards.path} stores its vectors as {stored}, so no vector is taken over")
        return None
    return shards


class BuildShard(ModelWork):
    """Some passages, or a shard of the earlier run → their shard folder; and the unit's report."""

    def __init__(
        self,
        job: Job,
        passages: Folder[Passage],
        step: Step[IndexCounts],
        former: Folder[Passage] | None = None,
        delta: Delta | None = None,
    ) -> None:
        super().__init__(step.name, step.work, IndexCounts)
        self._job, self._passages, self._step, self._former = job, passages, step, former
        self._delta = delta

    def load(self) -> None:
        delta = self._delta
        self._taken = [] if delta is None else delta.taken
        self._units = shards_of(self._job, self._passages.rows) if delta is None else delta.new
        only = None if delta is None else delta.gone()
        self._encoder = known_encoder(self._job, self._passages, self._former, only)
        self._coders = sentence_codes.coders(self._job)
        self._coding = coding_of(self._job, self._step.run)

    def work(self, unit: int) -> None:
        with Meter(self._step.work, unit) as meter:
            settings = replace(shard_settings(self._job, self._encoder, self._coders), coding=self._coding)
            if self._delta is not None and unit < len(self._taken):
                take_over(unit, self._delta, settings, self._step)
                meter.add(self._delta.sizes[unit])
            else:
                span = self._units[unit - len(self._taken)]
                build(span, rows_at(self._passages, self._places(span)), settings, self._step, meter.add)

    def _places(self, span: ShardRange) -> Places:
        return np.arange(span.start, span.stop) if self._delta is None else self._delta.places(span)


def shard_settings(job: Job, encoder: Encoder | KnownVectors, coders: Sequence[CodeMaker]) -> ShardSettings:
    """Settings that all shards of a job share. Raises JavaMissing."""
    java = find_java(job.workers.java)
    lucene = None if job.index.lucene is None else job.tree(job.index.lucene)
    return ShardSettings(encoder, coders, java, job.index.language, job.workers.java_heap, lucene=lucene)


def take_over(unit: int, delta: Delta, settings: ShardSettings, step: Step[IndexCounts]) -> None:
    """Take one shard over from the earlier run, and report it."""
    folder = SHARDS.path(step.run) / _new_name(delta.name(unit))
    former, passages, gone = delta.taken_shard(unit)
    with publishing(folder, SHARD_FILE) as new:
        built = take_over_shard(former, passages, gone, new, settings)
        part = Part(folder.name, built.passages, built.bytes, sha256(new / SHARD_FILE))
    counts = counts_of(built)
    counts = replace(
        counts,
        vectors_taken_over=built.passages,
        taken_over=built.passages,
        answers_taken_over=counts.answers,
        sentence_vectors_taken_over=counts.sentence_vectors,
        tombstones=len(gone),
    )
    step.reports.write(Report(unit, {SHARDS.name: (part,)}, counts))


def _new_name(unit: str) -> str:
    """Name of a shard's folder, another one for each attempt: two builds of a shard differ in Lucene's ids of
    segments."""
    return f"{unit}-{uuid.uuid4().hex[:8]}"


def build(
    unit: ShardRange,
    rows: Iterator[Passage],
    settings: ShardSettings,
    step: Step[IndexCounts],
    on_block: Callable[[int, int], object] = lambda passages, kept: None,
) -> None:
    """Build one shard of these rows and report it. `on_block`: see `build_shard`."""
    folder = SHARDS.path(step.run) / _new_name(unit.name)
    encoder, taken_over = settings.encoder, Counter[str]()
    if isinstance(encoder, KnownVectors):
        rows = _counted(rows, encoder, taken_over)
    kept_blocks = step.work / "blocks" if store_of(folder).is_local else None
    with publishing(folder, SHARD_FILE) as new:
        built = build_shard(rows, new, settings, kept_blocks, on_block)
        part = Part(folder.name, built.passages, built.bytes, sha256(new / SHARD_FILE))

    counts = counts_of(built) + encoding_counts(step, unit.number)
    if isinstance(encoder, KnownVectors):
        counts = replace(counts, vectors_taken_over=taken_over.total())
    step.reports.write(Report(unit.number, {SHARDS.name: (part,)}, counts))


def _counted(rows: Iterator[Passage], encoder: KnownVectors, taken: Counter[str]) -> Iterator[Passage]:
    """The same passages; counts those whose vectors are known, even if a build that was killed had encoded
    them."""
    while block := list(islice(rows, 256)):
        taken["vectors"] += int(encoder.knows([(passage.title, passage.text) for passage in block]).sum())
        yield from block


def counts_of(built: ShardReport) -> IndexCounts:
    """The counts of one shard: for codes that are bits the answers, those that were cut, and their tokens;
    for vectors their number."""
    timed_codes = list(zip(built.codes, built.seconds_codes, strict=True))
    bits = [(codes, seconds) for codes, seconds in timed_codes if codes.form == TOKEN_BITS]
    vectors = [(codes, seconds) for codes, seconds in timed_codes if codes.form != TOKEN_BITS]

    return IndexCounts(
        passages=built.passages,
        bytes=built.bytes,
        bm25_ms=round(built.seconds_bm25 * 1000),
        dense_ms=round(built.seconds_dense * 1000),
        answers=sum(codes.answers for codes, _ in bits),
        answers_cut=sum(codes.answers_cut for codes, _ in bits),
        answer_tokens=sum(codes.tokens for codes, _ in bits),
        answers_ms=round(1000 * sum(seconds for _, seconds in bits)),
        sentence_vectors=sum(codes.answers for codes, _ in vectors),
        sentence_vectors_ms=round(1000 * sum(seconds for _, seconds in vectors)),
    )


STEP = StepCode(
    index,
    check,
    step_of,
    check_read=check_read,
    is_wanted=lambda job, run: job.retrieve is not None,
    grow=grow,
    former=former_of_sample,
    join=join,
)
