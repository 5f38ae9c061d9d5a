"""Train: a training file (`pipelines/config/training_file.py`) and data sets -> a checkpoint folder with its
card."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from answermill.files.atomic_files import WrongShape, sha256, write_text
from answermill.files.extras import need
from answermill.files.model_files import HISTORY, MODEL_FILES, STATE
from answermill.indexing.shards.dense import find_model
from answermill.pipelines.config.training_file import TrainJob
from answermill.pipelines.data.formats import by_question, code_of_form, read_dataset, recognise, row_count
from answermill.pipelines.data.formats.format import TableForm
from answermill.pipelines.data.inputs.columns import Columns
from answermill.pipelines.data.inputs.tables import passage_rows
from answermill.pipelines.data.inputs.text_lines import lines
from answermill.pipelines.errors import (
    BAD_DATA,
    OUTPUT_EXISTS,
    SETTINGS,
    JobError,
    check_file,
    counted,
    setting_error,
)
from answermill.pipelines.learn.train.curves import EVENTS, tensorboard, write_curves
from answermill.pipelines.learn.train.teachers import table_file, teach
from answermill.pipelines.learn.train.training_card import CARD, card, without_folders
from answermill.pipelines.runs.lock import LOCK, claimed
from answermill.pipelines.runs.manifests.run_folder import differences, shortened
from answermill.pipelines.runs.watch.progress import print_line, progress, reading
from answermill.pipelines.steps.models import device_of, emulates, use_threads
from answermill.ranking.entry import file_names, resolve
from answermill.ranking.rerankers.baselines.same_answer import folded
from answermill.ranking.training.distillation import NO_TEACHER, Distillation
from answermill.ranking.training.inputs import Built, TrainingInputs
from answermill.ranking.training.loop import Output, Recipe, TrainingProgress, train
from answermill.ranking.training.state import History, begun, check_published, finished
from answermill.ranking.training.update.processes import NoCard, Processes, together
from answermill.ranking.training.update.speed import Speed, share_of_peak
from answermill.ranking.transformer.devices import native_precision
from answermill.schemas.labels import LabelledCandidate, LabelledPassage

FILE = "file "
"""Beginning of the name of a file among a training's settings."""


def run(job: TrainJob, out: Path, events: bool = False) -> Iterator[str]:
    """Train into `out`, or continue there; yields lines for people. Under torchrun each process trains, and
    the first alone writes and yields. `events`: write them for TensorBoard into out/tensorboard too.

    Raises JobError: 65 and 66 if the data are wrong or missing, 73 if `out` holds something else or another
    process trains there, 78 if the settings do not fit each other; ModelMissing if a transformer cannot be
    found.
    """
    if events:
        need("tensorboard", "tensorboard", "events of a training")
    if job.train.precision == "auto":  # before the fingerprint, so that a training ends as it began
        precision = native_precision(device_of(job.train.device))
        job = job.model_copy(update={"train": job.train.model_copy(update={"precision": precision})})
    files = list(_files(job))
    for file in files:
        check_file(file)

    digests = {str(file): sha256(file) for file in files} | code_of_form(data_form(job))
    decisive = [
        job.model_dump(exclude={"data": {"name", "licence"}}, exclude_none=True),
        list(digests.values()),
    ]
    fingerprint = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:32]
    new = History(fingerprint, settings=_decisive(job, digests))

    try:
        with together(device_of(job.train.device)) as processes:
            if processes.rank == 0:
                with claimed(out):
                    yield from _run(job, out, digests, new, processes, events=events)
            else:
                deque(_run(job, out, digests, new, processes), maxlen=0)  # the first process reports
    except NoCard as e:
        raise JobError(str(e), SETTINGS) from None


def _files(job: TrainJob) -> Iterator[Path]:
    """The files whose content decides the result."""
    yield from (job.path(name) for name in (*job.data.train, *job.data.dev))
    for name, required in file_names(job.trained):
        path = job.path(name)
        if required or path.is_file():
            yield path
        elif folder := next((place for place in (path, Path(name).expanduser()) if place.is_dir()), None):
            yield from sorted(
                file for form in MODEL_FILES for file in folder.glob(form) if file.name != HISTORY
            )
    if job.distil is not None:
        yield from (table_file(job.path(table)) for table in job.distil.tables)


def _run(
    job: TrainJob,
    out: Path,
    digests: Mapping[str, str],
    new: History,
    processes: Processes,
    *,
    events: bool = False,
) -> Iterator[str]:
    done = _complete(out, new, processes)
    if done is not None:
        yield f"{_summary(job, done)} (complete)"
        return

    use_threads(job.train.threads)
    learn, dev = (
        [rows for name in names for rows in _questions(job, name)] for names in (job.data.train, job.data.dev)
    )
    in_both = _asked_in_both(learn, dev)
    yield f"{_sizes(job.data.train, learn)}; dev {_sizes(job.data.dev, dev)}{in_both}"
    logits: Sequence[npt.NDArray[np.float32]] = ()

    if job.distil is not None:
        lessons = teach([job.path(table) for table in job.distil.tables], job.distil.teachers, learn)
        learn, logits = lessons.questions, lessons.logits
        yield f"teachers {lessons.report}"

    try:
        built = build(job, learn, dev, logits)
    except ValueError as e:
        raise setting_error(e) from e

    precision = job.train.precision
    if precision != "fp32" and emulates(precision, device_of(job.train.device)):
        yield (
            f"train.precision = {precision!r}, which this processor only emulates: 'fp32', which 'auto' "
            "takes here, is several times as fast"
        )
    parameters = sum(p.numel() for p in built.task.model.parameters() if p.requires_grad)
    yield f"{job.trained.title}: {parameters:,} parameters; {built.description}"
    description = f"{built.description}{in_both}"

    def describe(history: History, speed: Speed) -> None:
        write_curves(out, history, job.train.metric)
        lines = card(job, history, parameters, description=description, digests=digests, speed=speed)
        write_text(out / CARD, "\n".join(lines) + "\n")

    try:
        with tensorboard(out / EVENTS if events else None, job.train.metric) as add:
            history = _watched(built, _recipe(job), out, new, processes, describe=describe, add=add)
    except ValueError as e:
        raise JobError(str(e), BAD_DATA) from e

    yield _summary(job, history)


def _complete(out: Path, new: History, processes: Processes) -> History | None:
    """The history of this training if `out` has all of it; None if it is to begin or to go on there. Raises
    JobError: 65 if the history in `out` is none of a training, 73 if `out` has another one or other files;
    ModelDamaged as `check_published`."""
    try:
        done = finished(out)
        former = done or begun(out)
    except WrongShape as e:
        raise JobError(
            f"not the history of a training: {e}; give another --out, or delete {out}", BAD_DATA
        ) from None

    if former is None:
        is_first = processes.rank == 0
        others = is_first and any(path.name not in (LOCK, EVENTS) for path in out.iterdir())
        if others and not (out / STATE).is_dir():
            raise JobError(f"{out} holds something else; give another --out, or delete it", OUTPUT_EXISTS)
    elif former.fingerprint != new.fingerprint:
        clauses = list(differences(former.settings, new.settings, "")) if former.settings else []
        clauses.sort(key=lambda clause: clause.startswith(FILE))  # another folder has other files too
        difference = shortened(clauses) or "its settings or files were others"
        raise JobError(
            f"{out} holds another training: {difference}; give another --out, or delete it", OUTPUT_EXISTS
        )

    if done is not None:
        check_published(out)
    return done


def build(
    job: TrainJob, learn: Sequence[Any], dev: Sequence[Any], logits: Sequence[npt.NDArray[np.float32]] = ()
) -> Built:
    """The training before its first step: of questions to learn from, the teachers' logits of each, and
    questions for dev.

    Raises ValueError if the settings do not fit each other or the data, JobError as `device_of`.
    """
    device, recipe = device_of(job.train.device), _recipe(job)
    torch.manual_seed(recipe.seed)
    inputs = TrainingInputs(
        settings=job.trained,
        recipe=recipe,
        learn=learn,
        dev=dev,
        path=job.path,
        model=partial(find_model, beside=job.folder),
        texts=lambda name: _texts(job.path(name)),
        batch=job.train.batch if "batch" in job.train.model_fields_set else None,
        teachers=logits,
        distillation=_distillation(job),
        device=device,
    )
    built: Built = resolve(job.training.task)(inputs)

    return built


def _recipe(job: TrainJob) -> Recipe:
    return Recipe(**job.train.model_dump(exclude={"batch", "threads", "device"}, exclude_none=True))


def _distillation(job: TrainJob) -> Distillation:
    """The job's distillation from its teachers. Raises ValueError if the settings do not fit each other."""
    distil = job.distil
    if distil is None:
        return NO_TEACHER
    if len(set(distil.teachers)) != len(distil.teachers):
        raise ValueError(f"distil.teachers = {distil.teachers}: a teacher is named twice")

    try:
        return Distillation(
            distil.strategy,
            len(distil.teachers),
            distil.alpha,
            distil.tau,
            tuple(distil.weights),
            distil.loss,
        )
    except ValueError as e:
        raise ValueError(f"distil: {e}") from e


def _watched(
    built: Built,
    recipe: Recipe,
    out: Path,
    new: History,
    processes: Processes,
    *,
    describe: Callable[[History, Speed], object],
    add: Callable[[TrainingProgress], object],
) -> History:
    """Train with progress on stderr: steps all the time, and a line per evaluation. `add` takes every
    state."""
    task, share, first = built.task, 0.0, processes.rank == 0
    if built.tokens and first and next(task.model.parameters()).device.type == "cuda":
        share = share_of_peak(task, built.tokens, recipe.precision) / processes.count
    batches_of_step = task.steps / recipe.steps(task.steps)  # an epoch's last step may have fewer
    speed = Speed(built.tokens * batches_of_step, share)
    now = TrainingProgress(0, 1, 0.0, None, None)

    def report(state: TrainingProgress) -> None:
        nonlocal now
        now = state
        speed.add(state)
        add(state)
        if state.dev is not None:
            line: dict[str, float] = {"step": state.step, "of": state.steps, "loss": round(state.loss, 4)}
            line |= {f"dev_{recipe.metric}": round(state.dev, 4), "best": round(state.best or 0.0, 4)}
            print_line(
                json.dumps(line | ({"tokens_per_s": speed.tokens_per_s} if speed.tokens_per_s else {}))
            )

    if not first:
        return train(task, built.dev, recipe, Output(out, new.fingerprint), processes=processes)

    with progress("train", recipe.steps(task.steps) * recipe.epochs, lambda: now.step, what="steps"):
        output = Output(out, new.fingerprint, new.settings, lambda history: describe(history, speed))
        return train(task, built.dev, recipe, output, report, processes=processes)


def _questions(job: TrainJob, name: str) -> list[list[Any]]:
    """A file's candidates, or passages, of each question."""
    file = job.path(name)
    learns_from_passages = job.training.learns_from == "passages"
    rows: Iterator[Any] = passage_rows(file) if learns_from_passages else read_dataset(file, data_form(job))
    with reading(f"train reads {file.name}", rows, row_count([file])) as counted_rows:
        return list(by_question(counted_rows))


def data_form(job: TrainJob) -> TableForm:
    """Form and columns of the job's data sets. Raises JobError (78) if a name of a column is not known."""
    return TableForm(job.data.form, Columns.of(job.data.columns or (), "data.columns"))


def _texts(file: Path) -> Iterator[str]:
    """The texts of a data set, each question once before its candidates; or the lines of a text file."""
    if recognise(file) is None:
        yield from (text for _, text in lines(file))
        return
    for rows in by_question(read_dataset(file)):
        yield rows[0].question
        yield from (row.text for row in rows)


def _sizes(files: Sequence[str], questions: Sequence[Sequence[LabelledCandidate | LabelledPassage]]) -> str:
    answered = sum(any(row.label for row in rows) for rows in questions)
    return (
        f"{', '.join(files)}: {counted(len(questions), 'question')}, {answered:,} answered, "
        f"{counted(sum(map(len, questions)), 'candidate')}"
    )


def _asked_in_both(
    learn: Sequence[Sequence[LabelledCandidate | LabelledPassage]],
    dev: Sequence[Sequence[LabelledCandidate | LabelledPassage]],
) -> str:
    """Clause about the dev questions that the training questions hold too, but for letter case, punctuation
    and white space; '' if there is none."""
    known = {folded(rows[0].question) for rows in learn}
    shared = sum(folded(rows[0].question) in known for rows in dev)
    if not shared:
        return ""
    return (
        f"; {shared:,} of the {len(dev):,} dev questions are also learnt from, so that the dev score says "
        "too much"
    )


def _summary(job: TrainJob, history: History) -> str:
    best = history.best
    assert best is not None
    where = f"step {best.step:,}, epoch {best.epoch:.1f}"
    return f"train      {job.trained.title}: best dev {job.train.metric} {100 * best.dev:.2f} at {where}"


def _decisive(job: TrainJob, digests: Mapping[str, str]) -> dict[str, Any]:
    """The settings behind the fingerprint, for people: the file's keys, and the digest of each of its
    files."""
    tables = without_folders(job)
    data = {key: value for key, value in tables["data"].items() if key not in ("name", "licence")}
    files = {f"{FILE}{n}, {Path(file).name},": digest for n, (file, digest) in enumerate(digests.items(), 1)}
    return {**tables, "data": data, **files}
