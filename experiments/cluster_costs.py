"""Costs of the steps' units on one core, measured: what `cluster` hands to simulated workers.

`ingest` and `rerank` run in the sample job, with its models; `index` and `retrieve` over passages of drawn
sentences of `corpus-wiki`, asked questions of Natural Questions. Seconds are of the processor, and of units
alone, as the engine counts them.
"""

from __future__ import annotations

import gc
import gzip
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import numpy as np

from answermill.indexing.shards.dense import DEFAULT
from answermill.indexing.shards.rank_fusion import Best
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.engine import beam_engine, unit_work
from answermill.pipelines.learn.train.static_encoder_of_run import StaticOptions, learn
from answermill.pipelines.look.estimate.sample_runs import processor_seconds
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.specs.ingest import INGEST
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.retrieve.shard_hits import ShardHit, to_table
from answermill.pipelines.steps.retrieve.write_blocks import merge_parts
from benchmarks.sample import write_small_job
from testing.drawn_text import drawn, wiki
from testing.smoke_data import small_encoder

STEPS = ("ingest", "index", "retrieve", "rerank")
SENTENCES, LESSON, SHARDS, SMALL, LARGE, ASKED, DEPTH = 4, 2_000, 2, 5_000, 50_000, 512, 50
"""Sizes of the measurement on drawn sentences: sentences of a passage; passages of which the static encoder
learns, and by which the default one is measured; shards; passages of a shard in each of two runs; questions,
and passages a question."""
MERGED = 32
QUESTIONS = "questions/nq-open-dev.jsonl.gz"
COPIES = 10
"""Number of copies of the sample's pages, which show a page's cost without that of the start."""
LOAD = """
import sys
from pathlib import Path
from answermill.pipelines.config.job_file import load
from answermill.pipelines.steps.job_plan import load_plan
from answermill.pipelines.steps.models import passage_encoder
job = load(Path(sys.argv[1]))
passage_encoder(job), load_plan(job)
"""
"""Program that imports and loads as much as any worker."""


@dataclass(frozen=True)
class Costs:
    """Seconds of one core: for a page of ingest, a passage of index, a question of rerank; for retrieve a
    question and unit of each pass.

    `load`: until a worker process has imported and loaded the modules and models of a step."""

    page: float
    passages_per_page: float
    passage: float
    question: float
    load: float
    encode: float
    passes: dict[str, float]
    search: tuple[float, float]
    """Seconds of a question in a shard, and those that each passage of the shard adds."""
    merge: float
    """Seconds in which a question's hits of a shard are merged with those of others."""

    def of_pass(self, label: str, passages: float, shards: int) -> float:
        """Seconds of a question in a unit of this pass of retrieve."""
        if label == "Search":
            return self.search[0] + self.search[1] * passages / shards
        if label == "Encode questions":
            return self.encode
        return self.passes[label] + (self.merge * shards if label == "Write blocks" else 0)


def unit_seconds(job: Job, run: Path, steps: Sequence[str]) -> dict[str, float]:
    """Run the steps in this process; returns the seconds of a core that their units took, by step, and for
    retrieve by pass.

    For ingest, whose pages are parsed in a child process, these are the seconds of the whole step, and by
    pass without the child's.
    """
    roots: list[beam.Pipeline] = []
    new_pipeline, clock = beam_engine.new_pipeline, vars(unit_work)["time"]

    def noted(*words: Any) -> beam.Pipeline:
        roots.append(new_pipeline(*words))
        return roots[-1]

    vars(beam_engine)["new_pipeline"] = noted
    vars(unit_work)["time"] = SimpleNamespace(monotonic=processor_seconds)
    taken: defaultdict[str, float] = defaultdict(float)

    try:
        for step in steps:
            began = processor_seconds()
            list(run_steps(job, run, [step], ("--runner=DirectRunner",)))
            gc.collect()  # ends the child
            taken[step] = processor_seconds() - began if step == "ingest" else 0
    finally:
        vars(beam_engine)["new_pipeline"], vars(unit_work)["time"] = new_pipeline, clock

    # A pipeline that was made to check its options has not run.
    for root in (root for root in roots if hasattr(root, "result")):
        for metric in root.result.metrics().query()["distributions"]:
            step = metric.key.metric.namespace.removeprefix("answermill.").partition("/")[0]
            if metric.key.metric.name == "unit_milliseconds":
                label = metric.key.step.partition("/")[0] if step in ("ingest", "retrieve") else step
                taken[label] += metric.result.sum / 1000

    return taken


def model_costs(smoke: bool) -> dict[str, Any]:
    """Costs that depend on the models, measured on the sample job."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if smoke:
            write_small_job(folder)
        job = load(copy_to(folder))
        taken = unit_seconds(job, folder / "run", STEPS)
        run = Run.open(folder / "run")
        pages, passages = run.counts(INGEST).pages, run.counts(INGEST).passages
        questions = run.counts(RERANK).questions
        for n in range(COPIES):  # the copies' pages are parsed, and then refused
            shutil.copy(folder / "web.warc.gz", folder / f"copy-{n}.warc.gz")

        copies = load(folder / "job.toml", ["ingest.input=['*.warc.gz']", "ingest.max_reject_share=1"])
        once = unit_seconds(job, folder / "once", STEPS[:1])
        copied = unit_seconds(copies, folder / "copied", STEPS[:1])
        began = processor_seconds()
        subprocess.run([sys.executable, "-c", LOAD, str(folder / "job.toml")], check=True)
        loaded = processor_seconds() - began

    return {
        "page": (max(0.0, copied["ingest"] - once["ingest"]) / COPIES + once["Cut passages"]) / pages,
        "passages_per_page": passages / pages,
        "question": taken["rerank"] / questions,
        "load": loaded,
    }


@dataclass(frozen=True)
class Measured:
    """Seconds that the units of a run over drawn passages took, by step and pass, and bytes that a step
    wrote."""

    passages: int
    seconds: dict[str, float]
    bytes: dict[str, int]

    def per_passage(self) -> float:
        """Seconds of a passage in `index`."""
        return self.seconds["index"] / self.passages

    def per_question(self, label: str) -> float:
        """Seconds of a question in a unit of the pass."""
        return self.seconds[label] / ASKED / (SHARDS if label in ("Count words", "Search") else 1)


def measured(data: Path, folder: Path, passages: int, encoder: str) -> Measured:
    """Run `ingest`, `index` and `retrieve` over passages of drawn sentences."""
    folder.mkdir()
    with (folder / "pages.jsonl").open("w", encoding="utf-8") as pages:
        for n, (title, sentences) in enumerate(islice(drawn(wiki(data), SENTENCES), passages)):
            pages.write(json.dumps({"id": f"p{n}", "title": title, "text": " ".join(sentences)}) + "\n")
    asked = gzip.decompress((data / QUESTIONS).read_bytes()).splitlines()[:ASKED]
    lines = (json.dumps({"question_id": f"q{n}"} | json.loads(line)) for n, line in enumerate(asked))
    (folder / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")

    (folder / "job.toml").write_text(
        f'[ingest]\ninput = ["pages.jsonl"]\nlanguage = ""\nmin_words = 1\n[index]\nshards = {SHARDS}\n'
        f'encoder = {json.dumps(encoder)}\n[retrieve]\nquestions = "questions.jsonl"\ndepth = {DEPTH}\n',
        encoding="utf-8",
    )
    run = folder / "run"
    seconds = unit_seconds(load(folder / "job.toml"), run, STEPS[:3])
    sizes = {
        step: sum(path.stat().st_size for name in names for path in (run / name).rglob("*"))
        for step, names in (("ingest", ("documents", "passages")), ("index", ("shards",)))
    }
    return Measured(Run.open(run).counts(INGEST).passages, seconds, sizes)


def of_encoders(data: Path, smoke: bool) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Costs of `index` and `retrieve` by the default encoder and a static one; and bytes of a passage that
    `ingest` and `index` write."""
    with tempfile.TemporaryDirectory() as name:
        folder, teacher = Path(name), small_encoder() if smoke else DEFAULT
        default = measured(data, folder / "default", LESSON, teacher)
        list(learn(folder / "default" / "run", folder / "static", StaticOptions(teacher)))
        encoder = str(folder / "static")
        small, large = (measured(data, folder / f"{n}", n * SHARDS, encoder) for n in (SMALL, LARGE))

    ends = [(one.passages / SHARDS, one.per_question("Search")) for one in (small, large)]
    slope = max(0.0, (ends[1][1] - ends[0][1]) / (ends[1][0] - ends[0][0]))
    shared = {
        "search": (max(0.0, ends[0][1] - slope * ends[0][0]), slope),
        "passes": {label: large.per_question(label) for label in ("Count words", "Write blocks")},
    }
    costs = {
        encoder: {"passage": run.per_passage(), "encode": run.per_question("Encode questions")} | shared
        for encoder, run in (("default", default), ("static", large))
    }
    return costs, {step: written / large.passages for step, written in large.bytes.items()}


def merge_cost() -> float:
    """Seconds in which one core merges a question's hits of a shard with those of others."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        parts = []
        for shard in range(MERGED):
            ids = [f"s{shard}-p{row}" for row in range(DEPTH)]
            keys = itertools.product(range(ASKED), range(2))
            lists = {
                key: Best.of(shard, np.arange(DEPTH), ids, -np.sort(-random.random(DEPTH))) for key in keys
            }
            with PartWriter(Path(name), ShardHit, shard) as writer:
                writer.write_table(to_table(0, lists))
            parts.append((Path(name), writer.part))
        began = processor_seconds()
        merge_parts(parts, DEPTH)
        return (processor_seconds() - began) / MERGED / ASKED


def all_costs(data: Path, smoke: bool) -> tuple[dict[str, Costs], dict[str, float]]:
    """Encoder, 'default' or 'static' → the costs; and as `of_encoders`."""
    models, (encoders, written), merge = model_costs(smoke), of_encoders(data, smoke), merge_cost()
    return {name: Costs(merge=merge, **models, **own) for name, own in encoders.items()}, written
