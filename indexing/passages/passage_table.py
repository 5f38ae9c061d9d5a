"""Passages as a table, made column by column: a crawl has more sentences than there is time to make objects
of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from answermill.indexing.passages.characters import Places
from answermill.schemas.corpus import Passage, Sentence

_OF_DOCUMENT = ("doc_id", "url", "title", "source_file", "source_offset", "source_record", "date")
"""Columns that a passage has from its document."""


class Cut(NamedTuple):
    """A passage in a text."""

    start: int
    end: int
    sentence: int
    """Number of its first sentence; it has those before the first one of the next passage."""


def passage_table(
    documents: pa.Table,
    text: str,
    edges: Sequence[int],
    sentences: tuple[Places, Places],
    cuts: Iterable[Cut],
) -> pa.Table:
    """The rows of Passage, in reading order, of rows of Document whose texts are together one text.

    `edges`: the place in the text at which each document begins, and the text's end: [documents + 1].
    `sentences`: the starts and ends of all sentences in the text: two of [sentences].
    """
    starts, ends, first_sentences = np.array(list(cuts), np.int64).reshape(-1, 3).T  # [passages]
    owners, offsets = _owners(starts, edges)
    numbers = np.arange(len(owners)) - np.searchsorted(owners, owners)
    columns = {name: _of_owners(documents, name, owners) for name in _OF_DOCUMENT}
    columns |= {
        "passage_id": _ids(columns["doc_id"], "#", numbers),
        "start": pa.array(starts - offsets),
        "end": pa.array(ends - offsets),
        "text": _texts(text, starts, ends),
    }

    starts, ends = sentences
    owners, offsets = _owners(starts, edges)
    doc_ids = _of_owners(documents, "doc_id", owners)
    inner = pa.StructArray.from_arrays(
        [
            _ids(doc_ids, "@", starts - offsets),
            pa.array(starts - offsets),
            pa.array(ends - offsets),
            _texts(text, starts, ends),
        ],
        fields=list(Sentence.schema()),
    )
    columns["sentences"] = pa.ListArray.from_arrays(
        pa.array(np.append(first_sentences, len(starts)), pa.int32()),
        inner,
        type=Passage.schema().field("sentences").type,
    )

    return pa.Table.from_arrays([columns[name] for name in Passage.schema().names], schema=Passage.schema())


def _owners(starts: Places, edges: Sequence[int]) -> tuple[Places, Places]:
    """(number of the document in which each span of a text begins, the place where that one does)."""
    owners = np.searchsorted(edges, starts, "right") - 1
    return owners, np.array(edges, np.int64)[owners]


def _of_owners(documents: pa.Table, column: str, owners: Places) -> pa.Array:
    """A column's value in the document of each span."""
    return documents[column].combine_chunks().take(pa.array(owners))


def _ids(doc_ids: pa.Array, mark: str, numbers: Places) -> pa.Array:
    return pc.binary_join_element_wise(doc_ids, pa.array(numbers).cast(pa.string()), mark)


def _texts(text: str, starts: Places, ends: Places) -> pa.Array:
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return pa.array([text[start:end] for start, end in spans], pa.string())
