"""Rows have one digest if, and only if, all their values are the same."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from answermill.indexing.passages.row_digests import row_digests
from answermill.schemas.corpus import Passage, Sentence

SENTENCES = (Sentence("d@0", 0, 3, "Ice"), Sentence("d@4", 4, 9, "water"))
PASSAGE = Passage("d#0", "d", "http://a", "Title", 0, 9, "Ice water", SENTENCES)
OTHERS = [
    replace(PASSAGE, title="Titel"),
    replace(PASSAGE, title="TitleI", text="ce water"),
    replace(PASSAGE, start=1),
    replace(PASSAGE, source_record="r"),
    replace(PASSAGE, sentences=()),
    replace(PASSAGE, sentences=SENTENCES[:1]),
    replace(PASSAGE, sentences=(SENTENCES[0], replace(SENTENCES[1], start=5))),
    replace(PASSAGE, sentences=(Sentence("d@0", 0, 3, "Icew"), Sentence("d@4", 4, 9, "ater"))),
    replace(PASSAGE, doc_id="", url="dhttp://a"),
]


def test_a_change_of_any_value_is_another_digest_and_the_place_of_a_row_is_not() -> None:
    batch = Passage.table([*OTHERS, PASSAGE, *OTHERS[::-1], PASSAGE]).combine_chunks().to_batches()[0]
    digests = [tuple(digest) for digest in row_digests(batch).tolist()]
    assert (
        len(set(digests)) == len(OTHERS) + 1 and digests[: len(OTHERS)] == digests[-2 : -2 - len(OTHERS) : -1]
    )
    assert [tuple(digest) for digest in row_digests(batch.slice(3, 9)).tolist()] == digests[3:12]
    assert len(row_digests(batch.slice(0, 0))) == 0


def test_a_null_is_refused() -> None:
    with pytest.raises(TypeError, match="nulls"):
        row_digests(pa.record_batch({"text": ["a", None]}))
