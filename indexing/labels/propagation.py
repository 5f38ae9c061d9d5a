"""Labels of sentences become labels of the passages and documents that hold them (WQA §3.1, §3.3), column by column.

A label by id is of that sentence. A label by text is of every sentence with that text (letter case and white space
folded), on whichever page; and so are the labels by id, where they were spread (GivenLabels.spread). Where they disagree,
the label by id holds; without one, what most labels of the text say; in a tie the sentence stays without a label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexing.labels.given_labels import GivenLabels
from indexing.labels.hash_join import Ints
from indexing.passages.text import fold_all
from schemas.labels import DocumentLabel, PassageLabel, SentenceLabel

COLUMNS = ("passage_id", "doc_id", "sentences")
NONE = -1
"""Stands for no label."""


@dataclass(frozen=True)
class Sentences:
    """The sentences of whole documents and the passages that hold them; a sentence may stand in several passages."""

    passage_id: pa.Array
    doc_id: pa.Array
    document: Ints
    """[passages]: number of the document among these, ascending."""
    passage: Ints
    """[occurrences]: number of the passage, ascending."""
    sentence: Ints
    """[occurrences]: number of the sentence."""
    sentence_id: pa.Array
    text: pa.Array
    start: Ints
    end: Ints
    of: Ints
    """[sentences]: number of the document, ascending; a document's sentences are in reading order."""

    @classmethod
    def read(cls, passages: pa.Table) -> Sentences:
        """Of the columns COLUMNS of a table of passages; a document's passages stand one after the other."""
        passages = passages.combine_chunks()
        doc_id = _array(passages["doc_id"])
        document = np.concatenate([[0], np.cumsum(pc.not_equal(doc_id[1:], doc_id[:-1]).to_numpy(zero_copy_only=False))])
        held = _array(passages["sentences"])
        passage = pc.list_parent_indices(held).to_numpy().astype(np.int64)
        sentence_id, start, end, text = (
            pc.struct_field(held.flatten(), name) for name in ("sentence_id", "start", "end", "text")
        )
        begins = start.to_numpy()
        order = np.lexsort((begins, document[passage]))  # a sentence is where it starts
        of, begins = document[passage][order], begins[order]
        new = np.concatenate([[True], (np.diff(of) != 0) | (np.diff(begins) != 0)])[: len(order)]
        first = pa.array(order[new])
        sentence = np.empty(len(order), np.int64)
        sentence[order] = np.cumsum(new) - 1
        return cls(
            passage_id=_array(passages["passage_id"]),
            doc_id=doc_id,
            document=document,
            passage=passage,
            sentence=sentence,
            sentence_id=sentence_id.take(first),
            text=text.take(first),
            start=begins[new],
            end=end.take(first).to_numpy(),
            of=of[new],
        )

    def doc_ids(self, documents: Ints) -> pa.Array:
        """The ids of some of the documents."""
        return self.doc_id.take(pa.array(np.searchsorted(self.document, documents)))


@dataclass(frozen=True)
class Labelled:
    """The labels of some sentences: each question and sentence once, by document, question id and sentence id."""

    sentences: Sentences
    sentence: Ints
    question: Ints
    """Place in `questions`."""
    questions: pa.Array
    """Their ids, ascending."""
    label: Ints
    """0 or 1; NONE in a tie."""
    by_id: Ints
    """0 or 1; NONE where no label by id is given."""
    text: Ints
    """The label given by text alone, or NONE."""
    line: Ints
    """[rows]: the number of a given label that says what `label` says; 0 in a tie."""
    votes: Ints
    """[2, rows]: labels of its text that say 0, and 1."""
    lines: Ints
    """[2, rows]: the number of the first label, by id or of its text, that says 0, and 1; 0 where none does."""
    used: Ints
    """Numbers of the given labels whose sentence is here."""
    changed: Ints
    """Numbers of those by id whose sentence has another text here."""

    def tables(self) -> dict[str, pa.Table]:
        """What is said of sentences, passages and documents, as tables of SentenceLabel, PassageLabel and DocumentLabel."""
        return {"sentences": self._of_sentences(), "passages": self._of_passages(), "documents": self._of_documents()}

    def rows(self) -> Ints:
        """The places of those with a label."""
        return np.flatnonzero(self.label != NONE)

    def _of_sentences(self) -> pa.Table:
        rows, here = self.rows(), self.sentences
        sentence = pa.array(self.sentence[rows])
        own = np.where(self.text[rows] == self.label[rows], 1, 2)
        source = pa.array(["given", "text", "same_text"]).take(pa.array(np.where(self.by_id[rows] != NONE, 0, own)))
        columns = [
            self.questions.take(pa.array(self.question[rows])),
            here.sentence_id.take(sentence),
            here.doc_ids(here.of[self.sentence[rows]]),
            here.text.take(sentence),
            pa.array(self.label[rows].astype(np.int8)),
            source,
        ]
        return pa.Table.from_arrays(columns, schema=SentenceLabel.schema())

    def held(self) -> tuple[Ints, Ints, Ints]:
        """Each label, of a sentence in a passage: its row and the occurrence, by passage, question and reading order; and
        where each passage and question begins, and ends."""
        here, rows = self.sentences, self.rows()
        order = np.argsort(here.sentence, kind="stable")
        edges = np.searchsorted(here.sentence[order], np.arange(len(here.of) + 1))
        first, many = edges[self.sentence[rows]], np.diff(edges)[self.sentence[rows]]
        at = order[np.repeat(first - (np.cumsum(many) - many), many) + np.arange(many.sum())]
        row = np.repeat(rows, many)
        sort = np.lexsort((at, self.question[row], here.passage[at]))
        row, at = row[sort], at[sort]
        changes = (np.diff(here.passage[at]) != 0) | (np.diff(self.question[row]) != 0)
        return row, at, np.concatenate([[0], np.flatnonzero(changes) + 1, [len(row)]] if len(row) else [[0]])

    def _of_passages(self) -> pa.Table:
        here = self.sentences
        row, at, edges = self.held()
        if not len(row):
            return PassageLabel.schema().empty_table()
        begin = edges[:-1]
        passage = here.passage[at[begin]]
        ids = pa.ListArray.from_arrays(pa.array(edges, pa.int32()), here.sentence_id.take(pa.array(here.sentence[at])))
        question = self.question[row[begin]]
        name = here.passage_id.take(pa.array(passage))
        keys = pa.table({"document": here.document[passage], "question": question, "passage": name})
        columns = [
            self.questions.take(pa.array(question)),
            name,
            here.doc_id.take(pa.array(passage)),
            pa.array(np.maximum.reduceat(self.label[row], begin).astype(np.int8)),
            ids,
        ]
        made = pa.Table.from_arrays(columns, schema=PassageLabel.schema())
        return made.take(pc.sort_indices(keys, [(key, "ascending") for key in keys.column_names]))

    def _of_documents(self) -> pa.Table:
        rows = self.rows()
        key = self.sentences.of[self.sentence[rows]] * len(self.questions) + self.question[rows]
        found, of = np.unique(key, return_inverse=True)
        label = np.zeros(len(found), np.int8)
        np.maximum.at(label, of, self.label[rows].astype(np.int8))
        document, question = np.divmod(found, max(len(self.questions), 1))
        columns = [self.questions.take(pa.array(question)), self.sentences.doc_ids(document), pa.array(label)]
        return pa.Table.from_arrays(columns, schema=DocumentLabel.schema())


@dataclass(frozen=True)
class _ById:
    """Labels by id, met with sentences."""

    sentence: Ints
    question_id: pa.Array
    label: Ints
    number: Ints
    changed: Ints
    """Numbers of those that were left out, as the text is another."""


def _by_id(sentences: Sentences, given: GivenLabels) -> _ById:
    place, rows = given.ids.join(sentences.sentence_id) or (np.zeros(0, np.int64), _NO_IDS)
    said = _array(rows["text"])
    same = np.ones(len(place), bool)
    asked = np.flatnonzero(pc.is_valid(said).to_numpy(zero_copy_only=False))
    if len(asked):
        texts = fold_all(sentences.text.take(pa.array(place[asked])))
        same[asked] = pc.equal(texts, said.take(pa.array(asked))).to_numpy(zero_copy_only=False)
    label, number = rows["label"].to_numpy().astype(np.int64), rows["number"].to_numpy()
    question_id = _array(rows["question_id"]).filter(pa.array(same))
    return _ById(place[same], question_id, label[same], number[same], number[~same])


_NO_IDS = pa.table(
    {"text": pa.array([], pa.string()), "label": pa.array([], pa.int8()), "number": pa.array([], pa.int64())}
).append_column("question_id", pa.array([], pa.string()))


def found(sentences: Sentences, given: GivenLabels) -> pa.RecordBatch:
    """The labels by id whose sentence is among these, each question and sentence once: rows of FOUND, for `spread`."""
    by_id = _by_id(sentences, given)
    codes = _codes(by_id.question_id)[1]
    order = np.lexsort((by_id.number, codes, by_id.sentence))
    first = order[np.flatnonzero(_new(by_id.sentence[order], codes[order]))]
    texts = fold_all(sentences.text.take(pa.array(by_id.sentence[first])))
    return pa.record_batch(
        {
            "key": texts,
            "question_id": by_id.question_id.take(pa.array(first)),
            "label": pa.array(by_id.label[first].astype(np.int8)),
            "number": pa.array(by_id.number[first]),
        }
    )


def label(sentences: Sentences, given: GivenLabels) -> Labelled:
    """The labels of these sentences."""
    by_id = _by_id(sentences, given)
    by_text = given.texts.join(fold_all(sentences.text)) if given.has_texts else None
    place, entries = by_text or (np.zeros(0, np.int64), None)
    asked = [by_id.question_id, *([] if entries is None else [_array(entries["question_id"])])]
    questions, codes = _codes(pa.concat_arrays(asked))
    key = np.concatenate([by_id.sentence, place]) * max(len(questions), 1) + codes
    _, first, at = np.unique(key, return_index=True, return_inverse=True)
    sentence, question = np.concatenate([by_id.sentence, place])[first], codes[first]
    n, ids, texts = len(first), at[: len(by_id.sentence)], at[len(by_id.sentence) :]
    own, said = np.full(n, NONE), np.full(n, NONE)
    votes, lines = np.zeros((2, n), np.int64), np.zeros((2, n), np.int64)
    used = by_id.number
    if entries is not None:
        said[texts] = entries["given"].to_numpy()
        votes[:, texts] = entries["zeros"].to_numpy(), entries["ones"].to_numpy()
        lines[:, texts] = entries["first_zero"].to_numpy(), entries["first_one"].to_numpy()
        used = np.concatenate([used, np.unique(entries["number"].to_numpy()[entries["given"].to_numpy() != NONE])])
    own[ids] = by_id.label
    number = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(number, ids, by_id.number)
    has = np.flatnonzero(own != NONE)
    lines[own[has], has] = np.where(lines[own[has], has] == 0, number[has], np.minimum(lines[own[has], has], number[has]))
    most = np.where(votes[1] > votes[0], 1, np.where(votes[0] > votes[1], 0, NONE))
    resolved = np.where(own != NONE, own, most)
    line = np.where(own != NONE, number, np.where(resolved == NONE, 0, lines[resolved.clip(0), np.arange(n)]))
    keys = pa.table(
        {"document": sentences.of[sentence], "question": question, "id": sentences.sentence_id.take(pa.array(sentence))}
    )
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names]).to_numpy()
    return Labelled(
        sentences=sentences,
        sentence=sentence[order],
        question=question[order],
        questions=questions,
        label=resolved[order],
        by_id=own[order],
        text=said[order],
        line=line[order],
        votes=votes[:, order],
        lines=lines[:, order],
        used=used,
        changed=by_id.changed,
    )


def _codes(strings: pa.Array) -> tuple[pa.Array, Ints]:
    """The different strings, ascending, and the place of each among them."""
    coded = strings.dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return coded.dictionary.take(pa.array(order)), rank[coded.indices.to_numpy()]


def _new(*columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows differ from the one before."""
    made = np.zeros(max(len(columns[0]) - 1, 0), bool)
    for values in columns:
        made |= np.diff(values) != 0
    return np.concatenate([np.ones(min(len(columns[0]), 1), bool), made])


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
