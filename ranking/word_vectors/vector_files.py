"""Word vectors from any file of word2vec's, GloVe's or Numberbatch's form, read entry by entry for the words in use."""

from __future__ import annotations

import gzip
import io
import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from ranking.word_vectors.embeddings import Embeddings, Vectors, masked

_LONGEST = 1 << 20  # bytes of a line that are read at once
_LONGEST_WORD = 4_096  # bytes of a word in a binary file
_WIDEST = 16_384  # numbers of a vector: more is no vector file
_EXAMPLES = 3
_NUMBER = b"0123456789+-.eE \t\r\n"


@dataclass(frozen=True)
class Report:
    """What was found in a file, and what was left out."""

    path: Path
    form: str
    dimension: int
    entries: int  # lines or records of the file that hold a word
    words: int  # of the vocabulary, or of the file where no vocabulary was given
    found: int  # of them
    tokens: int | None  # the sum of the vocabulary's counts, where they were given
    tokens_found: int | None
    multiword: int  # keys with '_' inside; looked up in that form only, never for a single word
    other_languages: int  # keys of Numberbatch outside /c/en/
    skipped: Mapping[str, int]  # reason → entries
    examples: tuple[str, ...]  # 'path:line: reason' of the first ones

    @property
    def unknown_types(self) -> float:
        """Share of the vocabulary's words that have no vector."""
        return 1 - self.found / self.words

    @property
    def unknown_tokens(self) -> float | None:
        """The same by tokens; None where no counts were given."""
        return None if not self.tokens or self.tokens_found is None else 1 - self.tokens_found / self.tokens

    def __str__(self) -> str:
        tokens = "" if self.unknown_tokens is None else f", {self.unknown_tokens:.1%} of its tokens"
        skipped = "".join(f"; skipped {n:,} ({reason})" for reason, n in sorted(self.skipped.items()))
        left = "".join(
            f"; {n:,} {what}" for n, what in ((self.multiword, "of several words"), (self.other_languages, "not English")) if n
        )
        return (
            f"{self.path}: {self.form}, {self.dimension} numbers a word; {self.found:,} of {self.words:,} words found, "
            f"unknown {self.unknown_types:.1%} of the words{tokens}; {self.entries:,} entries{left}{skipped}"
            + (f", e.g. {'; '.join(self.examples)}" if self.examples else "")
        )


def read(
    path: Path, vocabulary: Collection[str] | Mapping[str, int] | None, *, max_skipped: float = 0.01
) -> tuple[Embeddings, Report]:
    """The vectors of the vocabulary's words (None: of all words) in a file; where it is a mapping, to each word's tokens.

    The file is told by its bytes: text with or without word2vec's '<count> <dimension>' line, word2vec's binary, either of
    them gzipped, or an .npz of `words` and `vectors`. It is read entry by entry: memory grows with the vocabulary alone.

    Words are lower-cased as the paper's are. Where a file is cased, a word's lower-case form counts; where it has none, the
    first other form in the file's order, the most frequent one, stands in for it. Of Numberbatch the English keys are read,
    with or without /c/en/; 'ice_cream' stays one word of that form, which no single word of a text looks up.

    Entries that cannot be used are skipped and counted: in text those with the wrong number of cells, in all forms keys that
    are not UTF-8, and among the words in use (the numbers of others are not looked at) those that are not numbers or not
    finite or all 0, and second entries of a key. Raises ValueError where more than `max_skipped` of the entries, or of those
    of words in use, are skipped, where the file breaks off, and where no word is found.
    """
    tally = _Tally(path)
    wanted = None if vocabulary is None else {word.lower() for word in vocabulary}
    in_file = None if wanted is None else wanted | {masked(word) for word in wanted}
    best: dict[str, tuple[bool, Vectors]] = {}  # word → (is in lower case, vector)
    seen: set[str] = set()
    for key, numbers in _entries(path, tally):
        word = key.lower()
        if in_file is not None and word not in in_file:
            continue
        tally.in_use += 1
        if key in seen:
            tally.skip("the word came before", in_use=True)
            continue
        seen.add(key)
        if word in best and (best[word][0] or key != word):
            continue
        try:
            vector = numbers()
        except ValueError:
            tally.skip("not a number", in_use=True)
            continue
        if not np.isfinite(vector).all():
            tally.skip("not finite", in_use=True)
        elif not vector.any():
            tally.skip("zeros", in_use=True)
        else:
            best[word] = (key == word, vector)
    tally.check(max_skipped)
    if not best:
        raise ValueError(
            f"{path}: none of the {len(wanted or ()):,} words of the vocabulary is among {tally.entries:,} entries"
        )
    words = tuple(sorted(best))
    made = Embeddings(words, np.stack([np.zeros(tally.dimension, np.float32), *(best[word][1] for word in words)]))
    known = {word for word in wanted or words if made.rows([word])[0]}
    counts = vocabulary if isinstance(vocabulary, Mapping) else None
    return made, Report(
        path,
        tally.form,
        tally.dimension,
        tally.entries,
        len(words if wanted is None else wanted),
        len(known),
        None if counts is None else sum(counts.values()),
        None if counts is None else sum(n for word, n in counts.items() if word.lower() in known),
        tally.multiword,
        tally.other_languages,
        dict(tally.skipped),
        tuple(tally.examples),
    )


@dataclass
class _Tally:
    """What has been met so far in a file."""

    path: Path
    form: str = "text"
    dimension: int = 0
    place: int = 0  # line, or number of the record, from 1
    entries: int = 0
    in_use: int = 0
    skipped_in_use: int = 0
    multiword: int = 0
    other_languages: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def skip(self, reason: str, in_use: bool = False) -> None:
        self.skipped[reason] += 1
        self.skipped_in_use += in_use
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{self.path}:{self.place}: {reason}")

    def check(self, most: float) -> None:
        for bad, of, what in (
            (self.skipped.total(), self.entries, "entries"),
            (self.skipped_in_use, self.in_use, "entries of words in use"),
        ):
            if bad > most * of:
                raise ValueError(
                    f"{self.path}: {bad:,} of {of:,} {what} cannot be used, more than {most:.0%} (max_skipped); "
                    f"the first: {'; '.join(self.examples)}"
                )


_Entry = tuple[bytes, Callable[[], Vectors]]
"""A key, and its numbers [d]: only what is wanted gets read. Raises ValueError where they are none."""


def _entries(path: Path, tally: _Tally) -> Iterator[tuple[str, Callable[[], Vectors]]]:
    """Keys as text, without /c/en/, and their numbers. Raises ValueError where the file breaks off."""
    try:
        for raw, numbers in _raw(path, tally):
            tally.entries += 1
            if raw.startswith(b"/c/") and not raw.startswith(b"/c/en/"):
                tally.other_languages += 1
                continue
            key = raw.removeprefix(b"/c/en/")
            tally.multiword += b"_" in key.strip(b"_")
            try:
                text = key.decode()
            except UnicodeDecodeError:
                tally.skip("not UTF-8")
                continue
            yield text, numbers
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as e:
        raise ValueError(f"{path}: broken or cut off after entry {tally.entries:,}: {e}") from e
    if not tally.entries:
        raise ValueError(f"{path}: holds no word")


def _raw(path: Path, tally: _Tally) -> Iterator[_Entry]:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == b"PK\x03\x04":
        yield from _npz(path, tally)
        return
    zipped = magic.startswith(b"\x1f\x8b")
    with _opened(path, zipped) as file:
        first, ahead = file.readline(_LONGEST).split(), file.read(4 * _WIDEST)
    if not first:
        raise ValueError(f"{path}: it is empty, or its first line is")
    header = len(first) == 2 and all(cell.isdigit() for cell in first)
    count, tally.dimension = (int(first[0]), int(first[1])) if header else (0, len(first) - 1)
    if not 0 < tally.dimension <= _WIDEST:
        raise ValueError(f"{path}:1: {tally.dimension:,} numbers a word; from 1 to {_WIDEST:,} can be read")
    sample = ahead.partition(b" ")[2][: 2 * tally.dimension]  # of text's first word: a number and a space are 2 bytes
    is_text = sum(byte in _NUMBER for byte in sample) >= 0.75 * len(sample)  # a cell may be broken
    with _opened(path, zipped) as file:
        if header:
            file.readline()
        if not header or is_text:
            yield from _text(file, tally, 2 if header else 1)
        else:
            yield from _binary(file, tally, count)
    if tally.entries < count:
        raise ValueError(f"{path}: its first line promises {count:,} words, it ends after {tally.entries:,}: it is cut off")


def _opened(path: Path, zipped: bool) -> IO[bytes]:
    return io.BufferedReader(gzip.GzipFile(path)) if zipped else path.open("rb")


def _text(file: IO[bytes], tally: _Tally, first_line: int) -> Iterator[_Entry]:
    """'<word> <number> … <number>' a line; blank lines are passed over."""
    for tally.place, line in enumerate(iter(lambda: file.readline(_LONGEST), b""), first_line):
        cells = line.split()
        if len(cells) == tally.dimension + 1:
            yield cells[0], partial(_parsed, cells)
        elif cells:
            tally.entries += 1
            tally.skip(f"not {tally.dimension} numbers")


def _binary(file: IO[bytes], tally: _Tally, count: int) -> Iterator[_Entry]:
    """'<word> ' and d little-endian float32; some writers set a line end before the next word."""
    tally.form, size = "word2vec binary", 4 * tally.dimension
    for tally.place in range(1, count + 1):
        word = _word(file)
        yield word, partial(_unpacked, _exactly(file, size), np.dtype("<f4"))


def _npz(path: Path, tally: _Tally) -> Iterator[_Entry]:
    """The arrays `words` (text) and `vectors` of an .npz, row by row; Python objects, which would be pickles, are refused."""
    tally.form = "npz"
    with zipfile.ZipFile(path) as archive:
        if missing := {"words.npy", "vectors.npy"} - set(archive.namelist()):
            raise ValueError(f"{path}: no {', '.join(sorted(missing))} in it; an .npz of words and vectors can be read")
        with archive.open("words.npy") as words, archive.open("vectors.npy") as vectors:
            shape, letters, keys = _rows(words)
            wide, numbers, rows = _rows(vectors)
            if len(shape) != 1 or len(wide) != 2 or wide[0] != shape[0] or letters.kind != "U" or numbers.kind != "f":
                raise ValueError(
                    f"{path}: words are {letters} {list(shape)} and vectors {numbers} {list(wide)}; "
                    "text [n] and floats [n, d] can be read"
                )
            tally.dimension = wide[1]
            for tally.place, (key, row) in enumerate(zip(keys, rows, strict=True), 1):
                word = str(np.frombuffer(key, letters)[0])
                yield word.encode(errors="surrogatepass"), partial(_unpacked, row, numbers)


def _rows(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], Iterator[bytes]]:
    """Shape, type and rows of an array. One that lies by columns is read whole, the one case where memory grows with it."""
    version = npy.read_magic(file)
    shape, by_columns, kind = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
    size = kind.itemsize * math.prod(shape[1:])
    if by_columns:
        whole = np.frombuffer(_exactly(file, size * shape[0]), kind).reshape(shape, order="F")
        return shape, kind, (row.tobytes() for row in whole)
    return shape, kind, (_exactly(file, size) for _ in range(shape[0] if shape else 0))


def _word(file: IO[bytes]) -> bytes:
    word = bytearray()
    while (letter := file.read(1)) != b" ":
        if not letter or len(word) == _LONGEST_WORD:
            raise EOFError(f"no space ends the word {bytes(word[:40].lstrip())!r}")
        word += letter
    return bytes(word.lstrip(b"\n"))


def _exactly(file: IO[bytes], size: int) -> bytes:
    got = file.read(size)
    if len(got) < size:
        raise EOFError(f"{len(got)} bytes where {size} should be")
    return got


def _parsed(cells: Sequence[bytes]) -> Vectors:
    with np.errstate(over="ignore"):
        return np.array([float(cell) for cell in cells[1:]]).astype(np.float32)


def _unpacked(row: bytes, kind: np.dtype[Any]) -> Vectors:
    with np.errstate(over="ignore"):
        return np.frombuffer(row, kind).astype(np.float32)
