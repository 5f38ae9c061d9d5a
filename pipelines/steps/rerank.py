"""Rerank: retrieved passages in; scored candidates out, one row for each with its whole history, and the best answers.

A part of retrieved/ is one unit of work: whole lists of some questions, so that list-wise rerankers see what they need. Within
it groups of questions are done one after the other (question_groups.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from indexing.shards.dense import find_model
from pipelines.config.job_file import Job, Rerank
from pipelines.config.outputs import RERANK as OUTPUTS
from pipelines.config.step_registry import StepCode
from pipelines.errors import BAD_DATA, SETTINGS, JobError, counted
from pipelines.execution.manifests.reports import Report, total
from pipelines.execution.meter import Meter
from pipelines.execution.parquet_folder import Folder, Part, PartWriter, read_part
from pipelines.execution.runner import carry
from pipelines.execution.step import Step
from pipelines.steps import sentence_codes
from pipelines.steps.answers import ANSWERS, write_answers
from pipelines.steps.models import (
    ModelDoFn,
    device_of,
    encoder_inputs,
    encoder_settings,
    folder_digest,
    passage_encoder,
    shared,
)
from pipelines.steps.question_groups import KeptGroups, groups, ranked_lists
from ranking.entry import Entry
from ranking.plan import Stage, check_plan, scores_before
from ranking.registry import find
from ranking.reranker import Reranker, Resources
from schemas.ranked import Hit, ScoredCandidate

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
            entry, folder = find(stage.reranker), sentence_codes.checkpoint_folder(job, stage)
            codes = sentence_codes.stored(job, stage, run, verify=False) if run else None
            allowed = encoder if entry.uses_encoder else _no_encoder
            resources = Resources(stage, folder, allowed, partial(find_model, beside=job.folder), device, scores, codes)
            plan.append(Stage(stage.key, _load(entry, resources, run), stage.keep, folder))
        except ValueError as e:
            raise JobError(f"rerank.stages.{n}: {e}", SETTINGS) from e
    return plan


def _load(entry: Entry, resources: Resources, run: Path | None) -> Reranker:
    """The reranker, one copy of it in this process. One that uses the encoder is cheap, and the encoder itself is shared."""
    if entry.uses_encoder:
        return entry.load(resources)
    digest = folder_digest(resources.checkpoint) if resources.checkpoint else None
    scores = tuple(sorted(resources.scores.items()))
    key = ("reranker", resources.settings.model_dump_json(), digest, resources.device, scores, run)
    return shared(key, partial(entry.load, resources))


def _no_encoder() -> Any:
    raise RuntimeError("this reranker asks for the job's encoder: its registry entry must say `uses_encoder=True`")


def check_stages(job: Job) -> None:
    """Load every stage's reranker here, before any worker does; the dense encoder is only looked for.

    Raises JobError (78) if a checkpoint is missing or unusable, ModelMissing if the encoder is needed and cannot be had.
    """

    def look() -> Any:
        for name in (job.index.encoder, job.index.question_encoder):
            if name is not None:
                find_model(name, job.folder)

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


def step_of(job: Job, run: Path) -> Step:
    """The rerank step of a run. Raises JobError if retrieved/ is missing, ModelMissing if its encoder cannot be had."""
    retrieved = Folder.open(run / "retrieved", Hit, "retrieve")
    plan = plan_settings(job)
    settings = plan.model_dump(exclude={"allow_empty"})  # which decides no row
    inputs = {"retrieved": retrieved.digest(), **checkpoint_digests(job)}
    if any(find(stage.reranker).uses_encoder for stage in plan.stages):
        settings["encoder"] = encoder_settings(job)
        inputs |= encoder_inputs(job)
    return Step(run, "rerank", OUTPUTS, settings, inputs, REVISION, units_stand_alone=True)


def rerank(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; returns its summary line. Raises JobError (65) if nothing at all is kept."""
    step = step_of(job, run)
    if step.is_complete():
        return summary(run) + " (complete)"
    step.begin()
    retrieved = Folder.open(run / "retrieved", Hit, "retrieve")
    done = step.reports.read()
    sentence_codes.check(job, run)
    pending = [(n, part) for n, part in enumerate(retrieved.parts) if n not in done]
    work, sizes = RunStages(job, retrieved.path, step), [part.rows for part in retrieved.parts]
    reports = carry(step, pending, len(sizes), work, beam_options, job.workers.processes, sizes, "passages")
    counts = total(reports)
    if counts["candidates"] != sum(counts[fate] for fate in FATES):
        raise RuntimeError(f"{counts['candidates']} rows, but " + " + ".join(f"{counts[fate]} {fate}" for fate in FATES))
    if counts["candidates"] and not counts["kept"] and not plan_settings(job).allow_empty:
        raise JobError(
            f"rerank kept none of {counts['candidates']:,} candidates of {counts['questions']:,} questions; look at `drop`, "
            "`threshold` and the checkpoints of the stages, or, if that may be, set rerank.allow_empty = true",
            BAD_DATA,
        )
    answers = write_answers(run, [report.parts["scored"] for report in reports])
    step.finish(reports, counts | per_question(counts), [answers])
    return summary(run)


def per_question(counts: Mapping[str, int]) -> dict[str, int]:
    """Costs of the mean question, for the stages that count theirs: layers × candidates, layers × tokens, microseconds."""
    questions = max(1, counts["questions"])
    means = {
        f"{key}_per_question": round(spent / questions)
        for key, spent in counts.items()
        if key.endswith(("layer_candidates", "layer_tokens"))
    }
    for key, spent in counts.items():
        if key.endswith("_milliseconds"):
            means[f"{key.removesuffix('_milliseconds')}_microseconds_per_question"] = round(1000 * spent / questions)
    return means


class RunStages(ModelDoFn):
    """A part of retrieved hits → a part of scored candidates; and the unit's report."""

    def __init__(self, job: Job, folder: Path, step: Step) -> None:
        super().__init__(step.name, step.work)
        self._job, self._folder, self._step = job, folder, step

    def load(self) -> None:
        self._plan = load_plan(self._job, self._step.run)

    def work(self, unit: int, part: Part) -> None:
        with Meter(self._step.work, unit) as meter:
            rerank_part(unit, part, self._folder, self._plan, self._step, meter.add)


def load_plan(job: Job, run: Path | None = None) -> list[Stage]:
    """The plan with its models loaded, each once in this process, and the encoder if a stage calls for it.

    `run`: whose shards may hold codes. Raises as `load_stages`.
    """
    return load_stages(job, lambda: passage_encoder(job), run)


def rerank_part(
    unit: int,
    part: Part,
    folder: Path,
    plan: Sequence[Stage],
    step: Step,
    tell: Callable[[int, int], object] = lambda passages, kept: None,
) -> None:
    """Run the plan over one part's lists, group by group, write all candidates, report.

    `tell` hears after each group how many passages it has, and how many of them a former run had done.
    """
    kept = KeptGroups(step.work / f"groups-{unit:05d}")
    counts = Counter(dict.fromkeys(("questions", "passages", "candidates", *FATES), 0))
    writer = PartWriter(step.run / "scored", ScoredCandidate, unit)
    with writer:
        for number, lists in enumerate(groups(ranked_lists(read_part(folder, part, Hit)))):
            before = kept.read(number, lists)
            rows, of_group = before or kept.rerank(number, lists, plan)
            writer.write(rows)
            counts.update(of_group)
            tell(of_group["passages"], of_group["passages"] if before else 0)
    step.reports.write(Report(unit, {"scored": writer.part}, counts))
    kept.delete()


def summary(run: Path) -> str:
    """One line for people, from the manifest."""
    counts = Folder.open(run / "scored", ScoredCandidate, "rerank").manifest.counts
    costs = ""
    for key in counts:
        if key.endswith("_milliseconds"):
            stage = key.removesuffix("_milliseconds")
            tokens, all_layers = counts.get(f"{stage}_layer_tokens", 0), counts.get(f"{stage}_full_layer_tokens")
            share = f" took {tokens / all_layers:.0%} of all layers × tokens," if all_layers else ""
            mean = counts[f"{stage}_microseconds_per_question"] / 1000
            costs += f"; {stage}{share} {counts[key] / 1000:,.1f} s, {mean:,.1f} ms a question"
    fates = " + ".join(f"{counts[fate]:,} {fate}" for fate in FATES if counts[fate] or fate != "grouped")
    return (
        f"rerank     {counted(counts['questions'], 'question')}, {counted(counts['passages'], 'passage')}; "
        f"{counted(counts['candidates'], 'candidate')} = "
        f"{fates}{costs}; best answers in {ANSWERS}"
    )


STEP = StepCode(OUTPUTS, rerank, check=lambda job, run: check_stages(job))
