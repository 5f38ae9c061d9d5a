"""Propagate: labels of sentences in; labels of sentences, passages, documents and windows out (WQA §3.3).

The given labels become sorted files in the work folder (indexing/labels/given_labels.py); a part
of passages/ is one unit of work, which
looks its own sentences up in them, some thousand passages at a time: a document's passages all stand in one part. Where
labels hold for other sentences of the same text, a first pass over the parts finds the texts of the labelled ones.

In a part, documents stand as in passages/, and below each its rows by question id, then sentence or passage id. What is
given but found nowhere, no longer the same text, or given before, is kept in labels/rejects, by line.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa

from indexing.labels.conflicts import conflicts
from indexing.labels.given_labels import FOUND, GivenLabels
from indexing.labels.hash_join import Ints
from indexing.labels.propagation import NONE, found, label
from indexing.labels.windows import window_labels
from indexing.passages.passages import Splitter
from pipelines.config.job_file import Job, Propagate
from pipelines.config.step_registry import StepCode
from pipelines.errors import BAD_DATA, JobError
from pipelines.execution.parquet_folder import MANIFEST, Folder, PartWriter
from pipelines.execution.runner import carry
from pipelines.execution.step import Report, Step, total
from pipelines.inputs.labels import COLLECTED, Labels
from pipelines.propagate.label_fates import CHANGED, USED, fates_file, fates_of, reject
from pipelines.propagate.passage_parts import Texts, Unit, units_of
from schemas.atomic_files import write_text
from schemas.corpus import Document, Passage, Rejected
from schemas.labels import DocumentLabel, LabelConflict, PassageLabel, SentenceLabel, WindowLabel
from schemas.record import Record

WINDOWS = "labels/windows"
OUTPUTS: Mapping[str, type[Record]] = {
    "labels/sentences": SentenceLabel,
    "labels/passages": PassageLabel,
    "labels/documents": DocumentLabel,
    "labels/windows": WindowLabel,
    "labels/conflicts": LabelConflict,
    "labels/rejects": Rejected,
}
REVISION = 1
"""Raised when the step's code changes so that the same input gives another output."""
_NOT_OF_UNITS = (WINDOWS, "labels/rejects")


def is_ready(job: Job, run: Path | None) -> bool:
    """Whether the job has labels to propagate by now: given, or collected."""
    wanted = job.propagate
    return wanted is not None and (wanted.labels is not None or (run is not None and (run / COLLECTED / MANIFEST).is_file()))


def check(job: Job, run: Path) -> None:
    """Refuse labels that the step would refuse. Raises JobError."""
    with tempfile.TemporaryDirectory() as folder:
        Labels.of(job, run).write(Path(folder))


def step(job: Job, run: Path) -> Step:
    """The propagate step of a run. Raises JobError where passages/ or the labels are missing."""
    labels = Labels.of(job, run)
    wanted = _settings(job)
    settings = wanted.model_dump(exclude={"labels"})
    inputs = {"labels": labels.digest(), "passages": Folder.open(run / "passages", Passage, "ingest").digest()}
    if wanted.windows == "none":
        settings = {name: settings[name] for name in ("same_text", "windows")}
    else:
        inputs["documents"] = Folder.open(run / "documents", Document, "ingest").digest()
    return Step(run, "propagate", OUTPUTS, settings, inputs, REVISION)


def _settings(job: Job) -> Propagate:
    assert job.propagate is not None  # `Labels.of` has refused a job without it
    return job.propagate


def run_step(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; returns its summary line."""
    this = step(job, run)
    if this.is_complete():
        return summary(run) + " (complete)"
    this.begin()
    labels, wanted = Labels.of(job, run), _settings(job)
    given = GivenLabels(this.work / "labels")
    rows, largest = _once(this.work / "given-labels.json", lambda: labels.write(given.folder))
    units = units_of(run, wanted.windows != "none")

    def do(this: Step, work: beam.DoFn) -> None:
        done = this.reports.read()
        left = [unit for unit in units if unit.number not in done]
        carry(this, left, len(units), work, beam_options, job.workers.processes)

    if wanted.same_text:
        first = replace(this, name="propagate/found", outputs={})
        first.begin()
        do(first, FindTexts(given, first))
        _once(this.work / "spread-labels.json", lambda: (given.spread(_found(first, len(units))),))
    do(this, LabelPart(given, wanted, this))
    reports = list(this.reports.read().values())
    rejects = reject(given, this, len(units), largest, labels.name)
    counts = total([*reports, rejects])
    counts["labels"] = rows
    if rows != counts["used"] + counts["rejects"]:
        raise RuntimeError(f"{rows} labels came in, {counts['used']} were used and {counts['rejects']} refused")
    if not counts["used"]:
        raise JobError(f"{labels.path}: none of its {rows} labels is of a sentence in {run / 'passages'}", BAD_DATA)
    this.finish([*reports, rejects], counts)
    return summary(run)


def _once(mark: Path, make: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
    """The numbers that `make` returns, or has returned before the run was stopped."""
    if not mark.is_file():
        write_text(mark, json.dumps(make()))
    return tuple(json.loads(mark.read_text(encoding="utf-8")))


class FindTexts(beam.DoFn):
    """A part of passages → the labels by id of its sentences, with their folded texts, in the work folder."""

    def __init__(self, given: GivenLabels, this: Step) -> None:
        self._given, self._step = given, this

    def process(self, unit: Unit) -> None:
        rows = 0
        path = _found_file(self._step, unit.number)
        with pa.ipc.new_file(f"{path}.tmp", FOUND) as file:
            for sentences in unit.sentences():
                batch = found(sentences, self._given)
                file.write_batch(batch)
                rows += batch.num_rows
        Path(f"{path}.tmp").replace(path)
        self._step.reports.write(Report(unit.number, {}, {"found": rows}))


def _found_file(this: Step, unit: int) -> Path:
    return this.work / f"found-{unit:05d}.arrow"


def _found(this: Step, units: int) -> Iterator[pa.RecordBatch]:
    for unit in range(units):
        with pa.memory_map(str(_found_file(this, unit))) as source:
            file = pa.ipc.open_file(source)
            yield from (file.get_batch(n) for n in range(file.num_record_batches))


class LabelPart(beam.DoFn):
    """A part of passages → its labels of sentences, passages, documents and windows, and their conflicts."""

    def __init__(self, given: GivenLabels, settings: Propagate, this: Step) -> None:
        self._given, self._settings, self._step = given, settings, this

    def setup(self) -> None:
        self._splitter = Splitter(self._settings.window_tokens) if self._settings.windows != "none" else None

    def process(self, unit: Unit) -> None:
        label_part(unit, self._given, self._settings, self._splitter, self._step)


def label_part(unit: Unit, given: GivenLabels, settings: Propagate, splitter: Splitter | None, this: Step) -> None:
    """Label a unit's sentences and what holds them: its parts, what became of given labels, and its report."""
    writers = {n: PartWriter(this.run / n, r, unit.number) for n, r in OUTPUTS.items() if n not in _NOT_OF_UNITS}
    if splitter is not None:
        writers[WINDOWS] = PartWriter(this.run / WINDOWS, WindowLabel, unit.number)
    texts = Texts(*unit.texts) if unit.texts is not None else None
    counts: Counter[str] = Counter()
    fates: list[Ints] = []
    with ExitStack() as open_files:
        for writer in writers.values():
            open_files.enter_context(writer)
        for sentences in unit.sentences():
            labelled = label(sentences, given)
            for name, table in labelled.tables().items():
                writers[f"labels/{name}"].write_table(table)
            writers["labels/conflicts"].write(conflicts(labelled))
            if splitter is not None and texts is not None and settings.windows != "none":
                of_documents = texts.of(labelled)
                made = window_labels(labelled, of_documents, splitter, settings.windows, settings.places, settings.seed)
                writers[WINDOWS].write_table(made)
            counts["ties"] += int((labelled.label == NONE).sum())
            fates += [fates_of(labelled.used, USED), fates_of(labelled.changed, CHANGED)]
    path = fates_file(this, unit.number)
    with Path(f"{path}.tmp").open("wb") as file:
        np.save(file, np.unique(np.concatenate([np.zeros((2, 0), np.int64), *fates], axis=1), axis=1), allow_pickle=False)
    Path(f"{path}.tmp").replace(path)
    parts = {name: writer.part for name, writer in writers.items()}
    counts.update({name.removeprefix("labels/"): part.rows for name, part in parts.items()})
    this.reports.write(Report(unit.number, parts, counts))


def summary(run: Path) -> str:
    """One line for people, from the manifests."""
    counts = Counter(Folder.open(run / "labels/sentences", SentenceLabel, "propagate").manifest.counts)
    more = "".join(f", {counts[name]:,} {name}" for name in ("windows", "conflicts") if counts[name])
    return (
        f"propagate  {counts['labels']:,} labels = {counts['used']:,} used + {counts['rejects']:,} rejects; labelled "
        f"{counts['sentences']:,} sentences, {counts['passages']:,} passages, {counts['documents']:,} documents{more}"
    )


STEP = StepCode(OUTPUTS, run_step, check, is_wanted=is_ready, refuses_first=True)
