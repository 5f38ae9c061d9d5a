"""The sentences of some documents and the passages that hold them, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from answermill.indexing.labels.hash_join import Ints

COLUMNS = ("passage_id", "doc_id", "sentences")
"""The columns of Passage that are needed here."""


@dataclass(frozen=True)
class SentenceTable:
    """The sentences of whole documents and the passages that hold them; a sentence may occur in several
    passages.

    Documents, passages and sentences are numbered from 0 in the order of the passages; a document's sentences
    in reading order.
    """

    passage_id: pa.Array
    """[passages]"""
    doc_id: pa.Array
    """[passages]"""
    document_of_passage: Ints
    """[passages], ascending."""
    occurrence_passage: Ints
    """[occurrences]: the passage that a sentence occurs in, ascending."""
    occurrence_sentence: Ints
    """[occurrences]: the sentence."""
    sentence_id: pa.Array
    """[sentences]"""
    text: pa.Array
    """[sentences]"""
    start: Ints
    """[sentences]: start in its document, as Sentence.start."""
    end: Ints
    """[sentences]"""
    document: Ints
    """[sentences]: the sentence's document, ascending."""

    @classmethod
    def read(cls, passages: pa.Table) -> SentenceTable:
        """Read a table of passages with the columns COLUMNS; a document's passages follow one another."""
        passages = passages.combine_chunks()
        doc_id = array_of(passages["doc_id"])
        is_new = pc.not_equal(doc_id[1:], doc_id[:-1]).to_numpy(zero_copy_only=False)
        document_of_passage = np.concatenate([[0], np.cumsum(is_new)])

        lists = array_of(passages["sentences"])
        passage = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
        sentence_id, start, end, text = (
            pc.struct_field(lists.flatten(), name) for name in ("sentence_id", "start", "end", "text")
        )

        # A document has one sentence at a start, in however many of its passages: they are neighbours in this
        # order.
        order = np.lexsort((start.to_numpy(), document_of_passage[passage]))
        document, starts = document_of_passage[passage][order], start.to_numpy()[order]
        is_first = differs(document, starts)

        first = pa.array(order[is_first])
        sentence = np.empty(len(order), np.int64)
        sentence[order] = np.cumsum(is_first) - 1

        return cls(
            passage_id=array_of(passages["passage_id"]),
            doc_id=doc_id,
            document_of_passage=document_of_passage,
            occurrence_passage=passage,
            occurrence_sentence=sentence,
            sentence_id=sentence_id.take(first),
            text=text.take(first),
            start=starts[is_first],
            end=end.take(first).to_numpy(),
            document=document[is_first],
        )

    def doc_ids(self, documents: Ints) -> pa.Array:
        """The ids of some of the documents, by number."""
        return self.doc_id.take(pa.array(np.searchsorted(self.document_of_passage, documents)))


def codes(strings: pa.Array) -> tuple[pa.Array, Ints]:
    """The different strings, ascending, and the place of each string among them.

    >>> strings, places = codes(pa.array(["sky", "sea", "sky"]))
    >>> strings.to_pylist(), places.tolist()
    (['sea', 'sky'], [1, 0, 1])
    """
    coded = strings.dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return coded.dictionary.take(pa.array(order)), rank[coded.indices.to_numpy()]


def differs(*columns: Ints) -> NDArray[np.bool_]:
    """[rows]: True for a row that differs from the one before it, and for the first.

    >>> differs(np.array([1, 1, 1, 2]), np.array([5, 5, 6, 6])).tolist()
    [True, False, True, True]
    """
    changes = np.zeros(max(len(columns[0]) - 1, 0), bool)
    for values in columns:
        changes |= np.diff(values) != 0
    return np.concatenate([np.ones(min(len(columns[0]), 1), bool), changes])


def array_of(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    return column.combine_chunks()
