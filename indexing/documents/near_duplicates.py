"""Near duplicates by MinHash and locality-sensitive hashing (Broder 1997; Leskovec et al., Mining of Massive
Datasets, 3).

A text is the set of its runs of five words; two texts are near if the Jaccard similarity of their sets
reaches a threshold. A document is a signature of 128 bytes here, and the share of equal bytes estimates the
similarity. Only documents whose signatures are equal in all rows of one of the bands are compared.

Ids alone decide which documents stay, whatever the order in which files were read: in each band a document is
removed if a near one with a smaller rank stays there, and a removal in one band is final. So the document
kept for another may be near it only through a third that was removed. Rensa computes the signatures, from
hashes that are ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import xxhash
from rensa import RMinHash

from answermill.schemas.scripts import UNSPACED

Signatures: TypeAlias = npt.NDArray[np.uint8]  # [documents, SIZE]
Bands: TypeAlias = npt.NDArray[np.uint64]  # [documents, BANDS]
Rank: TypeAlias = tuple[int, str]
"""(0 for a document of an earlier run, else 1; Document.doc_id). The smallest of near documents stays."""

SIZE, BANDS = 128, 16
"""Numbers of a signature, and the bands that they are cut into: with eight rows, texts of similarity 0.8 meet
in one of the bands with probability 0.95, texts of 0.9 with 0.9998."""
_ROWS = SIZE // BANDS
_RUN = 5  # words
_SEED = 1
_MARKS = """
    300-36F 483-489 591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 610-61A 64B-65F 670 6D6-6DC 6DF-6E8 6EA-6ED 711-74A
    7A6-7F3 7FD 816-82D 859-85B 898-8E1 8E3-963 966-DF3 F18-F19 F35 F37 F39 F3E-F84 F86-FBC FC6 135D-135F
    1712-1734 1752-1773 1885-18A9 1920-193B 1A17-1A1B 1A55-1A7F 1AB0-1B44 1B6B-1B73 1B80-1BF3 1C24-1C37
    1CD0-1CD2 1CD4-1CF9 1DC0-1DFF 2CEF-2CF1 2D7F 2DE0-2DFF A66F-A672 A674-A67D A69E-A6F1 A802-A827 A82C
    A880-A8C5 A8E0-A8F1 A8FF-A92D A947-A953 A980-A9C0 A9E5-AA4D AA7B-AAC1 AAEB-AAEF AAF5-AAF6 ABE3-ABEA
    ABEC-ABED FB1E"""
"""Vowel signs, accents and tones, which are no letters to `re`, as code points and ranges: the basic plane's
of Unicode's category M, with the letters between them, but for those of symbols and emoji."""
_VOWEL_SIGNS = "".join("-".join(chr(int(code, 16)) for code in part.split("-")) for part in _MARKS.split())
_WORDS = re.compile(rf"[{UNSPACED}]|(?:[^\W{UNSPACED}]|[{_VOWEL_SIGNS}])+")
_MIX = np.uint64(0x9E3779B97F4A7C15)


def runs_of_words(text: str) -> npt.NDArray[np.uint64]:
    """Hashes of the runs of five words, each once; a single one for a shorter text. In scripts without blanks
    each character is a word; letter case and punctuation do not count."""
    folded = text.casefold()
    words = _WORDS.findall(folded) or folded.split()  # a text of symbols alone has no word
    hashes = np.fromiter((xxhash.xxh3_64_intdigest(word.encode()) for word in words), np.uint64, len(words))
    runs = hashes[: max(1, len(hashes) - _RUN + 1)].copy()
    for n in range(1, min(_RUN, len(hashes))):
        runs = runs * _MIX ^ hashes[n : n + len(runs)]
    return np.unique(runs)


def signatures(texts: Iterable[str]) -> tuple[Signatures, Bands]:
    """The signature of each text, and a hash of each of its bands."""
    sets = [runs_of_words(text).tolist() for text in texts]
    if not sets:
        return np.zeros((0, SIZE), np.uint8), np.zeros((0, BANDS), np.uint64)
    minima = np.array(RMinHash.digest_matrix_from_token_hash_sets(sets, SIZE, _SEED).to_rows(), dtype="<u4")
    rows = minima.reshape(-1, BANDS, _ROWS)
    bands = [[xxhash.xxh3_64_intdigest(band.tobytes()) for band in document] for document in rows]
    return (minima & 0xFF).astype(np.uint8), np.array(bands, np.uint64)


def near_pairs(
    ranks: Sequence[Rank], band: npt.NDArray[np.uint64], rows: Signatures, similarity: float
) -> Iterator[tuple[int, int]]:
    """(document, the one that stays for it), for documents that are near in one band, whose hashes are `band`
    [documents].

    In the order of their ranks, each document is compared with those that stay before it; the first that is
    near stays for it.

    >>> rows = np.array([[1, 2], [1, 2], [7, 8]], np.uint8)
    >>> list(near_pairs([(1, "b"), (1, "a"), (1, "c")], np.array([5, 5, 5], np.uint64), rows, 0.8))
    [(0, 1)]
    """
    order = sorted(range(len(ranks)), key=lambda n: ranks[n])
    hashes = band[order]
    grouped = np.argsort(hashes, kind="stable")  # within equal hashes still in the order of the ranks
    starts = np.flatnonzero(np.r_[True, hashes[grouped][1:] != hashes[grouped][:-1], True])
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if end - start > 1:
            yield from _near([order[n] for n in grouped[start:end]], ranks, rows, similarity)


def _near(
    members: Sequence[int], ranks: Sequence[Rank], rows: Signatures, similarity: float
) -> Iterator[tuple[int, int]]:
    """The pairs of `near_pairs` among documents with one hash, the smallest rank first."""
    stay: list[int] = []
    for member in members:
        equal = (rows[stay] == rows[member]).mean(axis=1) if stay else np.zeros(0)
        near = np.flatnonzero(_jaccard(equal) >= similarity)
        is_earlier = not ranks[member][0]  # a document of the earlier run stays, whatever is near it
        if is_earlier or not len(near):
            stay.append(member)
        else:
            yield member, stay[int(near[0])]


def _jaccard(equal: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The similarity, estimated from the share of equal bytes; one byte in 256 is equal by chance.

    >>> _jaccard(np.array([1 / 256, 1.0])).tolist()
    [0.0, 1.0]
    """
    return (equal - 1 / 256) / (1 - 1 / 256)


def kept(pairs: Iterable[tuple[Rank, Rank]]) -> Mapping[Rank, Rank]:
    """Removed document → the one that is kept for it, from pairs (removed, stays) of all bands.

    A document that stays in one band may be removed in another. Those for which it stayed are then mapped to
    the one that stays for it, which has a smaller rank each time.

    >>> kept([((1, "c"), (1, "b")), ((1, "b"), (1, "a"))])
    {(1, 'b'): (1, 'a'), (1, 'c'): (1, 'a')}
    """
    stays: dict[Rank, Rank] = {}
    for removed, smaller in pairs:
        stays[removed] = min(smaller, stays.get(removed, smaller))
    final: dict[Rank, Rank] = {}
    for rank in sorted(stays):  # a smaller rank was resolved before
        final[rank] = final.get(stays[rank], stays[rank])
    return final
