"""Codes of sentences: what `index` stores of all sentences for the rerankers that ask for it (`Entry.sentence_codes`), and
`rerank` reads again.

A set of codes is known by the digest of all that decides it, which is in the fingerprint of `index`; that of `rerank` has the
same settings and files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from answermill.indexing.shards.dense import find_model
from answermill.indexing.shards.sentence_codes import FOLDER, EncodedTexts, SentenceCodes
from answermill.indexing.shards.shard import stored_codes
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.runs.manifests.manifest import fetch_shard
from answermill.pipelines.specs.index import SHARDS
from answermill.pipelines.steps.models import device_of, encoder_inputs, encoder_loader, folder_digest, passage_encoder, shared
from answermill.ranking.entry import StageSettings
from answermill.ranking.reranker import Resources, SentenceEncoder, naming
from answermill.ranking.rerankers.registry import find
from answermill.schemas.corpus import Passage


def checkpoint_folder(job: Job, stage: StageSettings) -> Path | None:
    """The stage's checkpoint, relative to the job file, or the shipped one; None for a reranker without a model.

    Raises ValueError as `Entry.folder`, ModelMissing if a model that others have published cannot be had.
    """
    if find(stage.reranker).pretrained is not None:
        return find(stage.reranker).folder(stage.checkpoint, partial(find_model, beside=job.folder))
    return find(stage.reranker).folder(None if stage.checkpoint is None else job.tree(stage.checkpoint))


def checkpoint_digest(job: Job, stage: StageSettings) -> str | None:
    """32 hex digits that stand for the content of the stage's checkpoint, or the shipped one; None if it has none.

    Raises ValueError as `Entry.folder`.
    """
    folder = checkpoint_folder(job, stage)
    return None if folder is None else folder_digest(folder)


def codes_digest(job: Job, stage: StageSettings) -> str | None:
    """32 hex digits that stand for all that decides the codes that the stage reads; None if it reads none.

    That is the content of its checkpoint; or the encoder's, its settings and those of the stage. Raises ValueError as
    `Entry.folder`, ModelMissing if the encoder cannot be had.
    """
    entry, folder = find(stage.reranker), checkpoint_folder(job, stage)
    decisive = None if entry.coder is None else entry.coder.decisive(stage, folder)
    if decisive is None or not entry.stores_vectors:
        return None if decisive is None else checkpoint_digest(job, stage)
    if not entry.uses_encoder:
        return hashlib.sha256(json.dumps([checkpoint_digest(job, stage), *decisive]).encode()).hexdigest()[:32]
    encoder = {**encoder_inputs(job, questions=False), "tokens": job.index.encoder_tokens, "precision": job.index.precision}
    return hashlib.sha256(json.dumps([encoder, *decisive]).encode()).hexdigest()[:32]


def planned(job: Job) -> dict[str, StageSettings]:
    """Digest → a stage that reads these codes, for all stages that read some.

    Raises JobError (78) if a checkpoint is missing or unusable, ModelMissing if the encoder cannot be had.
    """
    stages = {}
    for n, stage in enumerate(job.rerank.stages if job.rerank else []):
        try:
            digest = codes_digest(job, stage)
        except ValueError as e:
            raise JobError(f"rerank.stages.{n}: {e}", SETTINGS) from e
        if digest is not None:
            stages[digest] = stage
    return stages


def inputs(job: Job) -> dict[str, str]:
    """What the fingerprint of index holds of the codes: the digests of each reranker's checkpoints, or of its vectors."""
    digests: dict[str, list[str]] = {}
    for digest, stage in sorted(planned(job).items()):
        what = "sentence vectors" if find(stage.reranker).stores_vectors else "checkpoints"
        digests.setdefault(f"{what} of {stage.reranker}", []).append(digest)
    return {what: ", ".join(of_reranker) for what, of_reranker in sorted(digests.items())}


class Coder:
    """Encodes the sentences of a shard, under the digest of what decides their codes."""

    def __init__(self, job: Job, digest: str, stage: StageSettings) -> None:
        entry = find(stage.reranker)
        if entry.coder is None:
            raise ValueError(f"{stage.reranker} stores no codes of sentences")
        device = device_of(job.workers.device)
        self._stage, self._folder = stage.key, checkpoint_folder(job, stage)
        encoder = partial(passage_encoder, job) if entry.uses_encoder else _no_encoder
        resources = Resources(
            settings=stage,
            checkpoint=self._folder,
            encoder=encoder,
            model=partial(find_model, beside=job.folder),
            device=device,
            encoder_of=encoder_loader(job.folder, job.workers.device),
        )
        self._coder = entry.coder.load(resources)
        self.model, self.width = digest, self._coder.width
        self.form, self.precision = self._coder.form, self._coder.precision

    def texts(self, passage: Passage) -> Iterator[tuple[str, ...]]:
        """What is encoded of each of the passage's sentences."""
        return self._coder.reading.of_passage(passage)

    def encode(self, texts: Sequence[tuple[str, ...]]) -> EncodedTexts:
        """The texts' codes, end to end. Raises ScoreNotFinite, with the stage and the checkpoint, as the coder does."""
        with naming(f"stage {self._stage}", self._folder):
            return self._coder.encode(texts)


def coders(job: Job) -> list[Coder]:
    """One for each set of codes that is planned, loaded once in this process."""
    device = device_of(job.workers.device)
    return [
        shared(("coder", stage.reranker, digest, device), partial(Coder, job, digest, stage))
        for digest, stage in planned(job).items()
    ]


def stored(job: Job, stage: StageSettings, run: Path, verify: bool = True) -> SentenceCodes | None:
    """The codes that the stage reads in the run's shards; None if it reads none, or no shard has any.

    Raises ShardMismatch, ShardDamaged, and as `codes_digest`.
    """
    if find(stage.reranker).coder is None:
        return None
    manifest, digest = SHARDS.manifest(run), codes_digest(job, stage)
    if manifest is None or digest is None:
        return None
    digests = [part.sha256 for part in manifest.parts]
    folders = [
        fetch_shard(run / "shards" / part.file, part.sha256, lambda name: name.startswith(f"{FOLDER}/"))
        for part in manifest.parts
    ]
    return stored_codes(folders, digest, verify, digests, vectors=find(stage.reranker).stores_vectors)


def check_stored(job: Job, run: Path | None = None) -> None:
    """Refuse a stage that says `stored` in a job in which no shard can hold it: one that does not retrieve, unless the run has
    shards. Raises JobError (78)."""
    if job.retrieve is not None or (run is not None and SHARDS.manifest(run) is not None):
        return
    for n, stage in enumerate(job.rerank.stages if job.rerank else []):
        if (form := getattr(stage, "stored", None)) is not None:
            raise JobError(
                f"rerank.stages.{n} ({stage.key}): stored = {form!r}, but nothing is indexed here that could hold vectors: the "
                "job has no [retrieve] section; leave `stored` out",
                SETTINGS,
            )


def check(job: Job, run: Path) -> None:
    """Compare the stored codes of every stage with their checksums. Raises as `stored`."""
    for stage in planned(job).values():
        stored(job, stage, run)


def _no_encoder() -> SentenceEncoder:
    raise AssertionError("sentences are encoded by the stage's own model")
