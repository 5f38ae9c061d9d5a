"""What a whole job will take: the counts of a sample, scaled to the input, times what each item costs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import BAD_DATA, JobError, counted
from answermill.pipelines.look.estimate.rates import ROWS_OF, Rates, Volumes
from answermill.pipelines.steps.index.shard_ranges import ranges

PLAN = "plan.json"
VECTOR_BYTES = 4
ASSUMED = (
    "pages of the whole input are like those that were drawn, and no more of them are duplicates",
    "every index returns as much for a question, and the two agree as much, as in the sample's fifth of its passages",
    "a worker has a core to itself, as fast as the one that measured; reading the input and a store's network cost nothing",
    "BM25's search of a shard costs what it costs in the sample's; stages cost the same for each candidate that comes in",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will take. Seconds are of the processor, of one core; hours are those of the clock, on `workers` of them."""

    counts: dict[str, int]
    """pages, documents, passages, shards, questions, hits, candidates, and layer_tokens."""
    seconds: dict[str, float]
    """Step → all workers' seconds."""
    hours: dict[str, float]
    stage_seconds: dict[str, float]
    """Of rerank."""
    bytes: dict[str, int]
    """Folder → its size."""
    workers: int
    worker_bytes: int
    """Memory of a worker at its largest."""
    machine: str
    """That the rates are of."""
    drawn: int
    """Pages of the sample on which the steps ran."""
    assumptions: list[str]
    dollars: float | None = None

    def lines(self) -> Iterator[str]:
        """For people."""
        for name, count in self.counts.items():
            yield f"{name.replace('_', ' × ') if name == 'layer_tokens' else name:<16}{count:>18,}"
        yield ""
        yield f"{'step':<16}{'all workers':>14}{'by the clock':>14}"
        for step, seconds in self.seconds.items():
            yield f"{step:<16}{_time(seconds):>14}{_time(3600 * self.hours[step]):>14}"
            if step == "rerank":
                yield from (f"  {stage:<14}{_time(taken):>14}" for stage, taken in self.stage_seconds.items())
        yield f"{'all':<16}{_time(sum(self.seconds.values())):>14}{_time(3600 * sum(self.hours.values())):>14}"
        yield ""
        for folder, size in self.bytes.items():
            yield f"{folder + '/':<16}{size / 1e6:>15,.1f} MB"
        yield f"{'all':<16}{sum(self.bytes.values()) / 1e6:>15,.1f} MB"
        yield ""
        memory = f"{self.worker_bytes / 1e9:,.1f} GB of memory"
        yield f"{counted(self.workers, 'worker')}, {memory} each, as fast as {self.machine}"
        if self.dollars is not None:
            yield f"price: {self.dollars:,.2f} for {sum(self.hours.values()):,.3f} hours"
        yield f"drawn: {self.drawn} pages. Assumed:"
        yield from (f"- {clause}" for clause in self.assumptions)

    def save(self, run: Path) -> None:
        """Write it into the run folder, where it can be compared with what came."""
        run.mkdir(parents=True, exist_ok=True)
        write_text(run / PLAN, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, run: Path) -> Plan | None:
        """The plan of a run; None if it has none. Raises JobError (65) if the file is none that `save` wrote."""
        try:
            return read_json(run / PLAN, cls)
        except FileNotFoundError:
            return None
        except WrongShape as e:
            raise JobError(f"{e}; `answermill plan JOB.toml --out {run}` writes it again", BAD_DATA) from e


@dataclass(frozen=True, slots=True)
class Size:
    """How large the whole job is."""

    files: int
    pages: int
    readable: int
    """Of the pages those that reading does not refuse."""
    questions: int
    peak_bytes: int
    """Memory of the process that measured, at its largest."""


def predict(job: Job, size: Size, volumes: Volumes, rates: Rates, price_per_hour: float | None = None) -> Plan:
    """What the job will take, as a sample of its input became `volumes`."""
    passages = round(size.readable * volumes.passages / max(1, volumes.pages))
    counts = {
        "pages": size.pages,
        "documents": round(size.readable * volumes.documents / max(1, volumes.pages)),
        "passages": passages,
    }
    seconds = {"ingest": size.readable * rates.page}
    units = {"ingest": size.files}
    stages: dict[str, float] = {}
    if job.retrieve is not None:
        shards = len(ranges(passages, job.index.shards, job.index.passages_per_shard))
        hits = round(size.questions * _hits(job.retrieve.depth, passages, volumes))
        counts |= {"shards": shards, "questions": size.questions, "hits": hits}
        seconds["index"] = passages * rates.passage
        larger = max(0, passages - volumes.indexed) * ("dense" in job.retrieve.sources)
        of_question = rates.question + (shards - 1) * rates.question_shard + larger * rates.question_vector
        seconds["retrieve"] = size.questions * of_question
        units |= {"index": shards, "retrieve": shards}
        if job.rerank is not None:
            came = _came(job, hits / max(1, size.questions), volumes)
            stages = {name: size.questions * came[name] * rates.candidate.get(name, 0.0) for name in came}
            seconds["rerank"] = sum(stages.values())
            units["rerank"] = -(-size.questions // job.retrieve.block)
            rows = volumes.counts["candidates"] / max(1, volumes.hits)
            counts |= {"candidates": round(hits * rows), "layer_tokens": round(size.questions * _layer_tokens(came, volumes))}
    workers = job.workers.processes or os.cpu_count() or 1
    hours = {step: _hours(taken, rates.startup.get(step, 0.0), min(workers, units[step])) for step, taken in seconds.items()}
    seconds = {step: taken + rates.startup.get(step, 0.0) * min(workers, units[step]) for step, taken in seconds.items()}
    per_shard = -(-passages // counts.get("shards", 1))
    return Plan(
        counts=counts,
        seconds=seconds,
        hours=hours,
        stage_seconds=stages,
        bytes=_bytes(counts, volumes, {**units, "retrieve": units.get("rerank", units.get("retrieve", 1))}),
        workers=workers,
        worker_bytes=size.peak_bytes + per_shard * volumes.dimension * VECTOR_BYTES,
        machine=rates.machine,
        drawn=volumes.pages,
        assumptions=list(ASSUMED),
        dollars=None if price_per_hour is None else price_per_hour * sum(hours.values()),
    )


def _hours(seconds: float, startup: float, workers: int) -> float:
    return (startup + seconds / max(1, workers)) / 3600


def _hits(depth: int, passages: int, volumes: Volumes) -> float:
    """Passages that a question finds in the whole corpus."""
    most = min(depth, passages)
    asked = max(1, volumes.questions * min(volumes.depth, volumes.indexed))
    bm25, dense = most * volumes.bm25 / asked, most * volumes.dense / asked
    return bm25 + dense - volumes.overlap * min(bm25, dense)


def _came(job: Job, hits: float, volumes: Volumes) -> dict[str, float]:
    """Stage → candidates of a question that come into it, where `hits` passages come into the first."""
    assert job.rerank is not None
    counts, questions = volumes.counts, max(1, volumes.questions)
    came: dict[str, float] = {}
    left, left_there = hits, volumes.hits / questions
    for stage in job.rerank.stages:
        there, out_there = counts.get(f"{stage.key}_in", 0) / questions, counts.get(f"{stage.key}_out", 0) / questions
        came[stage.key] = left * there / left_there if left_there else 0.0  # passages become sentences, and sentences passages
        ratio = came[stage.key] / there if there else 0.0
        left = out_there * ratio
        if stage.keep is not None:
            left = min(left, stage.keep) if out_there < stage.keep else out_there
        left_there = out_there
    return came


def _layer_tokens(came: Mapping[str, float], volumes: Volumes) -> float:
    """Layers × tokens of a question."""
    counts = volumes.counts
    return sum(came[name] * counts.get(f"{name}_layer_tokens", 0) / max(1, counts.get(f"{name}_in", 0)) for name in came)


def _bytes(counts: Mapping[str, int], volumes: Volumes, parts: Mapping[str, int]) -> dict[str, int]:
    """Folder → its size: in proportion to what it has a row for, and what each of its parts has without one."""
    rows = {**counts, "rejects": counts["pages"] - counts["documents"]}
    sizes = {}
    for folder, of_row in volumes.row_bytes.items():
        step, item = ROWS_OF[folder]
        sizes[folder] = round(of_row * rows[item] + volumes.part_bytes.get(folder, 0.0) * parts[step])
    return sizes


def _time(seconds: float) -> str:
    """'24.0 s', '3.5 min' or '12.4 h'."""
    if seconds < 120:
        return f"{seconds:,.1f} s"
    return f"{seconds / 60:,.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def compared(plan: Plan, actual: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Name → (predicted, actual) of what both have: counts by their names, 'bytes of FOLDER' and 'seconds of STEP'."""
    predicted: dict[str, float] = dict(plan.counts)
    predicted |= {f"bytes of {folder}": size for folder, size in plan.bytes.items()}
    predicted |= {f"seconds of {step}": seconds for step, seconds in plan.seconds.items()}
    return {name: (value, actual[name]) for name, value in predicted.items() if name in actual}
