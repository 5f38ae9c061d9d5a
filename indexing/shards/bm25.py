"""One shard's Lucene index: BM25 as Anserini does it, exact over any number of shards.

Lucene's document number i is row i of the shard. The text that is indexed is the title, a line break, and the
passage, through Anserini's English analyser (Porter's stemmer, Lucene's stop words). A question is a bag of
its analysed words, never a search expression, so no character in it has a meaning.

Exact over shards: a shard is searched by `GlobalSearcher` (lucene/answermill/GlobalSearcher.java, compiled
beside it), which gives Lucene the document count, token count and document frequencies of the whole corpus in
place of the shard's. All else in a score is the passage's own, so n shards give, bit for bit, the scores of
one. A batch of questions is analysed once, whatever the number of shards, and searched in a shard by one call
into Java (lucene/answermill/Questions.java).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from answermill.indexing.shards.jvm import calls_java

SCORE_DECIMALS = 4
"""Lucene's scores are float32; differences below this decimal are noise, and must not order hits."""
ANALYZER = "io.anserini.analysis.DefaultEnglishAnalyzer"

_FIELD = "contents"
_BATCHES = 4  # of questions that stay analysed: a search of a shard counts their words first
_RAM_BUFFER_MB = 256.0

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ShardSize:
    """A shard as BM25 counts it: documents with at least one word, and words."""

    documents: int
    tokens: int


@dataclass(frozen=True, slots=True)
class GlobalStatistics:
    """Size of the whole corpus, and the number of documents in which each word of the questions occurs: the
    sum over its shards."""

    documents: int = 0
    tokens: int = 0
    frequencies: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: GlobalStatistics) -> GlobalStatistics:
        """Associative and commutative; `GlobalStatistics()` is its zero."""
        frequencies = dict(self.frequencies)
        for term, frequency in other.frequencies.items():
            frequencies[term] = frequencies.get(term, 0) + frequency
        return GlobalStatistics(self.documents + other.documents, self.tokens + other.tokens, frequencies)


class Bm25Writer:
    """Writes an index, one passage after the other; a context manager. The JVM must be started (`jvm.start`).

    Rows are counted in the order of `add`: one thread adds, and this merge policy joins neighbours only.
    """

    @calls_java
    def __init__(self, folder: Path) -> None:
        """Creates `folder`, and overwrites an index in it. Raises OSError if it cannot be written."""
        folder.mkdir(parents=True, exist_ok=True)
        lucene = _lucene()
        self.rows = 0
        self._directory = lucene.directory(folder)
        config = lucene.IndexWriterConfig(
            lucene.analyzer, signature="(Lorg/apache/lucene/analysis/Analyzer;)V"
        )
        config.setOpenMode(lucene.OpenMode.CREATE)
        config.setMergePolicy(lucene.LogDocMergePolicy())

        config.setMergeScheduler(lucene.SerialMergeScheduler())
        config.setRAMBufferSizeMB(_RAM_BUFFER_MB)
        config.setUseCompoundFile(False)
        self._writer = lucene.IndexWriter(self._directory, config)
        kind = lucene.FieldType()
        kind.setIndexOptions(lucene.IndexOptions.DOCS_AND_FREQS)
        kind.setTokenized(True)
        kind.freeze()

        # One Lucene document serves for all passages: two calls into Java a passage instead of seven.
        self._text = lucene.Field(
            _FIELD,
            "",
            kind,
            signature="(Ljava/lang/String;Ljava/lang/CharSequence;Lorg/apache/lucene/index/IndexableFieldType;)V",
        )
        self._document = lucene.Document()
        self._document.add(self._text)

    @calls_java
    def add(self, title: str, text: str) -> None:
        """Index the next row."""
        self._text.setStringValue(f"{title}\n{text}" if title else text)
        self._writer.addDocument(self._document)
        self.rows += 1

    def __enter__(self) -> Self:
        return self

    @calls_java
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Merge into one segment, commit (Lucene calls fsync) and close; on an error, drop the index."""
        try:
            if error is not None:
                self._writer.rollback()
                return
            self._writer.forceMerge(1)
            self._writer.commit()
            rows = self._writer.getDocStats().maxDoc
            self._writer.close()
            if rows != self.rows:
                raise RuntimeError(f"{self.rows} passages were added, but Lucene holds {rows} documents")
        finally:
            self._directory.close()


def build(passages: Iterable[tuple[str, str]], folder: Path) -> int:
    """Index (title, text) pairs in `folder`; row i is the i-th pair. Returns their number."""
    with Bm25Writer(folder) as writer:
        for title, text in passages:
            writer.add(title, text)
    return writer.rows


class Bm25Index:
    """An index, open for search. The JVM must be started (`jvm.start`)."""

    @calls_java
    def __init__(self, folder: Path, k1: float = 0.9, b: float = 0.4) -> None:
        """Open the index. Raises FileNotFoundError if the folder holds none."""
        if not any(folder.glob("segments_*")):
            raise FileNotFoundError(f"{folder}: no Lucene index")

        lucene = _lucene()
        self.k1, self.b = k1, b
        self._lucene = lucene
        self._reader = lucene.DirectoryReader.open(lucene.directory(folder))
        self.rows = int(self._reader.maxDoc())
        """Passages in the shard, with those that have no word."""
        self._size = ShardSize(
            int(self._reader.getDocCount(_FIELD)) if self.rows else 0,
            int(self._reader.getSumTotalTermFreq(_FIELD)) if self.rows else 0,
        )

    @calls_java
    def close(self) -> None:
        """Close the files. A search afterwards raises."""
        self._reader.close()

    def statistics(self) -> ShardSize:
        """This shard's share of the size of the corpus."""
        return self._size

    @calls_java
    def document_frequencies(self, questions: Sequence[str]) -> dict[str, int]:
        """Analysed word of the questions → the number of passages of this shard that hold it (0 included)."""
        asked = self._lucene.asked(tuple(questions))
        return dict(zip(asked.words, asked.java.frequencies(self._reader), strict=True))

    @calls_java
    def share(self, questions: Sequence[str]) -> GlobalStatistics:
        """This shard's share of the corpus' statistics for these questions; sum it over all shards."""
        return GlobalStatistics(self._size.documents, self._size.tokens, self.document_frequencies(questions))

    @calls_java
    def search(
        self, questions: Sequence[str], depth: int, total: GlobalStatistics | None
    ) -> list[tuple[Rows, Scores]]:
        """Rows and scores of the best `depth` passages of each question, and of all that tie with the last of
        them.

        Scores are rounded to 4 decimals; order is score descending, then row. With `total` (of at least these
        questions) the scores are those of one index over the whole corpus; without, those of this shard
        alone. A question of no known word finds nothing. Raises ValueError if depth < 1 or `total` misses a
        word of a question.
        """
        if depth < 1:
            raise ValueError(f"depth is {depth}, must be at least 1")
        if not questions:
            return []

        asked, known = self._lucene.asked(tuple(questions)), total or self._size
        frequencies = None if total is None else self._frequencies(asked.words, total)
        packed = asked.java.search(
            self._reader, known.documents, known.tokens, frequencies, self.k1, self.b, depth, SCORE_DECIMALS
        )
        return _split(packed.tostring(), len(questions))

    def _frequencies(self, words: Sequence[str], total: GlobalStatistics) -> list[int]:
        """Number of passages of the corpus that have each of the words."""
        missing = next((word for word in words if word not in total.frequencies), None)
        if missing is not None:
            raise ValueError(
                f"the corpus' statistics miss the word {missing!r}; add up `share` of the same questions"
            )
        return [total.frequencies[word] for word in words]


def _split(packed: bytes, questions: int) -> list[tuple[Rows, Scores]]:
    """Rows and scores of each question, from what `Questions.search` gives.

    >>> _split(np.array([1, 0, 7], "<i4").tobytes() + np.array([2.5], "<f8").tobytes(), 2)
    [(array([7]), array([2.5])), (array([], dtype=int64), array([], dtype=float64))]
    """
    ends = np.cumsum(np.frombuffer(packed, "<i4", questions))
    rows = np.frombuffer(packed, "<i4", ends[-1], offset=4 * questions).astype(np.int64)
    scores = np.frombuffer(packed, "<f8", offset=4 * (questions + len(rows))).astype(np.float64)
    return list(zip(np.split(rows, ends[:-1]), np.split(scores, ends[:-1]), strict=True))


class _Asked(NamedTuple):
    """A batch of questions."""

    java: Any
    """Questions of lucene/answermill."""
    words: list[str]
    """All their words, each once."""


class _Lucene:
    """The Java classes that are used here, by their names."""

    def __init__(self) -> None:
        from jnius import autoclass

        index, document = "org.apache.lucene.index.", "org.apache.lucene.document."
        self._questions = autoclass("answermill.Questions")
        self.DirectoryReader = autoclass(index + "DirectoryReader")
        self.IndexWriter = autoclass(index + "IndexWriter")
        self.IndexWriterConfig = autoclass(index + "IndexWriterConfig")
        self.OpenMode = autoclass(index + "IndexWriterConfig$OpenMode")

        self.IndexOptions = autoclass(index + "IndexOptions")
        self.LogDocMergePolicy = autoclass(index + "LogDocMergePolicy")
        self.SerialMergeScheduler = autoclass(index + "SerialMergeScheduler")
        self.Document = autoclass(document + "Document")
        self.Field = autoclass(document + "Field")
        self.FieldType = autoclass(document + "FieldType")
        self._file = autoclass("java.io.File")
        self._open = autoclass("org.apache.lucene.store.FSDirectory").open

        # A shard has one writer, then none.
        self._no_lock = autoclass("org.apache.lucene.store.NoLockFactory").INSTANCE
        self.analyzer = autoclass(ANALYZER).newDefaultInstance()
        self.asked = lru_cache(_BATCHES)(self._asked)
        """Questions → the batch of them."""

    def directory(self, folder: Path) -> Any:
        return self._open(self._file(str(folder)).toPath(), self._no_lock)

    def _asked(self, questions: tuple[str, ...]) -> _Asked:
        # Half a surrogate pair is no text to Java.
        texts = [text.encode("utf-8", "replace").decode() for text in questions]
        java = self._questions(self.analyzer, _FIELD, texts)
        return _Asked(java, java.words().split("\n") if java.words() else [])


@cache
def _lucene() -> _Lucene:
    return _Lucene()
