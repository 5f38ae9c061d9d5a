"""Codes of sentences: what `index` stores of all sentences for the rerankers that ask for it (`Entry.sentence_codes`), and
`rerank` reads again.

A model is known by the digest of its checkpoint's files, which is in the fingerprints of both steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from indexing.shards.answer_codes import AnswerCodes, EncodedTexts
from indexing.shards.dense import find_model
from indexing.shards.shard import stored_codes
from pipelines.config.job_file import Job
from pipelines.errors import SETTINGS, JobError
from pipelines.execution.manifests.manifest import read_manifest
from pipelines.steps.models import device_of, folder_digest, shared
from ranking.entry import StageSettings
from ranking.registry import find
from ranking.reranker import Resources, SentenceEncoder, naming


def checkpoint_folder(job: Job, stage: StageSettings) -> Path | None:
    """The stage's checkpoint, relative to the job file, or the shipped one; None for a reranker without a model.

    Raises ValueError as `Entry.folder`.
    """
    return find(stage.reranker).folder(None if stage.checkpoint is None else job.path(stage.checkpoint))


def checkpoint_digest(job: Job, stage: StageSettings) -> str | None:
    """32 hex digits that stand for the content of the stage's checkpoint, or the shipped one; None if it has none.

    Raises ValueError as `Entry.folder`.
    """
    folder = checkpoint_folder(job, stage)
    return None if folder is None else folder_digest(folder)


def planned(job: Job) -> dict[str, StageSettings]:
    """Digest → a stage with that checkpoint, for all stages whose checkpoint reads codes.

    Raises JobError (78) if a checkpoint is missing or unusable.
    """
    stages = {}
    for n, stage in enumerate(job.rerank.stages if job.rerank else []):
        coder = find(stage.reranker).coder
        if coder is not None:
            try:
                folder, digest = checkpoint_folder(job, stage), checkpoint_digest(job, stage)
                if folder is not None and coder.makes_codes(folder) and digest is not None:
                    stages[digest] = stage
            except ValueError as e:
                raise JobError(f"rerank.stages.{n}: {e}", SETTINGS) from e
    return stages


def inputs(job: Job) -> dict[str, str]:
    """What the index step's fingerprint holds of the codes: the digests of each reranker's checkpoints."""
    digests: dict[str, list[str]] = {}
    for digest, stage in sorted(planned(job).items()):
        digests.setdefault(stage.reranker, []).append(digest)
    return {f"checkpoints of {reranker}": ", ".join(of_reranker) for reranker, of_reranker in sorted(digests.items())}


class Coder:
    """Encodes the sentences of a shard, under the digest of its checkpoint."""

    def __init__(self, job: Job, digest: str, stage: StageSettings) -> None:
        coder = find(stage.reranker).coder
        if coder is None:
            raise ValueError(f"{stage.reranker} stores no codes of sentences")
        device = device_of(job.workers.device)
        self._stage, self._folder = stage.key, checkpoint_folder(job, stage)
        self._coder = coder.load(Resources(stage, self._folder, _no_encoder, partial(find_model, beside=job.folder), device))
        self.model, self.width = digest, self._coder.width

    def encode(self, texts: Sequence[str]) -> EncodedTexts:
        """The texts' codes, end to end. Raises ScoreNotFinite, with the stage and the checkpoint, as the coder does."""
        with naming(f"stage {self._stage}", self._folder):
            return self._coder.encode(texts)


def coders(job: Job) -> list[Coder]:
    """One for each checkpoint that is planned, loaded once in this process."""
    device = device_of(job.workers.device)
    return [
        shared(("coder", stage.reranker, digest, device), partial(Coder, job, digest, stage))
        for digest, stage in planned(job).items()
    ]


def stored(job: Job, stage: StageSettings, run: Path, verify: bool = True) -> AnswerCodes | None:
    """The codes of the stage's checkpoint in the run's shards; None if the stage reads none, or no shard has any.

    Raises ShardMismatch, ShardDamaged, and JobError as `planned`.
    """
    if find(stage.reranker).sentence_codes is None:
        return None
    manifest = read_manifest(run / "shards")
    digest = checkpoint_digest(job, stage)
    if manifest is None or digest is None or digest not in planned(job):
        return None
    folders = [run / "shards" / part.file for part in manifest.parts]
    return stored_codes(folders, digest, verify, [part.sha256 for part in manifest.parts])


def check(job: Job, run: Path) -> None:
    """Compare the stored codes of every stage with their checksums. Raises as `stored`."""
    for stage in planned(job).values():
        stored(job, stage, run)


def _no_encoder() -> SentenceEncoder:
    raise AssertionError("sentences are encoded by the stage's own model")
