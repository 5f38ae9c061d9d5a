"""Jobs and runs: load a job, run its steps, and read the folders that they wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa

from answermill.files.remote import as_path
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.errors import INPUT_MISSING, USAGE, JobError
from answermill.pipelines.runs.shown import html_of
from answermill.schemas.record import Record
from answermill.user_errors import as_job_errors

R = TypeVar("R", bound=Record)
_HEAD = 5  # rows that a notebook shows


@as_job_errors
def load_job(path: str | Path, settings: Sequence[str] = ()) -> Job:
    """Job of a TOML file, with `settings` such as 'index.shards=4' in place of its own.

    Raises JobError: 66 if the file is missing, 78 if a key or value is wrong, naming it and the nearest known
    key.
    """
    return load(as_path(path), settings)


@as_job_errors
def run(
    job: Job | str | Path,
    out: str | Path,
    *,
    steps: Sequence[str] | None = None,
    redo: str | None = None,
    verify: str | None = None,
    beam_options: Sequence[str] = (),
    on_step: Callable[[str], object] | None = None,
    join: bool = False,
) -> Run:
    """Run the steps that the job has sections for, or only `steps`, into the folder `out`; complete steps are
    skipped.

    A run that was stopped continues where it stopped. `redo`: a step to run again, with those of the given
    steps that read its output. `verify`: a step whose output is compared byte by byte first; changed files
    are made again. `on_step` is called with each step's summary line, e.g. `print`. `join`: share the run
    with other machines that do the same. Raises JobError like the command line.
    """
    from answermill.pipelines.engine.machines.machine import Machine
    from answermill.pipelines.specs.registry import job_steps
    from answermill.pipelines.steps.chain import run_steps, steps_of

    for step in steps or ():
        if step not in job_steps():
            raise JobError(f"steps: no step is {step!r}; the steps are {', '.join(job_steps())}", USAGE)
    if not isinstance(job, Job):
        from answermill.pipelines.nights.run_begin import RunBegin

        begin = RunBegin(as_path(out))
        job = load(as_path(job), (), begin.latest, begin.day)
        begin.keep()
    names = list(steps) if steps is not None else steps_of(job, as_path(out))
    if join and (redo or verify or beam_options):
        raise JobError("join does not go with redo, verify and beam_options; leave them out", USAGE)
    machine = Machine(as_path(out), job) if join else None
    for line in run_steps(job, as_path(out), names, beam_options, redo=redo, verify=verify, machine=machine):
        if on_step is not None:
            on_step(line)
    return open_run(out)


@as_job_errors
def open_run(path: str | Path) -> Run:
    """Run in a folder, complete or not. Raises JobError (66) if the folder is missing."""
    if not as_path(path).is_dir():
        raise JobError(f"no folder {path}; `answermill run JOB.toml --out {path}` writes it", INPUT_MISSING)
    return Run(as_path(path))


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder. `run["scored"]` reads one of its folders of records; `list(run)` names those that are
    complete."""

    path: Path

    def __getitem__(self, folder: str) -> Records[Record]:
        """Records of a folder. Raises KeyError for a folder that no step writes, JobError (66) for one that
        is not complete."""
        from answermill.pipelines.specs.registry import folder_specs

        specs = folder_specs()
        if folder not in specs:
            raise KeyError(f"{folder!r}; a run has: {', '.join(specs)}")
        return Records(specs[folder].open(self.path))

    def __iter__(self) -> Iterator[str]:
        """Names of the complete folders, in the order of the steps that write them."""
        from answermill.pipelines.specs.registry import folder_specs

        return (name for name, folder in folder_specs().items() if folder.manifest(self.path) is not None)

    def _repr_html_(self) -> str:
        """The folders with their rows and states."""
        from answermill.pipelines.look.status import status

        rows = [("step", "folder", "rows", "state")]
        with suppress(JobError):  # of a damaged run, whose rows say what is damaged
            rows.extend(status(self.path))
        return html_of(f"{step:<10} {folder:<18} {n:>12}  {state}" for step, folder, n, state in rows)

    def answers(self) -> Iterator[dict[str, Any]]:
        """Best answer of each question, with its page and its place in the crawl; `answer` is None if it has
        none.

        Raises JobError (66) if the run has no answers yet.
        """
        path = self.path / "answers.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            raise JobError(f"no {path}; the step `rerank` writes it", INPUT_MISSING) from None
        return map(json.loads, lines)


@dataclass(frozen=True, slots=True)
class Records(Generic[R]):
    """A complete folder of records. Each part's checksum is compared before it is read."""

    folder: Any  # of type Folder[R]

    def __len__(self) -> int:
        rows: int = self.folder.rows
        return rows

    def __iter__(self) -> Iterator[R]:
        """One record at a time, in the order of the parts."""
        return iter(self.folder.read())

    @as_job_errors
    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Arrow batches, with all columns or with `columns`; memory does not grow with the folder. Raises
        JobError (2) for a column that the folder does not have."""
        from answermill.pipelines.runs.parquet_folder import read_batches

        self._schema(columns)
        for part in self.folder.parts:
            yield from read_batches(self.folder.path, part, columns)

    @as_job_errors
    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The whole folder as one Arrow table, for `.to_pandas()` or DuckDB. Raises as `batches`."""
        return pa.Table.from_batches(self.batches(columns), self._schema(columns))

    def _schema(self, columns: Sequence[str] | None) -> pa.Schema:
        """The columns' names and types. Raises as `batches`."""
        schema: pa.Schema = self.folder.record.schema()
        if columns is not None and (not columns or len({*columns}) < len(columns)):
            raise JobError("columns: name at least one, and each once; None stands for all", USAGE)
        for name in columns or ():
            if name not in schema.names:
                raise JobError(f"no column {name!r}; the columns are {', '.join(schema.names)}", USAGE)
        return schema if columns is None else pa.schema([schema.field(name) for name in columns])

    @as_job_errors
    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """The whole folder as a pandas DataFrame. Raises as `batches`."""
        return self.to_arrow(columns).to_pandas()

    def _repr_html_(self) -> str:
        """The first rows."""
        first = next(self.batches(), None)
        head = "" if first is None else first.slice(0, _HEAD).to_pandas().to_html()
        return f"{head}<p>{len(self):,} rows</p>"
