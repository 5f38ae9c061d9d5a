"""One shard's Lucene index: BM25 as Anserini does it, exact over any number of shards.

Lucene's document number i is row i of the shard. The text that is indexed is the title, a line break, and the
passage, through the analyser of their language (analyzers.py). A question is a bag of its analysed
words, never a search expression, so no character in it has a meaning. Titles are indexed once more by
themselves: a `Scoring` with a title weight adds BM25's score of the title, times the weight, as Anserini
weighs fields. What `Scoring` says decides the search and not the index, for Lucene stores lengths.

Exact over shards: a shard is searched by `GlobalSearcher` (answermill/GlobalSearcher.java, compiled beside
it), which gives Lucene the document count, token count and document frequencies of the whole corpus in place
of the shard's, for each field. All else in a score is the passage's own, so n shards give, bit for bit, the
scores of one. Rows that are gone (../tombstones.py) are not found, and what a small index of their passages
counts is subtracted from what the shard counts. A batch of questions is analysed once, whatever the number of
shards, and searched in a shard by one call into Java (answermill/Questions.java).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from answermill.indexing.shards.lucene.analyzers import ANALYZERS, ENGLISH
from answermill.indexing.shards.lucene.feedback import Bag
from answermill.indexing.shards.lucene.jvm import calls_java
from answermill.indexing.shards.lucene.statistics import USUAL, GlobalStatistics, Scoring, ShardSize
from answermill.schemas.arrays import NO_ROWS, Rows

SCORE_DECIMALS = 4
"""Lucene's scores are float32; differences below this decimal are noise, and must not order hits."""

CONTENTS, _TITLE = "contents", "title"  # fields of the index; the former has the title as well
_BATCHES = 4  # of questions that stay analysed: a search of a shard counts their words first
_RAM_BUFFER_MB = 256.0

Scores = npt.NDArray[np.float64]
AskedTexts: TypeAlias = Sequence[str] | Sequence[Bag]
"""Questions as texts, or as words with weights, which are looked for in title and text together."""


class Bm25Writer:
    """Writes an index, one passage after the other; a context manager. The JVM must be started (`jvm.start`).

    Rows are counted in the order of `add`: one thread adds, and this merge policy joins neighbours only.
    """

    @calls_java
    def __init__(self, folder: Path, language: str = ENGLISH) -> None:
        """Creates `folder`, and overwrites an index in it. `language`: a key of ANALYZERS. Raises OSError if
        it cannot be written."""
        folder.mkdir(parents=True, exist_ok=True)
        lucene = _lucene()
        self.rows = 0
        self._directory = lucene.directory(folder)
        config = lucene.IndexWriterConfig(
            lucene.analyzer(language), signature="(Lorg/apache/lucene/analysis/Analyzer;)V"
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

        # One Lucene document serves for all passages: three calls into Java a passage instead of twelve.
        self._contents, self._title = (lucene.field(name, kind) for name in (CONTENTS, _TITLE))
        self._document = lucene.Document()
        self._document.add(self._contents)
        self._document.add(self._title)

    @calls_java
    def add(self, title: str, text: str) -> None:
        """Index the next row."""
        self._contents.setStringValue(contents_of(title, text))
        self._title.setStringValue(title)
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


def contents_of(title: str, text: str) -> str:
    """The text of a passage that is indexed."""
    return f"{title}\n{text}" if title else text


def build(passages: Iterable[tuple[str, str]], folder: Path, language: str = ENGLISH) -> int:
    """Index (title, text) pairs in `folder`; row i is the i-th pair. Returns their number."""
    with Bm25Writer(folder, language) as writer:
        for title, text in passages:
            writer.add(title, text)
    return writer.rows


class Bm25Index:
    """An index, open for search. The JVM must be started (`jvm.start`)."""

    @calls_java
    def __init__(
        self,
        folder: Path,
        language: str = ENGLISH,
        gone: Rows = NO_ROWS,
        gone_index: Path | None = None,
        documents: Rows | None = None,
    ) -> None:
        """Open the index, written in this language. `gone`: ascending rows that are not found, whose passages
        alone are in `gone_index`. `documents` [documents]: the row of each document of an index of others, or
        -1 if it is not found; None if document i is row i. Raises FileNotFoundError if a folder holds no
        index."""
        lucene = _lucene()
        self._lucene, self._language = lucene, language
        self._reader = self._live = open_index(folder)
        self._gone = None if gone_index is None else open_index(gone_index)
        self.rows = int(self._reader.maxDoc())
        """Passages in the shard, with those that have no word, and those that are gone."""

        self._documents = documents
        if documents is not None and (documents < 0).any():
            self._live = lucene.LiveReader(self._reader, np.flatnonzero(documents < 0).tolist())

        self._size = _size(self._reader)
        if self._gone is not None:
            self._live = lucene.LiveReader(self._reader, gone.tolist())
            self._size -= _size(self._gone)

    @calls_java
    def close(self) -> None:
        """Close the files. A search afterwards raises."""
        self._reader.close()
        if self._gone is not None:
            self._gone.close()

    def statistics(self) -> ShardSize:
        """This shard's share of the size of the corpus."""
        return self._size

    @calls_java
    def document_frequencies(self, questions: AskedTexts, scoring: Scoring = USUAL) -> dict[str, int]:
        """Analysed word of the questions → the number of passages of this shard that hold it (0 included)."""
        asked = self._asked(questions, scoring)
        frequencies = asked.java.frequencies(self._reader)
        if self._gone is not None:
            gone = asked.java.frequencies(self._gone)
            frequencies = [own - other for own, other in zip(frequencies, gone, strict=True)]
        return dict(zip(asked.words, frequencies, strict=True))

    @calls_java
    def share(self, questions: AskedTexts, scoring: Scoring = USUAL) -> GlobalStatistics:
        """This shard's share of the corpus' statistics for these questions; sum it over all shards."""
        return GlobalStatistics(self._size, self.document_frequencies(questions, scoring))

    @calls_java
    def search(
        self,
        questions: AskedTexts,
        depth: int,
        total: GlobalStatistics | None,
        scoring: Scoring = USUAL,
    ) -> list[tuple[Rows, Scores]]:
        """Rows and scores of the best `depth` passages of each question, and of all that tie with the last of
        them.

        Scores are rounded to 4 decimals; order is score descending, then row. With `total` (of at least these
        questions, for this scoring) the scores are those of one index over the whole corpus; without, those
        of this shard alone. A question of no known word finds nothing. Raises ValueError if depth < 1 or
        `total` misses a word of a question.
        """
        if depth < 1:
            raise ValueError(f"depth is {depth}, must be at least 1")
        if not questions:
            return []

        if total is None and self._gone is not None:  # Lucene's own statistics count what is gone
            total = self.share(questions, scoring)
        asked = self._asked(questions, scoring)
        size = self._size if total is None else total.size
        sizes = [size.documents, size.tokens, size.titles, size.title_tokens]
        frequencies = None if total is None else self._frequencies(asked.words, total)
        packed = asked.java.search(
            self._live, sizes, frequencies, scoring.k1, scoring.b, depth, SCORE_DECIMALS
        )
        hits = _split(packed.tostring(), len(questions))
        return hits if self._documents is None else [self._placed(*best) for best in hits]

    def _placed(self, documents: Rows, scores: Scores) -> tuple[Rows, Scores]:
        """The rows of documents of an index of others, ties by row."""
        assert self._documents is not None
        rows = self._documents[documents]
        order = np.lexsort((rows, -scores))
        return rows[order], scores[order]

    def _asked(self, questions: AskedTexts, scoring: Scoring) -> _Asked:
        texts = tuple(question for question in questions if isinstance(question, str))
        if len(texts) == len(questions):
            return self._lucene.asked(texts, self._language, scoring.title_weight)
        return self._lucene.weighted([bag for bag in questions if not isinstance(bag, str)])

    def _frequencies(self, words: Sequence[str], total: GlobalStatistics) -> list[int]:
        """Number of passages of the corpus that have each of the words."""
        missing = next((word for word in words if word not in total.frequencies), None)
        if missing is not None:
            raise ValueError(
                f"the corpus' statistics miss the word {missing!r}; add up `share` of the same questions and "
                "scoring"
            )
        return [total.frequencies[word] for word in words]


@calls_java
def words_of(texts: Sequence[str], language: str = ENGLISH) -> list[dict[str, int]]:
    """The words of each text, by the analyser of their language, and how often each occurs. The JVM must be
    started."""
    lines = _lucene().counts(texts, language).split("\n")[:-1]
    cells = (line.split("\t")[:-1] for line in lines)
    return [dict(zip(words[::2], map(int, words[1::2]), strict=True)) for words in cells]


def open_index(folder: Path) -> Any:
    """Lucene's reader of the index in a folder. Raises FileNotFoundError if it holds none."""
    if not any(folder.glob("segments_*")):
        raise FileNotFoundError(f"{folder}: no Lucene index")
    lucene = _lucene()
    return lucene.DirectoryReader.open(lucene.directory(folder))


def _size(reader: Any) -> ShardSize:
    """Documents of an index that have a word, and their words; and those of titles."""
    if not reader.maxDoc():
        return ShardSize()
    counts = [
        int(count)
        for name in (CONTENTS, _TITLE)
        for count in (reader.getDocCount(name), reader.getSumTotalTermFreq(name))
    ]
    return ShardSize(*counts)


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
    """Questions of answermill/."""
    words: list[str]
    """All their words, each once."""


class _Lucene:
    """The Java classes that are used here, by their names."""

    def __init__(self) -> None:
        from jnius import autoclass

        index, document = "org.apache.lucene.index.", "org.apache.lucene.document."
        self._questions = autoclass("answermill.Questions")
        self.LiveReader = autoclass("answermill.LiveReader")
        self.DirectoryReader = autoclass(index + "DirectoryReader")
        self.IndexWriter = autoclass(index + "IndexWriter")
        self.IndexWriterConfig = autoclass(index + "IndexWriterConfig")
        self.OpenMode = autoclass(index + "IndexWriterConfig$OpenMode")

        self.IndexOptions = autoclass(index + "IndexOptions")
        self.LogDocMergePolicy = autoclass(index + "LogDocMergePolicy")
        self.SerialMergeScheduler = autoclass(index + "SerialMergeScheduler")
        self.Document = autoclass(document + "Document")
        self._field = autoclass(document + "Field")
        self.FieldType = autoclass(document + "FieldType")
        self._file = autoclass("java.io.File")
        self._open = autoclass("org.apache.lucene.store.FSDirectory").open

        # A shard has one writer, then none.
        self._no_lock = autoclass("org.apache.lucene.store.NoLockFactory").INSTANCE
        self.analyzer = cache(self._analyzer)
        """Language → its analyser."""
        self.asked = lru_cache(_BATCHES)(self._asked)
        """Questions, their language and the weight of titles → the batch of them."""

    def directory(self, folder: Path) -> Any:
        return self._open(self._file(str(folder)).toPath(), self._no_lock)

    def field(self, name: str, kind: Any) -> Any:
        """An empty field of a document."""
        signature = (
            "(Ljava/lang/String;Ljava/lang/CharSequence;Lorg/apache/lucene/index/IndexableFieldType;)V"
        )
        return self._field(name, "", kind, signature=signature)

    @staticmethod
    def _analyzer(language: str) -> Any:
        from jnius import autoclass

        analyzer = autoclass(ANALYZERS[language])
        return analyzer.newDefaultInstance() if language == ENGLISH else analyzer()

    def _asked(self, questions: tuple[str, ...], language: str, title_weight: float) -> _Asked:
        texts = [_java_text(text) for text in questions]
        return _listed(self._questions(self.analyzer(language), texts, title_weight))

    def weighted(self, bags: Sequence[Bag]) -> _Asked:
        """The batch of questions that are words with weights."""
        pairs = [pair for bag in bags for pair in bag.items()]
        words, weights = [word for word, _ in pairs], [float(weight) for _, weight in pairs]
        return _listed(self._questions(words, weights, [len(bag) for bag in bags]))

    def counts(self, texts: Sequence[str], language: str) -> str:
        return str(self._questions.counts(self.analyzer(language), [_java_text(text) for text in texts]))


def _listed(java: Any) -> _Asked:
    return _Asked(java, java.words().split("\n") if java.words() else [])


def _java_text(text: str) -> str:
    """The text, as Java takes it: half a surrogate pair is no text there."""
    return text.encode("utf-8", "replace").decode()


@cache
def _lucene() -> _Lucene:
    return _Lucene()
