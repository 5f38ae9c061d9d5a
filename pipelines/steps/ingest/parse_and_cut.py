"""The work of ingest on one file, without Beam: parse its pages, find the duplicates, cut the documents into
passages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow.compute as pc

from answermill.files.atomic_files import sha256
from answermill.indexing.crawl.media_types import ADVICE, refused_type
from answermill.indexing.crawl.raw_page import RawPage
from answermill.indexing.crawl.records import FAILURES
from answermill.indexing.documents import boilerplate
from answermill.indexing.documents.block_list import BlockList
from answermill.indexing.documents.domains import domain_of
from answermill.indexing.documents.language import code_of
from answermill.indexing.documents.main_text import TextExtractor
from answermill.indexing.documents.parse import DocumentRules, parse
from answermill.indexing.passages.passages import Splitter
from answermill.pipelines.config.job_file import Ingest
from answermill.pipelines.errors import IO, JobError, counted
from answermill.pipelines.runs.counts import Tally
from answermill.pipelines.runs.manifests.failures import REASON, Failures
from answermill.pipelines.runs.manifests.reports import Report, Reports
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.ingest import DOCUMENTS, PASSAGES, REJECTS, IngestCounts
from answermill.pipelines.steps.ingest import domain_filter
from answermill.pipelines.steps.ingest.crawl_files import Input
from answermill.pipelines.steps.ingest.repeated.verdicts import FileVerdict, Verdicts
from answermill.schemas.corpus import Document, Passage, Rejected

ROWS_OF_PART = 65_536
"""Passages of a part, after which the next block of documents begins another; so a shard reads little beside
its own passages."""
BLOCK_CHARACTERS, BLOCK_PAGES = 524_288, 2_048
"""Characters of documents, or pages, that are cut together."""
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

        def fate(row: int, document: Document) -> Fate:
            meter.reach(file.size * row // documents.rows)
            return fate_of(row, document, verdicts, min_words)

        counts = parsed.counts + _write(_fates(parsed, step.work, fate), writers, cutter)

    counts = replace(counts, cut_ms=_milliseconds(began))
    return _report(file.number, writers, counts, parsed.digests, step)


class Fate(NamedTuple):
    """A document that stays, or a reject; and the boilerplate that was found in it."""

    result: Document | Rejected
    paragraphs: int = 0
    characters: int = 0


def fate_of(row: int, document: Document, verdicts: Verdicts, min_words: int) -> Fate:
    """The document of a row of the parsed file, without its boilerplate; or why it is refused."""
    if row in verdicts.duplicates:
        return Fate(_duplicate(document, verdicts.duplicates[row]))
    if row in verdicts.near_duplicates:
        return Fate(_near_duplicate(document, verdicts.near_duplicates[row]))

    rest, paragraphs, characters = boilerplate.without(document, verdicts.boilerplate)
    if paragraphs and rest.metrics.words < min_words:
        return Fate(_boilerplate(rest, paragraphs, min_words), paragraphs, characters)
    return Fate(rest, paragraphs, characters)


def _fates(parsed: IngestReport, work: Path, fate: Callable[[int, Document], Fate]) -> Iterator[Fate]:
    """The fates of all pages of a parsed file: its rejects, and the `fate` of each row's document."""
    (documents,), (rejects,) = parsed.parts[DOCUMENTS.name], parsed.parts[REJECTS.name]
    yield from map(Fate, REJECTS.read_part(work, rejects))
    for row, document in enumerate(DOCUMENTS.read_part(work, documents)):
        yield fate(row, document)


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


def _write(fates: Iterable[Fate], writers: Writers, cutter: Splitter | None = None) -> IngestCounts:
    """Write the fates of a unit's pages, and the passages of its documents; return its counts. A part of
    passages has all passages of the documents in the part of documents beside it. `cutter` may be absent if
    all are rejects."""
    rejected, media_types = Counter[str](), Counter[str]()
    sentences = paragraphs = characters = 0
    documents, passages, rejects = writers

    with documents, passages, rejects:
        for block in _blocks(fates):
            paragraphs += sum(fate.paragraphs for fate in block)
            characters += sum(fate.characters for fate in block)
            refused = [fate.result for fate in block if isinstance(fate.result, Rejected)]
            rejected.update(reject.reason for reject in refused)
            media_types.update(
                refused_type(reject.detail)[:_NAME] for reject in refused if reject.reason in ADVICE
            )
            rejects.write(refused)
            if cutter is None:
                continue

            if passages.rows >= ROWS_OF_PART:
                documents.begin_part()
                passages.begin_part()
            kept = [fate.result for fate in block if isinstance(fate.result, Document)]
            table = cutter.table(kept)
            documents.write(kept)
            passages.write_table(table)
            sentences += pc.sum(pc.list_value_length(table["sentences"])).as_py() or 0

    return IngestCounts(
        rejected=dict(rejected),
        media_types=dict(media_types),
        sentences=sentences,
        boilerplate_paragraphs=paragraphs,
        boilerplate_characters=characters,
    )


def _blocks(fates: Iterable[Fate]) -> Iterator[list[Fate]]:
    """The fates in blocks, which end with the page that has reached one of the bounds."""
    block, characters = list[Fate](), 0
    for fate in fates:
        block.append(fate)
        characters += len(fate.result.text) if isinstance(fate.result, Document) else 0
        if characters >= BLOCK_CHARACTERS or len(block) >= BLOCK_PAGES:
            yield block
            block, characters = [], 0
    if block:
        yield block


def reject_file(file: Input, why: str, step: IngestStep) -> IngestReport:
    """Write the rejects of a file whose unit failed: its pages, or the file itself, as one page, if it could
    not be parsed."""
    parsed, writers = parsed_files(step.work).read_one(file.number), _writers(step, file.number)

    if parsed is not None:
        fates = _fates(parsed, step.work, lambda row, document: Fate(_rejected(document, REASON, why)))
        counts, digests = parsed.counts + _write(fates, writers), parsed.digests
    else:
        reject_counts, own_counts = _write(map(Fate, file.rejects(REASON, why)), writers), file.counts()
        own_counts = replace(own_counts, pages=reject_counts.rejects, records_failed=own_counts.records)
        counts, digests = own_counts + reject_counts, {}

    return _report(file.number, writers, replace(counts, failed_units=1), digests, step)


def _duplicate(document: Document, reason: str) -> Rejected:
    what = "its text" if reason == "duplicate" else f"the id {document.doc_id!r}"
    return _rejected(document, reason, f"{what} came before in the input")


def _near_duplicate(document: Document, kept: str) -> Rejected:
    return _rejected(document, "near_duplicate", f"its text is nearly that of {kept}, which is kept")


def _boilerplate(document: Document, paragraphs: int, min_words: int) -> Rejected:
    what = (
        f"{document.metrics.words} words without {counted(paragraphs, 'paragraph')} of other pages of its "
        "domain"
    )
    return _rejected(document, "boilerplate", f"{what}; at least {min_words}")


def _rejected(document: Document, reason: str, detail: str) -> Rejected:
    place = (document.source_file, document.source_offset, document.source_record, document.url)
    return Rejected(*place, reason=reason, detail=detail)


def parsed_files(work: Path) -> Reports[IngestCounts]:
    """A report for each file that is parsed, with its parts in the work folder."""
    return Reports(work / "parsed", IngestCounts, work)
