"""Look-up of the labels that were given to sentences, by id and by text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from answermill.indexing.labels.given_labels import GivenLabels
from answermill.indexing.labels.hash_join import Ints
from answermill.indexing.labels.sentence_table import SentenceTable, array_of, codes, differs
from answermill.indexing.passages.text import fold_all

NONE = -1
"""In place of a label: there is none."""

_NO_INTS, _NO_STRINGS = np.zeros(0, np.int64), pa.array([], pa.string())


@dataclass(frozen=True)
class LabelsById:
    """Labels by id whose sentence was found, [n]: an entry for each label."""

    sentence: Ints
    question_id: pa.Array
    label: Ints
    number: Ints
    changed: Ints
    """Numbers of the labels without an entry, because the sentence has another text than they give."""


def labels_by_id(sentences: SentenceTable, given_labels: GivenLabels) -> LabelsById:
    """The labels by id whose sentence is among these and has the text that the label gives, if it gives
    one."""
    joined = given_labels.ids.join(sentences.sentence_id)
    if joined is None:
        return LabelsById(_NO_INTS, _NO_STRINGS, _NO_INTS, _NO_INTS, _NO_INTS)

    sentence, rows = joined
    given_text = array_of(rows["text"])
    is_same = np.ones(len(sentence), bool)
    with_text = np.flatnonzero(pc.is_valid(given_text).to_numpy(zero_copy_only=False))

    if len(with_text):
        texts = fold_all(sentences.text.take(pa.array(sentence[with_text])))
        is_same[with_text] = pc.equal(texts, given_text.take(pa.array(with_text))).to_numpy(
            zero_copy_only=False
        )

    label, number = rows["label"].to_numpy().astype(np.int64), rows["number"].to_numpy()
    question_id = array_of(rows["question_id"]).filter(pa.array(is_same))
    return LabelsById(sentence[is_same], question_id, label[is_same], number[is_same], number[~is_same])


@dataclass(frozen=True)
class LabelsByText:
    """Labels of texts for the sentences with that text, [n]: an entry for each sentence and question."""

    sentence: Ints
    question_id: pa.Array
    label: Ints
    """The label by text alone, or NONE."""
    number: Ints
    """Number of that label."""
    votes: Ints
    """[2, n], as in LabelledSentences."""
    first_lines: Ints
    """[2, n]: as in LabelledSentences, but of labels of the text only."""


def labels_by_text(sentences: SentenceTable, given_labels: GivenLabels) -> LabelsByText:
    """The labels of the texts of these sentences."""
    joined = given_labels.texts.join(fold_all(sentences.text)) if given_labels.has_texts else None
    if joined is None:
        none = np.zeros((2, 0), np.int64)
        return LabelsByText(_NO_INTS, _NO_STRINGS, _NO_INTS, _NO_INTS, none, none)
    sentence, rows = joined
    label, number, zeros, ones, first_zero, first_one = (
        rows[name].to_numpy() for name in ("given", "number", "zeros", "ones", "first_zero", "first_one")
    )
    votes, first_lines = np.stack([zeros, ones]), np.stack([first_zero, first_one])
    return LabelsByText(
        sentence, array_of(rows["question_id"]), label.astype(np.int64), number, votes, first_lines
    )


def labels_to_spread(sentences: SentenceTable, given_labels: GivenLabels) -> pa.RecordBatch:
    """The labels by id of these sentences, the first of each question and sentence: rows of SPREAD_LABEL for
    `spread`."""
    by_id = labels_by_id(sentences, given_labels)
    question = codes(by_id.question_id)[1]
    order = np.lexsort((by_id.number, question, by_id.sentence))
    first = order[differs(by_id.sentence[order], question[order])]
    return pa.record_batch(
        {
            "key": fold_all(sentences.text.take(pa.array(by_id.sentence[first]))),
            "question_id": by_id.question_id.take(pa.array(first)),
            "label": pa.array(by_id.label[first].astype(np.int8)),
            "number": pa.array(by_id.number[first]),
        }
    )
