"""A measurement of this machine: the real steps of a job on a sample of its input, in a temporary folder.

Each step runs on some pages and questions, then on more of them: the difference is what a page or question costs, without
what it takes to begin (`step_runs`).
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from answermill.indexing.shards.vector_index import DenseIndex, DenseWriter
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.look.ask.block_search import search_block
from answermill.pipelines.look.estimate.input_sample import InputSample
from answermill.pipelines.look.estimate.new_process import new_process
from answermill.pipelines.look.estimate.rates import ROWS_OF, Rates, Volumes, layer_tokens
from answermill.pipelines.look.estimate.step_runs import PARTS, StepRun, StepRuns, one_thread
from answermill.pipelines.steps.models import passage_encoder
from answermill.pipelines.steps.retrieve.asked_questions import Block, settings_of
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.schemas.corpus import Question

SMALL_PAGES, SMALL_QUESTIONS = 8, 2
STEP_S = 15.0
"""Seconds that the larger run of a step should take at the most."""
VECTORS = 20_000
"""Of the index on which the dense search is measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a sample of the input became, and how fast."""

    volumes: Volumes
    rates: Rates


def measure(job: Job, sample: InputSample, questions: Sequence[Question]) -> Measured:
    """Run the job's steps on the sample. Raises JobError (65) if no page of it becomes a passage, and as the steps do."""
    steps = [step for step in PARTS if job.section(step) is not None]
    if "retrieve" not in steps:
        steps = [step for step in steps if step != "index"]
    with tempfile.TemporaryDirectory(prefix="answermill-plan-") as folder, one_thread():
        runs = StepRuns(job, sample, questions, steps, Path(folder))
        with new_process() as another:
            cold = runs.run("cold", SMALL_PAGES, SMALL_QUESTIONS, elsewhere=another)
        warm = runs.run("warm", SMALL_PAGES, SMALL_QUESTIONS)
        most = len(sample.drawn)
        to_ingest = _as_many(warm.seconds["ingest"], warm.pages, 4 * SMALL_PAGES, most)
        to_index = _as_many(warm.seconds.get("index", 0.0), warm.pages, 4 * SMALL_PAGES, to_ingest)
        asked = _as_many(warm.seconds.get("rerank", 0.0), warm.questions, 4 * SMALL_QUESTIONS, len(questions))
        large = runs.run("large", to_index, asked)
        ingested = runs.run("ingested", to_ingest, 0, ["ingest"]) if to_ingest > large.pages else large
        first, ingested = runs.settled(warm, ingested)
        searched = _search_rates(job, runs.folder / "large", questions[:asked]) if "retrieve" in steps else _Searched()
        volumes = _volumes(warm, large, ingested, runs.depth, searched.dimension)
        return Measured(volumes, _rates(cold, warm, large, (first, ingested), searched))


def _as_many(seconds: float, items: int, least: int, most: int) -> int:
    """Of `most` items as many as a step does in STEP_S, which took `seconds` for some; but not fewer than `least`."""
    return min(most, max(least, int(STEP_S / max(seconds / max(1, items), 1e-3))))


@dataclass(frozen=True, slots=True)
class _Searched:
    """Processor seconds of a question's search: over one shard, for each shard more, and for each vector more in an index."""

    question: float = 0.0
    shard: float = 0.0
    vector: float = 0.0
    dimension: int = 0


def _search_rates(job: Job, run: Path, questions: Sequence[Question]) -> _Searched:
    settings = settings_of(job)
    encoder = passage_encoder(job) if "dense" in settings.sources else None
    block = Block(0, tuple(questions))
    with RunShards.of(job, run).open(0) as shard:
        one = _least(lambda: list(search_block(block, [shard], encoder, settings)))
        two = _least(lambda: list(search_block(block, [shard, shard], encoder, settings)))
    question, another = one / len(questions), max(0.0, two - one) / len(questions)
    if encoder is None:
        return _Searched(question, another)
    writer = DenseWriter(encoder.dimension)
    writer.add(np.random.default_rng(0).normal(size=(VECTORS, encoder.dimension)).astype(np.float32))
    writer.write(run / "vectors.faiss")
    index = DenseIndex.open(run / "vectors.faiss")
    vectors = encoder.encode_questions([question.text for question in questions])
    scanned = _least(lambda: index.search(vectors, settings.depth)) / len(questions) / VECTORS
    return _Searched(question, another, scanned, encoder.dimension)


def _least(work: Callable[[], object], times: int = 3) -> float:
    """Processor seconds of the quickest of some runs."""
    spent = []
    for _ in range(times):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def _rates(cold: StepRun, warm: StepRun, large: StepRun, ingested: tuple[StepRun, StepRun], searched: _Searched) -> Rates:
    """What each page, passage, question and candidate costs, and what it takes to begin. `ingested`: a small and a larger run
    of `ingest`.

    Where the larger run of a step was no slower, as can be with runs below a second, all of its time is that of its items:
    too much, but not nothing.
    """
    each, startup = dict[str, float](), dict[str, float]()
    for step in large.seconds:
        smaller, larger = ingested if step == "ingest" else (warm, large)
        less, more = _items(step, smaller), _items(step, larger)
        each[step] = _each(larger.seconds[step] - smaller.seconds[step], more - less) or larger.seconds[step] / max(1, more)
        startup[step] = max(0.0, cold.seconds[step] - each[step] * less)
    stages = {}
    if "rerank" in large.counts:
        counts, took = large.counts["rerank"], each["rerank"] * _items("rerank", large)
        names = [key.removesuffix("_in") for key in counts if key.endswith("_in") and f"{key[:-3]}_microseconds" in counts]
        total = sum(counts[f"{name}_microseconds"] for name in names) or 1
        stages = {name: took * counts[f"{name}_microseconds"] / total / max(1, counts[f"{name}_in"]) for name in names}
    return Rates(
        machine=f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores",
        page=each["ingest"],
        passage=each.get("index", 0.0),
        question=max(each.get("retrieve", 0.0), searched.question),
        question_shard=searched.shard,
        question_vector=searched.vector,
        candidate=stages,
        startup=startup,
    )


def _items(step: str, run: StepRun) -> int:
    """What the seconds of a step grow with: of rerank layers × tokens, since the larger run's questions have more passages."""
    counts = run.counts[step]
    counted = {"ingest": "pages", "index": "passages", "retrieve": "questions", "rerank": "candidates"}
    return (layer_tokens(counts) if step == "rerank" else 0) or counts[counted[step]]


def _each(more: float, items: int) -> float:
    """What one of the items adds; 0 if it cannot be seen."""
    return max(0.0, more) / max(1, items)


def _volumes(warm: StepRun, large: StepRun, ingested: StepRun, depth: int, dimension: int) -> Volumes:
    """What the pages of the larger runs became; those that `ingest` alone has run on say what becomes of pages."""
    retrieve, rerank = (large.counts.get(step, {}) for step in ("retrieve", "rerank"))
    sizes = {folder: _sizes(folder, warm, ingested if folder in PARTS["ingest"] else large) for folder in large.bytes}
    return Volumes(
        pages=ingested.counts["ingest"]["pages"],
        documents=ingested.counts["ingest"]["documents"],
        passages=ingested.counts["ingest"]["passages"],
        indexed=large.counts["ingest"]["passages"],
        questions=retrieve.get("questions", 0),
        hits=retrieve.get("hits", 0),
        bm25=retrieve.get("bm25", 0),
        dense=retrieve.get("dense", 0),
        depth=depth,
        counts=dict(rerank),
        row_bytes={folder: of_row for folder, (of_row, _) in sizes.items()},
        part_bytes={folder: of_part for folder, (_, of_part) in sizes.items()},
        dimension=dimension,
    )


def _sizes(folder: str, smaller: StepRun, larger: StepRun) -> tuple[float, float]:
    """Bytes of a row, and of a part without a row, by the sizes of two parts."""
    less, more = _rows(folder, smaller), _rows(folder, larger)
    each = _each(larger.bytes[folder] - smaller.bytes[folder], more - less)
    of_part = max(0.0, smaller.bytes[folder] - each * less)
    return (larger.bytes[folder] - of_part) / max(1, more), of_part


def _rows(folder: str, run: StepRun) -> int:
    """What the folder of a run has a row for."""
    step, item = ROWS_OF[folder]
    if folder == "rejects":
        return run.counts["ingest"]["pages"] - run.counts["ingest"]["documents"]
    return run.counts[step][item]
