"""Estimate of a larger cluster: the steps' real units, costs measured here, and workers that are slow or die.

--passages (130,000,000), --questions (100,000) and --workers (100, of one core) at --price dollars (0.05) for
a core and hour are cut into units by the project's own code, for three DESIGNS of the index: the default
encoder, a static one learnt from it, and that in shards of a million passages; all are exact. Units cost what
their pages, passages and questions cost on one core here: `ingest` and `rerank` in the sample job, `index`
and `retrieve` over passages of drawn sentences of `corpus-wiki`, asked questions of Natural Questions; the
cost of searching a shard is a line in its passages, through shards of SMALL and LARGE. Then simulation.py
hands the units to workers, of which 5 % take twice as long; a worker dies once in 200 hours, and the job
begins again after a minute. Medians of --rounds seeds.

`hours_STEP_DESIGN`, `dollars_DESIGN`; `units_...`: units of work; `longest_...`: hours of the longest unit;
`even_...`: hours if all workers had the same share of the work, and none was slow or died; `busy_...`: the
share of the paid hours in which workers do units; `hours_calm_...`: hours if no worker is slow or dies;
`hours_free_...`: hours if a free worker takes the next unit. Reading and writing an object store costs
nothing here.

Keys `web_...` are of WEB_PAGES pages and as many questions, by the static encoder in shards of a million:
`web_core_hours_STEP`, `web_dollars`, and `web_terabytes_...` of what `ingest` and `index` write, at the bytes
that a passage takes here, whose vector is `web_terabytes_vectors`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.runs.manifests.manifest import Part
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.index import SHARDS as SHARD_FOLDER
from answermill.pipelines.specs.retrieve import RETRIEVE
from answermill.pipelines.steps.index.shard_ranges import ranges
from answermill.pipelines.steps.rerank.question_groups import PASSAGES as KEPT_PASSAGES
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.retrieve import plan
from answermill.schemas.arrays import Floats
from experiments import cluster_costs
from experiments.cluster_costs import STEPS, Costs, all_costs
from experiments.simulation import Elapsed, Workers, simulate
from testing.harness import arguments, finish, say, shrink

TAKES = "ten minutes; [--workers N]; [--price DOLLARS]"
MEASURED_MODELS = ("cascade", "cosinet")
DECIDED = "Nothing ships by it."

DESIGNS = {"default": ("default", 0), "static": ("static", 0), "static_1m": ("static", 1_000_000)}
"""Name of a design → its encoder, and `index.passages_per_shard`."""
WEB_PAGES = 3_000_000_000
PAGES_PER_FILE, SUBMIT, RESTART = 35_000, 15.0, 60.0
"""Pages of a WARC file of CommonCrawl; seconds until an engine has accepted a job; seconds until it works
again after a failure."""
WIDTH = 384
"""Numbers of a vector."""


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


def web(questions: int, costs: Costs, written: dict[str, float], job: Job, price: float) -> dict[str, float]:
    """Keys of the result for the pages of the web, if all workers have the same share of the work."""
    passages = round(WEB_PAGES * costs.passages_per_page)
    hours = defaultdict[str, float](float)
    for stage in schedule(passages, questions, 1_000_000, costs, job):
        hours[stage.step] += float(stage.units.sum()) / 3600
    result = {f"web_core_hours_{step}": taken for step, taken in hours.items()}
    result |= {f"web_terabytes_{step}": passages * size / 1e12 for step, size in written.items()}
    return result | {
        "web_pages": WEB_PAGES,
        "web_passages": passages,
        "web_shards": len(ranges(passages, 0, 1_000_000)),
        "web_terabytes_vectors": passages * 4 * WIDTH / 1e12,
        "web_dollars": sum(hours.values()) * price,
    }


def main() -> None:
    numbers = {
        "passages": "130,000,000 if absent",
        "questions": "100,000 if absent",
        "workers": "100 if absent",
        "price": "dollars for a core and hour; 0.05 if absent",
    }
    options: argparse.Namespace = arguments("cluster", __doc__ or "", numbers=numbers)
    passages, questions = int(options.passages or 130_000_000), int(options.questions or 100_000)
    if options.smoke:
        shrink(vars(cluster_costs), LESSON=200, SMALL=10, LARGE=20, ASKED=16, COPIES=1)
        passages, questions = 50_000, 500

    costs, written = all_costs(options.data, options.smoke)
    say(f"{costs}")
    static = costs["static"]
    result: dict[str, Any] = {
        "passages": passages,
        "questions": questions,
        "workers": int(options.workers or 100),
        "price": float(options.price or 0.05),
        "ms_page": 1000 * static.page,
        "passages_per_page": static.passages_per_page,
        "ms_question": 1000 * static.question,
        "load_s": static.load,
        "ms_search_1m": 1000 * (static.search[0] + 1_000_000 * static.search[1]),
    }
    result |= {f"ms_passage_{name}": 1000 * own.passage for name, own in costs.items()}
    result |= {f"bytes_{step}": bytes_of_passage for step, bytes_of_passage in written.items()}
    workers = Workers(result["workers"], slow=0.05, slowness=2, failures=1 / 200, restart=RESTART)

    with tempfile.TemporaryDirectory() as name:
        job = load(copy_to(Path(name)))
    for design, (encoder, per_shard) in DESIGNS.items():
        stages = list(schedule(passages, questions, per_shard, costs[encoder], job))
        rounds = max(options.rounds, 1)
        result |= figures(design, stages, costs[encoder], workers, rounds, result["price"])
        say(f"{design}: {result[f'hours_{design}']:.1f} hours, {result[f'dollars_{design}']:,.0f} dollars")

    result |= web(questions, static, written, job, result["price"])
    finish("cluster", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
