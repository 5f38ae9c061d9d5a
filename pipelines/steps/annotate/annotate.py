"""Annotate: scored sentences in; the tasks that people judge, and packs of them for annotation tools, out
(WQA §3.2, §3.3).

A part of scored/ is one unit of work: whole lists of some questions, whose passages are in the part of
retrieved/ with the same number. tasks/ has each question's tasks together, in the order in which packs show
them. A further batch is the same in another folder: all tasks that its settings choose, and packs of
those that no earlier batch has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from answermill.pipelines.config.caps import Caps, Source
from answermill.pipelines.config.job_file import Annotate, Job
from answermill.pipelines.config.step_code import StepCode
from answermill.pipelines.data.annotation_tools import find_tool
from answermill.pipelines.data.inputs.columns import Columns
from answermill.pipelines.engine.protocol import Engine
from answermill.pipelines.engine.runner import carry, define
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, SETTINGS, JobError, counted, setting_error
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Folder, Part, read_batches
from answermill.pipelines.runs.spec import BATCHES
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.annotate import (
    ANNOTATE,
    PACKS,
    STRATA,
    TASKS,
    AnnotateCounts,
)
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.annotate import packs
from answermill.pipelines.steps.annotate.known_labels import KnownLabels
from answermill.pipelines.steps.annotate.run_packs import (
    read_guidelines,
    refuse_other_packs,
    text_digest,
    write_packs,
)
from answermill.pipelines.steps.annotate.sampling import SampledSentence, SamplingRules, choose, draw
from answermill.ranking.rerankers.registry import find
from answermill.schemas.annotation import Task
from answermill.schemas.ranked import Hit, ScoredCandidate


def settings_of(job: Job) -> Annotate:
    """The job's [annotate]; its defaults if the job has none."""
    return job.annotate or Annotate()


def controls_file(job: Job) -> Path | None:
    path = settings_of(job).controls
    return None if path is None else job.path(path)


def place_of(job: Job, run: Path) -> Path:
    """The folder of the batch's tasks/ and packs/."""
    return ANNOTATE.place(run, settings_of(job).batch)


def known_labels(job: Job) -> KnownLabels:
    """The controls of the job. Raises JobError as `KnownLabels`."""
    return KnownLabels(controls_file(job), Columns.of(settings_of(job).columns, "annotate.columns"))


def check(job: Job, run: Path) -> None:
    """Raises JobError: 78 if the plan ends in passages, 65 or 66 if a file that [annotate] names, or an
    earlier batch, is missing or unusable, 73 if the tasks are there and packs/ is of another job."""
    last = job.rerank.stages[-1] if job.rerank is not None else None
    if last is not None and find(last.reranker).reranker_of(last).writes != "sentence":
        raise JobError(
            f"rerank.stages: the plan ends in passages ({last.reranker}), people judge "
            "sentences; "
            "let it end with a reranker of sentences, or with peasi.easi",
            SETTINGS,
        )

    settings = settings_of(job)
    for tool in settings.tools or ():
        try:
            find_tool(tool)
        except ValueError as e:
            raise setting_error(e, "annotate.tools") from e

    known_labels(job)
    read_guidelines(job, settings)
    if settings.since is not None:
        TASKS.open(job.path(settings.since))

    for batch in range(1, settings.batch):
        if TASKS.manifest(ANNOTATE.place(run, batch)) is None:
            raise JobError(
                f"annotate.batch = {settings.batch}: the tasks of batch {batch} are not in {run} yet; make "
                "them first",
                INPUT_MISSING,
            )

    # Before anything runs or is removed: tasks that are there stay, so their packs must be this job's.
    if _are_made(job, run):
        refuse_other_packs(job, settings, run)


def _are_made(job: Job, run: Path) -> bool:
    """True if the tasks of this job are complete; False too where a manifest is damaged, since the step then
    makes them again."""
    with suppress(JobError):
        tasks = TASKS.manifest(place_of(job, run))
        is_scored = all((folder.path(run) / MANIFEST).exists() for folder in (SCORED, RETRIEVED))
        return tasks is not None and is_scored and tasks.fingerprint == annotate_step(job, run).fingerprint()
    return False


def annotate_step(job: Job, run: Path) -> Step[AnnotateCounts]:
    """The annotate step of a run. Raises JobError if scored/, retrieved/ or the controls are missing."""
    inputs = {
        "scored": SCORED.open(run).digest(),
        "retrieved": RETRIEVED.open(run).digest(),
    }
    decisive = {"top", "random", "annotators", "overlap_share", "seed", *Caps.model_fields}
    if (controls := controls_file(job)) is not None:
        known_labels(job)
        inputs["controls"] = Columns.of(settings_of(job).columns).digest(controls)
        decisive.add("control_share")
    return Step(place_of(job, run), ANNOTATE, settings_of(job).model_dump(include=decisive), inputs)


def annotate(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Make the tasks and their packs, unless they exist; return the summary line.

    Raises JobError (73) if packs/ holds packs of other tasks or settings: people may have filled them in.
    """
    check(job, run)
    step = annotate_step(job, run)
    if not (complete := Commit(step).is_complete()):
        make_tasks(job, run, step, beam_options)
    new_packs = write_packs(job, settings_of(job), run)
    return summary(run, settings_of(job).batch) + (" (complete)" if complete and not new_packs else "")


def make_tasks(job: Job, run: Path, step: Step[AnnotateCounts], beam_options: Sequence[str]) -> None:
    """Write the step's tasks/ from all parts of the run's scored/."""
    commit = Commit(step)
    commit.begin(job.workers)
    scored = SCORED.open(run)
    retrieved = RETRIEVED.open(run)
    if len(scored.parts) != len(retrieved.parts):
        raise RuntimeError(
            f"{len(scored.parts)} parts in {scored.path}, {len(retrieved.parts)} in {retrieved.path}"
        )

    work = _work(job, run, step)
    outcome = carry(step, len(scored.parts), work, beam_options, job.workers.processes)
    counts = outcome.counts
    if scored.rows != counts.sentences + counts.passages:
        raise RuntimeError(f"{scored.rows} candidates came in; made of them: {counts}")
    if not counts.tasks:
        raise JobError(
            f"{scored.path}: no sentence among its {scored.rows} candidates; people judge sentences", BAD_DATA
        )

    if (controls := controls_file(job)) is not None:
        labels_given = known_labels(job).count
        if not counts.controls_found:
            given_labels = counted(labels_given, "label")
            problem = f"of its {given_labels} none is of a sentence that was scored for its question"
            raise JobError(f"annotate.controls: {controls}: {problem}", BAD_DATA)
        not_found = labels_given - counts.controls_found
        outcome.counts = replace(counts, controls_given=labels_given, controls_not_found=not_found)

    commit.finish(outcome)


def _work(job: Job, run: Path, step: Step[AnnotateCounts]) -> TaskPart:
    return TaskPart(job, SCORED.open(run), RETRIEVED.open(run), step)


def join(job: Job, run: Path, _block: str, engine: Engine) -> None:
    """Do a machine's share of the units."""
    step = annotate_step(job, run)
    define(engine, step, len(SCORED.open(run).parts), _work(job, run, step))


class TaskPart(UnitWork):
    """A part of scored candidates, and the part of hits they come from → a part of tasks."""

    def __init__(
        self, job: Job, scored: Folder[ScoredCandidate], retrieved: Folder[Hit], step: Step[AnnotateCounts]
    ) -> None:
        super().__init__(step.name, step.work, AnnotateCounts)
        self._job, self._scored, self._retrieved, self._step = job, scored, retrieved, step

    def load(self) -> None:
        self._known = known_labels(self._job)

    def work(self, unit: int) -> None:
        settings = settings_of(self._job)
        write_part(unit, self._scored, self._retrieved, self._step, settings=settings, known=self._known)


def write_part(
    unit: int,
    scored: Folder[ScoredCandidate],
    retrieved: Folder[Hit],
    step: Step[AnnotateCounts],
    *,
    settings: Annotate,
    known: KnownLabels,
) -> None:
    """Choose the tasks of the questions of part number `unit`, show each in its passage, write them,
    report."""
    counts: Counter[str] = Counter()
    rules = SamplingRules(settings.top, settings.random, settings.control_share, settings.seed)
    chosen: list[tuple[dict[str, Any], SampledSentence]] = []
    rows_of_part = _scored_rows(scored.path, scored.parts[unit])

    for question_id, rows in groupby(rows_of_part, key=itemgetter("question_id")):
        candidates = list(rows)
        sentences = [row for row in candidates if row["unit"] == "sentence"]
        counts["questions"] += 1
        counts["passages"] += len(candidates) - len(sentences)
        counts["sentences"] += len(sentences)
        labels = known.find(question_id, {row["candidate_id"]: row["text"] for row in sentences})
        counts["controls_found"] += len({label.number for label in labels.values()})
        expected = {sentence_id: label.label for sentence_id, label in labels.items()}
        top = None
        if settings.has_any:
            sources = [Source.of(row["url"], row["doc_id"]) for row in sentences]
            top = settings.choose(sources, settings.top)
        selection = choose(question_id, [row["candidate_id"] for row in sentences], expected, rules, top)
        chosen += [(sentences[sampled.number], sampled) for sampled in selection]

    keys = {(row["question_id"], row["passage_id"]) for row, _ in chosen}
    shown = _passages(retrieved.path, retrieved.parts[unit], keys)

    with TASKS.writer(step.run, unit) as writer:
        for row, sampled in chosen:
            counts[sampled.stratum] += 1
            counts["known"] += sampled.expected is not None
            task = make_task(row, sampled, *shown[row["question_id"], row["passage_id"]], settings)
            counts["scores_beyond_0_1"] += not 0 <= task.score <= 1
            writer.write([task])

    counts["tasks"] = writer.part.rows
    step.reports.write(Report(unit, {TASKS.name: writer.parts}, AnnotateCounts.from_json(counts)))


def make_task(
    row: Mapping[str, Any], chosen: SampledSentence, start: int, text: str, settings: Annotate
) -> Task:
    """The task of a row of scored/, shown in the passage with this text, which starts at `start` of its
    document.

    In 'dpr' mode a sentence may run over the end of the passage that it starts in, which is then shown with
    all of it.
    """
    first, last = row["start"] - start, row["end"] - start
    if not 0 <= first < len(text) or text[first:last] != row["text"][: len(text) - first]:
        raise RuntimeError(f"{row['candidate_id']} does not stand at {first} of passage {row['passage_id']}")

    task_id = text_digest(row["question_id"], row["candidate_id"])
    overlaps = draw(settings.seed, "annotators", task_id) < settings.overlap_share
    return Task(
        task_id=task_id,
        question_id=row["question_id"],
        question=row["question"],
        sentence_id=row["candidate_id"],
        sentence=row["text"],
        doc_id=row["doc_id"],
        passage_id=row["passage_id"],
        passage=text[:first] + row["text"] + text[last:],
        start=first,
        end=last,
        title=row["title"],
        url=row["url"],
        text_hash=text_digest(row["question"], row["text"]),
        score=row["stages"][-1]["score"] if row["stages"] else row["fused_score"],
        rank=row["rank"],
        stratum=chosen.stratum,
        probability=chosen.probability,
        expected=chosen.expected,
        annotators=settings.annotators if overlaps else 1,
    )


def _scored_rows(folder: Path, part: Part) -> Iterator[dict[str, Any]]:
    """The rows of a part of scored/ with the columns of tasks, in its order: best first, then those that left
    the plan, the last to leave first."""
    columns = ["question_id", "question", "unit", "candidate_id", "passage_id", "doc_id", "url", "title"]
    columns += ["start", "end", "text", "rank", "fused_score", "stages"]
    for batch in read_batches(folder, part, columns, rows=8_192):
        yield from batch.to_pylist()


def _passages(folder: Path, part: Part, keys: set[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, str]]:
    """(question_id, passage_id) → start in its document, and text, of a part of retrieved/."""
    passages = {}
    for batch in read_batches(
        folder, part, ["question_id", "passage.passage_id", "passage.start", "passage.text"]
    ):
        ids = pc.struct_field(batch["passage"], "passage_id").to_pylist()
        for row, key in enumerate(zip(batch["question_id"].to_pylist(), ids, strict=True)):
            if key in keys:
                passage = batch["passage"][row].as_py()
                passages[key] = passage["start"], passage["text"]

    if missing := keys - passages.keys():
        raise RuntimeError(
            f"{folder / part.file} lacks {len(missing)} passages of scored/, e.g. {min(missing)}"
        )

    return passages


def summary(run: Path, batch: int = 1) -> str:
    """One line for people, from the manifests of a batch's tasks and packs."""
    place = ANNOTATE.place(run, batch)
    counts = ANNOTATE.counts_of(TASKS.open(place).manifest)
    pack_summary = packs.read_summary(place / PACKS)
    strata = " + ".join(f"{getattr(counts, name):,} {name}" for name in STRATA)
    known_clause = f", {counts.known:,} of them of known labels" if counts.known else ""
    lost_clause = (
        f" ({counts.controls_not_found:,} known labels are of no scored sentence)"
        if counts.controls_not_found
        else ""
    )

    people = ", ".join(f"{person} {many:,}" for person, many in pack_summary.people.items())
    where = f"{BATCHES}/{batch}/" if batch > 1 else ""
    is_further = batch > 1 or pack_summary.settings.get("since")
    new = f"; {pack_summary.tasks:,} of them new" if is_further else ""
    return (
        f"annotate   {counted(counts.questions, 'question')}, {counted(counts.sentences, 'sentence')}; "
        f"{counted(counts.tasks, 'task')} = "
        f"{strata}{known_clause}{lost_clause}{new}; "
        f"{where}{PACKS}/ for {', '.join(pack_summary.settings.get('tools', ()))}"
        f"{f'; dealt to {people}' if people else ''}"
    )


STEP = StepCode(annotate, check, annotate_step, place=place_of, join=join)
