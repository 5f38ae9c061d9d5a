"""Int8: a checkpoint -> the same, with what it loses by `precision = "int8"` on labelled lists."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from answermill.files.atomic_files import replace_folder
from answermill.files.copies import digest_of
from answermill.files.model_files import folder_digest
from answermill.files.store import creating
from answermill.indexing.shards.dense import find_model
from answermill.pipelines.errors import OUTPUT_EXISTS, SETTINGS, USAGE, JobError, setting_error
from answermill.pipelines.learn.train.dev_score import DevScore
from answermill.pipelines.learn.train.training_card import add_note
from answermill.pipelines.steps.models import device_of
from answermill.ranking.checkpoint import Int8Loss
from answermill.ranking.entry import TransformerStage, checkpoint_at
from answermill.ranking.evaluation.significance import compare
from answermill.ranking.rerankers.registry import find, known

NOTE = "With `precision"
"""Beginning of the card's note."""
ON_CARD = (
    "int8 is for processors, and models run on a graphics card here; type CUDA_VISIBLE_DEVICES= before the "
    "command"
)


def serves_int8(reranker: str) -> bool:
    """True if stages of the reranker have the key `precision` with int8."""
    return issubclass(find(reranker).settings, TransformerStage)


def write_measured(checkpoint: str, out: Path, aim: DevScore) -> Iterator[str]:
    """Write a copy of a checkpoint, or of a published model, with its loss by int8; yields lines for people.

    Raises JobError: 73 if `out` has files, 78 if no stage serves the checkpoint in int8 or this machine would
    use a graphics card, and the errors of `find_model` and `evaluate`.
    """
    if out.exists() and any(out.iterdir()):
        raise JobError(f"{out} has files; give another folder, or remove it", OUTPUT_EXISTS)
    if written := [setting for setting in aim.settings if setting.startswith(("precision", "int8_loss"))]:
        raise JobError(f"--set {written[0]}: both precisions are measured; leave it out", USAGE)
    folder = _folder(checkpoint, aim.reranker)
    try:
        reranker = aim.reranker_of(folder)
        if not serves_int8(reranker):
            able = ", ".join(sorted(name for name in known() if serves_int8(name)))
            raise ValueError(f"{reranker} has no setting `precision` with int8; those that have: {able}")
    except ValueError as e:
        raise setting_error(e) from e
    if not on_processor():
        raise JobError(ON_CARD, SETTINGS)

    # The model is measured where it is, beside a body that it may need.
    loss = measure(folder, aim)
    with creating(out) as unfinished:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            copy = unfinished / file.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        state(unfinished, loss)
        replace_folder(unfinished, out)
    yield loss.statement()
    yield f"written: {out}"


def on_processor() -> bool:
    """True if models run on this machine's processor, so that int8 can be measured."""
    return device_of("auto") == "cpu"


def add_loss(folder: Path, aim: DevScore) -> str:
    """Measure what the model of a folder loses, and state it in the folder; returns it as a sentence."""
    loss = measure(folder, aim)
    state(folder, loss)
    return loss.statement()


def state(folder: Path, loss: Int8Loss) -> None:
    """Write the loss into a folder and onto its card."""
    loss.write(folder)
    add_note(folder, loss.statement(), NOTE)


def measure(folder: Path, aim: DevScore) -> Int8Loss:
    """Loss of a folder's model, with its interval over the questions. Raises the errors of `evaluate`."""
    small = aim.values(folder, "precision=int8", "int8_loss=any")
    exact = aim.values(folder, "precision=fp32")
    compared = compare(exact, small)
    lists = sorted(aim.dev.rglob("*")) if aim.dev.is_dir() else [aim.dev]
    return Int8Loss(
        model=folder_digest(folder) or "",
        reranker=aim.reranker_of(folder),
        settings=list(aim.settings),
        metric=aim.metric,
        lists=aim.dev.name,
        lists_sha256=digest_of(*(file for file in lists if file.is_file())),
        questions=len(exact),
        fp32=_rounded(compared.a),
        int8=_rounded(compared.b),
        loss=_rounded(-compared.difference),
        low=_rounded(-compared.high),
        high=_rounded(-compared.low),
    )


def _rounded(points: float) -> float:
    return round(points, 4) + 0.0  # never -0


def _folder(checkpoint: str, reranker: str | None) -> Path:
    """Folder of a checkpoint by path, of a shipped one by name, or of a published model by hub name."""
    folder = checkpoint_at(Path(checkpoint), checkpoint)
    if folder.is_dir() or reranker is None or find(reranker).pretrained is None:
        return folder
    return find_model(checkpoint)
