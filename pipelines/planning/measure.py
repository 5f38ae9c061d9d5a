"""A measurement of this machine: the real steps of a job on a sample of its input, in a temporary folder.

Each step runs on some pages and questions, then on more of them: the difference is what a page or question costs, without
what it takes to begin. Seconds are those of the processor, on one core, so that other work counts little. What beginning
takes varies by more than some dozen pages cost: a step that is over at once is run again, and the least counts.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from indexing.shards.vector_index import DenseIndex, DenseWriter
from pipelines.ask.block_search import search_block
from pipelines.config import toml_file
from pipelines.config.job_file import Job, job_type
from pipelines.config.step_registry import STEPS
from pipelines.errors import BAD_DATA, JobError
from pipelines.execution.manifests.manifest import read_manifest
from pipelines.execution.progress import print_line
from pipelines.planning.input_sample import InputSample, write_pages
from pipelines.planning.rates import ROWS_OF, Rates, Volumes, layer_tokens
from pipelines.retrieve.asked_questions import Block, settings_of
from pipelines.retrieve.open_shards import RunShards
from pipelines.steps.models import passage_encoder, use_threads
from schemas.atomic_files import write_text
from schemas.corpus import Question

SMALL_PAGES, SMALL_QUESTIONS = 8, 2
STEP_S = 15.0
"""Seconds that the larger run of a step should take at the most."""
QUICK_S, AGAIN = 3.0, 2
"""An ingest that takes no longer, and how often it is then run again."""
VECTORS = 20_000
"""Of the index on which the dense search is measured."""
PLANNED = ("ingest", "index", "retrieve", "rerank")
_PARTS = {
    "ingest": ("documents", "passages", "rejects"),
    "index": ("shards",),
    "retrieve": ("questions", "retrieved"),
    "rerank": ("scored", "answers"),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a sample of the input became, and how fast."""

    volumes: Volumes
    rates: Rates


@dataclass(frozen=True, slots=True)
class _StepRun:
    """A run of the steps over some pages and questions: processor seconds and counts of each."""

    pages: int
    questions: int
    seconds: Mapping[str, float]
    counts: Mapping[str, Mapping[str, int]]
    bytes: Mapping[str, int]


def measure(job: Job, sample: InputSample, questions: Sequence[Question]) -> Measured:
    """Run the job's steps on the sample. Raises JobError (65) if no page of it becomes a passage, and as the steps do."""
    steps = [step for step in PLANNED if job.section(step) is not None]
    if "retrieve" not in steps:
        steps = [step for step in steps if step != "index"]
    with tempfile.TemporaryDirectory(prefix="answermill-plan-") as folder, one_thread():
        runs = _Runs(job, sample, questions, steps, Path(folder))
        cold = runs.run("cold", SMALL_PAGES, SMALL_QUESTIONS)
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


class _Runs:
    """Runs the steps over a part of the sample."""

    def __init__(
        self, job: Job, sample: InputSample, questions: Sequence[Question], steps: Sequence[str], folder: Path
    ) -> None:
        self._job, self._sample, self._questions, self._steps, self.folder = job, sample, questions, steps, folder
        self.depth = 0
        """Passages that the last run asked each index for: a fifth of those that it had, or the job's depth."""

    def settled(self, *measured: _StepRun) -> list[_StepRun]:
        """The same runs with the least seconds of several for `ingest`, whose pages cost little, as long as it is quick."""
        least = [each.seconds["ingest"] for each in measured]
        for number in range(AGAIN if max(least) <= QUICK_S else 0):
            for place, each in enumerate(measured):
                again = self.run(f"again-{number}-{place}", each.pages, 0, ["ingest"])
                least[place] = min(least[place], again.seconds["ingest"])
        return [
            replace(each, seconds={**each.seconds, "ingest": seconds}) for each, seconds in zip(measured, least, strict=True)
        ]

    def run(self, name: str, pages: int, questions: int, steps: Sequence[str] | None = None) -> _StepRun:
        """Run the steps, None = all of the job's, on the first pages and questions."""
        run, drawn = self.folder / name, self._sample.drawn[:pages]
        values = self._job.model_dump()
        values["ingest"] |= {"input": write_pages(drawn, self.folder / f"{name}-input"), "domains": 0, "max_reject_share": 1.0}
        values["ingest"]["crawl_index"] = None
        values["index"] |= {"shards": 1, "since": None}
        if values["rerank"] is not None:
            values["rerank"]["since"] = None
        values["workers"] |= {"processes": 1, "max_failed_units": 0}
        values |= {"annotate": None, "propagate": None}
        asked = self._questions[:questions]
        seconds: dict[str, float] = {}
        counts: dict[str, Mapping[str, int]] = {}
        sizes: dict[str, int] = {}
        for step in self._steps if steps is None else steps:
            if step == "retrieve":
                passages = counts["ingest"]["passages"]
                if not passages:
                    raise JobError(f"ingest.input: no passage came of {len(drawn)} pages drawn from it", BAD_DATA)
                values["retrieve"] |= self._retrieve(name, asked, passages)
            if step == "rerank":
                values["rerank"]["allow_empty"] = True
            small = toml_file.check(values, job_type(values), self._job.folder / "job.toml")
            print_line(f"measures   {step} on {len(drawn)} pages" + (f" and {len(asked)} questions" * (step in PLANNED[2:])))
            began = processor_seconds()
            STEPS[step].load().run(small, run, ())
            seconds[step] = processor_seconds() - began
            manifest = read_manifest(run / _PARTS[step][-1] if step != "ingest" else run / "passages")
            assert manifest is not None  # the step has just written it
            counts[step] = manifest.counts
            for folder in _PARTS[step]:
                written = read_manifest(run / folder)
                sizes[folder] = sum(part.bytes for part in written.parts) if written is not None else 0
        return _StepRun(len(drawn), len(asked), seconds, counts, sizes)

    def _retrieve(self, name: str, asked: Sequence[Question], passages: int) -> dict[str, Any]:
        file = self.folder / f"{name}-questions.tsv"
        write_text(file, "question_id\ttext\n" + "".join(f"{each.question_id}\t{each.text}\n" for each in asked))
        self.depth = min(settings_of(self._job).depth, max(5, passages // 5))
        chosen = {"questions": str(file), "question_rules": "none", "question_scores_above": None, "max_questions": 0}
        return chosen | {"depth": self.depth}


def processor_seconds() -> float:
    """Processor seconds of this process, and of those that it has ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextmanager
def one_thread() -> Iterator[None]:
    """In the block the models compute on one core, as those of a worker process do."""
    former = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    use_threads(1)
    try:
        yield
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        if former is not None:
            os.environ["OMP_NUM_THREADS"] = former


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


def _rates(cold: _StepRun, warm: _StepRun, large: _StepRun, ingested: tuple[_StepRun, _StepRun], searched: _Searched) -> Rates:
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


def _items(step: str, run: _StepRun) -> int:
    """What the seconds of a step grow with: of rerank layers × tokens, since the larger run's questions have more passages."""
    counts = run.counts[step]
    counted = {"ingest": "pages", "index": "passages", "retrieve": "questions", "rerank": "candidates"}
    return (layer_tokens(counts) if step == "rerank" else 0) or counts[counted[step]]


def _each(more: float, items: int) -> float:
    """What one of the items adds; 0 if it cannot be seen."""
    return max(0.0, more) / max(1, items)


def _volumes(warm: _StepRun, large: _StepRun, ingested: _StepRun, depth: int, dimension: int) -> Volumes:
    """What the pages of the larger runs became; those that `ingest` alone has run on say what becomes of pages."""
    retrieve, rerank = (large.counts.get(step, {}) for step in ("retrieve", "rerank"))
    sizes = {folder: _sizes(folder, warm, ingested if folder in _PARTS["ingest"] else large) for folder in large.bytes}
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


def _sizes(folder: str, smaller: _StepRun, larger: _StepRun) -> tuple[float, float]:
    """Bytes of a row, and of a part without a row, by the sizes of two parts."""
    less, more = _rows(folder, smaller), _rows(folder, larger)
    each = _each(larger.bytes[folder] - smaller.bytes[folder], more - less)
    of_part = max(0.0, smaller.bytes[folder] - each * less)
    return (larger.bytes[folder] - of_part) / max(1, more), of_part


def _rows(folder: str, run: _StepRun) -> int:
    """What the folder of a run has a row for."""
    step, item = ROWS_OF[folder]
    if folder == "rejects":
        return run.counts["ingest"]["pages"] - run.counts["ingest"]["documents"]
    return run.counts[step][item]
