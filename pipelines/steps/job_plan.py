"""The plan of a job: its settings checked, its models loaded, and their part of the step's fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import sha256
from answermill.indexing.shards.dense import find_encoder
from answermill.pipelines.config.job_file import Job, Rerank
from answermill.pipelines.errors import SETTINGS, JobError, setting_error
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.index import sentence_codes
from answermill.pipelines.steps.models import model_inputs, passage_encoder, shared, stage_resources
from answermill.ranking.entry import StageSettings, file_keys
from answermill.ranking.plan import Stage, check_plan, stages_before
from answermill.ranking.reranker import Reranker, Resources
from answermill.ranking.rerankers.registry import GivenEntry, find


def plan_settings(job: Job) -> Rerank:
    """The job's plan, checked. Raises JobError (78) if its stages do not fit one another."""
    if job.rerank is None:
        raise JobError("the job has no [rerank] section; add one with [[rerank.stages]]", SETTINGS)
    stages = job.rerank.stages
    try:
        check_plan([(stage.key, find(stage.reranker).reranker_of(stage), stage.keep) for stage in stages])
        stages_before(stages)
    except ValueError as e:
        raise setting_error(e) from e
    return job.rerank


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """The plan of a job, its settings checked and its models and files read through, each once.

    It is sent to workers, so it names no folder of this machine.
    """

    job: Job
    settings: Rerank
    models: Mapping[str, str]
    """Digests of the models (`model_inputs`)."""
    files: Mapping[str, str]
    """'KEY of STAGE' → SHA-256 of each file that a stage names, such as one of weights; missing files are
    left out."""
    codes: Mapping[str, str]
    """Key of a stage that reads stored codes → their digest (`sentence_codes.codes_digest`)."""

    @classmethod
    def of(cls, job: Job) -> CheckedPlan:
        """The checked plan of a job. Raises as `plan_settings` and `model_inputs`."""
        settings = plan_settings(job)
        models = model_inputs(job, settings.stages)

        # A missing file is refused by the reranker that reads it, which knows what the user should give.
        files = dict[str, str]()
        for stage in settings.stages:
            for key in file_keys(type(stage)):
                file_name = getattr(stage, key)
                if file_name and (file := job.path(file_name)).is_file():
                    files[f"{key} of {stage.key}"] = sha256(file)

        codes = {
            stage.key: digest
            for number, stage in enumerate(settings.stages)
            if (digest := sentence_codes.codes_digest(job, number, stage, models)) is not None
        }

        return cls(job, settings, models, files, codes)

    @property
    def stages(self) -> Sequence[StageSettings]:
        return self.settings.stages

    @property
    def inputs(self) -> dict[str, str]:
        """Digests of the models and the files, for the step's fingerprint."""
        return {**self.models, **self.files}

    @property
    def uses_encoder(self) -> bool:
        return any(find(stage.reranker).uses_encoder for stage in self.stages)

    @property
    def model_of_stage(self) -> dict[str, str | None]:
        """Key of each stage → digest of its model; None if it has none."""
        return stage_models({stage.key: stage.reranker for stage in self.stages}, self.models)


def load_stages(
    plan: CheckedPlan,
    encoder: Callable[[], Any],
    run: Path | None = None,
    indexes: tuple[str, ...] | None = None,
) -> list[Stage]:
    """The plan with its models loaded; with `run`, also the codes in its shards, whose checksums were
    compared before.

    `indexes`: as `Resources.indexes`; those of the job or the run if None.

    Raises JobError with the stage, 66 if a checkpoint is missing, 78 if it is unusable."""
    models = plan.model_of_stage
    indexes = indexes or searched(plan.job, run)
    loaded = list[Stage]()

    for stage, before in zip(plan.stages, stages_before(plan.stages, models, plan.files), strict=True):
        try:
            digest = plan.codes.get(stage.key)
            codes = None if run is None else sentence_codes.stored(stage, digest, run, verify=False)
            resources = replace(
                stage_resources(plan.job, stage, encoder),
                before=before,
                codes=codes,
                model_digest=models[stage.key],
                indexes=indexes,
            )
            reranker = _load(plan, resources, run if codes is not None else None)
        except ValueError as e:
            raise setting_error(e, f"rerank.stages.{len(loaded)}") from e

        loaded.append(Stage(stage.key, reranker, stage.keep, resources.checkpoint))

    return loaded


def _load(plan: CheckedPlan, resources: Resources, run: Path | None) -> Reranker:
    """The reranker, one copy of it in this process; `run`: the run whose codes it reads, None if it reads
    none.

    A reranker that uses the encoder is cheap to load again, and the encoder itself is shared.
    """
    stage = resources.settings
    entry = find(stage.reranker)
    if entry.uses_encoder or isinstance(entry, GivenEntry):
        return entry.load(resources)
    files = tuple(plan.files.get(f"{key} of {stage.key}") for key in file_keys(type(stage)))
    decisive = (resources.model_digest, files, resources.before, resources.indexes)
    key = ("reranker", stage.model_dump_json(), decisive, resources.device, run)
    return shared(key, partial(entry.load, resources))


def check_stages(job: Job, run: Path | None = None) -> CheckedPlan:
    """The plan, checked, and loaded here once before any worker does; the dense encoder is only looked for.

    Raises JobError: 66 if a checkpoint is missing, 78 if it is unusable, or as `sentence_codes.check_stored`;
    ModelMissing if the encoder is needed and cannot be had.
    """
    sentence_codes.check_stored(job, run)
    plan = CheckedPlan.of(job)
    load_without_encoder(plan, run)
    return plan


def load_without_encoder(plan: CheckedPlan, run: Path | None) -> list[Stage]:
    """The plan with its models loaded, for a check and not for ranking: the encoder is only looked for, and
    no codes are read.

    Raises as `load_stages`, ModelMissing if the encoder is needed and cannot be had.
    """

    def find_encoders() -> Any:
        for name in (plan.job.index.encoder, plan.job.index.question_encoder):
            if name is not None:
                find_encoder(name, plan.job.folder)

    return load_stages(plan, find_encoders, indexes=searched(plan.job, run))


def stage_models(rerankers: Mapping[str, str], inputs: Mapping[str, str]) -> dict[str, str | None]:
    """Key of each stage → digest of its model; None if it has none. `rerankers`: key → reranker; `inputs`:
    `model_inputs`, or the inputs in a manifest of scored/."""
    encoder = (
        ", ".join(digest for name, digest in sorted(inputs.items()) if name.startswith("encoder ")) or None
    )
    return {
        key: encoder if find(reranker).uses_encoder else inputs.get(f"checkpoint of {key}")
        for key, reranker in rerankers.items()
    }


def searched(job: Job, run: Path | None) -> tuple[str, ...] | None:
    """The indexes that the job searches, or in which the run's passages were found; None if neither is
    known."""
    if job.retrieve is not None:
        return tuple(job.retrieve.sources)
    manifest = RETRIEVED.manifest(run) if run is not None else None
    sources = manifest.settings.get("sources") if manifest is not None else None
    return None if sources is None else tuple(sources)


def load_plan(job: Job, run: Path | None = None) -> list[Stage]:
    """The plan with its models loaded, each once in this process, and the encoder if a stage uses it.

    `run`: the run whose shards may hold codes. Raises as `load_stages`, and as `sentence_codes.check_stored`.
    """
    sentence_codes.check_stored(job, run)
    return load_checked(CheckedPlan.of(job), run)


def load_checked(plan: CheckedPlan, run: Path | None) -> list[Stage]:
    """The plan with its models loaded; this process, or the command that it works for, has checked it."""
    return load_stages(plan, partial(passage_encoder, plan.job), run)
