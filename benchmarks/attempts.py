"""Two attempts at one unit of each step, at once in two processes: both end, with the output of one attempt.

The attempts begin together; in every second round they also write their reports together. The names of all
files and the bytes of all rows and vectors are compared, but not times, and not Lucene's files, whose ids are
drawn. `mismatches` counts rounds.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from answermill.files.atomic_files import sha256
from answermill.indexing.labels.given_labels import GivenLabels
from answermill.pipelines.config.job_file import Ingest, Job, load
from answermill.pipelines.data.inputs.labels import LabelSource
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.counts import C, StepCounts
from answermill.pipelines.runs.manifests.reports import Report, Reports
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.annotate import annotate
from answermill.pipelines.steps.chain import run_steps, steps_of
from answermill.pipelines.steps.index import index
from answermill.pipelines.steps.ingest import ingest, parse_and_cut
from answermill.pipelines.steps.ingest.crawl_files import FileList, find_files
from answermill.pipelines.steps.ingest.repeated import verdicts
from answermill.pipelines.steps.job_plan import CheckedPlan
from answermill.pipelines.steps.propagate import propagate
from answermill.pipelines.steps.propagate.passage_parts import PassageParts
from answermill.pipelines.steps.rerank import rerank
from answermill.pipelines.steps.rerank.answers import questions_of
from answermill.pipelines.steps.retrieve import retrieve
from answermill.pipelines.steps.retrieve.asked_questions import settings_of, write_asked
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from testing.harness import arguments, finish, processes, say, seconds
from testing.smoke_data import small_encoder

ROUNDS = 50
SUBJECTS = ("glacier", "river", "senate", "violin", "comet", "vaccine")
JOB = """
[ingest]
input = ["*.jsonl"]
min_words = 1
[index]
shards = 2
encoder = "{encoder}"
[retrieve]
questions = "questions.jsonl"
depth = 4
[[rerank.stages]]
reranker = "overlap"
keep = 8
[[rerank.stages]]
reranker = "similarity"
[annotate]
[propagate]
labels = "labels.tsv"
same_text = true
windows = "all"
"""
Contents = Mapping[str, str]


def write_job(folder: Path) -> Path:
    """A job of two files, of which the second repeats pages of the first, and six questions; returns the job
    file's path."""
    folder.mkdir(parents=True)
    for file in range(2):
        numbers = range(file * 8, file * 8 + 10)
        pages = [
            {"id": f"d{file}-{n}", "text": f"{SUBJECTS[n % 6]} {n}. The {SUBJECTS[n % 5]} is {n} old."}
            for n in numbers
        ]
        (folder / f"pages-{file}.jsonl").write_text(
            "".join(json.dumps(page) + "\n" for page in pages), encoding="utf-8"
        )

    questions = [
        {"question_id": f"q{n}", "text": f"Which {subject} is old?"} for n, subject in enumerate(SUBJECTS)
    ]
    (folder / "questions.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in questions), encoding="utf-8"
    )
    labels = "".join(f"q{n}\tThe {SUBJECTS[n]} is {n} old.\t1\n" for n in range(5))
    (folder / "labels.tsv").write_text("question_id\tsentence\tlabel\n" + labels, encoding="utf-8")
    (folder / "job.toml").write_text(JOB.format(encoder=small_encoder()), encoding="utf-8")

    return folder / "job.toml"


@cache
def read_job(path: Path) -> Job:
    return load(path)


def parse(job: Job, step: Step[Any]) -> Callable[[], object]:
    settings = ingest_settings(job)
    FileList.write(find_files(job, settings).files, step.work)
    return lambda: do(ingest.ParsePages(settings, step.work), (0,))


def cut(job: Job, step: Step[Any]) -> Callable[[], object]:
    """Cut the second file, after both are parsed and the duplicates are known."""
    settings = ingest_settings(job)
    files = find_files(job, settings).files
    FileList.write(files, step.work)
    buckets: dict[verdicts.KeyBucket, list[verdicts.FileKeys]] = {}
    for file in files:
        for bucket, keys in do(ingest.ParsePages(settings, step.work), (file.number,)):
            buckets.setdefault(bucket, []).append(keys)
    pairs = (pair for bucket in buckets for pair in verdicts.find_duplicates(bucket, buckets[bucket]))
    members = [duplicates for unit, duplicates in pairs if unit == 1]
    return lambda: do(ingest.CutPassages(settings, step), (1, members))


def ingest_settings(job: Job) -> Ingest:
    assert job.ingest is not None
    return job.ingest


def build(job: Job, step: Step[Any]) -> Callable[[], object]:
    passages = PASSAGES.open(step.run)
    return lambda: do(index.BuildShard(job, passages, step), (0,))


def search(job: Job, step: Step[Any]) -> Callable[[], object]:
    """All passes, in which each attempt does each unit."""
    settings, questions = settings_of(job), retrieve.choose_questions(job).questions
    asked_questions = write_asked(step, questions, [0], len(questions), job.workers)
    turns = retrieve.plan(asked_questions, RunShards.of(job, step.run), settings, step)

    for turn in turns:
        # The command does this before its workers begin.
        if not turn.target.step.work.is_dir():
            Commit(turn.target.step).begin()

    def work() -> None:
        for turn in turns:
            for unit in range(turn.target.units):
                do(turn.work, (unit,))

    return work


def score(job: Job, step: Step[Any]) -> Callable[[], object]:
    retrieved = RETRIEVED.open(step.run)
    work = rerank.RunStages(CheckedPlan.of(job), questions_of(step.run, retrieved), retrieved, step)
    return lambda: do(work, (0,))


def choose(job: Job, step: Step[Any]) -> Callable[[], object]:
    scored = SCORED.open(step.run)
    retrieved = RETRIEVED.open(step.run)
    return lambda: do(annotate.TaskPart(job, scored, retrieved, step), (0,))


def label(job: Job, step: Step[Any]) -> Callable[[], object]:
    """Both passes over a part of passages/."""
    assert job.propagate is not None
    parts, settings, labels = (
        PassageParts.of(step.run, windows=True),
        job.propagate,
        GivenLabels(step.work / "labels"),
    )
    spreading = step.within("found", {}, StepCounts, {})
    if not spreading.work.is_dir():  # else the command, which does this before its workers begin, has done it
        LabelSource.of(job, step.run).write(labels.folder)
        Commit(spreading).begin()

    def work() -> None:
        do(propagate.FindLabelsToSpread(parts, labels, spreading), (0,))
        do(propagate.LabelPart(parts, labels, settings, step), (0,))

    return work


def do(work: UnitWork, element: tuple[Any, ...], *side_inputs: Any) -> list[Any]:
    """Do a worker's task with an element, even if the unit has reported."""
    vars(work)["skips_reported"] = False
    work.setup()
    try:
        return work.process(element, *side_inputs)
    finally:
        work.teardown()


class Tried(NamedTuple):
    """A step under test: its Step, the function that prepares a unit of it, and the folders that it reads."""

    step_of: Callable[[Job, Path], Step[Any]]
    prepare: Callable[[Job, Step[Any]], Callable[[], object]]
    inputs: tuple[str, ...]


STEPS = {
    "ingest_parse": Tried(ingest.step_of, parse, ()),
    "ingest_cut": Tried(ingest.step_of, cut, ()),
    "index": Tried(index.step_of, build, ("passages",)),
    "retrieve": Tried(retrieve.step_of, search, ("shards",)),
    "rerank": Tried(rerank.step_of, score, ("questions", "retrieved", "shards")),
    "annotate": Tried(annotate.annotate_step, choose, ("scored", "retrieved")),
    "propagate": Tried(propagate.step_of, label, ("passages", "documents")),
}


def attempt(name: str, job: Path, run: Path, meeting: Path, at_once: int, is_close: bool) -> None:
    """Make one of `at_once` attempts at the step's unit; they wait for each other in the folder `meeting`."""
    tried = STEPS[name]
    work = tried.prepare(read_job(job), tried.step_of(read_job(job), run))
    meet(meeting / "begin", at_once)
    with reporting_together(meeting / "report", at_once if is_close else 1):
        work()


def meet(place: Path, number: int) -> None:
    """Wait until as many attempts have arrived, or one has left."""
    (place / uuid.uuid4().hex).touch()
    while len(list(place.iterdir())) < number:
        time.sleep(0.001)


@contextmanager
def reporting_together(place: Path, number: int) -> Iterator[None]:
    """Write a report with parts in the block only when `number` attempts have one, or one has left the
    block."""
    write = Reports.write

    def together(reports: Reports[C], report: Report[C]) -> Report[C]:
        if report.parts:
            meet(place, number)
        return write(reports, report)

    Reports.write = together  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Reports.write = write  # type: ignore[method-assign]
        meet(place, 0)


def contents(run: Path, step: Step[Any], inputs: tuple[str, ...]) -> Contents:
    """The files that a step's unit left in a run, with the digests of those whose bytes the job decides."""
    reports = parse_and_cut.parsed_files(step.work) if (step.work / "parsed").is_dir() else step.reports
    for written in (reports, step.reports):
        wrong: list[str] = []
        for _ in written.sound(wrong):
            pass
        if wrong:
            return {"damaged": ", ".join(wrong)}

    digests = {}
    for path in sorted(path for path in run.rglob("*") if path.is_file()):
        first, *_ = names = path.relative_to(run).parts
        # The command removes files of progress.
        if first in inputs or names[-1].startswith("progress-"):
            continue
        if first == "shards":
            names = (first, names[1].rpartition("-")[0], *names[2:])
            if names[2] == "bm25":
                continue
        is_decided = path.suffix in (".parquet", ".faiss", ".arrow", ".npy")
        digests["/".join(names)] = sha256(path) if is_decided else ""

    return digests


def try_unit(
    name: str, job: Path, base: Path, run: Path, pool: Executor, attempts: int, at_once: int, is_close: bool
) -> Contents:
    """Contents that some attempts at the step's unit, `at_once` of them at a time, leave in the new folder
    `run`, which is removed."""
    tried, meeting = STEPS[name], run.with_name("meeting")
    for folder in tried.inputs:
        shutil.copytree(base / folder, run / folder)
    for place in ("begin", "report"):
        (meeting / place).mkdir(parents=True)
    step = tried.step_of(read_job(job), run)
    Commit(step).begin()
    tried.prepare(read_job(job), step)
    futures = [pool.submit(attempt, name, job, run, meeting, at_once, is_close) for _ in range(attempts)]
    for future in futures:
        future.result()

    output = contents(run, step, tried.inputs)
    shutil.rmtree(run)
    shutil.rmtree(meeting)
    return output


def measure(folder: Path, rounds: int, inline: bool = False) -> dict[str, float | int | str]:
    """Rounds, mismatches and seconds of each step. With `inline` one attempt follows the other in this
    process."""
    job, base, run = write_job(folder / "job"), folder / "base", folder / "tried"
    list(
        run_steps(read_job(job), base, [name for name in steps_of(read_job(job)) if name != "propagate"], ())
    )
    result: dict[str, float | int | str] = {"rounds": rounds}
    mismatches = 0

    with processes(2, inline) as pool:
        for name in STEPS:
            undisturbed = try_unit(name, job, base, run, pool, 1, 1, is_close=False)
            assert len(undisturbed) > 1
            taken: list[float] = []
            different = 0

            with seconds(taken):
                for n in range(rounds):
                    output = try_unit(name, job, base, run, pool, 2, 1 if inline else 2, is_close=n % 2 == 1)
                    if output != undisturbed:
                        different += 1
                        say(f"{name}: {sorted(set(output.items()) ^ set(undisturbed.items()))}")

            mismatches += different
            result |= {f"mismatches_{name}": different, f"seconds_{name}": taken[0]}
            say(f"{name}: {rounds} rounds, {different} mismatches, {taken[0]:.1f} s")

    return result | {"mismatches": mismatches}


def main() -> None:
    options = arguments("attempts", __doc__ or "", needs_data=False)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(
            Path(folder).resolve(), 1 if options.smoke else max(options.rounds, ROUNDS), options.smoke
        )
    finish("attempts", result, options.save)


if __name__ == "__main__":
    main()
