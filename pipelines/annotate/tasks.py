"""Annotate: scored sentences in; the tasks that people judge, and packs of them for annotation tools, out (WQA §3.2, §3.3).

A part of scored/ is one unit of work: whole lists of some questions, whose passages stand in the part of retrieved/ with
the same number. tasks/ has each question's tasks together, in the order in which packs show them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.compute as pc

from indexing.annotation.sampling import Chosen, Rules, choose, draw
from indexing.labels.given_labels import Contradiction
from indexing.passages.text import fold
from pipelines.annotate import packs
from pipelines.annotation_tools.tool import Model
from pipelines.config.job_file import Annotate, Job
from pipelines.config.step_registry import StepCode
from pipelines.errors import BAD_DATA, INPUT_MISSING, SETTINGS, JobError
from pipelines.execution.parquet_folder import Folder, Part, PartWriter, read_batches
from pipelines.execution.runner import carry
from pipelines.execution.step import Report, Step, total
from pipelines.inputs.tables import label_batches
from ranking.registry import find
from schemas.annotation import Task
from schemas.atomic_files import sha256
from schemas.ranked import Hit, ScoredCandidate
from schemas.record import Record

OUTPUTS: Mapping[str, type[Record]] = {"tasks": Task}
REVISION = 1
"""Raised when the step's code changes so that the same input gives another output."""
PACKS = "packs"
STRATA = ("top", "random", "control")


def settings_of(job: Job) -> Annotate:
    """The section; its defaults where the job has none."""
    return job.annotate or Annotate()


def controls_file(job: Job) -> Path | None:
    named = settings_of(job).controls
    return None if named is None else job.path(named)


def check(job: Job) -> None:
    """Raises JobError: 78 where the plan ends in passages, 65 or 66 where a file that the section names is of no use."""
    if job.rerank is not None and find(job.rerank.stages[-1].reranker).reranker.writes != "sentence":
        raise JobError(
            f"rerank.stages: the plan ends in passages ({job.rerank.stages[-1].reranker}), people judge sentences; "
            "let it end with a reranker of sentences, or with peasi.easi",
            SETTINGS,
        )
    wanted = settings_of(job)
    Known(controls_file(job))
    guidelines_of(job)
    if wanted.since is not None:
        Folder.open(job.path(wanted.since) / "tasks", Task, "annotate")


def guidelines_of(job: Job) -> str:
    """The guidelines that packs carry. Raises JobError: 66 where the file is missing, 65 where it is no UTF-8."""
    named = settings_of(job).guidelines
    if named is None:
        return packs.default_guidelines()
    try:
        return job.path(named).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise JobError(f"annotate.guidelines: {job.path(named)}: no such file", INPUT_MISSING) from None
    except UnicodeDecodeError as e:
        raise JobError(f"annotate.guidelines: {job.path(named)}: not UTF-8: {e}", BAD_DATA) from e


def step(job: Job, run: Path) -> Step:
    """The annotate step of a run. Raises JobError where scored/, retrieved/ or the controls are missing."""
    wanted = settings_of(job)
    inputs = {
        "scored": Folder.open(run / "scored", ScoredCandidate, "rerank").digest(),
        "retrieved": Folder.open(run / "retrieved", Hit, "retrieve").digest(),
    }
    decisive = {"top", "random", "annotators", "overlap_share", "seed"}
    if (controls := controls_file(job)) is not None:
        Known(controls)
        inputs["controls"] = sha256(controls)
        decisive.add("control_share")
    return Step(run, "annotate", OUTPUTS, wanted.model_dump(include=decisive), inputs, REVISION)


def annotate(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Make the tasks and their packs, unless they are there; returns the summary line.

    Raises JobError (73) where packs/ holds those of other tasks or settings: people may have filled them in.
    """
    check(job)
    this = step(job, run)
    if not (complete := this.is_complete()):
        make_tasks(job, this, beam_options)
    written = write_packs(job, run)
    return summary(run) + (" (complete)" if complete and not written else "")


def make_tasks(job: Job, this: Step, beam_options: Sequence[str]) -> None:
    """tasks/, from all parts of scored/."""
    this.begin()
    scored = Folder.open(this.run / "scored", ScoredCandidate, "rerank")
    retrieved = Folder.open(this.run / "retrieved", Hit, "retrieve")
    if len(scored.parts) != len(retrieved.parts):
        raise RuntimeError(f"{len(scored.parts)} parts in {scored.path}, {len(retrieved.parts)} in {retrieved.path}")
    done = this.reports.read()
    units = [(n, *pair) for n, pair in enumerate(zip(scored.parts, retrieved.parts, strict=True)) if n not in done]
    carry(this, units, len(scored.parts), TaskPart(job, this), beam_options, job.workers.processes)
    reports = this.reports.read()
    counts = total(reports.values())
    if counts["tasks"] != sum(counts[name] for name in STRATA) or scored.rows != counts["sentences"] + counts["passages"]:
        raise RuntimeError(f"{scored.rows} candidates came in; made of them: {dict(counts)}")
    if not counts["tasks"]:
        raise JobError(f"{scored.path}: no sentence among its {scored.rows} candidates; people judge sentences", BAD_DATA)
    if (controls := controls_file(job)) is not None:
        counts["controls_given"] = Known(controls).count
        counts["controls_not_found"] = counts["controls_given"] - counts["controls_found"]
        if not counts["controls_found"]:
            told = f"none of its {counts['controls_given']} labels is of a sentence that was scored for its question"
            raise JobError(f"annotate.controls: {controls}: {told}", BAD_DATA)
    this.finish(reports.values(), counts)


@dataclass(frozen=True, slots=True)
class KnownLabel:
    """A label of the file, and its line."""

    number: int
    label: int


class Known:
    """The known labels of a file, by question and sentence; none without a file."""

    def __init__(self, path: Path | None) -> None:
        """Raises JobError: 66 where there is no such file, 65 with the line where it is wrong or contradicts itself."""
        self.count = 0
        self._by_id: dict[tuple[str, str], KnownLabel] = {}
        self._by_text: dict[tuple[str, str], KnownLabel] = {}
        for row in (row for batch in label_batches(path) for row in batch.to_pylist()) if path is not None else ():
            self.count += 1
            known = KnownLabel(row["number"], row["label"])
            if row["sentence_id"] is not None:
                first = self._by_id.setdefault((row["question_id"], row["sentence_id"]), known)
            else:
                first = self._by_text.setdefault((row["question_id"], fold(row["text"])), known)
            if first.label != known.label:
                told = Contradiction(known.number, known.label, first.number)
                raise JobError(f"{path}:{known.number}: {told}", BAD_DATA)

    def of(self, question_id: str, sentences: Mapping[str, str]) -> dict[str, KnownLabel]:
        """Sentence id → its known label, of these sentences (id → text); one given by id before one by text."""
        found = {}
        for sentence_id, text in sentences.items():
            known = self._by_id.get((question_id, sentence_id))
            if known is None and self._by_text:
                known = self._by_text.get((question_id, fold(text)))
            if known is not None:
                found[sentence_id] = known
        return found


class TaskPart(beam.DoFn):
    """A part of scored candidates, and the part of hits they come from → a part of tasks."""

    def __init__(self, job: Job, this: Step) -> None:
        self._job, self._step = job, this

    def setup(self) -> None:
        self._known = Known(controls_file(self._job))

    def process(self, element: tuple[int, Part, Part]) -> None:
        unit, scored, hits = element
        write_part(unit, scored, hits, settings_of(self._job), self._known, self._step)


def write_part(unit: int, scored: Part, hits: Part, wanted: Annotate, known: Known, this: Step) -> None:
    """Choose the tasks of one part's questions, show each in its passage, write them, report."""
    counted = ("questions", "sentences", "passages", "tasks", *STRATA, "known", "controls_found", "scores_beyond_0_1")
    counts = dict.fromkeys(counted, 0)
    rules = Rules(wanted.top, wanted.random, wanted.control_share, wanted.seed)
    made: list[tuple[dict[str, Any], Chosen]] = []
    for question_id, rows in groupby(_rows(this.run / "scored", scored), key=itemgetter("question_id")):
        candidates = list(rows)
        sentences = [row for row in candidates if row["unit"] == "sentence"]
        counts["questions"] += 1
        counts["passages"] += len(candidates) - len(sentences)
        counts["sentences"] += len(sentences)
        labels = known.of(question_id, {row["candidate_id"]: row["text"] for row in sentences})
        counts["controls_found"] += len({given.number for given in labels.values()})
        expected = {sentence_id: given.label for sentence_id, given in labels.items()}
        chosen = choose(question_id, [row["candidate_id"] for row in sentences], expected, rules)
        made += [(sentences[each.number], each) for each in chosen]
    shown = _passages(this.run / "retrieved", hits, {(row["question_id"], row["passage_id"]) for row, _ in made})
    writer = PartWriter(this.run / "tasks", Task, unit)
    with writer:
        for row, chosen_as in made:
            counts[chosen_as.stratum] += 1
            counts["known"] += chosen_as.expected is not None
            made_of = task(row, chosen_as, *shown[row["question_id"], row["passage_id"]], wanted)
            counts["scores_beyond_0_1"] += not 0 <= made_of.score <= 1
            writer.write([made_of])
    counts["tasks"] = writer.part.rows
    this.reports.write(Report(unit, {"tasks": writer.part}, counts))


def task(row: Mapping[str, Any], chosen: Chosen, start: int, text: str, wanted: Annotate) -> Task:
    """The task of a row of scored/, shown in the passage with this text, which starts at `start` of its document.

    In 'dpr' mode a sentence may run over the end of the passage that it starts in, which is then shown with all of it.
    """
    first, last = row["start"] - start, row["end"] - start
    if not 0 <= first < len(text) or text[first:last] != row["text"][: len(text) - first]:
        raise RuntimeError(f"{row['candidate_id']} does not stand at {first} of passage {row['passage_id']}")
    task_id = digest(row["question_id"], row["candidate_id"])
    several = draw(wanted.seed, "annotators", task_id) < wanted.overlap_share
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
        text_hash=digest(row["question"], row["text"]),
        score=row["stages"][-1]["score"] if row["stages"] else row["fused_score"],
        rank=row["rank"],
        stratum=chosen.stratum,
        probability=chosen.probability,
        expected=chosen.expected,
        annotators=wanted.annotators if several else 1,
    )


def digest(*texts: str) -> str:
    """16 hex digits that stand for the texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _rows(folder: Path, part: Part) -> Iterator[dict[str, Any]]:
    """The rows of a part of scored/ with what tasks need, in its order: best first, then the last to leave first."""
    columns = ["question_id", "question", "unit", "candidate_id", "passage_id", "doc_id", "url", "title"]
    columns += ["start", "end", "text", "rank", "fused_score", "stages"]
    for batch in read_batches(folder, part, columns, rows=8_192):
        yield from batch.to_pylist()


def _passages(folder: Path, part: Part, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, str]]:
    """(question_id, passage_id) → start in its document, and text, of a part of retrieved/."""
    found = {}
    for batch in read_batches(folder, part, ["question_id", "passage.passage_id", "passage.start", "passage.text"]):
        ids = pc.struct_field(batch["passage"], "passage_id").to_pylist()
        for row, key in enumerate(zip(batch["question_id"].to_pylist(), ids, strict=True)):
            if key in wanted:
                passage = batch["passage"][row].as_py()
                found[key] = passage["start"], passage["text"]
    if missing := wanted - found.keys():
        raise RuntimeError(f"{folder / part.file} lacks {len(missing)} passages of scored/, e.g. {min(missing)}")
    return found


def write_packs(job: Job, run: Path) -> bool:
    """packs/, of all tasks, or with `since` of those that are not in that run's; False where they are there."""
    wanted, guidelines = settings_of(job), guidelines_of(job)
    tasks = Folder.open(run / "tasks", Task, "annotate")
    earlier = Folder.open(job.path(wanted.since) / "tasks", Task, "annotate") if wanted.since is not None else None
    settings = {
        "tasks": tasks.digest(),
        "since": earlier.digest() if earlier is not None else None,
        "guidelines": digest(guidelines),
        **wanted.model_dump(include={"tools", "predictions", "tasks_per_file"}),
    }
    if packs.are_written(run / PACKS, settings):
        return False
    scored = Folder.open(run / "scored", ScoredCandidate, "rerank").manifest
    plan = "+".join(stage["name"] or stage["reranker"] for stage in scored.settings["stages"])
    model = Model(f"{plan} {scored.fingerprint[:8]}", unbounded=tasks.manifest.counts["scores_beyond_0_1"] > 0)
    asked = _asked(earlier) if earlier is not None else frozenset()
    new = (each for each in tasks.read() if (each.task_id, each.text_hash) not in asked)
    options = packs.PackOptions(guidelines, model if wanted.predictions else None, wanted.tasks_per_file)
    packs.write(run / PACKS, new, wanted.tools, options, settings)
    return True


def _asked(earlier: Folder[Task]) -> frozenset[tuple[str, str]]:
    """Task and text of all that an earlier run asked."""
    batches = (b for part in earlier.parts for b in read_batches(earlier.path, part, ["task_id", "text_hash"], rows=8_192))
    return frozenset(pair for b in batches for pair in zip(b["task_id"].to_pylist(), b["text_hash"].to_pylist(), strict=True))


def summary(run: Path) -> str:
    """One line for people, from the manifests of tasks and packs."""
    counts = Folder.open(run / "tasks", Task, "annotate").manifest.counts
    told = packs.read_summary(run / PACKS)
    strata = " + ".join(f"{counts[name]:,} {name}" for name in STRATA)
    known = f", {counts['known']:,} of them of known labels" if counts["known"] else ""
    lost = (
        f" ({counts['controls_not_found']:,} known labels are of no scored sentence)"
        if counts.get("controls_not_found")
        else ""
    )
    new = f"; {told['tasks']:,} of them new" if told["settings"]["since"] else ""
    return (
        f"annotate   {counts['questions']:,} questions, {counts['sentences']:,} sentences; {counts['tasks']:,} tasks = "
        f"{strata}{known}{lost}{new}; {PACKS}/ for {', '.join(told['settings']['tools'])}"
    )


STEP = StepCode(OUTPUTS, annotate, check=lambda job, run: check(job))
