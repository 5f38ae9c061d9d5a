"""Heads: a checkpoint of a multiple-heads student -> a checkpoint of each single head, for a stage or another
training."""

from __future__ import annotations

from pathlib import Path

from answermill.files.atomic_files import replace_folder
from answermill.indexing.shards.dense import find_model
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError, setting_error
from answermill.ranking.rerankers.multihead.multihead import load, save
from answermill.ranking.transformer.transformer_checkpoint import StoredForm, word_source


def write_heads(checkpoint: Path, out: Path) -> list[str]:
    """Write out/1, out/2, …. Raises JobError: 78 if there is no such checkpoint, 73 if `out` has files."""
    if out.exists() and any(out.iterdir()):
        raise JobError(f"{out} has files; give another folder, or remove it", OUTPUT_EXISTS)

    try:
        model, tokeniser = load(checkpoint, find_model)
    except ValueError as e:
        raise setting_error(e) from e

    words = word_source(checkpoint)
    folders = [out / str(n) for n in range(1, len(model.heads) + 1)]
    for n, folder in enumerate(folders):
        unfinished = folder.with_name(f".{folder.name}.tmp")
        save(unfinished, model.only(n), tokeniser, StoredForm(words=words))
        replace_folder(unfinished, folder)

    return [f"written: {folder}" for folder in folders]
