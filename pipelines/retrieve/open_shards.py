"""The shards of a run, open for search: each is compared with its checksums when a process opens it for the first time."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from indexing.shards.jvm import find_java
from indexing.shards.shard import Shard
from pipelines.config.job_file import Job
from pipelines.execution.parquet_folder import Folder
from schemas.corpus import Passage

OPEN_TO_SEARCH = 4
"""Shards that a worker keeps open to search them: each holds its vectors in memory."""
OPEN_TO_FETCH = 64
"""Shards that a worker keeps open to read passages: each is one file, mapped into memory."""

_sound: dict[Path, str] = {}  # a shard whose checksums this process has compared → SHA-256 of its shard.json


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """A shard's folder, and the SHA-256 of its shard.json, which the manifest of shards/ has."""

    folder: Path
    sha256: str


def shards_of(run: Path) -> list[ShardPlace]:
    """The shards of a run. Raises JobError (66) if shards/ is not complete."""
    folder = Folder.open(run / "shards", Passage, "index")
    return [ShardPlace(folder.path / part.file, part.sha256) for part in folder.parts]


class OpenShards:
    """Opens shards and keeps the `most` that were used last open. Loads nothing before the first call.

    Opening a shard for the first time in a process compares the checksums of all its files, whichever instance opens it.
    """

    def __init__(self, job: Job, most: int = OPEN_TO_SEARCH) -> None:
        self._job, self._most = job, most
        self._open: OrderedDict[Path, Shard] = OrderedDict()

    def __call__(self, shard: ShardPlace) -> Shard:
        """The shard, open. Raises as `Shard.open`."""
        folder = shard.folder
        if folder not in self._open:
            verify, workers = _sound.get(folder) != shard.sha256, self._job.workers
            java = find_java(workers.java)
            self._open[folder] = Shard.open(folder, java, workers.java_heap, verify=verify, digest=shard.sha256)
            _sound[folder] = shard.sha256
        self._open.move_to_end(folder)
        while len(self._open) > self._most:
            self._open.popitem(last=False)[1].close()
        return self._open[folder]
