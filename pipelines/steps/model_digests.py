"""What models add to a step's fingerprint: the settings that decide their numbers, and the content of their files."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from indexing.shards.dense import find_model
from pipelines.config.job_file import Job
from schemas.atomic_files import sha256

_SUFFIXES = (".json", ".model", ".safetensors", ".txt")
Stamp = tuple[tuple[str, int, int], ...]


def folder_digest(folder: Path) -> str | None:
    """32 hex digits that stand for the content of a model folder, without its training's history; None if it has no files.

    Each file is read once in a process, unless its size or time changes.
    """
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in _SUFFIXES and path.name != "training.json"]
    stamp = tuple((str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    return _digest(folder, stamp) if files else None


@lru_cache(maxsize=64)
def _digest(folder: Path, stamp: Stamp) -> str:
    content = "".join(f"{name} {sha256(folder / name)}\n" for name, _, _ in stamp)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def encoder_settings(job: Job) -> dict[str, Any]:
    """All settings of the dense encoder that decide its vectors."""
    return job.index.model_dump(include={"encoder", "question_encoder", "encoder_tokens", "precision"})


def encoder_inputs(job: Job, questions: bool = True) -> dict[str, str]:
    """'encoder NAME' → digest of its files, for the encoder of passages and, with `questions`, that of questions.

    Raises ModelMissing if one cannot be had.
    """
    names = {job.index.encoder, job.index.question_encoder if questions else None}
    return {f"encoder {name}": folder_digest(find_model(name)) or "" for name in sorted(filter(None, names))}
