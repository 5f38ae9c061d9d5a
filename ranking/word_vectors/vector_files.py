"""Word vectors from a file of word2vec's, GloVe's or Numberbatch's form, read entry by entry for the words in
use."""

from __future__ import annotations

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from answermill.ranking.word_vectors.embeddings import Embeddings, masked
from answermill.schemas.arrays import Vectors

_LONGEST_LINE = 1 << 20  # bytes of a line that are read at once
_LONGEST_WORD = 4_096  # bytes of a word in a binary file
_MAX_DIMENSION = 16_384  # a file with longer vectors is not a vector file
_EXAMPLES = 3
_NUMBER = b"0123456789+-.eE \t\r\n"


class VectorsUnreadable(ValueError):
    """A file of vectors is damaged, is none, or has none of the words. The message names the file and, in
    text, the line."""

    exit_code = 65


@dataclass
class FileReport:
    """Contents of a file of vectors, and the entries skipped; filled while the file is read."""

    path: Path
    form: str = "text"
    dimension: int = 0
    entries: int = 0
    """Lines or records that hold a word."""
    words: int = 0
    """Words of the vocabulary, or of the file if no vocabulary was given."""
    known: int = 0
    """Number of `words` that have a vector."""
    unknown_tokens: float | None = None
    """Share of the vocabulary's tokens whose word has no vector; None if the vocabulary has no counts."""
    multiword: int = 0
    """Keys with '_' inside; they match a vocabulary in that form only, never by one of their words."""
    other_languages: int = 0
    """Keys of Numberbatch outside /c/en/."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Reason → entries."""
    examples: list[str] = field(default_factory=list)
    """'path:line: reason' of the first skipped entries; a binary file has the record's number in place of the
    line's."""
    place: int = 0
    """Line or record being read, from 1."""
    in_use: int = 0
    """Entries whose word is in the vocabulary."""
    skipped_in_use: int = 0

    @property
    def unknown_types(self) -> float:
        """Share of the vocabulary's words that have no vector."""
        return 1 - self.known / self.words

    def skip(self, reason: str, in_use: bool = False) -> None:
        """Count the entry at `place` as skipped."""
        self.skipped[reason] += 1
        self.skipped_in_use += in_use
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{self.path}:{self.place}: {reason}")

    def check(self, most: float) -> None:
        """Raises VectorsUnreadable if more than this share of the entries, or of those in use, was
        skipped."""
        for bad, entries, what in (
            (self.skipped.total(), self.entries, "entries"),
            (self.skipped_in_use, self.in_use, "entries of words in use"),
        ):
            if bad > most * entries:
                raise VectorsUnreadable(
                    f"{self.path}: {bad:,} of {entries:,} {what} cannot be used, more than {most:.0%} "
                    "(max_skipped); "
                    f"the first: {'; '.join(self.examples)}"
                )

    def __str__(self) -> str:
        tokens = "" if self.unknown_tokens is None else f", {self.unknown_tokens:.1%} of its tokens"
        others = ((self.multiword, "of several words"), (self.other_languages, "not English"))
        notes = [f"{count:,} {what}" for count, what in others if count]
        notes += [f"skipped {count:,} ({reason})" for reason, count in sorted(self.skipped.items())]
        return (
            f"{self.path}: {self.form}, {self.dimension} numbers a word; {self.known:,} of {self.words:,} "
            "words found, "
            f"unknown {self.unknown_types:.1%} of the words{tokens}; "
            + "; ".join([f"{self.entries:,} entries", *notes])
            + (f", e.g. {'; '.join(self.examples)}" if self.examples else "")
        )


def read(
    path: Path, vocabulary: Collection[str] | Mapping[str, int] | None, *, max_skipped: float = 0.01
) -> tuple[Embeddings, FileReport]:
    """Vectors that a file has for the vocabulary's words (None: for all words), and a report. With counts in
    the vocabulary, word → tokens, the report gives the share of unknown tokens too.

    The form is recognised by the file's bytes: text with or without word2vec's '<count> <dimension>' line,
    word2vec's binary, or either of them gzipped. All are read entry by entry, so memory grows with the
    vocabulary alone.

    Words are lower-cased, as in the paper. In a cased file a word's lower-case form counts; if there is no
    such form, the first other form in the file's order, the most frequent one, stands in for it. Of
    Numberbatch the English keys are read, with or without /c/en/; 'ice_cream' stays one word of that form,
    which no single word of a text matches.

    Entries that cannot be used are skipped and counted: in text those with the wrong number of cells; in all
    forms keys that are not UTF-8; and among the words in use (the numbers of others are not read) those whose
    numbers are invalid, not finite or all 0, and second entries of a key. Raises VectorsUnreadable if more
    than `max_skipped` of the entries, or of those of words in use, are skipped, if the file breaks off, or if
    no word is found.
    """
    report = FileReport(path)
    words = None if vocabulary is None else {word.lower() for word in vocabulary}
    keys = None if words is None else words | {masked(word) for word in words}
    best = _best(_entries(path, report), keys, report)
    report.check(max_skipped)

    if not best:
        raise VectorsUnreadable(
            f"{path}: none of the {len(words or ()):,} words of the vocabulary is among {report.entries:,} "
            "entries"
        )

    names = tuple(sorted(best))
    embeddings = Embeddings(
        names, np.stack([np.zeros(report.dimension, np.float32), *(best[word] for word in names)])
    )
    known = {word for word in words or names if embeddings.rows([word])[0]}
    report.words, report.known = len(names if words is None else words), len(known)
    if isinstance(vocabulary, Mapping) and vocabulary:
        tokens_found = sum(count for word, count in vocabulary.items() if word.lower() in known)
        report.unknown_tokens = 1 - tokens_found / sum(vocabulary.values())

    return embeddings, report


ReadNumbers = Callable[[], Vectors]
"""Reads an entry's numbers [d]; raises ValueError if they are none. Called for words in use only."""


def _best(
    entries: Iterable[tuple[str, ReadNumbers]], keys: Container[str] | None, report: FileReport
) -> dict[str, Vectors]:
    """Lower-case word → vector, for entries whose word is among the keys (None: for all)."""
    best: dict[str, Vectors] = {}
    seen: set[str] = set()
    for key, numbers in entries:
        word = key.lower()
        if keys is not None and word not in keys:
            continue

        report.in_use += 1
        if key in seen:
            report.skip("the word came before", in_use=True)
            continue

        # A form other than the lower-case one counts only if no form was read before it.
        seen.add(key)
        if word in best and key != word:
            continue

        vector = _usable(numbers)
        if isinstance(vector, str):
            report.skip(vector, in_use=True)
        else:
            best[word] = vector

    return best


def _usable(numbers: ReadNumbers) -> Vectors | str:
    """Vector of an entry, or the reason why it cannot be used."""
    try:
        vector = numbers()
    except ValueError:
        return "not a number"
    if not np.isfinite(vector).all():
        return "not finite"
    return vector if vector.any() else "zeros"


def _entries(path: Path, report: FileReport) -> Iterator[tuple[str, ReadNumbers]]:
    """Keys as text, without /c/en/, and their numbers. Raises VectorsUnreadable if the file breaks off."""
    try:
        for raw, numbers in _raw(path, report):
            report.entries += 1
            if raw.startswith(b"/c/") and not raw.startswith(b"/c/en/"):
                report.other_languages += 1
                continue

            key = raw.removeprefix(b"/c/en/")
            report.multiword += b"_" in key.strip(b"_")
            try:
                text = key.decode()
            except UnicodeDecodeError:
                report.skip("not UTF-8")
                continue

            yield text, numbers
    except (EOFError, zlib.error, gzip.BadGzipFile) as e:
        raise VectorsUnreadable(f"{path}: broken or cut off after entry {report.entries:,}: {e}") from e

    if not report.entries:
        raise VectorsUnreadable(f"{path}: holds no word")


def _raw(path: Path, report: FileReport) -> Iterator[tuple[bytes, ReadNumbers]]:
    """Entries of a file of any form, keys as they are written."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == b"PK\x03\x04":
        raise VectorsUnreadable(
            f"{path}: a ZIP archive, such as an .npz; give text or word2vec's binary, plain or .gz"
        )

    zipped = magic.startswith(b"\x1f\x8b")

    with _opened(path, zipped) as file:
        first, ahead = file.readline(_LONGEST_LINE).split(), file.read(4 * _MAX_DIMENSION)
    if not first:
        raise VectorsUnreadable(f"{path}: it is empty, or its first line is")

    header = len(first) == 2 and all(cell.isdigit() for cell in first)
    count, report.dimension = (int(first[0]), int(first[1])) if header else (0, len(first) - 1)
    if not 0 < report.dimension <= _MAX_DIMENSION:
        raise VectorsUnreadable(
            f"{path}:1: {report.dimension:,} numbers a word; from 1 to {_MAX_DIMENSION:,} can be read"
        )

    # Both forms may have such a header; the bytes after the first word distinguish them.
    # In text, a number and a space are at least 2 bytes.
    sample = ahead.partition(b" ")[2][: 2 * report.dimension]
    is_text = sum(byte in _NUMBER for byte in sample) >= 0.75 * len(sample)  # a cell may be broken

    with _opened(path, zipped) as file:
        if header:
            file.readline()
        if not header or is_text:
            yield from _text(file, report, 2 if header else 1)
        else:
            yield from _binary(file, report, count)

    if report.entries < count:
        raise VectorsUnreadable(
            f"{path}: its first line promises {count:,} words, it ends after {report.entries:,}: it is cut "
            "off"
        )


def _opened(path: Path, zipped: bool) -> IO[bytes]:
    return io.BufferedReader(gzip.GzipFile(path)) if zipped else path.open("rb")


def _text(file: IO[bytes], report: FileReport, first_line: int) -> Iterator[tuple[bytes, ReadNumbers]]:
    """Lines '<word> <number> … <number>'; blank lines are passed over."""
    for report.place, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), first_line):
        cells = line.split()
        if len(cells) == report.dimension + 1:
            yield cells[0], partial(_parsed, cells)
        elif cells:
            report.entries += 1
            report.skip(f"not {report.dimension} numbers")


def _binary(file: IO[bytes], report: FileReport, count: int) -> Iterator[tuple[bytes, ReadNumbers]]:
    """'<word> ' and d little-endian float32; some writers put a line end before the next word."""
    report.form, size = "word2vec binary", 4 * report.dimension
    for report.place in range(1, count + 1):
        word = _word(file)
        yield word, partial(_unpacked, _exactly(file, size))


def _word(file: IO[bytes]) -> bytes:
    word = bytearray()
    while (letter := file.read(1)) != b" ":
        if not letter or len(word) == _LONGEST_WORD:
            raise EOFError(f"no space ends the word {bytes(word[:40].lstrip())!r}")
        word += letter
    return bytes(word.lstrip(b"\n"))


def _exactly(file: IO[bytes], size: int) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise EOFError(f"{len(content)} bytes where {size} should be")
    return content


def _unpacked(record: bytes) -> Vectors:
    return np.frombuffer(record, "<f4").astype(np.float32)


def _parsed(cells: Sequence[bytes]) -> Vectors:
    with np.errstate(over="ignore"):
        return np.array([float(cell) for cell in cells[1:]]).astype(np.float32)
