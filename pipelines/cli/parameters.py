"""Parameters that several commands share, and how a command writes its result."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import App, Parameter

from pipelines.config.local_paths import local_path
from pipelines.errors import INPUT_MISSING, JobError


def _refuse_urls(kind: object, path: Path) -> None:
    local_path(path)


JobFile: TypeAlias = Annotated[Path, Parameter(help="The job file.")]
TrainingFile: TypeAlias = Annotated[Path, Parameter(help="The training file.")]
Run: TypeAlias = Annotated[Path, Parameter(validator=_refuse_urls, help="Folder of a run.")]
Out: TypeAlias = Annotated[
    Path, Parameter(name="--out", validator=_refuse_urls, help="Folder of the run; it is created if it does not exist.")
]
NewFolder: TypeAlias = Annotated[
    Path, Parameter(validator=_refuse_urls, help="Folder to write; if it exists, it must be empty.")
]
Overrides: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set", negative=(), consume_multiple=True, help="Settings that replace those of the file, e.g. index.shards=4."
    ),
]
Form: TypeAlias = Annotated[
    str | None, Parameter(help="Form of the data set, if it is not recognised; `answermill dataset --help` lists the forms.")
]
Protocol: TypeAlias = Annotated[
    Literal["raw", "answerable", "clean", "compat"],
    Parameter(
        help="Questions that count. raw: all; answerable: those with a correct candidate; clean: those with a wrong one as "
        "well; compat: as the field's posted code counts them. compat is optimistic: use it only to compare with figures that "
        "were computed in this way."
    ),
]
Metrics: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(negative=(), consume_multiple=True, help="Metrics to compute: MAP, MRR, and P@k, R@k, nDCG@k with any k."),
]
BeamOptions: TypeAlias = Annotated[tuple[str, ...], Parameter(parse=False)]
"""The arguments after `--`. `main` fills it in."""
CommandLine: TypeAlias = Annotated[App, Parameter(parse=False)]
"""The whole command line. `main` fills it in."""


def check_there(*paths: Path) -> None:
    """Raises JobError (66) if one of the files or folders is missing, before anything that takes long is loaded."""
    for path in paths:
        if not path.exists():
            raise JobError(f"{path}: no such file or folder", INPUT_MISSING)


def write_lines(lines: Iterable[str]) -> None:
    """Write each line to stdout as soon as it is there."""
    for line in lines:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
