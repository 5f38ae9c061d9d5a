"""The plan of a run as a job: read from the manifests of its folders, so that no job file is needed.

A manifest has the settings that decided the output, and digests of the files that they name, but not the
folder that the files' names are relative to. `job_of` looks for a folder whose files have these digests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from answermill.indexing.shards.dense import ModelMissing
from answermill.pipelines.config import toml_file
from answermill.pipelines.config.job_file import Job, job_type
from answermill.pipelines.errors import INPUT_MISSING, IO, JobError
from answermill.pipelines.specs.index import SHARDS
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.job_plan import CheckedPlan
from answermill.pipelines.steps.models import encoder_inputs
from answermill.pipelines.steps.retrieve.asked_questions import settings_of
from answermill.ranking.entry import file_keys

DATA = ("questions", "shards", "retrieved")
"""Inputs of retrieve and rerank that are no model and no file of the plan."""


def job_of(run: Path, overrides: Sequence[str] = ()) -> Job:
    """Settings that retrieve and rerank of the run used, with `overrides` like 'retrieve.depth=50' laid over
    them.

    Raises JobError: 66 if the run has no shards, was not asked or reranked yet, or if a file that its plan
    names is missing or has changed; 78 if an override is wrong; if the plan is unusable in any place, the
    code of the cause, such as 69 of an encoder that is not installed.
    """
    settings, inputs = _settings(run)
    places = list(dict.fromkeys((run.parent, run, Path())))
    errors: dict[Path, Exception] = {}
    for place in places:
        job = _job(settings, place)
        try:
            if _is_as_it_was(job, inputs):
                toml_file.lay_over(settings, overrides)
                return _job(settings, place)
        except (JobError, ModelMissing, OSError) as e:
            errors[place] = e
    raise _unusable(run, job, places, errors)


def _unusable(run: Path, job: Job, places: Sequence[Path], errors: Mapping[Path, Exception]) -> JobError:
    """Error about a plan whose files are in none of the places; `errors`: of places not compared."""
    advice = "name the job file with --job JOB.toml"

    # The same error in every place is not one of the place.
    if len(errors) == len(places) and len({str(error) for error in errors.values()}) == 1:
        error = errors[places[0]]
        code = (
            IO
            if isinstance(error, OSError)
            else error.code
            if isinstance(error, JobError)
            else ModelMissing.exit_code
        )
        return JobError(f"{run}: its plan cannot be used: {error}; mend that, or {advice}", code)

    looked = ", ".join(str(place.absolute()) for place in places)
    beside = f" ({errors[places[0]]})" if places[0] in errors else ""
    missing = f"none of {looked} has them as they were when it was made{beside}"
    return JobError(f"{run}: its plan names {', '.join(_names(job))}, and {missing}; {advice}", INPUT_MISSING)


def _job(settings: Mapping[str, Any], place: Path) -> Job:
    return toml_file.check(settings, job_type(settings), place / "the run's plan")


def _settings(run: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """(settings as in a job file, name → digest of the plan's models and files)."""
    shards, retrieved, scored = (folder.manifest(run) for folder in (SHARDS, RETRIEVED, SCORED))
    if shards is None:
        advice = f"run `answermill index JOB.toml --out {run}` first"
        raise JobError(f"{SHARDS.path(run)} is not there or not complete; {advice}", INPUT_MISSING)

    if retrieved is None or scored is None:
        raise JobError(
            f"{run} has shards, but {'retrieve' if retrieved is None else 'rerank'} is not complete, so it "
            "does not say by which plan; name the job file with --job JOB.toml",
            INPUT_MISSING,
        )

    retrieve = dict(retrieved.settings) | {"questions": "asked"}  # the caller has them
    index = dict(shards.settings) | retrieve.pop("encoder", {})
    rerank = {"stages": scored.settings["stages"], "answers": scored.settings.get("answers") or {}}
    settings = {"index": index, "retrieve": retrieve, "rerank": rerank}
    inputs = {**retrieved.inputs, **scored.inputs}
    return settings, {name: digest for name, digest in inputs.items() if name not in DATA}


def _is_as_it_was(job: Job, inputs: dict[str, str]) -> bool:
    """True if the files that the plan names have the digests in `inputs`, which are the run's.

    Raises JobError, ModelMissing or OSError if they cannot be compared.
    """
    encoder = encoder_inputs(job) if "dense" in settings_of(job).sources else {}
    present = encoder | CheckedPlan.of(job).inputs
    return all(present.get(name) == digest for name, digest in inputs.items())


def _names(job: Job) -> list[str]:
    """The files and folders that the plan names."""
    stages = job.rerank.stages if job.rerank is not None else []
    named = [
        job.index.encoder,
        *(getattr(stage, key) for stage in stages for key in ("checkpoint", *file_keys(type(stage)))),
    ]
    return [name for name in named if name is not None]
