"""The shards of a run, which workers open: each is compared with its checksums when a process opens it for
the first time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from answermill.indexing.shards.lucene.jvm import find_java
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.shard_files import check_files, read_shard_file
from answermill.indexing.shards.vectors.vector_kinds import EXACT, FLAT, VectorSearch
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.runs.manifests.manifest import fetch_shard
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.steps.models import vector_search
from answermill.schemas.corpus import Passage

_sound: set[tuple[Path, str, str | None]] = set()
"""What this process has compared: a shard, SHA-256 of its shard.json, and a file, or None for all of them."""


@dataclass(frozen=True)
class RunShards:
    """The shards of a run, by number. A worker is sent their place, and reads their manifest itself."""

    job: Job
    folder: Folder[Passage]
    count: int

    @classmethod
    def of(cls, job: Job, run: Path) -> RunShards:
        """The shards in a run folder. Raises JobError (66) if shards/ is not complete."""
        shards = SHARDS.open(run)
        return cls(job, shards, len(shards.parts))

    def width(self, depth: int) -> VectorSearch:
        """Width of the search for the best `depth`, with which the recall of the shards was measured."""
        if self.job.index.vectors == FLAT:
            return EXACT
        times = INDEX.counts_of(self.folder.manifest).recall_times
        return vector_search(self.job, depth, times or 1)

    @contextmanager
    def open(self, number: int, only: str | None = None, device: str = "cpu") -> Iterator[Shard]:
        """A shard, open until the block ends. Raises as `Shard.open`, and JobError (74) if the worker sees
        other shards.

        `only`: the file that is needed; no others are compared, or copied from a store. `device`: as in
        `Shard.open`.
        """
        part = self.folder.parts[number]
        place, workers = self.folder.path / part.file, self.job.workers
        copy = fetch_shard(place, part.sha256, lambda name: only in (None, name))
        key = (place, part.sha256, only)
        verify = copy == place and _sound.isdisjoint({key, (place, part.sha256, None)})
        if verify and only is not None:
            check_files(copy, {only: read_shard_file(copy, part.sha256).files[only]})

        shard = Shard.open(
            copy,
            find_java(workers.java),
            workers.java_heap,
            verify=verify and only is None,
            digest=part.sha256,
            device=device,
        )
        if self.job.retrieve is not None:
            shard.check_words(self.job.index.language, self.job.retrieve.title_weight)
        _sound.add(key)
        try:
            yield shard
        finally:
            shard.close()
