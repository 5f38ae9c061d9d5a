"""Documents cut into sentences, and the longest window of whole sentences that begins at each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from answermill.indexing.labels.windows import SentenceLine, SentenceRun, least_tokens
from answermill.indexing.passages.passages import Splitter
from answermill.pipelines.data.publish.passage_set import CutDocument
from answermill.schemas.corpus import Document

WindowStart: TypeAlias = tuple[str, str]
"""First sentence of a window: (doc_id, sentence_id)."""
ReadDocuments: TypeAlias = Callable[[Set[str]], Iterable[Document]]
"""doc_ids → these documents, and perhaps others."""


def read_only(doc_ids: Set[str], documents: ReadDocuments) -> Iterator[Document]:
    """The documents with these ids; reads nothing if there are no ids."""
    return (
        (document for document in documents(doc_ids) if document.doc_id in doc_ids) if doc_ids else iter(())
    )


def cut(documents: Iterable[Document], sentence_tokens: int) -> dict[str, CutDocument]:
    """doc_id → the document with its sentences, cut as `ingest` cut them with this limit."""
    splitter = Splitter(sentence_tokens)
    return {d.doc_id: (d, splitter.sentences(d.doc_id, d.text)) for d in documents}


def window_ends(
    documents: Mapping[str, CutDocument], labelled: Mapping[str, Set[int]], places: int, max_tokens: int
) -> dict[str, list[int]]:
    """doc_id → [n]: the end of the window that begins with sentence n, of documents with labelled sentences
    (by number).

    Only windows that hold a labelled sentence in places 1 to `places` have a meaningful end: see
    `SentenceLine.lasts`.
    """
    if not labelled:
        return {}

    # The sentences of these documents, one after the other.
    chosen = [(*documents[doc_id], numbers) for doc_id, numbers in labelled.items()]
    sentences = [sentence for _, inside, _ in chosen for sentence in inside]
    sizes = np.array([len(inside) for _, inside, _ in chosen], np.int64)
    offsets = np.cumsum(sizes) - sizes  # [documents] number of the first sentence among all
    line = SentenceLine(
        np.repeat(np.arange(len(chosen)), sizes),
        np.array([sentence.start for sentence in sentences], np.int64),
        np.array([sentence.end for sentence in sentences], np.int64),
        least_tokens(pa.array([sentence.text for sentence in sentences], pa.string())),
        [document.text for document, _, _ in chosen],
    )

    labelled_sentences = [
        first + n for first, (_, _, numbers) in zip(offsets, chosen, strict=True) for n in sorted(numbers)
    ]
    lasts = line.lasts(np.array(labelled_sentences, np.int64), places, Splitter(max_tokens))
    ends = lasts - np.repeat(offsets, sizes)

    return {doc_id: part.tolist() for doc_id, part in zip(labelled, np.split(ends, offsets[1:]), strict=True)}


def windows_at(
    starts: Set[WindowStart], documents: Mapping[str, CutDocument], max_tokens: int
) -> Iterator[tuple[WindowStart, SentenceRun]]:
    """The longest window that begins at each of the `starts` that are in these documents."""
    sentence_ids: dict[str, set[str]] = {}
    for doc_id, sentence_id in starts:
        sentence_ids.setdefault(doc_id, set()).add(sentence_id)
    numbers = {
        doc_id: {n for n, sentence in enumerate(sentences) if sentence.sentence_id in sentence_ids[doc_id]}
        for doc_id, (_, sentences) in documents.items()
        if doc_id in sentence_ids
    }
    for doc_id, ends in window_ends(documents, numbers, 1, max_tokens).items():
        yield from (((doc_id, documents[doc_id][1][n].sentence_id), (n, ends[n])) for n in numbers[doc_id])
