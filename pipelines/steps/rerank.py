"""Rerank: retrieved passages in; scored candidates out, one row for each with its whole history, and the best answers.

A part of retrieved/ is one unit of work: whole lists of some questions, so that list-wise rerankers see what they need.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import apache_beam as beam

from indexing.shards.dense import find_model
from pipelines.config.job_file import Job, Rerank
from pipelines.errors import SETTINGS, JobError
from pipelines.execution.parquet_folder import Folder, Part, PartWriter, read_batches, read_part
from pipelines.execution.runner import carry
from pipelines.execution.step import Report, Step, total
from pipelines.steps import sentence_codes
from pipelines.steps.model_digests import encoder_inputs, encoder_settings
from pipelines.steps.models import device_of, passage_encoder, use_threads
from ranking.plan import Stage, check_plan, run_stages, scores_before
from ranking.registry import find
from ranking.reranker import Costed, Resources
from schemas.atomic_files import write_text
from schemas.corpus import Document, Question
from schemas.ranked import Candidate, Hit, RankedList, ScoredCandidate
from schemas.record import Record

OUTPUTS: Mapping[str, type[Record]] = {"scored": ScoredCandidate}
ANSWERS = "answers.jsonl"
FATES = ("kept", "grouped", "dropped")
REVISION = 1
"""Raised when the step's code changes so that the same input gives another output."""


def plan_settings(job: Job) -> Rerank:
    """The job's plan, checked. Raises JobError (78) if its stages do not fit one another."""
    if job.rerank is None:
        raise JobError("the job has no [rerank] section; add one with [[rerank.stages]]", SETTINGS)
    stages = job.rerank.stages
    try:
        check_plan([(stage.key, find(stage.reranker).reranker, stage.keep) for stage in stages])
        scores_before(stages)
    except ValueError as e:
        raise JobError(str(e), SETTINGS) from e
    return job.rerank


def load_stages(job: Job, encoder: Callable[[], Any], run: Path | None = None) -> list[Stage]:
    """The plan with its models loaded; with `run` the codes in its shards, whose checksums were compared before.

    Raises JobError (78) with the stage if a checkpoint is missing or unusable.
    """
    stages = plan_settings(job).stages
    device = device_of(job.workers.device)
    plan = []
    for n, (stage, scores) in enumerate(zip(stages, scores_before(stages), strict=True)):
        try:
            folder = sentence_codes.checkpoint_folder(job, stage)
            codes = sentence_codes.stored(job, stage, run, verify=False) if run else None
            entry = find(stage.reranker)
            allowed = encoder if entry.uses_encoder else _no_encoder
            resources = Resources(stage, folder, allowed, find_model, device, scores, codes)
            plan.append(Stage(stage.key, entry.load(resources), stage.keep))
        except ValueError as e:
            raise JobError(f"rerank.stages.{n}: {e}", SETTINGS) from e
    return plan


def _no_encoder() -> Any:
    raise RuntimeError("this reranker asks for the job's encoder: its registry entry must say `uses_encoder=True`")


def check_stages(job: Job) -> None:
    """Load every stage's reranker here, before any worker does; the dense encoder is only looked for.

    Raises JobError (78) if a checkpoint is missing or unusable, ModelMissing if the encoder is needed and cannot be had.
    """

    def look() -> Any:
        for name in (job.index.encoder, job.index.question_encoder):
            if name is not None:
                find_model(name)

    load_stages(job, look)


def checkpoint_digests(job: Job) -> dict[str, str]:
    """Stage → digest of its checkpoint's content, for the stages that have one: trained again, it is another input.

    Raises JobError (78) as `load_stages`.
    """
    digests = {}
    for n, stage in enumerate(plan_settings(job).stages):
        try:
            digests[f"checkpoint of {stage.key}"] = sentence_codes.checkpoint_digest(job, stage)
        except ValueError as e:
            raise JobError(f"rerank.stages.{n}: {e}", SETTINGS) from e
    return {key: digest for key, digest in digests.items() if digest is not None}


def step(job: Job, run: Path) -> Step:
    """The rerank step of a run. Raises JobError where retrieved/ is missing."""
    retrieved = Folder.open(run / "retrieved", Hit, "retrieve")
    plan = plan_settings(job)
    settings, inputs = plan.model_dump(), {"retrieved": retrieved.digest(), **checkpoint_digests(job)}
    if any(find(stage.reranker).uses_encoder for stage in plan.stages):
        settings["encoder"] = encoder_settings(job)
        inputs |= encoder_inputs(job)
    return Step(run, "rerank", OUTPUTS, settings, inputs, REVISION)


def rerank(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; returns its summary line."""
    this = step(job, run)
    if this.is_complete():
        if not (run / ANSWERS).is_file():
            write_answers(run, Folder.open(run / "scored", ScoredCandidate, "rerank").parts)
        return summary(run) + " (complete)"
    this.begin()
    retrieved = Folder.open(run / "retrieved", Hit, "retrieve")
    done = this.reports.read()
    sentence_codes.check(job, run)
    left = [(n, part) for n, part in enumerate(retrieved.parts) if n not in done]
    carry(this, left, len(retrieved.parts), RunStages(job, retrieved.path, this), beam_options, job.workers.processes)
    reports = this.reports.read()
    counts = total(reports.values())
    if counts["candidates"] != sum(counts[fate] for fate in FATES):
        raise RuntimeError(f"{counts['candidates']} rows, but " + " + ".join(f"{counts[fate]} {fate}" for fate in FATES))
    write_answers(run, [report.parts["scored"] for report in reports.values()])
    this.finish(reports.values(), counts | per_question(counts))
    return summary(run)


def per_question(counts: Mapping[str, int]) -> dict[str, int]:
    """What the stages that account for their work spent on the mean question: layers × candidates and × tokens, and time."""
    questions = max(1, counts["questions"])
    made = {
        f"{key}_per_question": round(spent / questions)
        for key, spent in counts.items()
        if key.endswith(("layer_candidates", "layer_tokens"))
    }
    for key, spent in counts.items():
        if key.endswith("_milliseconds"):
            made[f"{key.removesuffix('_milliseconds')}_microseconds_per_question"] = round(1000 * spent / questions)
    return made


class RunStages(beam.DoFn):
    """A part of retrieved hits → a part of scored candidates; and the unit's report."""

    def __init__(self, job: Job, folder: Path, this: Step) -> None:
        self._job, self._folder, self._step = job, folder, this

    def setup(self) -> None:
        use_threads()
        self._plan = load_plan(self._job, self._step.run)

    def process(self, element: tuple[int, Part]) -> None:
        unit, part = element
        rerank_part(unit, part, self._folder, self._plan, self._step)


def load_plan(job: Job, run: Path | None = None) -> list[Stage]:
    """The plan with its models loaded, the encoder if a stage calls for it; `run`: whose shards may hold codes."""
    loaded: list[Any] = []

    def encoder() -> Any:
        if not loaded:
            loaded.append(passage_encoder(job))
        return loaded[0]

    return load_stages(job, encoder, run)


def rerank_part(unit: int, part: Part, folder: Path, plan: Sequence[Stage], this: Step) -> None:
    """Run the plan over one part's lists, write all candidates, report."""
    lists = list(ranked_lists(read_part(folder, part, Hit)))
    outcomes = run_stages(lists, plan)
    writer = PartWriter(this.run / "scored", ScoredCandidate, unit)
    with writer:
        for outcome in outcomes:
            writer.write(outcome.rows())
    counts = {
        "questions": len(lists),
        "passages": sum(len(ranked.candidates) for ranked in lists),
        "candidates": writer.part.rows,
        "kept": sum(len(outcome.kept.candidates) for outcome in outcomes),
        "grouped": sum(departure.dropped_by is None for outcome in outcomes for departure in outcome.left),
        "dropped": sum(departure.dropped_by is not None for outcome in outcomes for departure in outcome.left),
    }
    for stage in plan:
        if isinstance(stage.reranker, Costed):
            counts |= {f"{stage.name}_{what}": spent for what, spent in stage.reranker.costs().items()}
    this.reports.write(Report(unit, {"scored": writer.part}, counts))


def ranked_lists(hits: Iterator[Hit]) -> Iterator[RankedList]:
    """Hits, in the order of question and rank, as one ranked list of passages per question."""
    for (question_id, text), group in groupby(hits, key=lambda hit: (hit.question_id, hit.question)):
        yield RankedList(Question(question_id, text), tuple(Candidate(hit, None, position=hit.rank - 1) for hit in group))


def write_answers(run: Path, parts: Sequence[Part]) -> None:
    """answers.jsonl, for people: the best candidate per question, with its page and its place in the crawl.

    A line per question, in the questions' order; `answer` is null where nothing was retrieved, or all of it dropped.
    """
    columns = [
        "question_id",
        "unit",
        "candidate_id",
        "passage_id",
        "doc_id",
        "url",
        "title",
        "start",
        "end",
        "text",
        "rank",
        "stages",
    ]
    best: dict[str, dict[str, Any]] = {}
    for part in parts:
        for batch in read_batches(run / "scored", part, columns):
            best.update({row["question_id"]: row for row in batch.to_pylist() if row["rank"] == 1})
    pages = _places(run, {row["doc_id"] for row in best.values()})
    lines = []
    for question in Folder.open(run / "questions", Question, "retrieve").read():
        row = best.get(question.question_id)
        answer: dict[str, Any] = {"question_id": question.question_id, "question": question.text, "answer": None}
        if row is not None:
            answer |= {
                "answer": row["text"],
                "unit": row["unit"],
                "score": row["stages"][-1]["score"] if row["stages"] else None,
            }
            answer |= {key: row[key] for key in ("title", "url", "candidate_id", "passage_id", "doc_id", "start", "end")}
            answer |= pages.get(row["doc_id"], {})
        lines.append(json.dumps(answer, ensure_ascii=False) + "\n")
    write_text(run / ANSWERS, "".join(lines))


def _places(run: Path, doc_ids: set[str]) -> dict[str, dict[str, Any]]:
    """Where the documents stand in the crawl, by doc_id; only ids and places are read, no text."""
    folder = Folder.open(run / "documents", Document, "ingest")
    columns = ["source_file", "source_offset", "source_record"]
    places = {}
    for part in folder.parts:
        for batch in read_batches(folder.path, part, ["doc_id", *columns], rows=8_192):
            ids = batch.column("doc_id").to_pylist()
            wanted = [row for row, doc_id in enumerate(ids) if doc_id in doc_ids]
            places.update({ids[row]: {name: batch.column(name)[row].as_py() for name in columns} for row in wanted})
    return places


def summary(run: Path) -> str:
    """One line for people, from the manifest."""
    counts = Folder.open(run / "scored", ScoredCandidate, "rerank").manifest.counts
    costs = ""
    for key in counts:
        if key.endswith("_milliseconds"):
            stage = key.removesuffix("_milliseconds")
            took, all_layers = counts.get(f"{stage}_layer_tokens", 0), counts.get(f"{stage}_full_layer_tokens")
            share = f" took {took / all_layers:.0%} of all layers × tokens," if all_layers else ""
            each = counts[f"{stage}_microseconds_per_question"] / 1000
            costs += f"; {stage}{share} {counts[key] / 1000:,.1f} s, {each:,.1f} ms a question"
    fates = " + ".join(f"{counts[fate]:,} {fate}" for fate in FATES if counts[fate] or fate != "grouped")
    return (
        f"rerank     {counts['questions']:,} questions, {counts['passages']:,} passages; {counts['candidates']:,} candidates = "
        f"{fates}{costs}; best answers in {ANSWERS}"
    )
