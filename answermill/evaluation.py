"""Figures, data sets and trainings, like the commands of the same names, with values in place of printed
lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answermill.files.remote import as_path
from answermill.schemas.labels import LabelledCandidate
from answermill.user_errors import as_job_errors

if TYPE_CHECKING:
    from answermill.pipelines.data.formats.format import TableForm
    from answermill.pipelines.learn.audit.audit import Audit
    from answermill.pipelines.learn.compare_many import ComparedMany
    from answermill.pipelines.learn.evaluate.compare import Compared
    from answermill.pipelines.learn.evaluate.evaluate import Evaluation


@as_job_errors
def train(
    job: str | Path, out: str | Path, settings: Sequence[str] = (), *, tensorboard: bool = False
) -> Path:
    """Train the checkpoint that a training file describes into `out`, or continue there; returns `out`.
    `settings` as `--set`, e.g. ["train.epochs=3"]; `tensorboard` as of the command.

    Raises JobError: 65 and 66 if the data are wrong or missing, 73 if `out` holds something else, 78 for
    wrong settings.
    """
    from answermill.pipelines.config.training_file import load_job
    from answermill.pipelines.learn.train.train import run

    for _ in run(load_job(Path(job), settings), Path(out), tensorboard):
        pass
    return Path(out)


@as_job_errors
def read_dataset(
    path: str | Path, form: str | None = None, columns: Sequence[str] = (), **options: Any
) -> Iterator[LabelledCandidate]:
    """Labelled candidates of a data set file, one at a time; a question's are consecutive, in their
    original order.

    `form` names its format if it is not recognised; `answermill dataset --help` lists the formats and their
    `options`. `columns` names those of a table, if they are unusual, e.g. ["question_id=nr", "text=satz"].
    Raises JobError: 66 if the file is missing, 65 with the line if a row is wrong.
    """
    from answermill.pipelines.data.formats import read_dataset as read

    return read(Path(path), _form(form, columns), **options)


@as_job_errors
def evaluate(
    scores: str | Path,
    labels: str | Path,
    *,
    checkpoint: str | Path | None = None,
    settings: Sequence[str] = (),
    words: str | None = None,
    form: str | None = None,
    columns: Sequence[str] = (),
    **options: Any,
) -> Evaluation:
    """Figures of `scores` (a scored/ folder, a TREC run, a Parquet, or a reranker's name) against `labels`.

    `checkpoint`, `settings` (as `--set`, e.g. ["drop=[0.2]"]) and `words` are for a reranker or rule by name;
    `form` and `columns` are as for `read_dataset`; the other options are those of `answermill evaluate`:
    protocol, metrics, by. `.summary()` of the result is a flat dict, metrics from 0 to 1; `.lines()` are the
    printed table. Raises JobError like the command.
    """
    from answermill.pipelines.learn.evaluate.evaluate import evaluate as measure
    from answermill.pipelines.learn.evaluate.rank import RankOptions

    ranker = RankOptions(None if checkpoint is None else str(checkpoint), settings, words)
    checked = as_job_errors(measure)  # a list among the options may be one string
    return checked(str(scores), as_path(labels), ranker=ranker, form=_form(form, columns), **options)


@as_job_errors
def compare(
    a: str | Path,
    b: str | Path,
    labels: str | Path | None = None,
    *,
    form: str | None = None,
    columns: Sequence[str] = (),
    **options: Any,
) -> Compared:
    """Compare B with A over the same questions: differences with bootstrap intervals and p-values, and the
    flipped questions.

    `a` and `b` are scores as for `evaluate`, with `labels`; or files of `answermill evaluate --questions`.
    `form` and `columns` are as for `evaluate`; `options`: protocol, metrics, rounds, seed. Raises JobError:
    65 if A and B are not of the same questions.
    """
    from answermill.pipelines.learn.evaluate.compare import compare_files

    path = None if labels is None else as_path(labels)
    return as_job_errors(compare_files)(str(a), str(b), labels=path, form=_form(form, columns), **options)


@as_job_errors
def compare_many(
    runs: Sequence[str | Path],
    labels: str | Path | None = None,
    *,
    form: str | None = None,
    columns: Sequence[str] = (),
    **options: Any,
) -> ComparedMany:
    """Compare each run with the first one, p-values corrected for their number (Holm); `.markdown()` and
    `.latex()` are tables for papers. Arguments and errors as of `compare`."""
    from answermill.pipelines.learn.compare_many import compare_many as compare_runs

    path = None if labels is None else as_path(labels)
    return as_job_errors(compare_runs)(
        [str(run) for run in runs], labels=path, form=_form(form, columns), **options
    )


@as_job_errors
def audit(
    model: str | Path,
    against: str | Path | None = None,
    probes: str | Path | None = None,
    *,
    data: str | Path = ".",
    vectors: int = 20_000,
    form: str | None = None,
    columns: Sequence[str] = (),
) -> Audit:
    """What a model's training lists, or the lists in a file, share with the test set `against`; and what each
    change of the lists `probes` adds to the model's P@1.

    `model` is a model folder, a reranker's name or a file of lists; `data` the folder of a model's training
    lists; `vectors` the most training questions, and answers, that are compared by vector. `form` and
    `columns` are as for `read_dataset`. `.figures()` of the result are plain values, `.lines()` the printed
    ones. Raises JobError like the command.
    """
    from answermill.pipelines.learn.audit.audit import AuditOptions
    from answermill.pipelines.learn.audit.audit import audit as run_audit

    test, lists = (None if path is None else Path(path) for path in (against, probes))
    return run_audit(str(model), test, lists, AuditOptions(Path(data), vectors, _form(form, columns)))


def _form(form: str | None, columns: Sequence[str]) -> TableForm:
    """Form and columns of tables, of which there may be several. Raises JobError (2) for unknown names."""
    from answermill.pipelines.data.formats.format import TableForm
    from answermill.pipelines.data.inputs.columns import Columns

    return TableForm(form, Columns.of(columns, are_of_several=True))
