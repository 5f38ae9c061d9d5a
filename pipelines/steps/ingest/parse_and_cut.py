"""The work of ingest on one file, without Beam: parse its pages, find the duplicates, cut the documents into passages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from answermill.files.atomic_files import sha256
from answermill.indexing.crawl.raw_page import RawPage
from answermill.indexing.crawl.records import FAILURES
from answermill.indexing.documents import boilerplate, exact_duplicates
from answermill.indexing.documents.block_list import BlockList
from answermill.indexing.documents.domains import domain_of
from answermill.indexing.documents.main_text import Extractor
from answermill.indexing.documents.parse import DocumentRules, parse
from answermill.indexing.passages.passages import Splitter
from answermill.pipelines.config.job_file import Ingest
from answermill.pipelines.errors import IO, JobError, counted
from answermill.pipelines.runs.manifests.failures import FAILED_UNITS, REASON, Failures
from answermill.pipelines.runs.manifests.reports import Report, Reports
from answermill.pipelines.runs.parquet_folder import PartWriter, read_batches, read_part
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.steps.ingest import domain_filter
from answermill.pipelines.steps.ingest.crawl_files import Input
from answermill.schemas.corpus import Document, Passage, Rejected

BUCKETS = 64
ROWS_OF_PART = 65_536
"""Passages of a part, after which the next document begins another; so a shard reads little beside its own passages."""
Rows: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.uint64]
Bucket: TypeAlias = tuple[str, int]
"""(reason, number below BUCKETS)."""
FileKeys: TypeAlias = tuple[int, str, Rows, Keys]
"""A bucket's keys of one file: (unit, SHA-256 of its part of documents, rows in that part, keys [rows, 2])."""
Duplicates: TypeAlias = tuple[str, str, Rows, Sequence[str]]
"""(SHA-256 of a part of documents, reason, rows in that part; of near duplicates the id that is kept for each row)."""


class Boilerplate(NamedTuple):
    """Paragraphs of a part of documents that stand on many pages of their domain."""

    part: str
    """SHA-256 of the part."""
    keys: Keys
    """[paragraphs], in no order (indexing/documents/boilerplate.py)."""


def document_rules(settings: Ingest, domains: Set[str] | None = None, blocked: BlockList | None = None) -> DocumentRules:
    """The rules of an [ingest] section; `domains` are those that are kept, None = all; pages of `blocked` are refused."""
    return DocumentRules(
        language=settings.language,
        language_confidence=settings.language_confidence,
        min_words=settings.min_words,
        max_characters=settings.max_characters,
        require_title=settings.require_title,
        quality=tuple(settings.quality),
        masks=tuple(settings.mask),
        refuse_noindex=settings.refuse_noindex,
        domains=domains,
        blocked=blocked,
    )


def extractor_of(settings: Ingest) -> Extractor:
    return Extractor(settings.page_seconds, by=settings.extractor, comments=settings.comments)


def splitter(settings: Ingest) -> Splitter:
    return Splitter(max_tokens=settings.passage_tokens, words=settings.passage_words, mode=settings.passages)


def parse_file(file: Input, rules: DocumentRules, extractor: Extractor, work: Path) -> Report:
    """Parse one file's pages into the work folder.

    If the rules keep only some domains, the pages of each are counted too, unless that was done to choose them.
    """
    began = time.perf_counter()
    path = file.fetch()
    digests = {file.name: sha256(path)}
    pages_of_domain: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    counts = file.counts()
    documents = PartWriter(work / "documents", Document, file.number)
    rejects = PartWriter(work / "rejects", Rejected, file.number)
    with documents, rejects, Meter(parsed_files(work).folder, file.number) as meter:
        for page in file.pages(path, skipped):
            counts["pages"] += 1
            if counts["records"]:
                counts["records_failed" if _is_failure(page) else "records_read"] += 1
            if (position := file.position(page)) is not None:
                meter.reach(position)
            result = parse(page, rules, extractor) if isinstance(page, RawPage) else page
            if isinstance(page, RawPage) and not (isinstance(result, Rejected) and result.reason == "domain"):
                counts["bytes"] += len(page.body)
                if rules.domains is not None:
                    pages_of_domain[domain_of(page.url)] += 1
            if isinstance(result, Document):
                documents.write([result])
            else:
                rejects.write([result])
    counts.update({f"skipped.{kind}": n for kind, n in skipped.items()} | {"parse_ms": _milliseconds(began)})
    report = Report(file.number, {"documents": documents.parts, "rejects": rejects.parts}, counts, digests)
    if rules.domains is not None and domain_filter.reports(work).read_one(file.number) is None:
        domain_filter.reports(work).write(Report(file.number, {}, pages_of_domain))
    return parsed_files(work).write(report)


def _milliseconds(began: float) -> int:
    """Since `began`, by `time.perf_counter`."""
    return round(1000 * (time.perf_counter() - began))


def _is_failure(page: RawPage | Rejected) -> bool:
    """Whether a wanted record could not be had."""
    return isinstance(page, Rejected) and page.reason in FAILURES


def document_keys(report: Report, work: Path) -> Iterator[tuple[Bucket, FileKeys]]:
    """The keys of a parsed file's documents, by bucket.

    A document has two keys of 16 bytes, of its text and of its id; `reason` is that of a reject if the key came before.
    """
    keys_of: dict[str, list[Keys]] = {"duplicate": [], "duplicate_id": []}
    (documents,) = report.parts["documents"]
    for batch in read_batches(work / "documents", documents, ["text_hash", "doc_id"], rows=8_192):
        keys_of["duplicate"].append(exact_duplicates.text_keys(batch.column("text_hash").to_pylist()))
        keys_of["duplicate_id"].append(exact_duplicates.id_keys(batch.column("doc_id").to_pylist()))
    for reason, arrays in keys_of.items():
        if arrays:
            keys = np.concatenate(arrays)  # [documents, 2]
            buckets = keys[:, 0] % BUCKETS
            for bucket in np.unique(buckets):
                rows = np.flatnonzero(buckets == bucket)
                yield (reason, int(bucket)), (report.unit, documents.sha256, rows, keys[rows])


def find_duplicates(bucket: Bucket, members: Iterable[FileKeys]) -> Iterator[tuple[int, Duplicates]]:
    """The rows of each unit whose key came before, in an earlier unit or row; none is a result as well."""
    members = sorted(members, key=lambda member: member[0])
    lost = exact_duplicates.losers([(unit, keys) for unit, _, _, keys in members])
    for unit, documents, rows, _ in members:
        yield unit, (documents, bucket[0], rows[lost[unit]], ())


def cut_file(file: Input, members: Sequence[Duplicates | Boilerplate], cutter: Splitter, min_words: int, step: Step) -> Report:
    """Write one unit's documents that are no duplicates, without their boilerplate, their passages, and the unit's rejects;
    those that are left with less than `min_words` are rejects too. A part of passages has all passages of the documents in the
    part of documents beside it.

    Raises JobError (74) if the members are of other documents than those of the parsed file.
    """
    began = time.perf_counter()
    parsed = parsed_files(step.work).read_one(file.number)
    searched = {documents for documents, *_ in members}
    if parsed is None or searched != {part.sha256 for part in parsed.parts["documents"] if part.rows}:
        what = "its pages were parsed again after the search for duplicates; type the same command again"
        raise JobError(f"{file.name}: {what}", IO)
    duplicates = [member for member in members if not isinstance(member, Boilerplate)]
    paragraphs = {key for member in members if isinstance(member, Boilerplate) for key in member.keys.tolist()}
    by_reason = sorted(((reason, rows) for _, reason, rows, _ in duplicates), key=lambda pair: pair[0], reverse=True)
    reason_of = {int(row): reason for reason, rows in by_reason for row in rows}
    kept_for = {int(row): doc_id for _, _, rows, kept in duplicates if kept for row, doc_id in zip(rows, kept, strict=True)}
    counts = Counter(parsed.counts)
    documents = PartWriter(step.run / "documents", Document, file.number)
    passages = PartWriter(step.run / "passages", Passage, file.number)
    rejects = PartWriter(step.run / "rejects", Rejected, file.number)
    (parsed_documents,), (parsed_rejects,) = parsed.parts["documents"], parsed.parts["rejects"]
    size, rows = file.size, parsed_documents.rows
    with documents, passages, rejects, Meter(step.work, file.number) as meter:
        for reject in read_part(step.work / "rejects", parsed_rejects, Rejected):
            counts[f"rejected.{reject.reason}"] += 1
            rejects.write([reject])
        for row, parsed_document in enumerate(read_part(step.work / "documents", parsed_documents, Document)):
            meter.reach(size * row // rows)
            reason = reason_of.get(row)
            if reason is not None:
                counts[f"rejected.{reason}"] += 1
                rejects.write([_duplicate(parsed_document, reason, kept_for.get(row, ""))])
                continue
            document, gone, characters = boilerplate.without(parsed_document, paragraphs)
            counts["boilerplate_paragraphs"] += gone
            counts["boilerplate_characters"] += characters
            if gone and document.metrics.words < min_words:
                counts["rejected.boilerplate"] += 1
                rejects.write([_boilerplate(document, gone, min_words)])
                continue
            cut = cutter.split(document)
            if passages.rows >= ROWS_OF_PART:
                documents.begin_part()
                passages.begin_part()
            documents.write([document])
            passages.write(cut)
            counts["sentences"] += sum(len(passage.sentences) for passage in cut)
    parts = {"documents": documents.parts, "passages": passages.parts, "rejects": rejects.parts}
    counts.update({name: sum(part.rows for part in written) for name, written in parts.items()})
    counts["cut_ms"] = _milliseconds(began)
    return step.reports.write(Report(file.number, parts, counts, parsed.digests))


def unparsed(step: Step) -> set[int]:
    """The files that failed before their pages were parsed."""
    return {unit for unit in Failures(step.work).read() if parsed_files(step.work).read_one(unit) is None}


def reject_file(file: Input, why: str, step: Step) -> Report:
    """Write the rejects of a file whose unit failed: its pages, or the file itself, as one page, if it could not be parsed."""
    parsed = parsed_files(step.work).read_one(file.number)
    counts = Counter(parsed.counts) if parsed else file.counts()
    documents = PartWriter(step.run / "documents", Document, file.number)
    passages = PartWriter(step.run / "passages", Passage, file.number)
    rejects = PartWriter(step.run / "rejects", Rejected, file.number)
    with documents, passages, rejects:
        for reject in _rejects_of_failed(file, parsed, why, step):
            counts[f"rejected.{reject.reason}"] += 1
            rejects.write([reject])
    if parsed is None:
        counts["pages"] = counts[f"rejected.{REASON}"]
        counts["records_failed"] = counts["records"]
    parts = {"documents": documents.parts, "passages": passages.parts, "rejects": rejects.parts}
    counts.update({name: sum(part.rows for part in written) for name, written in parts.items()} | {FAILED_UNITS: 1})
    return step.reports.write(Report(file.number, parts, counts, parsed.digests if parsed else {}))


def _rejects_of_failed(file: Input, parsed: Report | None, why: str, step: Step) -> Iterator[Rejected]:
    if parsed is None:
        yield from file.rejects(REASON, why)
        return
    (documents,), (rejects,) = parsed.parts["documents"], parsed.parts["rejects"]
    yield from read_part(step.work / "rejects", rejects, Rejected)
    for document in read_part(step.work / "documents", documents, Document):
        yield _rejected(document, REASON, why)


def _duplicate(document: Document, reason: str, kept: str) -> Rejected:
    if kept:
        return _rejected(document, reason, f"its text is nearly that of {kept}, which is kept")
    what = "its text" if reason == "duplicate" else f"the id {document.doc_id!r}"
    return _rejected(document, reason, f"{what} came before in the input")


def _boilerplate(document: Document, paragraphs: int, min_words: int) -> Rejected:
    what = f"{document.metrics.words} words without {counted(paragraphs, 'paragraph')} of other pages of its domain"
    return _rejected(document, "boilerplate", f"{what}; at least {min_words}")


def _rejected(document: Document, reason: str, detail: str) -> Rejected:
    place = (document.source_file, document.source_offset, document.source_record, document.url)
    return Rejected(*place, reason=reason, detail=detail)


def duplicate_rows(members: Iterable[Duplicates]) -> set[int]:
    """The rows of a file's documents that are among the duplicates found in it."""
    return {int(row) for member in members for row in member[2]}


def parsed_files(work: Path) -> Reports:
    """A report for each file that is parsed, with its parts in the work folder."""
    return Reports(work / "parsed", work)
