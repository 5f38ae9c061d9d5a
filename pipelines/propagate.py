"""Propagate: labels of sentences in; labels of sentences, passages and documents out (WQA §3.3).

A part of passages/ is one unit of work; a document's passages all stand in one part. What is given but found nowhere is
kept in labels/rejects.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import apache_beam as beam

from indexing.labels import GivenLabel, GivenLabels, documents, propagate
from pipelines.errors import BAD_DATA, SETTINGS, JobError
from pipelines.job import Job
from pipelines.records import Folder, Part, PartWriter, read_part, sha256, write_text
from pipelines.runner import carry
from pipelines.step import Report, Step, total
from pipelines.tables import read_labels
from schemas.corpus import Passage, Rejected
from schemas.labels import DocumentLabel, PassageLabel, SentenceLabel
from schemas.record import Record

OUTPUTS: Mapping[str, type[Record]] = {
    "labels/sentences": SentenceLabel,
    "labels/passages": PassageLabel,
    "labels/documents": DocumentLabel,
    "labels/rejects": Rejected,
}


def labels_file(job: Job) -> Path:
    if job.propagate is None:
        raise JobError("the job has no [propagate] section; add one with `labels`", SETTINGS)
    return job.path(job.propagate.labels)


def step(job: Job, run: Path) -> Step:
    """The propagate step of a run. Raises JobError where passages/ or the labels are missing."""
    passages = Folder.open(run / "passages", Passage, "ingest")
    return Step(run, "propagate", OUTPUTS, {}, {"labels": sha256(labels_file(job)), "passages": passages.digest()})


def run_step(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; returns its summary line."""
    given = read_labels(labels_file(job))
    this = step(job, run)
    if this.is_complete():
        return summary(run) + " (complete)"
    this.begin()
    passages = Folder.open(run / "passages", Passage, "ingest")
    done = this.reports.read()
    left = [(n, part) for n, part in enumerate(passages.parts) if n not in done]
    carry(this, left, len(passages.parts), LabelPart(given, passages.path, this), beam_options, job.workers.processes)
    reports = list(this.reports.read().values())
    rejects = reject(given, this, len(passages.parts), labels_file(job))
    counts = total([*reports, rejects])
    counts["labels"] = len(given)
    if counts["labels"] != counts["used"] + counts["rejects"]:
        raise RuntimeError(f"{counts['labels']} labels came in, {counts['used']} were used and {counts['rejects']} refused")
    this.finish([*reports, rejects], counts)
    return summary(run)


class LabelPart(beam.DoFn):
    """A part of passages → its labels of sentences, passages and documents."""

    def __init__(self, given: Sequence[GivenLabel], folder: Path, this: Step) -> None:
        self._given, self._folder, self._step = list(given), folder, this

    def setup(self) -> None:
        self._labels = GivenLabels(self._given)

    def process(self, element: tuple[int, Part]) -> None:
        unit, part = element
        label_part(unit, part, self._folder, self._labels, self._step)


def label_part(unit: int, part: Part, folder: Path, labels: GivenLabels, this: Step) -> None:
    sentences = PartWriter(this.run / "labels/sentences", SentenceLabel, unit)
    passages = PartWriter(this.run / "labels/passages", PassageLabel, unit)
    pages = PartWriter(this.run / "labels/documents", DocumentLabel, unit)
    used: set[int] = set()
    with sentences, passages, pages:
        for _, group in groupby(read_part(folder, part, Passage), key=lambda passage: passage.doc_id):
            of_document = list(group)
            found, numbers = labels.of(of_document)
            used |= numbers
            sentences.write(found)
            passages.write(propagate(found, of_document))
            pages.write(documents(found))
    write_text(this.work / f"used-{unit:05d}.json", json.dumps(sorted(used)))
    parts = {"labels/sentences": sentences.part, "labels/passages": passages.part, "labels/documents": pages.part}
    this.reports.write(Report(unit, parts, {name.removeprefix("labels/"): made.rows for name, made in parts.items()}))


def reject(given: Sequence[GivenLabel], this: Step, units: int, file: Path) -> Report:
    """Keep the labels whose sentence is nowhere, with their line; reports as the unit after the last."""
    used: set[int] = set()
    for unit in range(units):
        used.update(json.loads((this.work / f"used-{unit:05d}.json").read_text(encoding="utf-8")))
    writer = PartWriter(this.run / "labels/rejects", Rejected, units)
    with writer:
        for label in given:
            if label.number not in used:
                what = f"sentence id {label.sentence_id!r}" if label.sentence_id is not None else f"sentence {label.text!r}"
                writer.write(
                    [
                        Rejected(
                            file.name, label.number, label.question_id, "", "unknown_sentence", f"{what} is not in passages/"
                        )
                    ]
                )
    if not used:
        raise JobError(f"{file}: none of its {len(given)} labels is of a sentence in {this.run / 'passages'}", BAD_DATA)
    return Report(units, {"labels/rejects": writer.part}, {"used": len(used), "rejects": writer.part.rows})


def summary(run: Path) -> str:
    """One line for people, from the manifests."""
    counts = Counter(Folder.open(run / "labels/sentences", SentenceLabel, "propagate").manifest.counts)
    return (
        f"propagate  {counts['labels']:,} labels = {counts['used']:,} used + {counts['rejects']:,} rejects; labelled "
        f"{counts['sentences']:,} sentences, {counts['passages']:,} passages, {counts['documents']:,} documents"
    )
