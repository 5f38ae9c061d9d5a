"""Shrink: a checkpoint of a transformer -> the same model in fewer bytes, as differences to the public body
that it began as. How few is decided by a dev set: the smallest form whose score is within a bound is written.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from answermill.files.atomic_files import replace_folder
from answermill.files.model_files import HISTORY
from answermill.files.store import creating
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, JobError, setting_error
from answermill.pipelines.learn.train.dev_score import DevScore
from answermill.pipelines.learn.train.int8 import ON_CARD, add_loss, on_processor, serves_int8
from answermill.pipelines.learn.train.training_card import CARD, add_note
from answermill.ranking.checkpoint import WEIGHTS, kind_of
from answermill.ranking.entry import resolve
from answermill.ranking.rerankers.registry import trainings
from answermill.ranking.transformer.differences import Differences
from answermill.ranking.transformer.packing import Tokeniser
from answermill.ranking.transformer.transformer_checkpoint import (
    BodySource,
    TransformerModel,
    public_weights,
    word_source,
    write_differences,
)

SHARES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.999)
"""Shares of the differences' energy that are tried, from few bytes to many. The last finds every rank that a
training of low rank left; of all of the energy the rest is rounding."""


def shrink(
    checkpoint: Path, out: Path, aim: DevScore, bound: float, body: str | None = None
) -> Iterator[str]:
    """Write the folder; yields the lines of a table of what was tried. Where its reranker serves in int8, the
    loss by that is measured too.

    `bound`: points, of 100, that the score may be lower than that of the checkpoint. `body`: name of the
    public body; the one whose words the checkpoint has, or the default, if None. Raises JobError: 73 if `out`
    has files, 78 if the checkpoint is of no transformer or began as another body, 65 if no form keeps the
    score, and the errors of `find_model` and `evaluate`.
    """
    if out.exists() and any(out.iterdir()):
        raise JobError(f"{out} has files; give another folder, or remove it", OUTPUT_EXISTS)

    try:
        source, differences = _differences(checkpoint, body)
    except (OSError, ValueError) as e:
        raise setting_error(e) from e

    whole = (checkpoint / WEIGHTS).stat().st_size
    before = aim.of(checkpoint)
    yield f"{'kept':<10}{'MB':>8}{aim.metric:>10}"
    yield f"{'checkpoint':<10}{whole / 1e6:>8.2f}{before:>10.2f}"

    with creating(out) as unfinished:
        for share in SHARES:
            write_differences(checkpoint, unfinished, source, differences.stored(share))
            size = (unfinished / WEIGHTS).stat().st_size
            if size >= whole:
                break

            score = aim.of(unfinished)
            kept = f"{100 * share:g} %"
            yield f"{kept:<10}{size / 1e6:>8.2f}{score:>10.2f}"
            if score >= before - bound:
                _describe(
                    checkpoint,
                    unfinished,
                    f"Stored as differences to {source.model}, of which {kept} of the energy is kept: "
                    f"{aim.metric} {score:.2f} on {aim.dev.name}, before {before:.2f}.",
                )
                if serves_int8(aim.reranker_of(checkpoint)):
                    yield add_loss(unfinished, aim) if on_processor() else f"int8 not measured: {ON_CARD}"
                replace_folder(unfinished, out)
                yield f"written: {out}"
                return

    raise JobError(
        f"{checkpoint}: no smaller form keeps {aim.metric} within {bound:g} of {before:.2f} on "
        f"{aim.dev}; give a higher --bound, or keep the checkpoint",
        BAD_DATA,
    )


def _differences(checkpoint: Path, body: str | None) -> tuple[BodySource, Differences]:
    """The public body, and the checkpoint's weights beside its. Raises ValueError if they do not fit."""
    kind = kind_of(checkpoint)
    training = trainings().get(kind)
    if training is None or training.start is None:
        raise ValueError(
            f"{checkpoint} is a checkpoint of {kind}, which has no transformer; keep it as it is"
        )

    known = word_source(checkpoint)
    name = body or (DEFAULT if known is None else known.model)
    folder = find_model(name)
    source = BodySource.read(name, folder)
    if known is not None and known.sha256 != source.sha256:
        raise ValueError(
            f"{checkpoint} has the words of {known.model}, which is another model than {name}; give --body "
            f"{known.model}"
        )

    load: Callable[[Path, Callable[[str], Path]], tuple[TransformerModel, Tokeniser]] = resolve(
        training.start
    )
    model, _ = load(checkpoint, find_model)
    try:
        return source, Differences(model.state_dict(), public_weights(model, folder))
    except ValueError as e:
        raise ValueError(f"{checkpoint} did not begin as {name}: {e}") from e


def _describe(checkpoint: Path, folder: Path, note: str) -> None:
    """Copy the training's history, and the card with the note below its title."""
    for name in (HISTORY, CARD):
        if (checkpoint / name).is_file():
            shutil.copyfile(checkpoint / name, folder / name)
    add_note(folder, note)
