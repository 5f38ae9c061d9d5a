"""Documents of the earlier run `ingest.since` whose page this crawl no longer has: vanished.tsv in the run
folder.

A page is known by its URL, and one without a URL by the id that the input gives it. A page that the crawl
has, but that was refused when it was parsed, counts as vanished too, for that reason (`http_status`, say); a
duplicate does not. Pages are compared in buckets, 8 bytes each, and each part of the earlier documents
becomes a part of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from answermill.files.atomic_files import whole_text, write_text
from answermill.indexing.documents.exact_duplicates import id_keys
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.engine.protocol import Engine, Units
from answermill.pipelines.engine.runner import open_engine
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import counted
from answermill.pipelines.runs.manifests.part import Part
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.specs.ingest import DOCUMENTS, REJECTS
from answermill.pipelines.steps.ingest.parse_and_cut import IngestStep, parsed_files, unparsed
from answermill.pipelines.steps.ingest.repeated.earlier_documents import EarlierPartWork
from answermill.pipelines.steps.ingest.repeated.verdicts import Keys
from answermill.schemas.corpus import Document

VANISHED = "vanished.tsv"
BLOCK = "ingest/vanished"
"""Name of the comparison, for machines that share a run."""
_HEAD = "# doc_id\turl\treason\n"
_ABSENT = "absent"
"""The reason where the crawl has no page of that URL at all."""
_BUCKETS = 64
_CRAWL = -1  # in place of the number of an earlier part

Reasons: TypeAlias = Sequence[str]
Gone: TypeAlias = tuple[Sequence[int], Reasons]
"""(rows of a part of the earlier documents, reason why each has vanished)."""


class Pages(NamedTuple):
    """Pages of one file, or of a part of the earlier documents, that are in one bucket."""

    part: int
    """Number of a part of the earlier documents; _CRAWL for pages of this crawl."""
    keys: Keys
    rows: Sequence[int]
    """Rows of the earlier part."""
    reasons: Reasons
    """Reason why each page of this crawl was refused, '' for one that became a document."""


def publish(
    job: Job, step: IngestStep, earlier: Folder[Document], files: int, beam_options: Sequence[str] = ()
) -> Part | None:
    """Write the table into the run folder; return it with its number of rows. Called when all files are
    parsed.

    None, and a line for people, if files have failed: the pages in them are unknown.
    """
    if failed := unparsed(step):
        print_line(f"{VANISHED} is not written: {counted(len(failed), 'input file')} could not be read")
        return None

    parts = len(earlier.parts)
    with open_engine(beam_options, job.workers.processes, files + parts, step.work, BLOCK) as engine:
        define(engine, files, step, earlier)

    rows = 0
    with whole_text(step.run / VANISHED) as write:
        write(_HEAD)
        for part in range(parts):
            if (file := _file(step, part)).is_file():
                text = file.read_text(encoding="utf-8")
                rows += text.count("\n")
                write(text)

    return Part.of(step.run, VANISHED, rows)


def define(engine: Engine, files: int, step: IngestStep, earlier: Folder[Document]) -> None:
    """Compare the pages of the crawl with the earlier ones, and write a file for each part of those."""
    parts = Units.first(len(earlier.parts))
    # (bucket, Pages), both
    crawl_pages = engine.each("Pages of the crawl", Units.first(files), PagesOfCrawl(step))
    earlier_pages = engine.each("Earlier pages", parts, EarlierPages(step, earlier.path))
    gone = engine.group("Not there", [crawl_pages, earlier_pages], not_there)  # (earlier part, Gone)
    engine.group("Write", [gone], WritePart(step, earlier.path))


class PagesOfCrawl(UnitWork):
    """A parsed file → its pages, documents and rejects, in buckets."""

    skips_reported = False

    def __init__(self, step: IngestStep) -> None:
        super().__init__(step.name, step.work)
        self._work = step.work

    def work(self, unit: int) -> Iterator[tuple[int, Pages]]:
        parsed = parsed_files(self._work).read_one(unit)
        assert parsed is not None  # or `publish` had not begun
        documents, rejects = (DOCUMENTS, ["url", "doc_id"]), (REJECTS, ["url", "source_record", "reason"])
        for folder, columns in (documents, rejects):
            (part,) = parsed.parts[folder.name]
            for batch in read_batches(folder.path(self._work), part, columns, rows=8_192):
                urls, ids, *more = (column.to_pylist() for column in batch.columns)
                yield from in_buckets(_CRAWL, urls, ids, 0, more[0] if more else [""] * len(urls))


class EarlierPages(EarlierPartWork):
    """A part of the earlier run's documents → their pages, in buckets."""

    def work(self, unit: int) -> Iterator[tuple[int, Pages]]:
        first = 0
        for batch in read_batches(self._documents, self.part(unit), ["url", "doc_id"], rows=8_192):
            urls, ids = (column.to_pylist() for column in batch.columns)
            yield from in_buckets(unit, urls, ids, first, [""] * len(urls))
            first += len(urls)


class WritePart(EarlierPartWork):
    """A part of the earlier documents, and its vanished rows → a file of their lines in the work folder."""

    def __init__(self, step: IngestStep, documents: Path) -> None:
        super().__init__(step, documents)
        self._step = step

    def work(self, unit: int, members: Iterable[Gone]) -> None:
        reason_of = {
            row: reason for rows, reasons in members for row, reason in zip(rows, reasons, strict=True)
        }
        lines, row = [], 0
        for batch in read_batches(self._documents, self.part(unit), ["doc_id", "url"], rows=8_192):
            for doc_id, url in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if row in reason_of:
                    lines.append(f"{doc_id}\t{url}\t{reason_of[row]}\n")
                row += 1
        write_text(_file(self._step, unit), "".join(lines))


def in_buckets(
    part: int, urls: Sequence[str], ids: Sequence[str], first: int, reasons: Reasons
) -> Iterator[tuple[int, Pages]]:
    """The pages by bucket; `first` is the row of the first of them."""
    keys = id_keys(url or own_id for url, own_id in zip(urls, ids, strict=True))[:, 0]
    buckets = keys % _BUCKETS
    for bucket in np.unique(buckets):
        inside = np.flatnonzero(buckets == bucket).tolist()
        yield (
            int(bucket),
            Pages(part, keys[inside], [first + n for n in inside], [reasons[n] for n in inside]),
        )


def not_there(_bucket: int, members: Iterable[Pages]) -> Iterator[tuple[int, Gone]]:
    """Rows of each earlier part whose page is no document of this crawl, with the reasons; the order of
    members does not matter."""
    reason_of: dict[int, str] = {}
    earlier = []
    for member in members:
        if member.part != _CRAWL:
            earlier.append(member)
            continue
        for key, reason in zip(member.keys.tolist(), member.reasons, strict=True):
            reason_of[key] = min(reason, reason_of.get(key, reason))  # '' of a document is the least

    for member in earlier:
        reasons = [reason_of.get(key, _ABSENT) for key in member.keys.tolist()]
        vanished = [n for n, reason in enumerate(reasons) if reason]
        if vanished:
            yield member.part, ([member.rows[n] for n in vanished], [reasons[n] for n in vanished])


def _file(step: IngestStep, part: int) -> Path:
    return step.work / "vanished" / f"{part:05d}.tsv"
