"""Ingest: crawled files in; documents, passages and rejects out.

Each input file is one unit of work. Its pages are parsed into a part in the work folder; the keys of all documents (16 bytes
each) meet to find exact duplicates; then each unit drops its duplicates and cuts the other documents into passages. Page text
moves through local files, never through a shuffle. If the job keeps only some domains (`domains`), they are chosen first
(domain_filter.py), and parsing refuses the pages of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TypeAlias

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from indexing.crawl.input_formats import read_pages
from indexing.crawl.raw_page import RawPage
from indexing.documents import exact_duplicates
from indexing.documents.domains import domain_of
from indexing.documents.main_text import Extractor
from indexing.documents.parse import DocumentRules, parse
from indexing.passages.passages import Splitter
from pipelines.config.job_file import Ingest, Job
from pipelines.config.step_registry import StepCode
from pipelines.errors import BAD_DATA, SETTINGS, JobError
from pipelines.execution.parquet_folder import Folder, PartWriter, read_batches, read_part
from pipelines.execution.progress import progress
from pipelines.execution.runner import pipeline
from pipelines.execution.step import Report, Reports, Step, total
from pipelines.ingest import domain_filter
from pipelines.ingest.crawl_files import InputFile, find_files
from schemas.atomic_files import sha256
from schemas.corpus import Document, Passage, Rejected
from schemas.record import Record

OUTPUTS: Mapping[str, type[Record]] = {"documents": Document, "passages": Passage, "rejects": Rejected}
REVISION = 1
"""Raised when the step's code changes so that the same input gives another output."""
BUCKETS = 64
Rows: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.uint64]


def step_of(job: Job, run: Path) -> Step:
    """The ingest step of a run. Raises JobError if the job has no [ingest] or its input is missing."""
    if job.ingest is None:
        raise JobError("the job has no [ingest] section; add one with `input`", SETTINGS)
    inputs = {}
    for file in find_files(job, job.ingest):
        try:
            read_pages(file.path, file.name, Counter())  # looks at the first bytes only
        except ValueError as e:
            raise JobError(f"ingest.input: {e}", BAD_DATA) from e
        stat = file.path.stat()
        inputs[file.name] = f"{stat.st_size} bytes, modified {stat.st_mtime_ns}"
    if (domain_list := domain_filter.list_file(job, job.ingest)) is not None:
        domain_filter.read_list(domain_list, job.ingest.domains)
        inputs["domain_list"] = sha256(domain_list)
    settings = job.ingest.model_dump(exclude={"input", "domain_list", "max_reject_share"})
    return Step(run, "ingest", OUTPUTS, settings, inputs, REVISION)


def ingest(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; returns its summary line."""
    step = step_of(job, run)
    settings = job.ingest
    assert settings is not None  # `step_of` has refused a job without it
    if step.is_complete():
        return summary(run) + " (complete)"
    step.begin()
    files = find_files(job, settings)
    done = step.reports.read()
    pending = [file for file in files if file.number not in done]
    domains = domain_filter.choose(job, settings, files, step.work, beam_options)
    with (
        progress("ingest", 2 * len(files), lambda: step.reports.count() + _parsed(step.work).count()),
        pipeline(beam_options, job.workers.processes, len(files)) as root,
    ):
        define(root, files, pending, settings, step, domains)
    counts = total(step.reports.read().values())
    check_counts(counts, settings, len(files))
    if domains is not None:
        domain_filter.publish(run, step.work)
    step.finish(step.reports.read().values(), counts)
    return summary(run)


def define(
    root: beam.Pipeline,
    files: Sequence[InputFile],
    pending: Sequence[InputFile],
    settings: Ingest,
    step: Step,
    domains: Set[str] | None = None,
) -> None:
    """The pipeline: parse all files not parsed yet, find duplicates over all files, cut the `pending` ones into passages."""
    units = root | "Files" >> beam.Create(list(files)) | "Spread files" >> beam.Reshuffle()  # InputFile
    keys = units | "Parse pages" >> beam.ParDo(ParsePages(settings, step.work, domains))  # (bucket, (unit, rows, keys))
    duplicates = (
        keys
        | "Meet in buckets" >> beam.GroupByKey()  # (bucket, all its (unit, rows, keys))
        | "Find duplicates" >> beam.FlatMapTuple(find_duplicates)  # (unit, (reason, rows))
    )
    (
        (duplicates, root | "Pending files" >> beam.Create([(file.number, file) for file in pending]))
        | "With their files" >> beam.Flatten()
        | "By file" >> beam.GroupByKey()  # (unit, its InputFile and its (reason, rows), any order)
        | "Cut passages" >> beam.ParDo(CutPassages(settings, step))
    )


class ParsePages(beam.DoFn):
    """An input file → a part of documents and one of rejects in the work folder; emits the documents' keys in buckets."""

    def __init__(self, settings: Ingest, work: Path, domains: Set[str] | None = None) -> None:
        self._settings, self._work, self._domains = settings, work, domains

    def setup(self) -> None:
        self._extractor = Extractor(self._settings.page_seconds)

    def teardown(self) -> None:
        self._extractor.close()

    def process(self, file: InputFile) -> Iterator[tuple[tuple[str, int], tuple[int, Rows, Keys]]]:
        report = _parsed(self._work).read_one(file.number) or parse_file(
            file, document_rules(self._settings, self._domains), self._extractor, self._work
        )
        yield from document_keys(report, self._work)


class CutPassages(beam.DoFn):
    """A unit and its duplicates → its parts of documents, passages and rejects; and its report."""

    def __init__(self, settings: Ingest, step: Step) -> None:
        self._settings, self._step = settings, step

    def setup(self) -> None:
        self._splitter = splitter(self._settings)

    def process(self, element: tuple[int, Iterable[InputFile | tuple[str, Rows]]]) -> None:
        _, members = element
        file, duplicates = None, []
        for member in members:
            if isinstance(member, InputFile):
                file = member
            else:
                duplicates.append(member)
        if file is not None:  # else the unit had reported before this run
            cut_file(file, duplicates, self._splitter, self._step)


def document_rules(settings: Ingest, domains: Set[str] | None = None) -> DocumentRules:
    """The rules of an [ingest] section; `domains` are those that are kept, None = all."""
    return DocumentRules(
        language=settings.language,
        min_words=settings.min_words,
        max_characters=settings.max_characters,
        require_title=settings.require_title,
        domains=domains,
    )


def splitter(settings: Ingest) -> Splitter:
    return Splitter(max_tokens=settings.passage_tokens, words=settings.passage_words, mode=settings.passages)


def parse_file(file: InputFile, rules: DocumentRules, extractor: Extractor, work: Path) -> Report:
    """Parse one file's pages into the work folder.

    If the rules keep only some domains, the pages of each are counted too, unless that was done to choose them.
    """
    pages_of_domain: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    documents = PartWriter(work / "documents", Document, file.number)
    rejects = PartWriter(work / "rejects", Rejected, file.number)
    with documents, rejects:
        for page in read_pages(file.path, file.name, skipped):
            counts["pages"] += 1
            result = parse(page, rules, extractor) if isinstance(page, RawPage) else page
            if isinstance(page, RawPage) and not (isinstance(result, Rejected) and result.reason == "domain"):
                counts["bytes"] += len(page.body)
                if rules.domains is not None:
                    pages_of_domain[domain_of(page.url)] += 1
            if isinstance(result, Document):
                documents.write([result])
            else:
                rejects.write([result])
    counts.update({f"skipped.{kind}": n for kind, n in skipped.items()})
    report = Report(file.number, {"documents": documents.part, "rejects": rejects.part}, counts)
    if rules.domains is not None and domain_filter.reports(work).read_one(file.number) is None:
        domain_filter.reports(work).write(Report(file.number, {}, pages_of_domain))
    _parsed(work).write(report)
    return report


def document_keys(report: Report, work: Path) -> Iterator[tuple[tuple[str, int], tuple[int, Rows, Keys]]]:
    """The keys of a parsed file's documents, by bucket: ((reason, bucket), (unit, rows, keys [rows, 2])).

    A document has two keys of 16 bytes, of its text and of its id; `reason` is that of a reject if the key came before.
    """
    keys_of: dict[str, list[Keys]] = {"duplicate": [], "duplicate_id": []}
    for batch in read_batches(work / "documents", report.parts["documents"], ["text_hash", "doc_id"], rows=8_192):
        keys_of["duplicate"].append(exact_duplicates.text_keys(batch.column("text_hash").to_pylist()))
        keys_of["duplicate_id"].append(exact_duplicates.id_keys(batch.column("doc_id").to_pylist()))
    for reason, arrays in keys_of.items():
        if arrays:
            keys = np.concatenate(arrays)  # [documents, 2]
            buckets = keys[:, 0] % BUCKETS
            for bucket in np.unique(buckets):
                rows = np.flatnonzero(buckets == bucket)
                yield (reason, int(bucket)), (report.unit, rows, keys[rows])


def find_duplicates(
    bucket: tuple[str, int], members: Iterable[tuple[int, Rows, Keys]]
) -> Iterator[tuple[int, tuple[str, Rows]]]:
    """The rows of each unit whose key came before, in an earlier unit or row: (unit, (reason, rows))."""
    members = sorted(members, key=lambda member: member[0])
    rows = {unit: rows for unit, rows, _ in members}
    for unit, lost in exact_duplicates.losers([(unit, keys) for unit, _, keys in members]).items():
        if len(lost):
            yield unit, (bucket[0], rows[unit][lost])


def cut_file(file: InputFile, duplicates: Sequence[tuple[str, Rows]], cutter: Splitter, step: Step) -> Report:
    """Write one unit's documents that are no `duplicates` ((reason, rows)), their passages, and the unit's rejects."""
    parsed = _parsed(step.work).read_one(file.number)
    assert parsed is not None  # its keys were read from it
    reason_of = {
        int(row): reason for reason, rows in sorted(duplicates, key=lambda pair: pair[0], reverse=True) for row in rows
    }
    counts = Counter(parsed.counts)
    documents = PartWriter(step.run / "documents", Document, file.number)
    passages = PartWriter(step.run / "passages", Passage, file.number)
    rejects = PartWriter(step.run / "rejects", Rejected, file.number)
    with documents, passages, rejects:
        for reject in read_part(step.work / "rejects", parsed.parts["rejects"], Rejected):
            counts[f"rejected.{reject.reason}"] += 1
            rejects.write([reject])
        for row, document in enumerate(read_part(step.work / "documents", parsed.parts["documents"], Document)):
            reason = reason_of.get(row)
            if reason is not None:
                counts[f"rejected.{reason}"] += 1
                rejects.write([_duplicate(document, reason)])
                continue
            cut = cutter.split(document)
            documents.write([document])
            passages.write(cut)
            counts["sentences"] += sum(len(passage.sentences) for passage in cut)
    parts = {"documents": documents.part, "passages": passages.part, "rejects": rejects.part}
    counts.update({name: part.rows for name, part in parts.items()})
    report = Report(file.number, parts, counts)
    step.reports.write(report)
    return report


def check_counts(counts: Counter[str], settings: Ingest, files: int) -> None:
    """Pages in = documents out + rejects, always. Raises JobError (65) if no document is left, or too much was refused."""
    if counts["pages"] != counts["documents"] + counts["rejects"]:
        raise RuntimeError(
            f"{counts['pages']} pages came in, {counts['documents']} documents and {counts['rejects']} rejects out"
        )
    if not counts["documents"]:
        raise JobError(f"no document is left of {counts['pages']} pages in {files} files: {_reasons(counts)}", BAD_DATA)
    share = counts["rejects"] / counts["pages"]
    if share > settings.max_reject_share:
        raise JobError(
            f"{share:.1%} of the pages were refused, more than ingest.max_reject_share = {settings.max_reject_share:.1%}: "
            f"{_reasons(counts)}",
            BAD_DATA,
        )


def summary(run: Path) -> str:
    """One line for people, from the manifests."""
    counts = Counter(Folder.open(run / "documents", Document, "ingest").manifest.counts)
    return (
        f"ingest     {counts['pages']:,} pages = {counts['documents']:,} documents + {counts['rejects']:,} rejects "
        f"({_reasons(counts)}); {counts['passages']:,} passages, {counts['sentences']:,} sentences"
    )


def _reasons(counts: Counter[str]) -> str:
    reasons = sorted((-n, key.removeprefix("rejected.")) for key, n in counts.items() if key.startswith("rejected."))
    return ", ".join(f"{-n:,} {reason}" for n, reason in reasons) or "none refused"


def _duplicate(document: Document, reason: str) -> Rejected:
    what = "its text" if reason == "duplicate" else f"the id {document.doc_id!r}"
    return Rejected(
        source_file=document.source_file,
        source_offset=document.source_offset,
        source_record=document.source_record,
        url=document.url,
        reason=reason,
        detail=f"{what} came before in the input",
    )


def _parsed(work: Path) -> Reports:
    return Reports(work / "parsed")


STEP = StepCode(OUTPUTS, ingest, check=lambda job, run: step_of(job, run).is_complete())
