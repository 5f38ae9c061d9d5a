"""Cost of the command itself for a step of 100,000 units: its peak memory and its seconds from the reports of
all units to the folders that the next step opens, and the size of the graphs that it sends to an engine.

The reports, and small files in place of the parts, are written beforehand. A graph is built as a step builds
it, and not run.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from answermill.indexing.labels.given_labels import GivenLabels
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.engine.beam_engine import BeamEngine, new_pipeline, remove_folder
from answermill.pipelines.engine.protocol import Engine
from answermill.pipelines.engine.runner import define
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.manifest import Part
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.spec import StepSpec
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.annotate import ANNOTATE
from answermill.pipelines.specs.index import INDEX
from answermill.pipelines.specs.ingest import INGEST, PASSAGES, IngestCounts
from answermill.pipelines.specs.propagate import PROPAGATE
from answermill.pipelines.specs.rerank import RERANK, SCORED
from answermill.pipelines.specs.retrieve import RETRIEVE, RETRIEVED
from answermill.pipelines.steps.annotate.annotate import TaskPart
from answermill.pipelines.steps.index.index import BuildShard
from answermill.pipelines.steps.ingest import ingest
from answermill.pipelines.steps.job_plan import CheckedPlan
from answermill.pipelines.steps.propagate.passage_parts import PassageParts
from answermill.pipelines.steps.propagate.propagate import LabelPart
from answermill.pipelines.steps.rerank.answers import questions_of
from answermill.pipelines.steps.rerank.rerank import RunStages
from answermill.pipelines.steps.retrieve import passes
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.retrieve import plan
from testing.harness import arguments, finish, peak_gb, processes, say, shrink
from testing.smoke_data import small_encoder

UNITS = 100_000
"""Input files of ingest, each with a part in each of its three folders."""
QUESTIONS = 1_000_000
SHARDS = 500
BLOCK = 64
"""Questions of a part of retrieved/: the default of the key."""
JOB = """
[ingest]
input = ["pages"]
[index]
encoder = "{encoder}"
[retrieve]
questions = "questions.jsonl"
[[rerank.stages]]
reranker = "overlap"
[propagate]
labels = "labels.tsv"
windows = "all"
[annotate]
"""


def step_of_files(run: Path) -> Step[IngestCounts]:
    """The ingest step of as many files."""
    return Step(
        run, INGEST, {"min_words": 30}, {f"crawl/{n:06d}.warc.gz": f"{n} bytes" for n in range(UNITS)}
    )


def report_of(unit: int, part: Callable[[str], Part]) -> Report[IngestCounts]:
    counts = IngestCounts(pages=35_000, documents=30_000, rejected={"too_short": 5_000}, passages=150_000)
    digest = hashlib.sha256(str(unit).encode()).hexdigest()
    return Report(
        unit,
        {folder.name: (part(folder.name),) for folder in INGEST},
        counts,
        {f"crawl/{unit:06d}.warc.gz": digest},
    )


def write_reports(run: Path) -> None:
    """Write the output of workers: the reports of all units, and their parts."""
    step, content = step_of_files(run), b"part"
    Commit(step).begin()
    digest = hashlib.sha256(content).hexdigest()
    for folder in INGEST:
        (run / folder.name).mkdir(parents=True)

    def part_of(unit: int) -> Callable[[str], Part]:
        def write(name: str) -> Part:
            part = Part(f"part-{unit:05d}-{digest[:8]}.parquet", 150_000, len(content), digest)
            (run / name / part.file).write_bytes(content)
            return part

        return write

    synced, os.fsync = os.fsync, lambda fd: None  # what is written here need not outlast the measurement
    try:
        for unit in range(UNITS):
            step.reports.write(report_of(unit, part_of(unit)))
    finally:
        os.fsync = synced


def commit(run: Path) -> tuple[float, float, float]:
    """Do the command's work after a restart when all units have reported, until the next step opens their
    folders.

    Returns its peak in GB, and its seconds on the clock and of a core.
    """
    began, of_a_core = time.perf_counter(), time.process_time()
    step = step_of_files(run)
    commit = Commit(step)
    commit.begin()
    outcome = commit.reported(UNITS)
    commit.finish(outcome)
    assert commit.is_complete()
    passages = PASSAGES.open(run)
    assert (len(passages.parts), passages.rows, len(passages.digest())) == (UNITS, UNITS * 150_000, 32)
    return peak_gb(), time.perf_counter() - began, time.process_time() - of_a_core


def commit_nothing(run: Path, spec: StepSpec[Any], parts: int) -> None:
    """The step's folders are there by their manifests alone."""
    outcome = Outcome(spec.counts())
    for unit in range(parts):
        part = Part(f"part-{unit:05d}.parquet", 64, 9, f"{unit:064x}")
        outcome.add(Report(unit, {folder.name: (part,) for folder in spec}, spec.counts()))
    step = Step(run, spec, {}, {})
    commit = Commit(step)
    commit.begin()
    commit.finish(outcome)


def graph_mb(build: Callable[[Engine], object]) -> float:
    root = new_pipeline(())
    try:
        build(BeamEngine(root))
        return len(root.to_runner_api().SerializeToString()) / 1e6
    finally:
        remove_folder(root)


def graphs_of_questions(job: Job, run: Path) -> Iterable[tuple[str, float]]:
    """Graphs of the steps whose units are blocks of questions."""
    blocks = -(-QUESTIONS // BLOCK)
    assert job.retrieve is not None
    commit_nothing(run, INDEX, SHARDS)
    part = Part("part-00000.parquet", QUESTIONS, 9, "0" * 64)
    questions = AskedQuestions.cut(run / "asked", part, BLOCK)
    turns = plan(questions, RunShards.of(job, run), job.retrieve, Step(run, RETRIEVE, {}, {}))
    yield "retrieve", graph_mb(lambda engine: passes.define(engine, turns))
    commit_nothing(run, RETRIEVE, blocks)
    commit_nothing(run, RERANK, blocks)
    retrieved, scored = RETRIEVED.open(run), SCORED.open(run)

    rerank, annotate = Step(run, RERANK, {}, {}), Step(run, ANNOTATE, {}, {})
    stages = RunStages(CheckedPlan.of(job), questions_of(run, retrieved), retrieved, rerank)
    yield "rerank", units_mb(rerank, blocks, stages)
    yield "annotate", units_mb(annotate, blocks, TaskPart(job, scored, retrieved, annotate))


def graphs_of_files(job: Job, run: Path) -> Iterable[tuple[str, float]]:
    """Graphs of the steps whose units are files of the crawl, or parts of passages/."""
    step = step_of_files(run)
    assert job.ingest is not None and job.propagate is not None
    settings = job.ingest
    yield "ingest", graph_mb(lambda engine: ingest.define(engine, UNITS, settings, step))
    commit_nothing(run, INGEST, UNITS)
    index, propagate = Step(run, INDEX, {}, {}), Step(run, PROPAGATE, {}, {})
    yield "index", units_mb(index, UNITS, BuildShard(job, PASSAGES.open(run), index))
    label = LabelPart(
        PassageParts.of(run, windows=True), GivenLabels(propagate.work / "labels"), job.propagate, propagate
    )
    yield "propagate", units_mb(propagate, UNITS, label)


def units_mb(step: Step[Any], units: int, work: UnitWork) -> float:
    """Megabytes of the graph of a step's units."""
    return graph_mb(lambda engine: define(engine, step, units, work))


def measure(folder: Path, inline: bool = False) -> dict[str, Any]:
    """Figures from runs in `folder`; measured work runs in a fresh process, or in this one with `inline`."""
    (folder / "job.toml").write_text(JOB.format(encoder=small_encoder()), encoding="utf-8")
    job = load(folder / "job.toml")
    files, questions = (
        dict(graphs_of_files(job, folder / "files")),
        dict(graphs_of_questions(job, folder / "questions")),
    )
    result: dict[str, Any] = {f"graph_mb_{step}": size for step, size in (files | questions).items()}
    result |= {"graph_mb_100k_files": max(files.values()), "graph_mb_1m_questions": max(questions.values())}
    write_reports(folder / "run")

    say(f"the reports of {UNITS:,} units are written")
    with processes(1, inline) as pool:
        peak, seconds, of_a_core = pool.submit(commit, folder / "run").result()
    return result | {
        "peak_gb_100k_parts": peak,
        "seconds_100k_parts": seconds,
        "core_seconds_100k_parts": of_a_core,
    }


def main() -> None:
    options = arguments("driver", __doc__ or "", needs_data=False)
    if options.smoke:
        shrink(globals(), UNITS=50, QUESTIONS=10_000)
    with tempfile.TemporaryDirectory() as folder:
        finish("driver", measure(Path(folder).resolve(), options.smoke), options.save)


if __name__ == "__main__":
    main()
