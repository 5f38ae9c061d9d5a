"""Ingest: crawled files in; documents, passages and rejects out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from answermill.pipelines.runs.counts import StepCounts, by_name, milliseconds
from answermill.pipelines.runs.spec import FolderSpec, Maker, SealedFile, StepSpec

if TYPE_CHECKING:
    from answermill.schemas.corpus import Document, Passage, Rejected

MAKER = Maker("ingest")
INPUTS = SealedFile("inputs.json", needed_by="documents")
"""Facts about each input file, such as its digest and its date."""
DOMAINS = "domains.tsv"
"""The domains that were chosen, beside documents/, each with its pages in the crawl; absent if all are
kept."""


@dataclass(frozen=True)
class IngestCounts(StepCounts):
    """Counts of ingest."""

    pages: int = 0
    bytes: int = 0
    """Size of the pages' bodies."""
    documents: int = 0
    passages: int = 0
    sentences: int = 0
    boilerplate_paragraphs: int = 0
    boilerplate_characters: int = 0
    records: int = 0
    """Records that are wanted, by a crawl's index."""
    record_bytes: int = 0
    """Size of these records as they are stored in the crawl."""
    requests: int = 0
    """Requests that fetch them, repetitions left out."""
    request_bytes: int = 0
    records_read: int = 0
    records_failed: int = 0
    skipped: Mapping[str, int] = by_name()
    """Kind → records of the input files that are no page."""
    media_types: Mapping[str, int] = by_name()
    """Media type → pages that were refused for it."""
    unread: Mapping[str, int] = by_name()
    """Suffix → files of input folders that are not read."""
    vanished: int = 0
    """Documents of the earlier run that are no longer there."""
    parse_ms: int = milliseconds("pages parsed", "pages")
    cut_ms: int = milliseconds("documents cut", "documents")

    sums: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "pages": ("documents", "rejects"),
        "records": ("records_read", "records_failed"),
    }


DOCUMENTS: FolderSpec[Document] = FolderSpec(
    "documents", "answermill.schemas.corpus:Document", MAKER, key=("doc_id",), rows="documents"
)
PASSAGES: FolderSpec[Passage] = FolderSpec(
    "passages",
    "answermill.schemas.corpus:Passage",
    MAKER,
    key=("passage_id",),
    links={"doc_id": "documents"},
    rows="passages",
    cut_from="documents",
)
REJECTS: FolderSpec[Rejected] = FolderSpec(
    "rejects", "answermill.schemas.corpus:Rejected", MAKER, rows="rejects"
)

INGEST = StepSpec(
    MAKER,
    "Read crawled files; write documents/, passages/ and rejects/.",
    (DOCUMENTS, PASSAGES, REJECTS),
    IngestCounts,
    settings="answermill.pipelines.config.job_file:Ingest",
    item="pages",
    code="answermill.pipelines.steps.ingest.ingest:STEP",
    revision=14,
    files=(INPUTS,),
    is_main=True,
)
