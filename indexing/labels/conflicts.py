"""Contradictions between duplicates: labels of one text and one question that say both 1 and 0.

LabelConflict documents the label that holds then.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from answermill.indexing.labels.label_lookup import NONE
from answermill.indexing.labels.propagation import LabelledSentences
from answermill.indexing.passages.text import fold_all
from answermill.schemas.labels import LabelConflict

ConflictPlace: TypeAlias = tuple[int, int, str, int]
"""Document, question, passage id or '', sentence: the order of the conflicts."""


def conflicts(labelled: LabelledSentences) -> list[LabelConflict]:
    """The conflicts of single sentences and within passages, by document, question id, passage and
    sentence."""
    with_place = [*_sentence_conflicts(labelled), *_passage_conflicts(labelled)]
    return [conflict for _, conflict in sorted(with_place, key=lambda pair: pair[0])]


def _sentence_conflicts(labelled: LabelledSentences) -> Iterator[tuple[ConflictPlace, LabelConflict]]:
    """Sentences that labels by id or by text call both 0 and 1."""
    sentences = labelled.sentences
    for row in map(int, np.flatnonzero((labelled.first_lines != 0).all(0))):
        sentence, question = int(labelled.sentence[row]), int(labelled.question[row])

        yield (
            (int(sentences.document[sentence]), question, "", sentence),
            LabelConflict(
                question_id=labelled.questions[question].as_py(),
                doc_id=sentences.doc_ids(sentences.document[[sentence]])[0].as_py(),
                passage_id=None,
                sentence_ids=(sentences.sentence_id[sentence].as_py(),),
                text=sentences.text[sentence].as_py(),
                given=None if labelled.by_id[row] == NONE else int(labelled.by_id[row]),
                positive=int(labelled.votes[1, row]),
                negative=int(labelled.votes[0, row]),
                positive_line=int(labelled.first_lines[1, row]),
                negative_line=int(labelled.first_lines[0, row]),
                label=None if labelled.label[row] == NONE else int(labelled.label[row]),
            ),
        )


def _passage_conflicts(labelled: LabelledSentences) -> Iterator[tuple[ConflictPlace, LabelConflict]]:
    """Passages in which one text occurs twice, labelled 0 and 1."""
    sentences = labelled.sentences
    row, occurrence, edges = labelled.occurrences()
    if not len(row):
        return

    # Only passages with both labels can have a conflict.
    starts, sizes, label = edges[:-1], np.diff(edges), labelled.label[row]
    is_mixed = np.minimum.reduceat(label, starts) != np.maximum.reduceat(label, starts)
    inside = np.flatnonzero(np.repeat(is_mixed, sizes))
    group = np.repeat(np.arange(len(starts)), sizes)[inside]

    # Occurrences of one text in one passage become neighbours.
    folded = fold_all(sentences.text.take(pa.array(sentences.occurrence_sentence[occurrence[inside]])))
    text = folded.dictionary_encode().indices.to_numpy()
    order = np.lexsort((text, group))
    group, text, inside = group[order], text[order], inside[order]
    changes = np.flatnonzero((np.diff(group) != 0) | (np.diff(text) != 0)) + 1

    for first, last in pairwise([0, *changes.tolist(), len(inside)] if len(inside) else []):
        same = np.sort(inside[first:last])  # occurrences of one text in one passage, in reading order
        if label[same].min() == label[same].max():
            continue

        numbers = sentences.occurrence_sentence[occurrence[same]]
        passage, question = (
            int(sentences.occurrence_passage[occurrence[same[0]]]),
            int(labelled.question[row[same[0]]]),
        )
        passage_id = sentences.passage_id[passage].as_py()
        lines = labelled.line[row[same]]

        yield (
            (int(sentences.document_of_passage[passage]), question, passage_id, int(numbers[0])),
            LabelConflict(
                question_id=labelled.questions[question].as_py(),
                doc_id=sentences.doc_id[passage].as_py(),
                passage_id=passage_id,
                sentence_ids=tuple(sentences.sentence_id.take(pa.array(numbers)).to_pylist()),
                text=sentences.text[int(numbers[0])].as_py(),
                given=None,
                positive=int(label[same].sum()),
                negative=int((1 - label[same]).sum()),
                positive_line=int(lines[label[same] == 1].min()),
                negative_line=int(lines[label[same] == 0].min()),
                label=1,
            ),
        )
