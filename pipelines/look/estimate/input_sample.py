"""A bounded sample of a job's input: the number of its pages, and pages of all sizes as files for ingest."""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from answermill.indexing.crawl.raw_page import RawPage
from answermill.pipelines.config.ingest_section import CrawlIndex
from answermill.pipelines.config.job_file import Ingest, Job
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.steps.ingest.crawl_files import InputFile, find_files
from answermill.pipelines.steps.ingest.wanted_records import choose, wanted
from answermill.schemas.corpus import Rejected

BYTES_READ = 200_000_000
"""Most bytes of the input on the disk that are read; a packed file of rows is read to its end."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InputSample:
    """Size of the input, estimated from a sample, and the sample itself."""

    files: int
    pages: int
    """Pages of the whole input: as many per byte as in the part that was read, or as a crawl's index says."""
    readable: int
    """Pages that reading itself does not refuse, as it does redirects."""
    drawn: Sequence[RawPage]
    """Some of the readable pages, in the order of their sizes."""


def draw(job: Job, settings: Ingest, most: int) -> InputSample:
    """Read files by their names' hashes until BYTES_READ, and draw up to `most` pages, spread over all sizes.

    Raises JobError: 66 if the input is missing, 65 if its format is unknown.
    """
    files, read = sorted(find_files(job, settings).files, key=_hash), Counter[str]()
    sizes = {n: size(page) for n, page in enumerate(_pages(files, read)) if isinstance(page, RawPage)}
    pages = round(read["pages"] * sum(file.size for file in files) / max(1, read["bytes"]))

    # The files are read a second time, so that only the drawn pages are held.
    numbers = set(spread(sorted(sizes, key=sizes.__getitem__), most, sizes.__getitem__))
    drawn = [
        page for n, page in enumerate(_pages(files, Counter())) if n in numbers and isinstance(page, RawPage)
    ]
    return InputSample(
        len(files), pages, round(pages * len(sizes) / max(1, read["pages"])), sorted(drawn, key=size)
    )


def _hash(file: InputFile) -> bytes:
    return hashlib.sha256(file.name.encode()).digest()


def _pages(files: Sequence[InputFile], read: Counter[str]) -> Iterator[RawPage | Rejected]:
    """Pages of the files in order, until BYTES_READ; `read` counts pages, and bytes as on the disk."""
    for file in files:
        if read["bytes"] >= BYTES_READ:
            return
        end = file.size
        for page in file.pages(file.fetch(), Counter()):
            if (position := file.position(page)) and read["bytes"] + position >= BYTES_READ:
                end = position
                break
            read["pages"] += 1
            yield page
        read["bytes"] += end


def draw_records(job: Job, settings: Ingest, query: CrawlIndex, most: int) -> InputSample:
    """Fetch up to `most` of the records of a crawl's index, chosen by hash as `max_records` chooses them.

    Raises JobError (78) if the job reads files as well, 65 as ingest does.
    """
    if settings.input:
        raise JobError(
            "ingest.input beside ingest.crawl_index: plan each of them in a job file without the other",
            SETTINGS,
        )

    few = query.model_copy(update={"max_records": min(most, query.max_records or most)})
    with tempfile.TemporaryDirectory(prefix="answermill-plan-") as folder:
        everything, sample = Path(folder) / "records.parquet", Path(folder) / "sample.parquet"
        units = choose(job, settings, everything, 0)
        drawn = choose(job, settings.model_copy(update={"crawl_index": few}), sample, 0)
        results = [page for unit in drawn for page in unit.pages(unit.fetch(), Counter())]
        records = wanted(everything)

    pages = sorted((page for page in results if isinstance(page, RawPage)), key=size)
    return InputSample(len(units), records, round(records * len(pages) / max(1, len(results))), pages)


def size(page: RawPage) -> int:
    """Bytes of a fetched page, characters of a page of text."""
    return len(page.body if page.text is None else page.text)


def spread(values: Sequence[T], most: int, size: Callable[[T], float]) -> list[T]:
    """At most `most` of the values, which are in the order of their sizes.

    The values are cut into runs of equal number, and of each run the value nearest to its mean size is taken,
    since a few long pages hold much of the text.

    >>> spread([0, 1, 2, 5, 6, 13], 2, float)
    [1, 6]
    """
    count = min(most, len(values))
    runs = [values[n * len(values) // count : (n + 1) * len(values) // count] for n in range(count)]
    means = [sum(map(size, run)) / len(run) for run in runs]
    return [
        min(run, key=lambda value: abs(size(value) - mean)) for run, mean in zip(runs, means, strict=True)
    ]


def write_pages(pages: Sequence[RawPage], folder: Path) -> list[str]:
    """Write pages as files for ingest, WARC for fetched ones and JSONL for text; returns the paths."""
    records = b"".join(_warc_record(page) for page in pages if page.text is None)
    lines = "".join(_line(page) + "\n" for page in pages if page.text is not None)
    contents = {"pages.warc.gz": records and gzip.compress(records, 1), "pages.jsonl": lines.encode()}

    folder.mkdir(parents=True)
    for name in filter(contents.get, contents):
        (folder / name).write_bytes(contents[name])
    return [str(folder / name) for name in filter(contents.get, contents)]


def _line(page: RawPage) -> str:
    values = {"id": page.doc_id, "url": page.url, "title": page.title, "language": page.language}
    return json.dumps({name: value for name, value in values.items() if value} | {"text": page.text})


def _warc_record(page: RawPage) -> bytes:
    charset = f"; charset={page.charset}" if page.charset else ""
    block = f"HTTP/1.1 200 OK\r\nContent-Type: {page.content_type}{charset}\r\n\r\n".encode() + page.body
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http; msgtype=response\r\n"
        f"WARC-Record-ID: {page.source_record or f'<urn:sample:{page.source_offset}>'}\r\n"
        f"WARC-Date: {page.date or '2000-01-01T00:00:00Z'}\r\nWARC-Target-URI: {page.url}\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"
