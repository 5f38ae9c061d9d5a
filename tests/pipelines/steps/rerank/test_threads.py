"""An engine that runs several units in one process at once, on threads, gets the rows of one that does
not."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from answermill.indexing.shards.dense import Encoder
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.parquet_folder import read_manifest
from answermill.pipelines.specs.index import INDEX
from answermill.pipelines.specs.ingest import INGEST
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import RETRIEVE, RETRIEVED
from answermill.pipelines.steps import models
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.job_plan import CheckedPlan
from answermill.pipelines.steps.rerank import rerank
from answermill.pipelines.steps.rerank.answers import questions_of
from answermill.ranking.entry import Entry
from answermill.ranking.reranker import Reranker, Resources
from testing.tiny import checkpoint, write_dense

THREADS = ("--direct_running_mode=multi_threading", "--direct_num_workers=4")
STEPS = ("ingest", "index", "retrieve", "rerank")
SUBJECTS = ("glacier", "river", "senate", "violin", "comet", "vaccine")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Four files, three shards, six blocks of a question, and four stages with small random models."""
    folder = tmp_path_factory.mktemp("job")
    for file in range(4):
        texts = (
            f"{' '.join(SUBJECTS[: n % 6 + 1])} number {n}. The {SUBJECTS[n % 5]} is {n} old."
            for n in range(file, 40, 4)
        )
        pages = [{"id": f"d{file}-{n}", "title": "", "text": text} for n, text in enumerate(texts)]
        (folder / f"pages-{file}.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))

    questions = [
        {"question_id": f"q{n}", "text": f"Which {subject} is old?"} for n, subject in enumerate(SUBJECTS)
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    stages = [
        {"reranker": "cosinet", "checkpoint": checkpoint("cosinet", folder / "cosinet", SUBJECTS)},
        {"reranker": "cascade", "checkpoint": checkpoint("cascade", folder / "cascade"), "drop": [0.3]},
        {"reranker": "similarity"},
        {"reranker": "overlap"},
    ]

    return Job.model_validate(
        {
            "ingest": {"input": [str(folder / "*.jsonl")], "min_words": 1},
            "index": {"shards": 3, "encoder": str(write_dense(folder / "encoder"))},
            "retrieve": {"questions": str(folder / "questions.jsonl"), "depth": 12, "block": 1},
            "rerank": {"stages": stages},
        }
    )


@pytest.fixture(scope="module")
def in_process(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run")
    list(run_steps(job, run, STEPS, ()))
    return run


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each model was loaded."""
    counts: Counter[str] = Counter()
    load_encoder, load_reranker = models.load_encoder, Entry.load

    def counted_encoder(*arguments: Any, **settings: Any) -> Encoder:
        counts["encoder"] += 1
        return load_encoder(*arguments, **settings)

    def counted_reranker(entry: Entry, resources: Resources) -> Reranker:
        counts[entry.name] += 1
        return load_reranker(entry, resources)

    monkeypatch.setattr(models, "load_encoder", counted_encoder)
    monkeypatch.setattr(Entry, "load", counted_reranker)
    return counts


def parts(run: Path) -> dict[str, Any]:
    """The parts of every folder of a run, by name, rows and SHA-256; and the costs, which are no times."""
    opened = {
        "passages": INGEST,
        "shards": INDEX,
        "questions": RETRIEVE,
        "retrieved": RETRIEVE,
        "scored": RERANK,
    }
    manifests = {folder: read_manifest(run / folder) for folder in opened}
    result: dict[str, Any] = {}

    for name, manifest in manifests.items():
        assert manifest is not None
        times = ("milliseconds", "microseconds", "_ms")
        counts = dict(opened[name].counts_of(manifest).flat())
        costs = {key: count for key, count in counts.items() if not any(time in key for time in times)}
        result[name] = [costs, manifest.parts if name != "shards" else manifest.rows]

    return result


@pytest.mark.nightly
def test_four_threads_in_a_process_write_the_parts_that_one_writes(
    job: Job, in_process: Path, tmp_path: Path
) -> None:
    list(run_steps(job, tmp_path / "run", STEPS, THREADS))
    assert parts(tmp_path / "run") == parts(in_process)
    assert parts(in_process)["scored"][0]["candidates"] > 100
    assert (tmp_path / "run/answers.jsonl").read_bytes() == (in_process / "answers.jsonl").read_bytes()


def test_torchs_threads_change_no_byte(
    job: Job, in_process: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, set_threads, numbers = torch.get_num_threads(), torch.set_num_threads, set[int]()

    def note_and_set(threads: int) -> None:
        numbers.add(threads)
        set_threads(threads)

    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(torch, "set_num_threads", note_and_set)
    try:
        list(run_steps(job, tmp_path / "run", STEPS, ()))
    finally:
        set_threads(before)

    assert 3 in numbers
    assert parts(tmp_path / "run") == parts(in_process)


def copy_until(run: Path, copy: Path, *folders: str) -> Path:
    for folder in folders:
        shutil.copytree(run / folder, copy / folder)
    return copy


def test_the_threads_of_a_step_load_each_model_once(
    job: Job, in_process: Path, tmp_path: Path, loads: Counter[str]
) -> None:
    run = copy_until(in_process, tmp_path, "documents", "passages")
    stages = [
        stage.model_copy(update={"drop": [0.4]} if stage.key == "cascade" else {})
        for stage in job.rerank.stages
    ]

    # No other test holds these models.
    changed = {"index": {"encoder_tokens": 33}, "rerank": {"stages": stages}}
    shorter = job.model_copy(
        update={name: getattr(job, name).model_copy(update=keys) for name, keys in changed.items()}
    )
    for step in STEPS[1:]:
        loads.clear()
        list(run_steps(shorter, run, [step], THREADS))
        # The step before may have left it.
        assert loads["encoder"] == 1 or (step != "index" and not loads["encoder"])

    assert loads["cascade"] == 2  # the first by the check before all work, which keeps nothing


def test_a_bundle_that_an_engine_repeats_writes_nothing_anew(
    job: Job, in_process: Path, tmp_path: Path
) -> None:
    run = copy_until(in_process, tmp_path, "questions", "retrieved", "shards")
    step, retrieved = rerank.step_of(job, run), RETRIEVED.open(run)
    Commit(step).begin()
    times = []
    for _ in range(2):
        worker = rerank.RunStages(CheckedPlan.of(job), questions_of(run, retrieved), retrieved, step)
        worker.setup()
        for unit in range(len(retrieved.parts)):
            worker.process((unit,))
        times.append({path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()})
    assert times[0] == times[1]
    assert len(step.reports.read()) == len(retrieved.parts)


def test_costs_are_booked_on_the_unit_that_spent_them(job: Job, in_process: Path, tmp_path: Path) -> None:
    spent = []
    for threads in (1, 4):
        run = copy_until(in_process, tmp_path / str(threads), "questions", "retrieved", "shards")
        step, retrieved = rerank.step_of(job, run), RETRIEVED.open(run)
        Commit(step).begin()
        workers = [
            rerank.RunStages(CheckedPlan.of(job), questions_of(run, retrieved), retrieved, step)
            for _ in retrieved.parts
        ]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(rerank.RunStages.setup, workers))
            list(pool.map(rerank.RunStages.process, workers, [(unit,) for unit in range(len(workers))]))

        spent.append(
            {
                unit: report.counts.stages["cascade"].layer_tokens
                for unit, report in step.reports.read().items()
            }
        )

    assert spent[0] == spent[1]
    assert len(set(spent[0].values())) > 1
