"""Heads: a checkpoint of a multiple-heads student in; a checkpoint of each of its heads alone out, for stages of their own."""

from __future__ import annotations

from pathlib import Path

from indexing.shards.dense import find_model
from pipelines.errors import OUTPUT_EXISTS, SETTINGS, JobError
from ranking.multihead.multihead import load, save
from ranking.transformer.transformer_checkpoint import word_source


def write_heads(checkpoint: Path, out: Path) -> list[str]:
    """Write out/1, out/2, …. Raises JobError: 78 where there is no such checkpoint, 73 where `out` has files."""
    if out.exists() and any(out.iterdir()):
        raise JobError(f"{out} has files; give another folder, or remove it", OUTPUT_EXISTS)
    try:
        model, tokeniser = load(checkpoint, find_model)
    except ValueError as e:
        raise JobError(str(e), SETTINGS) from e
    made = []
    for n in range(len(model.heads)):
        save(out / str(n + 1), model.only(n), tokeniser, "fp32", word_source(checkpoint))
        made.append(f"written: {out / str(n + 1)}")
    return made
