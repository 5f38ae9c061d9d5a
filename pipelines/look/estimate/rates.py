"""What a plan is computed from: what a sample of the input became (`Volumes`), and what it cost on a machine (`Rates`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError

ROWS_OF = {
    "documents": ("ingest", "documents"),
    "passages": ("ingest", "passages"),
    "rejects": ("ingest", "rejects"),
    "shards": ("index", "passages"),
    "questions": ("retrieve", "questions"),
    "retrieved": ("retrieve", "hits"),
    "scored": ("rerank", "candidates"),
    "answers": ("rerank", "questions"),
}
"""Folder → the step and the count to which its size is proportional."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Processor seconds of one core for each item, and to begin a step in a worker."""

    machine: str
    page: float
    passage: float
    question: float
    """Retrieving for a question over one small shard."""
    question_shard: float
    """For each shard more."""
    question_vector: float
    """For each passage more in a dense index."""
    candidate: dict[str, float]
    """Stage → for each candidate that comes into it."""
    startup: dict[str, float]
    """Step → to begin."""

    def save(self, file: Path) -> None:
        write_text(file, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Rates:
        """Raises JobError: 66 if there is no such file, 65 if it is not one that `save` wrote."""
        try:
            return read_json(file, cls)
        except FileNotFoundError:
            raise JobError(
                f"--rates {file}: no such file; `answermill plan JOB.toml --save-rates FILE` writes it", INPUT_MISSING
            ) from None
        except WrongShape as e:
            raise JobError(f"--rates: {e}; `answermill plan JOB.toml --save-rates FILE` writes such a file", BAD_DATA) from e


def layer_tokens(counts: Mapping[str, int]) -> int:
    """Layers × tokens that all stages of a rerank have computed."""
    return sum(n for name, n in counts.items() if name.endswith("_layer_tokens") and "_full_" not in name)


@dataclass(frozen=True, slots=True)
class Volumes:
    """Counts of runs over a sample: pages as ingest reads them, and what they became; of some of these, the passages that were
    indexed, hits at `depth`, and the counts of rerank."""

    pages: int
    documents: int
    passages: int
    indexed: int
    questions: int
    hits: int
    bm25: int
    dense: int
    depth: int
    counts: Mapping[str, int]
    row_bytes: Mapping[str, float]
    """Folder → bytes of a row."""
    part_bytes: Mapping[str, float] = field(default_factory=dict)
    """Folder → bytes that a part has without a row."""
    dimension: int = 0
    """Of the dense encoder's vectors."""

    @property
    def overlap(self) -> float:
        """Of the shorter list's passages, the share that the other index returned too."""
        shorter = min(self.bm25, self.dense)
        return (self.bm25 + self.dense - self.hits) / shorter if shorter else 0.0
