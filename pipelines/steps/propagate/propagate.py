"""Propagate: labels of sentences in; labels of sentences, passages, documents and windows out (WQA §3.3).

The given labels become sorted files in the work folder (indexing/labels/given_labels.py). A part of passages/
is one unit of work: it looks its own sentences up in those files, some thousand passages at a time. All
passages of a document are in one part. If labels also hold for other sentences of the same text, a first pass
over the parts finds the texts of the sentences that are labelled by id.

In a part, documents follow one another as in passages/, and within a document the rows are sorted by question
id, then by sentence or passage id. Labels whose sentence is missing or has another text now, and labels given
twice, are kept in labels/rejects, by line.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from answermill.files.atomic_files import WrongShape, read_json, replacing, sha256, write_text
from answermill.files.store import fetch, fetch_tree, publishing, put
from answermill.indexing.labels.conflicts import conflicts
from answermill.indexing.labels.given_labels import REPEATED, SPREAD, SPREAD_LABEL, GivenLabels
from answermill.indexing.labels.hash_join import Ints
from answermill.indexing.labels.label_lookup import NONE, labels_to_spread
from answermill.indexing.labels.propagation import label_sentences
from answermill.indexing.labels.windows import WindowRule, window_labels
from answermill.indexing.passages.passages import Splitter
from answermill.pipelines.config.job_file import Job, Propagate
from answermill.pipelines.config.step_code import StepCode
from answermill.pipelines.data.inputs.labels import LabelSource, collected_labels
from answermill.pipelines.engine.protocol import Engine
from answermill.pipelines.engine.runner import carry, define
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import BAD_DATA, JobError, counted
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.spec import AnyCounts
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.ingest import DOCUMENTS, PASSAGES
from answermill.pipelines.specs.propagate import (
    LABEL_CONFLICTS,
    LABEL_REJECTS,
    PROPAGATE,
    SENTENCE_LABELS,
    WINDOW_LABELS,
    PropagateCounts,
)
from answermill.pipelines.steps.propagate.label_fates import CHANGED, USED, fates_file, fates_of, reject
from answermill.pipelines.steps.propagate.passage_parts import DocumentTexts, PassagePart, PassageParts

_WRITTEN_OTHERWISE = (WINDOW_LABELS, LABEL_REJECTS)
"""Folders that not every unit writes: windows only if the job has them, rejects once at the end."""


def is_ready(job: Job, run: Path | None) -> bool:
    """True if the job has labels to propagate by now: a file of labels, or collected ones in the run
    folder."""
    settings = job.propagate
    if settings is None:
        return False
    return settings.labels is not None or (run is not None and (collected_labels(run) / MANIFEST).is_file())


def check(job: Job, run: Path) -> None:
    """Refuse labels that the step would refuse. Raises JobError as `LabelSource.write` does."""
    source = LabelSource.of(job, run)
    if source.may_contradict():
        with tempfile.TemporaryDirectory() as folder:
            source.write(Path(folder))


def step_of(job: Job, run: Path) -> Step[PropagateCounts]:
    """The propagate step of a run. Raises JobError if passages/ or the labels are missing."""
    source, section = LabelSource.of(job, run), _section(job)
    settings = section.model_dump(exclude={"labels", "columns"})
    inputs = {"labels": source.digest(), "passages": PASSAGES.open(run).digest()}
    if section.windows == "none":
        settings = {name: settings[name] for name in ("same_text", "windows")}
    else:
        inputs["documents"] = DOCUMENTS.open(run).digest()
    return Step(run, PROPAGATE, settings, inputs)


def _section(job: Job) -> Propagate:
    assert job.propagate is not None  # `LabelSource.of` has refused a job without it
    return job.propagate


def run_step(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; return its summary line."""
    step = step_of(job, run)
    commit = Commit(step)
    if commit.is_complete():
        return summary(run) + " (complete)"

    commit.begin(job.workers)
    source, settings = LabelSource.of(job, run), _section(job)
    folder = step.work / "labels"
    labels, largest = _once(step.work / "given-labels.json", folder, lambda: _write_labels(source, folder))
    given_labels = GivenLabels(fetch_tree(folder))
    parts = _parts(job, run)

    def carry_out(pass_: Step[AnyCounts], work: UnitWork) -> Outcome[AnyCounts]:
        return carry(pass_, len(parts), work, beam_options, job.workers.processes)

    if settings.same_text:
        spreading = _spreading(step)
        Commit(spreading).begin(job.workers)
        carry_out(spreading, FindLabelsToSpread(parts, GivenLabels(folder), spreading))
        to_spread = _labels_to_spread(spreading, len(parts))
        spread = step.work / "spread-labels.json"
        _once(spread, folder, lambda: (_spread(given_labels, folder, to_spread),), SPREAD)

    outcome = carry_out(step, LabelPart(parts, GivenLabels(folder), settings, step))
    outcome.include(reject(given_labels, step, len(parts), largest, source.name))
    outcome.counts = replace(outcome.counts, labels=labels)
    outcome.counts.check_sums()
    if not outcome.counts.used:
        problem = f"of its {counted(labels, 'label')} none is of a sentence in {PASSAGES.path(run)}"
        raise JobError(f"{source.path}: {problem}", BAD_DATA)

    commit.finish(outcome)
    return summary(run)


def join(job: Job, run: Path, block: str, engine: Engine) -> None:
    """Do a machine's share of the units of a pass."""
    step, parts = step_of(job, run), _parts(job, run)
    given_labels = GivenLabels(step.work / "labels")
    if block == step.name:
        define(engine, step, len(parts), LabelPart(parts, given_labels, _section(job), step))
        return
    spreading = _spreading(step)
    define(engine, spreading, len(parts), FindLabelsToSpread(parts, given_labels, spreading))


def _parts(job: Job, run: Path) -> PassageParts:
    return PassageParts.of(run, _section(job).windows != "none")


def _spreading(step: Step[PropagateCounts]) -> Step[StepCounts]:
    """The pass that finds the texts of labelled sentences."""
    return step.within("found", {}, StepCounts, {})


def _write_labels(source: LabelSource, folder: Path) -> tuple[int, int]:
    with publishing(folder, REPEATED) as new:
        return source.write(new)


def _spread(given_labels: GivenLabels, folder: Path, to_spread: Iterator[pa.RecordBatch]) -> int:
    """Spread the labels at `folder`, of which `given_labels` may be a copy; return the number of rows."""
    rows = given_labels.spread(to_spread)
    if given_labels.folder != folder:
        for file in given_labels.folder.glob("spread*"):
            put(file, folder / file.name)
    return rows


@dataclass(frozen=True, slots=True)
class _Written:
    """The shape of the file that says what `_once` has written."""

    numbers: tuple[int, ...]
    files: dict[str, str]
    """Name → SHA-256."""


def _once(mark: Path, folder: Path, write: Callable[[], tuple[int, ...]], kind: str = "") -> tuple[int, ...]:
    """The numbers that `write` returns, kept in the file `mark` with the digests of the files that it writes
    into `folder`: those of a `kind`, or all that are of none. A run that was stopped does not call it again,
    unless a file is not what it wrote."""

    def files() -> dict[str, str]:
        names = sorted(path.name for path in fetch_tree(folder).iterdir())
        wanted = [name for name in names if name.startswith(kind or SPREAD) == bool(kind)]
        return {name: sha256(fetch_tree(folder) / name) for name in wanted}

    try:
        kept = read_json(mark, _Written)
        if kept.files == files():
            return kept.numbers
    except (FileNotFoundError, WrongShape):
        pass

    numbers = write()
    write_text(mark, json.dumps({"numbers": numbers, "files": files()}))
    return numbers


class FindLabelsToSpread(UnitWork):
    """A part of passages → the labels by id of its sentences, with their folded texts, in the work folder."""

    def __init__(self, parts: PassageParts, given_labels: GivenLabels, step: Step[StepCounts]) -> None:
        super().__init__(step.name, step.work, StepCounts)
        self._parts, self._given, self._step = parts, given_labels, step

    def load(self) -> None:
        self._given = GivenLabels(fetch_tree(self._given.folder))

    def work(self, unit: int) -> None:
        path = _spread_file(self._step, unit)
        with replacing(path) as temporary, pa.ipc.new_file(temporary, SPREAD_LABEL) as file:
            for sentences in self._parts[unit].sentences():
                file.write_batch(labels_to_spread(sentences, self._given))
        self._step.reports.write(Report(unit, {}, StepCounts()))


def _spread_file(step: Step[Any], unit: int) -> Path:
    return step.work / f"found-{unit:05d}.arrow"


def _labels_to_spread(step: Step[Any], units: int) -> Iterator[pa.RecordBatch]:
    """Batches that FindLabelsToSpread wrote, unit by unit."""
    for unit in range(units):
        with pa.memory_map(str(fetch(_spread_file(step, unit)))) as source:
            file = pa.ipc.open_file(source)
            yield from (file.get_batch(n) for n in range(file.num_record_batches))


class LabelPart(UnitWork):
    """A part of passages → its labels of sentences, passages, documents and windows, and their conflicts."""

    def __init__(
        self, parts: PassageParts, given_labels: GivenLabels, settings: Propagate, step: Step[PropagateCounts]
    ) -> None:
        super().__init__(step.name, step.work, PropagateCounts)
        self._parts, self._given, self._settings, self._step = parts, given_labels, settings, step

    def load(self) -> None:
        self._given = GivenLabels(fetch_tree(self._given.folder))
        self._splitter = Splitter(self._settings.window_tokens) if self._settings.windows != "none" else None

    def work(self, unit: int) -> None:
        label_part(self._parts[unit], self._given, self._settings, self._splitter, self._step)


def label_part(
    passages: PassagePart,
    given_labels: GivenLabels,
    settings: Propagate,
    splitter: Splitter | None,
    step: Step[PropagateCounts],
) -> None:
    """Label the sentences of a part of passages/, and what holds them.

    Writes the part of each output folder, the fates of the given labels of its sentences, and the unit's
    report.
    """
    unit = passages.number
    folders = [folder for folder in PROPAGATE if folder not in _WRITTEN_OTHERWISE]
    if splitter is not None:
        folders.append(WINDOW_LABELS)
    writers = {folder.name: folder.writer(step.run, unit) for folder in folders}
    texts = DocumentTexts(*passages.texts) if passages.texts is not None else None
    ties = 0
    fates: list[Ints] = []

    with ExitStack() as open_files:
        for writer in writers.values():
            open_files.enter_context(writer)
        for sentences in passages.sentences():
            labelled = label_sentences(sentences, given_labels)
            for name, table in labelled.tables().items():
                writers[f"labels/{name}"].write_table(table)
            writers[LABEL_CONFLICTS.name].write(conflicts(labelled))
            if splitter is not None and texts is not None and settings.windows != "none":
                rule = WindowRule(settings.windows, settings.places, settings.seed)
                table = window_labels(labelled, texts.read(labelled), splitter, rule)
                writers[WINDOW_LABELS.name].write_table(table)
            ties += int((labelled.label == NONE).sum())
            fates += [fates_of(labelled.used, USED), fates_of(labelled.changed, CHANGED)]

    path = fates_file(step, unit)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(
            file,
            np.unique(np.concatenate([np.zeros((2, 0), np.int64), *fates], axis=1), axis=1),
            allow_pickle=False,
        )

    rows = {folder.rows: writers[folder.name].part.rows for folder in folders}
    counts = PropagateCounts.from_json({**rows, "ties": ties})
    step.reports.write(Report(unit, {name: writer.parts for name, writer in writers.items()}, counts))


def summary(run: Path) -> str:
    """One line for people, from the manifests."""
    counts = PROPAGATE.counts_of(SENTENCE_LABELS.open(run).manifest)
    more = "".join(
        f", {counted(n, name)}"
        for n, name in ((counts.windows, "window"), (counts.conflicts, "conflict"))
        if n
    )
    passages, documents = counted(counts.passages, "passage"), counted(counts.documents, "document")
    return (
        f"propagate  {counted(counts.labels, 'label')} = {counts.used:,} used + "
        f"{counted(counts.rejects, 'reject')}; labelled "
        f"{counted(counts.sentences, 'sentence')}, {passages}, {documents}{more}"
    )


STEP = StepCode(run_step, check, step_of, is_wanted=is_ready, refuses_first=True, join=join)
