"""The work of ingest on one file, without Beam: parse its pages, find the duplicates, cut the documents into
passages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from answermill.files.atomic_files import sha256
from answermill.indexing.crawl.media_types import ADVICE, refused_type
from answermill.indexing.crawl.raw_page import RawPage
from answermill.indexing.crawl.records import FAILURES
from answermill.indexing.documents.block_list import BlockList
from answermill.indexing.documents.domains import domain_of
from answermill.indexing.documents.language import code_of
from answermill.indexing.documents.main_text import TextExtractor
from answermill.indexing.documents.parse import DocumentRules, parse
from answermill.indexing.passages.passages import Splitter
from answermill.pipelines.config.job_file import Ingest
from answermill.pipelines.errors import IO, JobError
from answermill.pipelines.runs.counts import Tally
from answermill.pipelines.runs.manifests.failures import REASON, Failures
from answermill.pipelines.runs.manifests.reports import Report, Reports
from answermill.pipelines.runs.parquet_folder import PartWriter, read_batches
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.ingest import DOCUMENTS, PASSAGES, REJECTS, IngestCounts
from answermill.pipelines.steps.ingest import domain_filter
from answermill.pipelines.steps.ingest.crawl_files import Input
from answermill.pipelines.steps.ingest.repeated.judged import NO_DOCUMENTS, JudgedBlock, judged, rejected
from answermill.pipelines.steps.ingest.repeated.verdicts import FileVerdict, Verdicts
from answermill.schemas.corpus import Document, Passage, Rejected

ROWS_OF_PART = 65_536
"""Passages of a part, after which the next block of documents begins another; so a shard reads little beside
its own passages."""
BLOCK_CHARACTERS, BLOCK_PAGES = 524_288, 512
"""Characters of documents, or documents, that are cut together."""
_NAME = 60  # characters of a media type that are counted apart
IngestStep: TypeAlias = Step[IngestCounts]
IngestReport: TypeAlias = Report[IngestCounts]


def document_rules(
    settings: Ingest, domains: Set[str] | None = None, blocked: BlockList | None = None
) -> DocumentRules:
    """The rules of an [ingest] section; `domains` are those that are kept, None = all; pages of `blocked` are
    refused."""
    return DocumentRules(
        languages=frozenset(map(code_of, settings.languages)),
        language_confidence=settings.language_confidence,
        min_words=settings.min_words,
        max_characters=settings.max_characters,
        require_title=settings.require_title,
        media_types=tuple(settings.media_types),
        quality=tuple(settings.quality),
        masks=tuple(settings.mask),
        refuse_noindex=settings.refuse_noindex,
        domains=domains,
        blocked=blocked,
    )


def extractor_of(settings: Ingest) -> TextExtractor:
    return TextExtractor(settings.page_seconds, by=settings.extractor, comments=settings.comments)


def splitter(settings: Ingest) -> Splitter:
    return Splitter(max_tokens=settings.passage_tokens, words=settings.passage_words, mode=settings.passages)


def parse_file(file: Input, rules: DocumentRules, extractor: TextExtractor, work: Path) -> IngestReport:
    """Parse one unit's pages into the work folder.

    If the rules keep only some domains, the pages of each are counted too, unless that was done to choose
    them.
    """
    began = time.perf_counter()
    path = file.fetch()
    digests = {file.name: sha256(path)} if file.is_first else {}
    pages_of_domain, skipped, reads = Counter[str](), Counter[str](), Counter[str]()
    pages = size = 0
    documents, rejects = DOCUMENTS.writer(work, file.number), REJECTS.writer(work, file.number)

    with documents, rejects, Meter(parsed_files(work).folder, file.number) as meter:
        for page in file.pages(path, skipped):
            pages += 1
            reads["failed" if _is_failure(page) else "read"] += 1
            if (position := file.position(page)) is not None:
                meter.reach(position)
            result = parse(page, rules, extractor) if isinstance(page, RawPage) else page

            # A page of another domain counts neither among the bytes nor among the pages of its domain.
            if isinstance(page, RawPage) and not (isinstance(result, Rejected) and result.reason == "domain"):
                size += len(page.body)
                if rules.domains is not None:
                    pages_of_domain[domain_of(page.url)] += 1

            if isinstance(result, Document):
                documents.write([result])
            else:
                rejects.write([result])

    own_counts = file.counts()
    if own_counts.records:
        own_counts = replace(own_counts, records_read=reads["read"], records_failed=reads["failed"])
    counts = replace(
        own_counts, pages=pages, bytes=size, skipped=dict(skipped), parse_ms=_milliseconds(began)
    )
    parts = {DOCUMENTS.name: documents.parts, REJECTS.name: rejects.parts}
    report = Report(file.number, parts, counts, digests)
    if rules.domains is not None and domain_filter.reports(work).read_one(file.number) is None:
        domain_filter.reports(work).write(Report(file.number, {}, Tally(pages_of_domain)))

    return parsed_files(work).write(report)


def _milliseconds(began: float) -> int:
    """Milliseconds since `began`, by `time.perf_counter`."""
    return round(1000 * (time.perf_counter() - began))


def _is_failure(page: RawPage | Rejected) -> bool:
    """True if a wanted record could not be had."""
    return isinstance(page, Rejected) and page.reason in FAILURES


def cut_file(
    file: Input,
    members: Sequence[FileVerdict],
    cutter: Splitter,
    min_words: int,
    step: IngestStep,
) -> IngestReport:
    """Write one unit's documents that are no duplicates, without their boilerplate, their passages, and the
    unit's rejects; those that are left with less than `min_words` are rejects too.

    Raises JobError (74) if the members are of other documents than those of the parsed file.
    """
    began = time.perf_counter()
    parsed, verdicts = parsed_files(step.work).read_one(file.number), Verdicts.of(members)
    if parsed is None or verdicts.parts != {
        part.sha256 for part in parsed.parts[DOCUMENTS.name] if part.rows
    }:
        problem = "its pages were parsed again after the search for duplicates; type the same command again"
        raise JobError(f"{file.name}: {problem}", IO)

    (documents,), writers = parsed.parts[DOCUMENTS.name], _writers(step, file.number)
    with Meter(step.work, file.number) as meter:

        def judge(first: int, batch: pa.RecordBatch) -> JudgedBlock:
            meter.reach(file.size * first // documents.rows)
            return judged(first, batch, verdicts, min_words)

        counts = parsed.counts + _write(_blocks(parsed, step.work, judge), writers, cutter)

    counts = replace(counts, cut_ms=_milliseconds(began))
    return _report(file.number, writers, counts, parsed.digests, step)


def _blocks(
    parsed: IngestReport, work: Path, judge: Callable[[int, pa.RecordBatch], JudgedBlock]
) -> Iterator[JudgedBlock]:
    """All pages of a parsed file in blocks: its rejects, then its documents as `judge` leaves them; it is
    given the row of the first one too."""
    (documents,), (rejects,) = parsed.parts[DOCUMENTS.name], parsed.parts[REJECTS.name]
    for batch in read_batches(REJECTS.path(work), rejects):
        yield JudgedBlock(NO_DOCUMENTS, Rejected.rows(batch))

    first = 0
    for batch in read_batches(DOCUMENTS.path(work), documents, rows=BLOCK_PAGES):
        for start, end in _cuts(batch["text"]):
            yield judge(first + start, batch.slice(start, end - start))
        first += batch.num_rows


def _cuts(texts: pa.Array) -> Iterator[tuple[int, int]]:
    """The texts in blocks (start, end), each of which ends with the text that reaches another multiple of
    BLOCK_CHARACTERS.

    >>> list(_cuts(pa.array(["a" * BLOCK_CHARACTERS, "b", "c"])))
    [(0, 1), (1, 3)]
    """
    ends = np.cumsum(pc.utf8_length(texts).to_numpy())
    last = np.flatnonzero(np.diff(ends // BLOCK_CHARACTERS, prepend=0))
    return pairwise(sorted({0, *(last + 1).tolist(), len(texts)}))


Writers: TypeAlias = tuple[PartWriter[Document], PartWriter[Passage], PartWriter[Rejected]]


def _writers(step: IngestStep, unit: int) -> Writers:
    return DOCUMENTS.writer(step.run, unit), PASSAGES.writer(step.run, unit), REJECTS.writer(step.run, unit)


def _report(
    unit: int, writers: Writers, counts: IngestCounts, digests: Mapping[str, str], step: IngestStep
) -> IngestReport:
    """Report a unit whose parts are written."""
    documents, passages, rejects = (writer.parts for writer in writers)
    rows = [sum(part.rows for part in parts) for parts in (documents, passages)]
    counts = replace(counts, documents=rows[0], passages=rows[1])
    parts = {DOCUMENTS.name: documents, PASSAGES.name: passages, REJECTS.name: rejects}
    return step.reports.write(Report(unit, parts, counts, digests))


def unparsed(step: IngestStep) -> set[int]:
    """The files that failed before their pages were parsed."""
    return {unit for unit in Failures(step.work).read() if parsed_files(step.work).read_one(unit) is None}


def _write(blocks: Iterable[JudgedBlock], writers: Writers, cutter: Splitter | None = None) -> IngestCounts:
    """Write the pages of a unit, and the passages of its documents; return its counts. A part of passages has
    all passages of the documents in the part of documents beside it. `cutter` may be absent if all are
    rejects."""
    reasons, media_types = Counter[str](), Counter[str]()
    sentences = paragraphs = characters = 0
    documents, passages, rejects = writers

    with documents, passages, rejects:
        for block in blocks:
            paragraphs += block.paragraphs
            characters += block.characters
            reasons.update(reject.reason for reject in block.rejects)
            media_types.update(
                refused_type(reject.detail)[:_NAME] for reject in block.rejects if reject.reason in ADVICE
            )
            rejects.write(block.rejects)
            if cutter is None or not block.documents.num_rows:
                continue

            if passages.rows >= ROWS_OF_PART:
                documents.begin_part()
                passages.begin_part()
            table = cutter.table(block.documents)
            documents.write_table(block.documents)
            passages.write_table(table)
            sentences += pc.sum(pc.list_value_length(table["sentences"])).as_py() or 0

    return IngestCounts(
        rejected=dict(reasons),
        media_types=dict(media_types),
        sentences=sentences,
        boilerplate_paragraphs=paragraphs,
        boilerplate_characters=characters,
    )


def reject_file(file: Input, why: str, step: IngestStep) -> IngestReport:
    """Write the rejects of a file whose unit failed: its pages, or the file itself, as one page, if it could
    not be parsed."""
    parsed, writers = parsed_files(step.work).read_one(file.number), _writers(step, file.number)

    if parsed is not None:

        def refuse(_: int, batch: pa.RecordBatch) -> JudgedBlock:
            rejects = [rejected(document, REASON, why) for document in Document.rows(batch)]
            return JudgedBlock(NO_DOCUMENTS, rejects)

        counts = parsed.counts + _write(_blocks(parsed, step.work, refuse), writers)
        digests = parsed.digests
    else:
        reject_counts = _write([JudgedBlock(NO_DOCUMENTS, list(file.rejects(REASON, why)))], writers)
        own_counts = file.counts()
        own_counts = replace(own_counts, pages=reject_counts.rejects, records_failed=own_counts.records)
        counts, digests = own_counts + reject_counts, {}

    return _report(file.number, writers, replace(counts, failed_units=1), digests, step)


def parsed_files(work: Path) -> Reports[IngestCounts]:
    """A report for each file that is parsed, with its parts in the work folder."""
    return Reports(work / "parsed", IngestCounts, work)
