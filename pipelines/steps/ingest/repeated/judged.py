"""Documents after the verdicts on them: those that stay, without their boilerplate, and the rejects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from answermill.indexing.documents import boilerplate
from answermill.pipelines.errors import counted
from answermill.pipelines.steps.ingest.repeated.verdicts import Verdicts
from answermill.schemas.corpus import Document, Rejected

NO_DOCUMENTS = Document.schema().empty_table()


class JudgedBlock(NamedTuple):
    """Pages of a unit that are written together."""

    documents: pa.Table
    """Those that stay: rows of Document."""
    rejects: Sequence[Rejected]
    paragraphs: int = 0
    """Paragraphs of boilerplate that were found in the documents."""
    characters: int = 0
    """Characters of these paragraphs."""


def judged(first: int, documents: pa.RecordBatch, verdicts: Verdicts, min_words: int) -> JudgedBlock:
    """The documents from row `first` of a parsed file on: without duplicates, without their boilerplate, and
    without those that are then left with less than `min_words`."""
    concerned = np.array([verdicts.concern(row) for row in range(first, first + documents.num_rows)], bool)
    rows = np.flatnonzero(concerned)
    fates = [
        _fate(first + row, document, verdicts, min_words)
        for row, document in zip(rows.tolist(), Document.rows(documents.take(pa.array(rows))), strict=True)
    ]

    # In their order: all documents are concerned if there is boilerplate, and else none of these stays.
    unconcerned = pa.Table.from_batches([documents.filter(pa.array(~concerned))])
    changed = Document.table([fate.result for fate in fates if isinstance(fate.result, Document)])
    return JudgedBlock(
        pa.concat_tables([unconcerned, changed]),
        [fate.result for fate in fates if isinstance(fate.result, Rejected)],
        sum(fate.paragraphs for fate in fates),
        sum(fate.characters for fate in fates),
    )


class _Fate(NamedTuple):
    """A document that stays, or a reject; and the boilerplate that was found in it."""

    result: Document | Rejected
    paragraphs: int = 0
    characters: int = 0


def _fate(row: int, document: Document, verdicts: Verdicts, min_words: int) -> _Fate:
    """The document of a row of the parsed file, without its boilerplate; or why it is refused."""
    if row in verdicts.duplicates:
        return _Fate(_duplicate(document, verdicts.duplicates[row]))
    if row in verdicts.near_duplicates:
        return _Fate(_near_duplicate(document, verdicts.near_duplicates[row]))

    rest, paragraphs, characters = boilerplate.without(document, verdicts.boilerplate)
    if paragraphs and rest.metrics.words < min_words:
        return _Fate(_boilerplate(rest, paragraphs, min_words), paragraphs, characters)
    return _Fate(rest, paragraphs, characters)


def _duplicate(document: Document, reason: str) -> Rejected:
    what = "its text" if reason == "duplicate" else f"the id {document.doc_id!r}"
    return rejected(document, reason, f"{what} came before in the input")


def _near_duplicate(document: Document, kept: str) -> Rejected:
    return rejected(document, "near_duplicate", f"its text is nearly that of {kept}, which is kept")


def _boilerplate(document: Document, paragraphs: int, min_words: int) -> Rejected:
    what = (
        f"{document.metrics.words} words without {counted(paragraphs, 'paragraph')} of other pages of its "
        "domain"
    )
    return rejected(document, "boilerplate", f"{what}; at least {min_words}")


def rejected(document: Document, reason: str, detail: str) -> Rejected:
    place = (document.source_file, document.source_offset, document.source_record, document.url)
    return Rejected(*place, reason=reason, detail=detail)
