"""Export: a checkpoint -> a folder for sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import transformers

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError, setting_error
from answermill.ranking.rerankers.cascade.cross_encoder import export


def export_files(checkpoint: Path, out: Path, exit: int | None = None) -> list[str]:
    """Write the folder; returns lines for people.

    Raises JobError: 78 if there is no such checkpoint or exit, 73 if `out` has files.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        layers, tokens, candidate = export(checkpoint, out, exit, find_model)
    except ValueError as e:
        raise setting_error(e) from e
    except FileExistsError as e:
        raise JobError(str(e), OUTPUT_EXISTS) from e

    note = (
        f"; a candidate is one text, {candidate!r}, and a longer pair is cut from its end"
        if candidate != "{sentence}"
        else ""
    )

    return [
        f"{layers} layers, at most {tokens} tokens: "
        f"sentence_transformers.CrossEncoder({str(out)!r}).predict(pairs){note}",
        f"written: {out}",
    ]
