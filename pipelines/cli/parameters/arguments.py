"""Single parameters that several commands share: their types, and what is refused before a command begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import App, Parameter, Token
from cyclopts.validators import Number

from answermill.files.extras import need
from answermill.files.remote import NotHere, as_path
from answermill.files.store import store_of
from answermill.pipelines.cli.ending import Command
from answermill.pipelines.config.local_paths import local_path
from answermill.pipelines.errors import INPUT_MISSING, OUTPUT_EXISTS, SETTINGS, USAGE, JobError, check_folder

if TYPE_CHECKING:
    from answermill.pipelines.data.inputs.columns import Columns

PLOTS = (".svg", ".png")


def _place(kind: object, tokens: Sequence[Token]) -> Path:
    try:
        return as_path(tokens[0].value)
    except NotHere as e:  # a TypeError, which cyclopts would report as wrong usage
        raise JobError(str(e), SETTINGS) from e


def _file_in_the_way(folder: Path) -> Path | None:
    """The folder itself, or one above it, that is a file."""
    return next((p for p in (folder, *folder.parents) if p.exists() and not p.is_dir()), None)


def _check_new_files(kind: object, written: Path | tuple[Path, ...] | None) -> None:
    """Raise JobError (73) if a file to write is a folder, or would be in another file."""
    files = written if isinstance(written, tuple) else (written,)
    for file in filter(None, files):
        if file.is_dir():
            raise JobError(f"{file} is a folder; name a file in it", OUTPUT_EXISTS)
        if (place := _file_in_the_way(file.parent)) is not None:
            raise JobError(f"{file}: {place} is a file, no folder; give another name", OUTPUT_EXISTS)


def _check_out(kind: object, folder: Path | None) -> None:
    """Raise JobError (73) if a folder to write into is a file, or would be in one; not of a URL."""
    if folder is None or not store_of(folder).is_local:
        return
    if (place := _file_in_the_way(folder)) is not None:
        inside = "" if place == folder else f"{folder}: "
        raise JobError(f"{inside}{place} is a file; give a folder", OUTPUT_EXISTS)


def _refuse_file(kind: object, folder: Path | None) -> None:
    """Raise JobError (66) if a folder to read is a file."""
    if folder is not None and folder.is_file():
        check_folder(folder)


def _check_plots(kind: object, files: tuple[Path, ...]) -> None:
    """Raise JobError (2) if a plot's name does not end as one, as `_check_new_files`, and ExtraMissing if
    no package can draw it."""
    for file in files:
        if file.suffix not in PLOTS:
            raise JobError(f"{file}: give a name that ends in {' or '.join(PLOTS)}", USAGE)
    _check_new_files(kind, files)
    if files:
        need("matplotlib", "plots", "a plot")


def check_apart(*files: Path | None) -> None:
    """Raise JobError (2) if two of the files that a command is to write are the same."""
    named = [file for file in files if file is not None]
    for n, file in enumerate(named):
        if file.resolve() in [other.resolve() for other in named[:n]]:
            raise JobError(f"{file}: two options name this file; give each another", USAGE)


PLACE = Parameter(converter=_place)
"""A path, or the URL of an object store."""
FOLDER = Parameter(validator=_refuse_file)
"""A folder that the command reads, on this machine."""
NEW_FILE = Parameter(validator=_check_new_files)
"""A file that the command writes, on this machine."""
NEW_FOLDER = Parameter(validator=_check_out)
"""A folder to write into; it may be there."""
NewFile: TypeAlias = Annotated[Path | None, NEW_FILE]
Plots: TypeAlias = Annotated[
    tuple[Path, ...], Parameter(negative=(), consume_multiple=True, validator=_check_plots)
]
Seed: TypeAlias = Annotated[int, Parameter(help="Seed of what is drawn.", validator=Number(gte=0))]
LICENCE = Parameter(name=("--licence", "--license"))
JobFile: TypeAlias = Annotated[Path, PLACE, Parameter(help="The job file, or its URL.")]
TrainingFile: TypeAlias = Annotated[Path, Parameter(help="The training file.")]
Run: TypeAlias = Annotated[Path, PLACE, Parameter(help="Folder of a run, or its URL.")]
Out: TypeAlias = Annotated[
    Path,
    PLACE,
    Parameter(
        name="--out",
        help="Folder of the run, or its URL (s3://, gs://, abfs://); it is created if it does not exist.",
    ),
]
LocalOut: TypeAlias = Annotated[
    Path, NEW_FOLDER, Parameter(name="--out", help="Folder of the run; it is created if it does not exist.")
]
Checkpoint: TypeAlias = Annotated[
    Path,
    NEW_FOLDER,
    Parameter(name="--out", help="Folder of the checkpoint; it is created if it does not exist."),
]
NewFolder: TypeAlias = Annotated[
    Path, NEW_FOLDER, Parameter(help="Folder to write; if it exists, it must be empty.")
]
Overrides: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        negative=(),
        consume_multiple=True,
        help="Settings that replace those of the file, e.g. index.shards=4.",
    ),
]
TrainingOverrides: TypeAlias = Annotated[
    Overrides, Parameter(help="Settings that replace those of the file, e.g. train.epochs=2.")
]
TensorBoard: TypeAlias = Annotated[
    bool,
    Parameter(
        negative=(),
        help="Write each step's loss and each dev score into OUT/tensorboard, for `tensorboard --logdir`; "
        'needs `pip install "answermill[tensorboard]"`.',
    ),
]
Form: TypeAlias = Annotated[
    str | None,
    Parameter(
        help="Form of the data set, if not recognised; `answermill dataset --form list` lists the forms."
    ),
]
ColumnNames: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--columns",
        negative=(),
        consume_multiple=True,
        help="Columns of the tables, if they have unusual names, e.g. question_id=nr text=frage; the message "
        "about a missing one names what to write.",
    ),
]
Protocol: TypeAlias = Annotated[
    Literal["raw", "answerable", "clean", "compat"],
    Parameter(
        help="Questions that count. raw: all; answerable: those with a correct candidate; clean: those with "
        "a wrong one as "
        "well; compat: as the field's posted code counts them. compat is optimistic: use it only to compare "
        "with figures that "
        "were computed in this way."
    ),
]
Metrics: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        negative=(),
        consume_multiple=True,
        help="Metrics to compute: MAP, MRR, and P@k, R@k, nDCG@k with any k.",
    ),
]


def _is_from_0_up(kind: object, value: float | None) -> None:
    if value is not None and not 0 <= value < inf:
        raise ValueError("Must be a number from 0 up.")


FROM_0_UP = Parameter(validator=_is_from_0_up)
"""A number that is not negative, nan or infinite."""
Price: TypeAlias = Annotated[float | None, FROM_0_UP]
METRICS = ("P@1", "MAP", "MRR", "nDCG@10")
Running: TypeAlias = Annotated[Command, Parameter(parse=False)]
"""The command that runs. `command_line.run` fills it in."""
CommandLine: TypeAlias = Annotated[App, Parameter(parse=False)]
"""The whole command line. `command_line.run` fills it in."""


def parse_columns(written: Sequence[str], are_of_several: bool = False) -> Columns:
    """The value of --columns. Raises JobError (2) if a name is not known."""
    from answermill.pipelines.data.inputs.columns import Columns

    return Columns.of(written, are_of_several=are_of_several)


def refuse_urls(value: object) -> None:
    """Raise JobError (78) if an argument, or a field or item of it, is a URL that no parameter has taken as a
    PLACE."""
    if isinstance(value, Path) and store_of(value).is_local:
        local_path(value)
    elif isinstance(value, tuple):
        for item in value:
            refuse_urls(item)
    elif is_dataclass(value):
        for field in fields(value):
            refuse_urls(getattr(value, field.name))


def check_there(*paths: Path) -> None:
    """Raise JobError (66) if a file or folder is missing, before anything that loads slowly is loaded."""
    for path in paths:
        if not path.exists():
            raise JobError(f"{path}: no such file or folder", INPUT_MISSING)
