"""One shard's Lucene index: BM25 as Anserini does it, exact over any number of shards.

Lucene's document number i is row i of the shard. The text that is indexed is the title, a line break, and the
passage, through Anserini's English analyser (Porter's stemmer, Lucene's stop words). A question is a bag of
its analysed words, never a search expression, so no character in it has a meaning.

Exact over shards: a shard is searched by `GlobalSearcher` (lucene/answermill/GlobalSearcher.java, compiled
beside it), which gives Lucene the document count, token count and document frequencies of the whole corpus in
place of the shard's. All else in a score is the passage's own, so n shards give, bit for bit, the scores of
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from answermill.indexing.shards.jvm import calls_java

SCORE_DECIMALS = 4
"""Lucene's scores are float32; differences below this decimal are noise, and must not order hits."""
ANALYZER = "io.anserini.analysis.DefaultEnglishAnalyzer"

_FIELD = "contents"
_SLACK = 32  # hits fetched beyond the depth, to see whether the last one is tied with more
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

        self._frequencies: dict[str, int] = {}  # word → document frequency in this shard

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
        return {
            term: self._frequency(term) for question in questions for term in self._lucene.analyze(question)
        }

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
        if self._size.documents == 0:
            return [(np.empty(0, np.int64), np.empty(0)) for _ in questions]

        # A clause is built once for all questions that have its word as often.
        searcher = self._searcher(questions, total)
        clauses: dict[tuple[str, int], Any] = {}
        results = []

        for question in questions:
            builder, known = self._lucene.QueryBuilder(), False
            for term, count in Counter(self._lucene.analyze(question)).items():
                if (term, count) not in clauses:
                    clauses[term, count] = self._clause(term, count)
                if clauses[term, count] is not None:
                    builder.add(clauses[term, count])
                    known = True
            results.append(
                self._hits(searcher, builder.build(), depth)
                if known
                else (np.empty(0, np.int64), np.empty(0))
            )

        return results

    def _searcher(self, questions: Sequence[str], total: GlobalStatistics | None) -> Any:
        """A searcher that scores these questions with the statistics of the whole corpus, or of this
        shard."""
        lucene = self._lucene
        if total is None:
            searcher = lucene.IndexSearcher(
                self._reader, signature="(Lorg/apache/lucene/index/IndexReader;)V"
            )
        else:
            searcher = lucene.GlobalSearcher(self._reader, total.documents, total.tokens)
            for term in {term for question in questions for term in lucene.analyze(question)}:
                if term not in total.frequencies:
                    raise ValueError(
                        f"the corpus' statistics miss the word {term!r}; add up `share` of the same questions"
                    )
                searcher.put(term, total.frequencies[term])

        searcher.setQueryCache(None)
        searcher.setSimilarity(lucene.BM25Similarity(self.k1, self.b))
        return searcher

    def _clause(self, term: str, count: int) -> Any:
        """The clause of a query for a word, weighted by its count in the question; None if no passage of this
        shard has it."""
        if self._frequency(term) == 0:
            return None
        query = self._lucene.TermQuery(self._lucene.Term(_FIELD, term))
        if count != 1:
            query = self._lucene.BoostQuery(query, float(count))
        return self._lucene.BooleanClause(query, self._lucene.SHOULD)

    def _frequency(self, term: str) -> int:
        frequency = self._frequencies.get(term)
        if frequency is None:
            frequency = self._frequencies[term] = int(self._reader.docFreq(self._lucene.Term(_FIELD, term)))
        return frequency

    def _hits(self, searcher: Any, query: Any, depth: int) -> tuple[Rows, Scores]:
        fetch = depth + _SLACK
        while True:
            fetch = min(fetch, self.rows)
            rows, raw = self._lucene.arrays(searcher.search(query, fetch))
            scores = np.round(raw, SCORE_DECIMALS)
            if len(rows) < fetch or fetch == self.rows or scores[-1] < scores[depth - 1]:
                break
            fetch *= 2

        if len(rows) > depth:
            # The best `depth`, and all that tie with the last of them.
            tied = int((scores >= scores[depth - 1]).sum())
            rows, scores = rows[:tied], scores[:tied]

        order = np.lexsort((rows, -scores))
        return rows[order], scores[order]


class _Lucene:
    """The Java classes that are used here, by their names."""

    def __init__(self) -> None:
        from jnius import autoclass

        search, index, document = (
            "org.apache.lucene.search.",
            "org.apache.lucene.index.",
            "org.apache.lucene.document.",
        )
        self.IndexSearcher = autoclass(search + "IndexSearcher")
        self.GlobalSearcher = autoclass("answermill.GlobalSearcher")
        self.TermQuery = autoclass(search + "TermQuery")
        self.BoostQuery = autoclass(search + "BoostQuery")

        self.BooleanClause = autoclass(search + "BooleanClause")
        self.QueryBuilder = autoclass(search + "BooleanQuery$Builder")
        self.SHOULD = autoclass(search + "BooleanClause$Occur").SHOULD
        self.BM25Similarity = autoclass(search + "similarities.BM25Similarity")
        self.DirectoryReader = autoclass(index + "DirectoryReader")
        self.Term = autoclass(index + "Term")
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
        self._analyze = autoclass("io.anserini.analysis.AnalyzerUtils").analyze
        self.IndexSearcher.setMaxClauseCount(2**31 - 1)  # a question may be longer than 1,024 words

    def directory(self, folder: Path) -> Any:
        return self._open(self._file(str(folder)).toPath(), self._no_lock)

    def analyze(self, text: str) -> list[str]:
        clean = text.encode("utf-8", "replace").decode()  # half a surrogate pair is no text to Java
        return list(self._analyze(self.analyzer, clean).toArray())

    def arrays(self, top: Any) -> tuple[Rows, Scores]:
        """Rows and float32 scores of Lucene's TopDocs, best first."""
        rows = np.array(self.GlobalSearcher.rows(top), dtype=np.int64)
        return rows, np.array(self.GlobalSearcher.scores(top), dtype=np.float64)


@cache
def _lucene() -> _Lucene:
    return _Lucene()
