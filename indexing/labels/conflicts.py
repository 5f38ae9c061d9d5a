"""What duplicates contradict: labels of one text and one question that say both 1 and 0 (LabelConflict says what holds)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from indexing.labels.propagation import NONE, Labelled
from indexing.passages.text import fold_all
from schemas.labels import LabelConflict

Place: TypeAlias = tuple[int, int, str, int]
"""Document, question, passage id or '', sentence."""


def conflicts(labelled: Labelled) -> list[LabelConflict]:
    """Of sentences and in passages, by document, question id, passage and sentence."""
    made = [*_in_sentences(labelled), *_in_passages(labelled)]
    return [conflict for _, conflict in sorted(made, key=lambda pair: pair[0])]


def _in_sentences(labelled: Labelled) -> Iterator[tuple[Place, LabelConflict]]:
    here = labelled.sentences
    for row in map(int, np.flatnonzero((labelled.lines != 0).all(0))):
        sentence, question = int(labelled.sentence[row]), int(labelled.question[row])
        yield (
            (int(here.of[sentence]), question, "", sentence),
            LabelConflict(
                question_id=labelled.questions[question].as_py(),
                doc_id=here.doc_ids(here.of[[sentence]])[0].as_py(),
                passage_id=None,
                sentence_ids=(here.sentence_id[sentence].as_py(),),
                text=here.text[sentence].as_py(),
                given=None if labelled.by_id[row] == NONE else int(labelled.by_id[row]),
                positive=int(labelled.votes[1, row]),
                negative=int(labelled.votes[0, row]),
                positive_line=int(labelled.lines[1, row]),
                negative_line=int(labelled.lines[0, row]),
                label=None if labelled.label[row] == NONE else int(labelled.label[row]),
            ),
        )


def _in_passages(labelled: Labelled) -> Iterator[tuple[Place, LabelConflict]]:
    here = labelled.sentences
    row, at, edges = labelled.held()
    if not len(row):
        return
    begin, label = edges[:-1], labelled.label[row]
    mixed = np.minimum.reduceat(label, begin) != np.maximum.reduceat(label, begin)
    inside = np.flatnonzero(np.repeat(mixed, np.diff(edges)))
    group = np.repeat(np.arange(len(begin)), np.diff(edges))[inside]
    texts = fold_all(here.text.take(pa.array(here.sentence[at[inside]]))).dictionary_encode().indices.to_numpy()
    order = np.lexsort((texts, group))
    group, texts, inside = group[order], texts[order], inside[order]
    changes = np.flatnonzero((np.diff(group) != 0) | (np.diff(texts) != 0)) + 1
    for first, last in pairwise([0, *changes.tolist(), len(inside)] if len(inside) else []):
        same = np.sort(inside[first:last])
        if label[same].min() == label[same].max():
            continue
        sentences, passage, question = (
            here.sentence[at[same]],
            int(here.passage[at[same[0]]]),
            int(labelled.question[row[same[0]]]),
        )
        name = here.passage_id[passage].as_py()
        yield (
            (int(here.document[passage]), question, name, int(sentences[0])),
            LabelConflict(
                question_id=labelled.questions[question].as_py(),
                doc_id=here.doc_id[passage].as_py(),
                passage_id=name,
                sentence_ids=tuple(here.sentence_id.take(pa.array(sentences)).to_pylist()),
                text=here.text[int(sentences[0])].as_py(),
                given=None,
                positive=int(label[same].sum()),
                negative=int((1 - label[same]).sum()),
                positive_line=int(labelled.line[row[same]][label[same] == 1].min()),
                negative_line=int(labelled.line[row[same]][label[same] == 0].min()),
                label=1,
            ),
        )
