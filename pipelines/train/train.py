"""Train: a training file (`trainjob.py`) and data sets in; a checkpoint folder with its card out."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pipelines.config.training_file import TrainJob
from pipelines.datasets import by_question, read_dataset
from pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, SETTINGS, JobError
from pipelines.execution.lock import LOCK, claimed
from pipelines.execution.progress import print_line, progress
from pipelines.execution.step import code_version
from pipelines.inputs.tables import read_passages
from pipelines.train.builders import task_of
from pipelines.train.teachers import table_file, teach
from ranking.training.loop import Dev, Progress, Recipe, Task, train
from ranking.training.state import STATE, History, finished
from schemas.atomic_files import sha256, write_text
from schemas.labels import LabelledCandidate, LabelledPassage

CARD = "README.md"


def run(job: TrainJob, out: Path) -> Iterator[str]:
    """Train into `out`, or go on there; yields lines for people.

    Raises JobError: 65 and 66 where the data are wrong or missing, 73 where `out` holds something else or another process
    trains there, 78 where the settings cannot be meant; ModelMissing where the embeddings' transformer cannot be had.
    """
    files = [job.path(written) for written in (*job.data.train, *job.data.dev)]
    if job.model is not None:
        files += map(job.path, job.model.vocabulary)
    for body in (getattr(job.trained, key, "") for key in ("encoder", "easi")):
        if body and (begun := job.path(body) / "model.safetensors").is_file():
            files.append(begun)
    for file in files:
        if not file.is_file():
            raise JobError(f"{file}: no such file", INPUT_MISSING)
    if job.distil is not None:
        files += [table_file(job.path(table)) for table in job.distil.tables]
    digests = {str(file): sha256(file) for file in files}
    decisive = [job.model_dump(exclude={"data": {"name", "licence"}}, exclude_none=True), list(digests.values())]
    fingerprint = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:32]
    with claimed(out):
        yield from _run(job, out, digests, fingerprint)


def _run(job: TrainJob, out: Path, digests: Mapping[str, str], fingerprint: str) -> Iterator[str]:
    done = finished(out)
    others = [path for path in out.iterdir() if path.name != LOCK]
    if done is not None or (others and not (out / STATE).is_dir()):
        if done is None or done.fingerprint != fingerprint:
            raise JobError(f"{out} holds something else; give another --out, or delete it", OUTPUT_EXISTS)
        yield f"{_summary(job, done)} (complete)"
        return
    torch.set_num_threads(job.train.threads)
    learn, dev_set = ([rows for name in names for rows in _questions(job, name)] for names in (job.data.train, job.data.dev))
    yield f"{_told(job.data.train, learn)}; dev {_told(job.data.dev, dev_set)}"
    logits: Sequence[npt.NDArray[np.float32]] = ()
    if job.distil is not None:
        taught = teach([job.path(table) for table in job.distil.tables], job.distil.teachers, learn)
        learn, logits = taught.questions, taught.logits
        yield f"teachers {taught.told}"
    torch.manual_seed(job.train.seed)
    try:
        task, dev, told = task_of(job, learn, dev_set, logits)
    except ValueError as e:
        raise JobError(str(e), SETTINGS) from e
    parameters = sum(p.numel() for p in task.model.parameters() if p.requires_grad)
    yield f"{_name(job)}: {parameters:,} parameters; {told}"
    recipe = Recipe(**job.train.model_dump(exclude={"batch", "threads"}))
    began = time.monotonic()
    try:
        history = _watched(task, dev, recipe, out, fingerprint)
    except ValueError as e:
        raise JobError(str(e), BAD_DATA) from e
    write_text(out / CARD, "\n".join(_card(job, history, parameters, digests, told, time.monotonic() - began)) + "\n")
    yield _summary(job, history)


def _watched(task: Task, dev: Dev, recipe: Recipe, out: Path, fingerprint: str) -> History:
    """Train with progress on stderr: steps all the while, and a line per evaluation."""
    now = Progress(0, 1, 0.0, None, None)

    def tell(state: Progress) -> None:
        nonlocal now
        now = state
        if state.dev is not None:
            line = {"step": state.step, "of": state.steps, "loss": round(state.loss, 4)}
            print_line(json.dumps({**line, f"dev_{recipe.metric}": round(state.dev, 4), "best": round(state.best or 0.0, 4)}))

    with progress("train", task.steps * recipe.epochs, lambda: now.step):
        return train(task, dev, recipe, out, fingerprint, tell)


def _questions(job: TrainJob, name: str) -> list[list[Any]]:
    """A file's candidates, or passages, of each question."""
    if job.peasi is not None:
        return [list(rows) for rows in read_passages(job.path(name))]
    return list(by_question(read_dataset(job.path(name), job.data.form)))


def _told(files: Sequence[str], questions: Sequence[Sequence[LabelledCandidate | LabelledPassage]]) -> str:
    answered = sum(any(row.label for row in rows) for rows in questions)
    return f"{', '.join(files)}: {len(questions):,} questions, {answered:,} answered, {sum(map(len, questions)):,} candidates"


def _name(job: TrainJob) -> str:
    if job.model is not None:
        return f"{job.model.reranker} {job.model.form}"
    if job.peasi is not None:
        return f"peasi {job.peasi.variant} of {Path(job.peasi.encoder).name}"
    if job.hashing is not None:
        return f"hashing {job.hashing.variant} of {Path(job.hashing.encoder).name}"
    assert job.transformer is not None
    return f"{job.transformer.reranker} of {Path(job.transformer.encoder).name}"


def _summary(job: TrainJob, history: History) -> str:
    best = history.best
    assert best is not None
    where = f"step {best.step:,}, epoch {best.epoch:.1f}"
    return f"train      {_name(job)}: best dev {job.train.metric} {100 * best.dev:.2f} at {where}"


def revision() -> str:
    """The package's version, and the commit where it runs from a checkout, marked where the code differs from it."""
    command = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--exclude=*",
        "--abbrev=12",
        "--dirty=, changed",
    ]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return code_version()
    return f"{code_version()}, commit {found.stdout.strip()}" if found.returncode == 0 else code_version()


def _without_folders(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with files by their names: whoever reads the card has other folders."""
    for section, key in (("model", "vocabulary"), ("data", "train"), ("data", "dev"), ("distil", "tables")):
        if section in settings:
            settings[section][key] = [Path(file).name for file in settings[section][key]]
    bodies = (("transformer", "encoder"), ("peasi", "encoder"), ("peasi", "easi"), ("hashing", "encoder"))
    for section, key in (("model", "embeddings"), *bodies):
        if section in settings:
            settings[section][key] = Path(settings[section][key]).name
    return settings


def _card(
    job: TrainJob, history: History, parameters: int, digests: Mapping[str, str], told: str, seconds: float
) -> Iterator[str]:
    best = history.best
    assert best is not None
    reranker = job.trained.reranker
    yield f"# {_name(job)}"
    yield ""
    yield f'A checkpoint of AnswerMill {revision()}; `reranker = "{reranker}"`, `checkpoint = "<this folder>"`.'
    yield ""
    yield f"- Trained on {job.data.name}. Licence of the data: {job.data.licence}."
    yield f"- {parameters:,} parameters, stored as {job.trained.store}. {told}."
    score = f"{job.train.metric} ({job.train.protocol}): {100 * best.dev:.2f}"
    yield f"- Best dev {score}, at step {best.step:,} of {history.step:,}."
    yield f"- {seconds:.0f} s of training since its last start, torch {torch.__version__}."
    yield ""
    yield "| step | epoch | loss | dev |"
    yield "|---|---|---|---|"
    for evaluated in history.evaluations:
        yield f"| {evaluated.step:,} | {evaluated.epoch:.2f} | {evaluated.loss:.4f} | {100 * evaluated.dev:.2f} |"
    yield ""
    yield "Made from these files, by SHA-256:"
    yield ""
    yield from (f"- `{Path(file).name}` {digest}" for file, digest in digests.items())
    yield ""
    yield "```json"
    yield json.dumps(_without_folders(job.model_dump(exclude_none=True)), indent=1, ensure_ascii=False)
    yield "```"
