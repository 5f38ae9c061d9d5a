"""Estimate of a larger cluster: the steps' real units, costs measured here, and workers that are slow or die.

--passages (130,000,000), --questions (100,000) and --workers (100, of one core) at --price dollars (0.05) for
a core and hour are cut into units by the project's own code, for three sizes of shards. The cost of a unit's
pages, passages and questions is that of a short measurement: of the sample job with its models, and of
synthetic text in small shards of two sizes, from which the cost of searching a shard is a line in its
passages. Then simulation.py hands the units to workers, of which 5 % take twice as long; a worker dies once
in 200 hours, and the job begins again after a minute. Medians of --rounds seeds.

`hours_STEP_SHARDS`, `dollars_SHARDS`; `units_...`: units of work; `longest_...`: hours of the longest unit;
`even_...`: hours if all workers had the same share of the work, and none was slow or died; `busy_...`: the
share of the paid hours in which workers do units; `hours_calm_...`: hours if no worker is slow or dies;
`hours_free_...`: hours if a free worker takes the next unit. Reading and writing an object store costs
nothing here.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import faiss
import numpy as np

from answermill.indexing.shards.rank_fusion import Best
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.engine import beam_engine, unit_work
from answermill.pipelines.look.estimate.sample_runs import processor_seconds
from answermill.pipelines.runs.manifests.manifest import Part
from answermill.pipelines.runs.parquet_folder import Folder, PartWriter
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.index import SHARDS as SHARD_FOLDER
from answermill.pipelines.specs.ingest import INGEST
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import RETRIEVE
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.index.shard_ranges import ranges
from answermill.pipelines.steps.rerank.question_groups import PASSAGES as KEPT_PASSAGES
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.retrieve import plan
from answermill.pipelines.steps.retrieve.shard_hits import ShardHit, to_table
from answermill.pipelines.steps.retrieve.write_blocks import merge_parts
from answermill.schemas.arrays import Floats
from benchmarks.sample import write_small_job
from experiments.simulation import Elapsed, Workers, simulate
from testing.harness import arguments, finish, say, shrink
from testing.smoke_data import small_encoder

TAKES = "five minutes; [--workers N]; [--price DOLLARS]"
MEASURED_MODELS = ("cascade", "cosinet")
DECIDED = "Nothing ships by it."

SIZES = {"20k": 20_000, "100k": 100_000, "1m": 1_000_000}
"""Passages of a shard."""
PAGES_PER_FILE, SUBMIT, RESTART = 35_000, 15.0, 60.0
"""Pages of a WARC file of CommonCrawl; seconds until an engine has accepted a job; seconds until it works
again after a failure."""
SHARDS, SMALL, LARGE, ASKED, DEPTH, WIDTH = 2, 500, 2_000, 512, 50, 384
"""Sizes of the synthetic measurement: shards, passages of a shard in each of two runs, questions, passages a
question, and width of the vectors."""
SCANNED, SCANS, MERGED = 50_000, 10, 32
WORDS = 20_000
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
STEPS = ("ingest", "index", "retrieve", "rerank")


@dataclass(frozen=True)
class Costs:
    """Seconds of one core: for a page of ingest, a passage of index, a question of rerank; for retrieve see
    `search_costs`.

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

    for root in roots:
        for metric in root.result.metrics().query()["distributions"]:
            step = metric.key.metric.namespace.removeprefix("answermill.").partition("/")[0]
            if metric.key.metric.name == "unit_milliseconds":
                label = metric.key.step.partition("/")[0] if step in ("ingest", "retrieve") else step
                taken[label] += metric.result.sum / 1000

    return taken


def model_costs(smoke: bool) -> dict[str, float]:
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
        "passage": taken["index"] / passages,
        "encode": taken["Encode questions"] / questions,
        "question": taken["rerank"] / questions,
        "load": loaded,
    }


def write_synthetic(folder: Path, passages: int) -> Path:
    """A job whose passages and questions are words drawn by Zipf's law, and whose encoder is small."""
    random = np.random.default_rng(0)
    share = 1 / np.arange(1, WORDS + 1)
    words = np.array([f"w{n}" for n in range(WORDS)])
    texts = random.choice(words, size=(passages, 90), p=share / share.sum())
    questions = random.choice(words, size=(ASKED, 8), p=share / share.sum())

    with (folder / "pages.jsonl").open("w", encoding="utf-8") as pages:
        pages.writelines(
            json.dumps({"id": f"p{n}", "text": " ".join(text) + ".", "title": ""}) + "\n"
            for n, text in enumerate(texts)
        )

    with (folder / "questions.jsonl").open("w", encoding="utf-8") as asked:
        lines = ({"question_id": f"q{n}", "text": " ".join(text) + "?"} for n, text in enumerate(questions))
        asked.writelines(json.dumps(line) + "\n" for line in lines)

    job = folder / "job.toml"
    job.write_text(
        f'[ingest]\ninput = ["pages.jsonl"]\nlanguage = ""\n[index]\nshards = {SHARDS}\n'
        f'encoder = {json.dumps(small_encoder())}\n[retrieve]\nquestions = "questions.jsonl"\ndepth = '
        f"{DEPTH}\n",
        encoding="utf-8",
    )

    return job


def search_costs() -> tuple[dict[str, float], tuple[float, float]]:
    """Costs of retrieve's passes on synthetic text: seconds of a question and unit; and the line of searching
    a shard."""
    taken = []
    for passages in (SMALL * SHARDS, LARGE * SHARDS):
        with tempfile.TemporaryDirectory() as name:
            job = load(write_synthetic(Path(name), passages))
            taken.append(unit_seconds(job, Path(name) / "run", STEPS[:3]))
    by_pass = {label: seconds / ASKED for label, seconds in taken[-1].items() if label not in STEPS}
    for label in by_pass:
        by_pass[label] /= SHARDS if label in ("Count words", "Search") else 1
    small, large = (seconds["Search"] / ASKED / SHARDS for seconds in taken)
    slope = max(0.0, (large - small) / (LARGE - SMALL))
    return by_pass, (max(0.0, small - slope * SMALL), slope + scan_cost())


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


def scan_cost() -> float:
    """Seconds in which one core compares a question's vector with one of a shard."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(SCANNED, WIDTH)).astype(np.float32)
    index = faiss.IndexFlatIP(WIDTH)
    index.add(vectors)
    faiss.omp_set_num_threads(1)
    began = processor_seconds()
    for _ in range(SCANS):
        index.search(vectors[:64], DEPTH)
    return (processor_seconds() - began) / SCANS / 64 / SCANNED


@dataclass(frozen=True)
class Stage:
    """Units that do not wait for each other. `units`: seconds of each; `keeps`: seconds of work that an
    interrupted one keeps, see `simulate`."""

    step: str
    units: Floats
    keeps: float = float("inf")


def schedule(passages: int, questions: int, per_shard: int, costs: Costs, job: Job) -> Iterator[Stage]:
    """Stages of a run, as the steps cut their work."""
    pages = passages / costs.passages_per_page
    files = max(1, round(pages / PAGES_PER_FILE))
    yield Stage("ingest", np.full(files, costs.page * pages / files))  # parsed, then cut: measured together
    shards = ranges(passages, 0, per_shard)
    sizes = np.array([shard.stop - shard.start for shard in shards], float)
    yield Stage("index", sizes * costs.passage, KEPT_PASSAGES * costs.passage)
    assert job.retrieve is not None
    block = job.retrieve.block

    nowhere = Path("nowhere")
    asked = AskedQuestions.cut(nowhere, Part("asked", questions, 0, ""), block)
    nothing = Folder(nowhere, SHARD_FOLDER)
    step = Step(nowhere, RETRIEVE, {}, {})

    for turn in plan(asked, RunShards(job, nothing, len(shards)), job.retrieve, step):
        yield Stage(
            "retrieve", np.array(turn.sizes, float) * costs.of_pass(turn.label, passages, len(shards))
        )

    blocks = np.array([min(block, questions - first) for first in range(0, questions, block)], float)
    hits = costs.question * KEPT_PASSAGES / (2 * job.retrieve.depth)  # seconds of a group's passages
    yield Stage("rerank", blocks * costs.question, hits)


def simulated(stages: Sequence[Stage], load: float, workers: Workers, seed: int) -> dict[str, Elapsed]:
    """Step → its time; a step is a job that is submitted, and whose workers start."""
    random = np.random.default_rng(seed)
    total: dict[str, Elapsed] = {}
    for stage in stages:
        elapsed = simulate(stage.units, stage.keeps, workers, random)
        before = total.get(stage.step, Elapsed(SUBMIT + load, 0, 0))
        total[stage.step] = Elapsed(
            before.seconds + elapsed.seconds,
            before.worked + elapsed.worked,
            before.restarts + elapsed.restarts,
        )
    return total


def figures(
    name: str, stages: Sequence[Stage], costs: Costs, workers: Workers, rounds: int, price: float
) -> dict[str, Any]:
    """Keys of the result for one size of shards."""

    def hours(cluster: Workers) -> tuple[dict[str, float], float, float]:
        runs = [simulated(stages, costs.load, cluster, seed) for seed in range(rounds)]
        steps = {step: statistics.median(run[step].seconds for run in runs) / 3600 for step in STEPS}
        worked = statistics.median(sum(step.worked for step in run.values()) for run in runs) / 3600
        return steps, worked, statistics.median(sum(step.restarts for step in run.values()) for run in runs)

    steps, worked, restarts = hours(workers)
    whole = sum(steps.values())
    calm, _, _ = hours(replace(workers, slow=0, failures=0))
    free, _, _ = hours(replace(workers, handing_out="when free"))
    result: dict[str, Any] = {f"hours_{step}_{name}": taken for step, taken in steps.items()}
    for step in STEPS:
        units = np.concatenate([stage.units for stage in stages if stage.step == step])
        result |= {f"units_{step}_{name}": len(units), f"longest_{step}_{name}": float(units.max()) / 3600}

    return result | {
        f"hours_{name}": whole,
        f"even_{name}": sum(float(stage.units.sum()) for stage in stages) / workers.number / 3600,
        f"dollars_{name}": whole * workers.number * price,
        f"busy_{name}": worked / (whole * workers.number),
        f"restarts_{name}": restarts,
        f"hours_calm_{name}": sum(calm.values()),
        f"hours_free_{name}": sum(free.values()),
    }


def main() -> None:
    numbers = {
        "passages": "130,000,000 if absent",
        "questions": "100,000 if absent",
        "workers": "100 if absent",
        "price": "dollars for a core and hour; 0.05 if absent",
    }
    options: argparse.Namespace = arguments("cluster", __doc__ or "", needs_data=False, numbers=numbers)
    passages, questions = int(options.passages or 130_000_000), int(options.questions or 100_000)
    if options.smoke:
        shrink(globals(), SMALL=10, LARGE=20, ASKED=16, SCANS=1, COPIES=1)
        passages, questions = 50_000, 500

    measured = model_costs(options.smoke)
    passes, line = search_costs()
    costs = Costs(passes=passes, search=line, merge=merge_cost(), **measured)
    say(f"{costs}")
    result: dict[str, Any] = {
        "passages": passages,
        "questions": questions,
        "workers": int(options.workers or 100),
        "price": float(options.price or 0.05),
        "ms_page": 1000 * costs.page,
        "passages_per_page": costs.passages_per_page,
        "ms_passage": 1000 * costs.passage,
        "ms_question": 1000 * costs.question,
        "load_s": costs.load,
        "ms_search_1m": 1000 * (line[0] + 1_000_000 * line[1]),
    }
    workers = Workers(result["workers"], slow=0.05, slowness=2, failures=1 / 200, restart=RESTART)

    with tempfile.TemporaryDirectory() as name:
        job = load(copy_to(Path(name)))
    for size, per_shard in SIZES.items():
        stages = list(schedule(passages, questions, per_shard, costs, job))
        result |= figures(size, stages, costs, workers, max(options.rounds, 1), result["price"])
        say(f"{size}: {result[f'hours_{size}']:.1f} hours, {result[f'dollars_{size}']:,.0f} dollars")

    finish("cluster", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
