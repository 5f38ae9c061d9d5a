"""A Lucene index of others, such as Anserini's or pyserini's, in place of indexing the same texts again.

Its files become those of the shard as they are, so that words, lengths and counts are its own, and a score is
the one that its own tools give. `documents.npy` beside it has the shard's row of each of its documents, or -1
of one that is no passage of the run: that one is counted, and not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from answermill.files.atomic_files import link_or_copy
from answermill.indexing.shards.lucene.bm25 import CONTENTS, open_index
from answermill.indexing.shards.lucene.jvm import calls_java
from answermill.schemas.arrays import Rows

DOCUMENTS = "documents.npy"
_ID = "id"
_LOCK = "write.lock"


class IndexUnfit(ValueError):
    """A Lucene index that cannot be taken; the message says what to give."""

    exit_code = 65


@calls_java
def ids_of(folder: Path) -> pa.Array:
    """The id of each document of an index, in Lucene's order, strings. The JVM must be started.

    Raises IndexUnfit if the folder holds no index that this Lucene reads, documents were deleted in it, or it
    has no words or no ids.
    """
    from jnius import JavaException, autoclass

    try:
        reader = open_index(folder)
    except FileNotFoundError as e:
        raise IndexUnfit(f"{e}; give the folder that Anserini's IndexCollection has written") from None
    except JavaException as e:
        raise IndexUnfit(
            f"{folder}: the Lucene here does not read this index ({str(e).splitlines()[0]}); give one that "
            "is whole, and built by a pyserini like that here"
        ) from None

    try:
        number = int(reader.maxDoc())
        if reader.hasDeletions():
            deleted = number - int(reader.numDocs())
            raise IndexUnfit(
                f"{folder}: {deleted:,} of its documents are deleted, and its counts still have them; give "
                "an index that was built at once"
            )
        if not reader.getSumTotalTermFreq(CONTENTS):
            raise IndexUnfit(f"{folder}: no words in a field `{CONTENTS}`; give an index of Anserini")

        # A visitor reads the one stored field that is wanted, and not the text beside it.
        stored, ids = reader.storedFields(), []
        visitor = autoclass("org.apache.lucene.document.DocumentStoredFieldVisitor")
        for document in range(number):
            visited = visitor(_ID, signature="([Ljava/lang/String;)V")
            stored.document(document, visited)
            ids.append(visited.getDocument().get(_ID))
    finally:
        reader.close()
    if None in ids:
        raise IndexUnfit(
            f"{folder}: document {ids.index(None)} has no stored field `{_ID}`; give an index of Anserini"
        )
    return pa.array(ids, pa.string())


@calls_java
def known_words(folder: Path, words: Sequence[str]) -> int:
    """Number of the words that some document of an index has. The JVM must be started."""
    from jnius import autoclass

    reader, term = open_index(folder), autoclass("org.apache.lucene.index.Term")
    try:
        return sum(reader.docFreq(term(CONTENTS, word)) > 0 for word in words)
    finally:
        reader.close()


class GivenWriter:
    """Takes an index in place of writing one; a context manager. The JVM must be started."""

    def __init__(self, source: Path, folder: Path) -> None:
        """`source`: the index; `folder`: that of the shard's."""
        self._source, self._folder = source, folder
        self._pages: list[str] = []

    def add(self, page: str) -> None:
        """The id of the page whose passage is the next row."""
        self._pages.append(page)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return
        rows = pc.index_in(ids_of(self._source), value_set=pa.array(self._pages, pa.string()))
        documents = pc.fill_null(rows, -1).to_numpy().astype(np.int64)
        np.save(self._folder.parent / DOCUMENTS, documents, allow_pickle=False)
        for file in index_files(self._source):
            link_or_copy(file, self._folder / file.name)


def index_files(folder: Path) -> list[Path]:
    """The files of an index, by name."""
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name != _LOCK)


def documents_of(shard: Path) -> Rows:
    """[documents]: the row of each document of the index in a shard's folder, or -1."""
    rows: Rows = np.load(shard / DOCUMENTS, allow_pickle=False)
    return rows
