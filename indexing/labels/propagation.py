"""Labels of sentences become labels of the passages and documents that hold them (WQA §3.1, §3.3), column by
column.

A label by id is of that sentence. A label by text is of every sentence with that text (letter case and white
space folded), on every page; so are labels by id, if they were spread (GivenLabels.spread). If the labels of
a sentence disagree, the one by id decides; without one, the majority of the labels of the text. In a tie the
sentence gets no label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from answermill.indexing.labels.given_labels import GivenLabels
from answermill.indexing.labels.hash_join import Ints, consecutive
from answermill.indexing.labels.label_lookup import NONE, labels_by_id, labels_by_text
from answermill.indexing.labels.sentence_table import SentenceTable, codes, differs
from answermill.schemas.labels import DocumentLabel, PassageLabel, SentenceLabel


@dataclass(frozen=True)
class LabelledSentences:
    """A row for each question and sentence with labels, by document, question id and sentence id."""

    sentences: SentenceTable
    sentence: Ints
    """[rows]: number of the sentence."""
    question: Ints
    """[rows]: place in `questions`."""
    questions: pa.Array
    """The questions' ids, ascending."""
    label: Ints
    """[rows]: 0 or 1; NONE in a tie."""
    by_id: Ints
    """[rows]: the label by id, or NONE."""
    by_text: Ints
    """[rows]: the label by text alone, or NONE."""
    line: Ints
    """[rows]: the number of a given label that says what `label` says; 0 in a tie."""
    votes: Ints
    """[2, rows]: number of labels of the sentence's text that say 0, and 1."""
    first_lines: Ints
    """[2, rows]: the number of the first label, by id or of the text, that says 0, and 1; 0 if none does."""
    used: Ints
    """Numbers of the given labels whose sentence is among these."""
    changed: Ints
    """Numbers of the labels by id whose sentence has another text now."""

    def tables(self) -> dict[str, pa.Table]:
        """The labels of sentences, passages and documents, as tables of SentenceLabel, PassageLabel and
        DocumentLabel."""
        return {
            "sentences": self._sentence_labels(),
            "passages": self._passage_labels(),
            "documents": self._document_labels(),
        }

    def decided(self) -> Ints:
        """The rows with a label, ascending."""
        return np.flatnonzero(self.label != NONE)

    def occurrences(self) -> tuple[Ints, Ints, Ints]:
        """Rows with a label, once for each passage that holds their sentence: (rows, occurrences, edges).

        Sorted by passage, question and reading order. Rows edges[n] .. edges[n + 1] - 1 are of one passage
        and question.
        """
        rows, sentences = self.decided(), self.sentences
        order = np.argsort(sentences.occurrence_sentence, kind="stable")  # occurrences, by sentence
        starts = np.searchsorted(sentences.occurrence_sentence[order], np.arange(len(sentences.document) + 1))

        # Each row, as often as its sentence occurs: places first .. first + count - 1 of `order`.
        first, count = starts[self.sentence[rows]], np.diff(starts)[self.sentence[rows]]
        occurrence = order[consecutive(first, count)]
        row = np.repeat(rows, count)

        by_passage = np.lexsort((occurrence, self.question[row], sentences.occurrence_passage[occurrence]))
        row, occurrence = row[by_passage], occurrence[by_passage]
        edges = np.flatnonzero(differs(sentences.occurrence_passage[occurrence], self.question[row]))
        return row, occurrence, np.append(edges, len(row))

    def _sentence_labels(self) -> pa.Table:
        rows, sentences = self.decided(), self.sentences
        sentence = pa.array(self.sentence[rows])
        from_text = np.where(self.by_text[rows] == self.label[rows], 1, 2)
        source = np.where(self.by_id[rows] != NONE, 0, from_text)
        columns = [
            self.questions.take(pa.array(self.question[rows])),
            sentences.sentence_id.take(sentence),
            sentences.doc_ids(sentences.document[self.sentence[rows]]),
            sentences.text.take(sentence),
            pa.array(self.label[rows].astype(np.int8)),
            pa.array(["given", "text", "same_text"]).take(pa.array(source)),
        ]

        return pa.Table.from_arrays(columns, schema=SentenceLabel.schema())

    def _passage_labels(self) -> pa.Table:
        """A passage is positive if one of its sentences is."""
        sentences = self.sentences
        row, occurrence, edges = self.occurrences()
        if not len(row):
            return PassageLabel.schema().empty_table()

        starts = edges[:-1]
        passage, question = sentences.occurrence_passage[occurrence[starts]], self.question[row[starts]]
        inside = sentences.sentence_id.take(pa.array(sentences.occurrence_sentence[occurrence]))
        passage_id = sentences.passage_id.take(pa.array(passage))

        columns = [
            self.questions.take(pa.array(question)),
            passage_id,
            sentences.doc_id.take(pa.array(passage)),
            pa.array(np.maximum.reduceat(self.label[row], starts).astype(np.int8)),
            pa.ListArray.from_arrays(pa.array(edges, pa.int32()), inside),
        ]

        table = pa.Table.from_arrays(columns, schema=PassageLabel.schema())
        return table.take(_order(sentences.document_of_passage[passage], question, passage_id))

    def _document_labels(self) -> pa.Table:
        """A document is positive if one of its sentences is."""
        rows = self.decided()
        pairs = self.sentences.document[self.sentence[rows]] * len(self.questions) + self.question[rows]
        unique, place = np.unique(pairs, return_inverse=True)
        label = np.zeros(len(unique), np.int8)
        np.maximum.at(label, place, self.label[rows].astype(np.int8))
        document, question = np.divmod(unique, max(len(self.questions), 1))
        columns = [self.questions.take(pa.array(question)), self.sentences.doc_ids(document), pa.array(label)]
        return pa.Table.from_arrays(columns, schema=DocumentLabel.schema())


def label_sentences(sentences: SentenceTable, given_labels: GivenLabels) -> LabelledSentences:
    """Look up the labels of these sentences, and decide the label of each question and sentence.

    An example with one question: line 1 labels the sentence with id d@0 as 1, line 2 the text 'Yes.' as 0,
    and d@0 and d@5 both read 'Yes.'. The row of d@0 has by_id 1, by_text 0, votes (1, 0), first_lines (2, 1),
    label 1 and line 1: the label by id decides. The row of d@5 has by_id NONE, by_text 0, votes (1, 0),
    first_lines (2, 0), label 0 and line 2.
    """
    by_id, by_text = labels_by_id(sentences, given_labels), labels_by_text(sentences, given_labels)
    questions, question = codes(pa.concat_arrays([by_id.question_id, by_text.question_id]))
    sentence = np.concatenate([by_id.sentence, by_text.sentence])
    _, first, row = np.unique(
        sentence * max(len(questions), 1) + question, return_index=True, return_inverse=True
    )
    sentence, question, rows = sentence[first], question[first], len(first)

    # The row that each label belongs to.
    id_row, text_row = row[: len(by_id.sentence)], row[len(by_id.sentence) :]

    text_label = np.full(rows, NONE)
    votes, first_lines = np.zeros((2, rows), np.int64), np.zeros((2, rows), np.int64)
    text_label[text_row], votes[:, text_row], first_lines[:, text_row] = (
        by_text.label,
        by_text.votes,
        by_text.first_lines,
    )
    id_label, id_line = np.full(rows, NONE), np.full(rows, np.iinfo(np.int64).max)
    id_label[id_row] = by_id.label

    np.minimum.at(id_line, id_row, by_id.number)
    has_id = np.flatnonzero(id_label != NONE)
    text_line = first_lines[id_label[has_id], has_id]
    first_lines[id_label[has_id], has_id] = np.where(
        text_line == 0, id_line[has_id], np.minimum(text_line, id_line[has_id])
    )

    majority = np.select([votes[1] > votes[0], votes[0] > votes[1]], [1, 0], NONE)
    label = np.where(id_label != NONE, id_label, majority)
    line = np.select(
        [id_label != NONE, label != NONE], [id_line, first_lines[label.clip(0), np.arange(rows)]], 0
    )

    order = _order(sentences.document[sentence], question, sentences.sentence_id.take(pa.array(sentence)))
    return LabelledSentences(
        sentences=sentences,
        sentence=sentence[order],
        question=question[order],
        questions=questions,
        label=label[order],
        by_id=id_label[order],
        by_text=text_label[order],
        line=line[order],
        votes=votes[:, order],
        first_lines=first_lines[:, order],
        used=np.concatenate([by_id.number, np.unique(by_text.number[by_text.label != NONE])]),
        changed=by_id.changed,
    )


def _order(document: Ints, question: Ints, name: pa.Array) -> NDArray[np.uint64]:
    """The places of rows, sorted by document, question and name.

    >>> _order(np.array([1, 0, 0]), np.array([0, 1, 0]), pa.array(["a", "b", "c"])).tolist()
    [2, 1, 0]
    """
    keys = pa.table({"document": document, "question": question, "name": name})
    order: NDArray[np.uint64] = pc.sort_indices(
        keys, [(key, "ascending") for key in keys.column_names]
    ).to_numpy()
    return order
