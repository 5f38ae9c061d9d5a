"""Codes of all sentences, which `index` stores for the rerankers that use them (`Entry.sentence_codes`), and
`rerank` reads again.

A set of codes is known by the digest of all that decides it, which is in the fingerprint of `index`; that of
`rerank` has the same settings and files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from answermill.indexing.shards.sentence_codes import FOLDER, EncodedTexts, SentenceCodes
from answermill.indexing.shards.shard import stored_codes
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import SETTINGS, JobError, setting_error
from answermill.pipelines.runs.manifests.manifest import fetch_shard
from answermill.pipelines.specs.index import SHARDS
from answermill.pipelines.steps.models import (
    checkpoint_folder,
    checkpoint_inputs,
    device_of,
    encoder_inputs,
    passage_encoder,
    shared,
    stage_resources,
)
from answermill.ranking.entry import StageSettings
from answermill.ranking.reranker import naming
from answermill.ranking.rerankers.registry import find
from answermill.schemas.corpus import Passage


def codes_digest(job: Job, number: int, stage: StageSettings, models: Mapping[str, str]) -> str | None:
    """32 hex digits that stand for all that decides the codes that the stage reads; None if it reads none.

    That is the content of its checkpoint; or the encoder's, its settings and those of the stage. `number`:
    the stage's in the plan; `models`: as `model_inputs`, with its digests at least.

    Raises JobError: 66 if its checkpoint is missing, 78 if it is unusable.
    """
    entry, checkpoint = find(stage.reranker), models.get(f"checkpoint of {stage.key}")
    try:
        folder = checkpoint_folder(job, stage)
        decisive = None if entry.coder is None else entry.coder.decisive(stage, folder)
    except ValueError as e:
        raise setting_error(e, f"rerank.stages.{number}") from e

    if decisive is None:
        return None
    if not entry.stores_vectors:
        return checkpoint
    if not entry.uses_encoder:
        return hashlib.sha256(json.dumps([checkpoint, *decisive]).encode()).hexdigest()[:32]

    name = f"encoder {job.index.encoder}"
    encoder = {name: models[name], "tokens": job.index.encoder_tokens, "precision": job.index.precision}
    return hashlib.sha256(json.dumps([encoder, *decisive]).encode()).hexdigest()[:32]


def planned(job: Job) -> dict[str, StageSettings]:
    """Digest → a stage that reads these codes, for all stages that read some.

    Raises JobError (78) if a checkpoint is missing or unusable, ModelMissing if the encoder cannot be had.
    """
    stages = {}
    for number, stage in enumerate(job.rerank.stages if job.rerank else []):
        entry, models = find(stage.reranker), dict[str, str]()
        if entry.sentence_codes is not None:
            models |= checkpoint_inputs(job, number, stage)
            models |= encoder_inputs(job, questions=False) if entry.uses_encoder else {}
        digest = codes_digest(job, number, stage, models)
        if digest is not None:
            stages[digest] = stage
    return stages


def inputs(job: Job) -> dict[str, str]:
    """Digests of the codes, for the fingerprint of index: those of each reranker's checkpoints, or of its
    vectors."""
    digests: dict[str, list[str]] = {}
    for digest, stage in sorted(planned(job).items()):
        name = "sentence vectors" if find(stage.reranker).stores_vectors else "checkpoints"
        digests.setdefault(f"{name} of {stage.reranker}", []).append(digest)
    return {name: ", ".join(reranker_digests) for name, reranker_digests in sorted(digests.items())}


class Coder:
    """Encodes the sentences of a shard, under the digest of what decides their codes."""

    def __init__(self, job: Job, digest: str, stage: StageSettings) -> None:
        entry = find(stage.reranker)
        if entry.coder is None:
            raise ValueError(f"{stage.reranker} stores no codes of sentences")
        resources = stage_resources(job, stage, partial(passage_encoder, job))
        self._stage, self._folder = stage.key, resources.checkpoint
        self._coder = entry.coder.load(resources)
        self.model, self.width = digest, self._coder.width
        self.form, self.precision = self._coder.form, self._coder.precision

    def texts(self, passage: Passage) -> Iterator[tuple[str, ...]]:
        """Texts that are encoded for each of the passage's sentences."""
        return self._coder.reading.sentence_texts(passage)

    def encode(self, texts: Sequence[tuple[str, ...]]) -> EncodedTexts:
        """The texts' codes, end to end. Raises ScoreNotFinite, with the stage and the checkpoint, as the
        coder does."""
        with naming(f"stage {self._stage}", self._folder):
            return self._coder.encode(texts)


def coders(job: Job) -> list[Coder]:
    """A coder for each set of codes that is planned, loaded once in this process."""
    device = device_of(job.workers.device)
    return [
        shared(("coder", stage.reranker, digest, device), partial(Coder, job, digest, stage))
        for digest, stage in planned(job).items()
    ]


def stored(stage: StageSettings, digest: str | None, run: Path, verify: bool = True) -> SentenceCodes | None:
    """The codes of this digest, which the stage reads, in the run's shards; None if it reads none, or no
    shard has any.

    Raises ShardMismatch, ShardDamaged.
    """
    manifest = SHARDS.manifest(run)
    if manifest is None or digest is None:
        return None
    digests = [part.sha256 for part in manifest.parts]
    folders = [
        fetch_shard(SHARDS.path(run) / part.file, part.sha256, lambda name: name.startswith(f"{FOLDER}/"))
        for part in manifest.parts
    ]
    return stored_codes(folders, digest, verify, digests, vectors=find(stage.reranker).stores_vectors)


def check_stored(job: Job, run: Path | None = None) -> None:
    """Refuse a stage whose settings want what is `stored` in a job without shards for it: one that does not
    retrieve, unless the run has shards. Raises JobError (78)."""
    if job.retrieve is not None or (run is not None and SHARDS.manifest(run) is not None):
        return
    for n, stage in enumerate(job.rerank.stages if job.rerank else []):
        form = getattr(stage, "stored", None) if "stored" in stage.model_fields_set else None
        if form:
            raise JobError(
                f"rerank.stages.{n} ({stage.key}): stored = {form!r}, but nothing is indexed here that "
                "could hold vectors: the "
                "job has no [retrieve] section; leave `stored` out",
                SETTINGS,
            )


def check(stages: Sequence[StageSettings], codes: Mapping[str, str], run: Path) -> None:
    """Compare the stored codes of the stages with their checksums.

    `codes`: key of a stage that reads some → their digest.

    Raises as `stored`.
    """
    reader = {codes[stage.key]: stage for stage in stages if stage.key in codes}
    for digest, stage in reader.items():
        stored(stage, digest, run)
