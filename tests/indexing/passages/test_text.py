from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from indexing.passages.text import fold, fold_all, normalise


@given(st.text())
def test_normalised_text_has_one_form(text: str) -> None:
    normal = normalise(text)
    assert normalise(normal) == normal
    assert all(line == " ".join(line.split()) != "" for line in normal.split("\n")) or normal == ""
    normal.encode("utf-8")


def test_normalising_keeps_lines_and_drops_what_is_not_seen() -> None:
    assert normalise("  a\t b\r\n\r\n\u200bc\u00add\x00\u2028e\u0301\u00a0f ") == "a b\ncd\né f"


@given(st.lists(st.text("aAZß Σς\xa0\t\n\x1c\x85\u3000İ", max_size=6) | st.none(), max_size=20))
def test_texts_are_folded_in_a_column_as_one_by_one(texts: list[str | None]) -> None:
    assert fold_all(pa.array(texts, pa.string())).to_pylist() == [None if text is None else fold(text) for text in texts]
