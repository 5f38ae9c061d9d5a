"""Answer codes of a job: for each `hashing` stage's model, what `index` stores of all sentences and `rerank` reads again.

A model is known by the digest of its checkpoint's files, which is in the fingerprints of both steps.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from indexing.shards.answer_codes import AnswerCodes
from indexing.shards.dense import find_model
from indexing.shards.shard import stored_codes
from pipelines.config.job_file import Job, StageSettings
from pipelines.errors import SETTINGS, JobError
from pipelines.execution.parquet_folder import read_manifest
from ranking.checkpoint import SHIPPED, checkpoint_of
from ranking.hashing import hashing
from ranking.hashing.hashing import AnswerCoder, Hashing
from ranking.reranker import Resources, SentenceEncoder
from schemas.atomic_files import sha256


def checkpoint_path(job: Job, stage: StageSettings) -> str | None:
    """The stage's checkpoint, relative to the job file."""
    return None if stage.checkpoint is None else str(job.path(stage.checkpoint))


def checkpoint_digest(job: Job, stage: StageSettings) -> str | None:
    """32 hex digits that stand for the content of the stage's checkpoint, or the shipped one; None where it has none."""
    given = checkpoint_path(job, stage)
    folder = Path(given) if given is not None else SHIPPED / stage.reranker.removesuffix("_passages").partition(".")[0]
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".safetensors"))
    content = "".join(f"{path.relative_to(folder)} {sha256(path)}\n" for path in files if path.name != "training.json")
    return hashlib.sha256(content.encode()).hexdigest()[:32] if files else None


def planned(job: Job) -> dict[str, StageSettings]:
    """Digest → a stage with that checkpoint, of all `hashing` stages whose model makes bits.

    Raises JobError (78) where a checkpoint is missing or of no use.
    """
    made = {}
    for n, stage in enumerate(job.rerank.stages if job.rerank else []):
        if stage.reranker == Hashing.name:
            digest = checkpoint_digest(job, stage)
            try:
                if hashing.variant_of(checkpoint_of(_resources(job, stage), hashing.NAME)) == "has" and digest is not None:
                    made[digest] = stage
            except ValueError as e:
                raise JobError(f"rerank.stages[{n}]: {e}", SETTINGS) from e
    return made


class Coder(AnswerCoder):
    """What makes the codes of a shard, with the digest of its model."""

    def __init__(self, job: Job, digest: str, stage: StageSettings) -> None:
        resources = _resources(job, stage)
        super().__init__(*hashing.load(checkpoint_of(resources, hashing.NAME), resources))
        self.model = digest


def coders(job: Job) -> list[Coder]:
    """Of each model that is planned, loaded."""
    return [Coder(job, *each) for each in planned(job).items()]


def stored(job: Job, stage: StageSettings, run: Path, verify: bool = True) -> AnswerCodes | None:
    """The codes of the stage's model in the run's shards; None where the stage reads none, or no shard has any.

    Raises ShardMismatch, ShardDamaged, and JobError as `planned`.
    """
    manifest = read_manifest(run / "shards")
    digest = checkpoint_digest(job, stage)
    if manifest is None or digest is None or digest not in planned(job):
        return None
    return stored_codes([run / "shards" / part.file for part in manifest.parts], digest, verify)


def check(job: Job, run: Path) -> None:
    """Compare the stored codes of every stage with their checksums. Raises as `stored`."""
    for stage in planned(job).values():
        stored(job, stage, run)


def _resources(job: Job, stage: StageSettings) -> Resources:
    return Resources(checkpoint_path(job, stage), _no_encoder, find_model)


def _no_encoder() -> SentenceEncoder:
    raise AssertionError("hashing has an encoder of its own")
