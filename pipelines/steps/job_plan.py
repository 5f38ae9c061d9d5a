"""The plan of a job: its settings checked, its models loaded, and what of them decides the step's output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import sha256
from answermill.indexing.shards.dense import find_model
from answermill.pipelines.config.job_file import Job, Rerank
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.index import sentence_codes
from answermill.pipelines.steps.models import device_of, encoder_inputs, encoder_loader, passage_encoder, shared
from answermill.ranking.entry import Entry, StageSettings, file_keys, file_names
from answermill.ranking.plan import Stage, check_plan, stages_before
from answermill.ranking.reranker import Reranker, Resources
from answermill.ranking.rerankers.registry import find


def plan_settings(job: Job) -> Rerank:
    """The job's plan, checked. Raises JobError (78) if its stages do not fit one another."""
    if job.rerank is None:
        raise JobError("the job has no [rerank] section; add one with [[rerank.stages]]", SETTINGS)
    stages = job.rerank.stages
    try:
        check_plan([(stage.key, find(stage.reranker).reranker, stage.keep) for stage in stages])
        stages_before(stages)
    except ValueError as e:
        raise JobError(str(e), SETTINGS) from e
    return job.rerank


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """The plan of a job, its settings checked and its models and files read through, each once."""

    settings: Rerank
    models: Mapping[str, str]
    """As `model_inputs`."""
    files: Mapping[str, str]
    """'KEY of STAGE' → SHA-256 of each file that a stage names, such as one of weights."""

    @classmethod
    def of(cls, job: Job) -> CheckedPlan:
        """Raises as `plan_settings` and `model_inputs`."""
        settings = plan_settings(job)
        files = {
            f"{key} of {stage.key}": sha256(job.path(written))
            for stage in settings.stages
            for key in file_keys(type(stage))
            if (written := getattr(stage, key)) is not None
        }
        return cls(settings, model_inputs(job, settings.stages), files)

    @property
    def stages(self) -> Sequence[StageSettings]:
        return self.settings.stages

    @property
    def inputs(self) -> dict[str, str]:
        """What the step's fingerprint holds of the models and the files."""
        return {**self.models, **self.files}

    @property
    def uses_encoder(self) -> bool:
        return any(find(stage.reranker).uses_encoder for stage in self.stages)

    @property
    def model_of_stage(self) -> dict[str, str | None]:
        """As `stage_models`."""
        return stage_models({stage.key: stage.reranker for stage in self.stages}, self.models)


def load_stages(
    job: Job, encoder: Callable[[], Any], run: Path | None = None, indexes: tuple[str, ...] | None = None
) -> list[Stage]:
    """The plan with its models loaded; with `run` the codes in its shards, whose checksums were compared before.

    `indexes`: as `Resources.indexes`; those of the job or the run if None.

    Raises JobError (78) with the stage if a checkpoint is missing or unusable."""
    stages = plan_settings(job).stages
    device = device_of(job.workers.device)
    models = stage_models({stage.key: stage.reranker for stage in stages}, model_inputs(job, stages))
    indexes = indexes or searched(job, run)
    plan = []
    for n, (stage, before) in enumerate(zip(stages, stages_before(stages, models), strict=True)):
        try:
            entry, folder = find(stage.reranker), sentence_codes.checkpoint_folder(job, stage)
            codes = sentence_codes.stored(job, stage, run, verify=False) if run else None
            allowed = encoder if entry.uses_encoder else _no_encoder
            resources = Resources(
                settings=stage,
                checkpoint=folder,
                encoder=allowed,
                model=partial(find_model, beside=job.folder),
                device=device,
                before=before,
                codes=codes,
                model_digest=models[stage.key],
                indexes=indexes,
                path=job.file,
                encoder_of=encoder_loader(job.folder, job.workers.device),
            )
            plan.append(Stage(stage.key, _load(entry, resources, run if codes is not None else None), stage.keep, folder))
        except ValueError as e:
            raise JobError(f"rerank.stages.{n}: {e}", SETTINGS) from e
    return plan


def _load(entry: Entry, resources: Resources, run: Path | None) -> Reranker:
    """The reranker, one copy of it in this process; `run` is whose codes it reads, None if it reads none.

    One that uses the encoder is cheap, and the encoder itself is shared.
    """
    if entry.uses_encoder:
        return entry.load(resources)
    files = tuple(resources.path(name) for name, is_file in file_names(resources.settings) if is_file)
    digests = tuple(sha256(file) if file.is_file() else None for file in files)
    decisive = (resources.model_digest, digests, resources.before, resources.indexes)
    key = ("reranker", resources.settings.model_dump_json(), decisive, resources.device, run)
    return shared(key, partial(entry.load, resources))


def _no_encoder() -> Any:
    raise RuntimeError("this reranker asks for the job's encoder: its registry entry must say `uses_encoder=True`")


def check_stages(job: Job, run: Path | None = None) -> list[Stage]:
    """The plan, loaded here before any worker does; the dense encoder is only looked for.

    Raises JobError (78) if a checkpoint is missing or unusable, or as `sentence_codes.check_stored`; ModelMissing if the
    encoder is needed and cannot be had.
    """

    def look() -> Any:
        for name in (job.index.encoder, job.index.question_encoder):
            if name is not None:
                find_model(name, job.folder)

    sentence_codes.check_stored(job, run)
    return load_stages(job, look, indexes=searched(job, run))


def model_inputs(job: Job, stages: Sequence[StageSettings]) -> dict[str, str]:
    """'checkpoint of STAGE' → digest of its checkpoint's content, for the stages that have one: trained again, it is another
    input; and the encoder's digests if a stage uses it.

    Raises JobError (78) as `load_stages`, ModelMissing if the encoder cannot be had.
    """
    digests = {}
    for n, stage in enumerate(stages):
        try:
            digest = sentence_codes.checkpoint_digest(job, stage)
        except ValueError as e:
            raise JobError(f"rerank.stages.{n}: {e}", SETTINGS) from e
        if digest is not None:
            digests[f"checkpoint of {stage.key}"] = digest
    return digests | (encoder_inputs(job) if any(find(stage.reranker).uses_encoder for stage in stages) else {})


def stage_models(rerankers: Mapping[str, str], inputs: Mapping[str, str]) -> dict[str, str | None]:
    """Key of each stage → digest of its model; None if it has none. `rerankers`: key → reranker; `inputs`: `model_inputs`,
    which a manifest of scored/ has too."""
    encoder = ", ".join(digest for name, digest in sorted(inputs.items()) if name.startswith("encoder ")) or None
    return {
        key: encoder if find(reranker).uses_encoder else inputs.get(f"checkpoint of {key}")
        for key, reranker in rerankers.items()
    }


def searched(job: Job, run: Path | None) -> tuple[str, ...] | None:
    """The indexes in which the job searches, or in which the run's passages were found; None if neither says it."""
    if job.retrieve is not None:
        return tuple(job.retrieve.sources)
    manifest = RETRIEVED.manifest(run) if run is not None else None
    sources = manifest.settings.get("sources") if manifest is not None else None
    return None if sources is None else tuple(sources)


def load_plan(job: Job, run: Path | None = None) -> list[Stage]:
    """The plan with its models loaded, each once in this process, and the encoder if a stage calls for it.

    `run`: whose shards may hold codes. Raises as `load_stages`, and as `sentence_codes.check_stored`.
    """
    sentence_codes.check_stored(job, run)
    return load_stages(job, lambda: passage_encoder(job), run)
