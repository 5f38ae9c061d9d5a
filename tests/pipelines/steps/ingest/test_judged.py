"""Documents after the verdicts on them are the same in blocks of any size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.documents.boilerplate import paragraph_key
from answermill.pipelines.steps.ingest import parse_and_cut
from answermill.pipelines.steps.ingest.repeated.judged import judged
from answermill.pipelines.steps.ingest.repeated.verdicts import (
    Boilerplate,
    Duplicates,
    FileVerdict,
    NearDuplicates,
    Verdicts,
)
from answermill.schemas.corpus import Document
from tests.documents import document_of

MENU = "Home and about us"
DOCUMENTS = [
    document_of(f"{MENU}\n{'word ' * n}end of {n}" if n % 2 else f"Page {n}", doc_id=f"d{n}", domain="a.org")
    for n in range(12)
]
ROWS = st.lists(st.sampled_from(range(12)), unique=True, max_size=5).map(np.array)


def blocks_of(size: int, verdicts: Verdicts):
    """(documents, rejects, paragraphs, characters) of all blocks of at most `size` documents."""
    (batch,) = Document.table(DOCUMENTS).to_batches()
    blocks = [judged(first, batch.slice(first, size), verdicts, min_words=8) for first in range(0, 12, size)]
    return (
        Document.rows(pa.concat_tables([block.documents for block in blocks])),
        [reject for block in blocks for reject in block.rejects],
        sum(block.paragraphs for block in blocks),
        sum(block.characters for block in blocks),
    )


@given(ROWS, ROWS, st.booleans(), st.integers(1, 12))
def test_blocks_of_any_size_have_the_documents_and_rejects_of_one(
    duplicates: np.ndarray, near: np.ndarray, has_menu: bool, size: int
) -> None:
    members: list[FileVerdict] = [
        Duplicates("p", "duplicate", duplicates.astype(np.int64)),
        NearDuplicates("p", near.astype(np.int64), ["kept"] * len(near)),
    ]
    if has_menu:
        members.append(Boilerplate("p", np.array([paragraph_key("a.org", MENU)], np.uint64)))
    verdicts = Verdicts.of(members)
    documents, rejects, paragraphs, characters = blocks_of(12, verdicts)

    assert blocks_of(size, verdicts) == (documents, rejects, paragraphs, characters)
    refused = set(duplicates.tolist()) | set(near.tolist())
    looked_at = [n for n in range(12) if n not in refused]
    short = {n for n in looked_at if has_menu and n in (1, 3)}  # left with 4 and 6 words
    assert [document.doc_id for document in documents] == [f"d{n}" for n in looked_at if n not in short]
    assert [reject.reason for reject in rejects].count("boilerplate") == len(short)
    menus = sum(n % 2 for n in looked_at) if has_menu else 0
    assert (paragraphs, characters) == (menus, menus * len(MENU))
    assert all(MENU not in document.text for document in documents) or not has_menu


@given(st.lists(st.integers(0, 25), max_size=12))
def test_blocks_end_where_enough_characters_are_reached(sizes: list[int]) -> None:
    texts = pa.array(["x" * size for size in sizes], pa.string())
    characters = parse_and_cut.BLOCK_CHARACTERS
    try:
        parse_and_cut.BLOCK_CHARACTERS = 10
        cuts = list(parse_and_cut._cuts(texts))
    finally:
        parse_and_cut.BLOCK_CHARACTERS = characters
    assert [n for start, end in cuts for n in range(start, end)] == list(range(len(sizes)))
    assert all(sum(sizes[start : end - 1]) < 10 for start, end in cuts)
