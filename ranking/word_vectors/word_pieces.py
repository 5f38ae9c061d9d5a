"""Static vectors of words from the word pieces of a BERT-like model; no file of word vectors is needed.

A word's vector is the mean of its pieces' input embeddings. The mean of all pieces' embeddings is subtracted;
of the directions in which they vary most, the `dropped` strongest, which show frequency rather than meaning,
are left out ("all-but-the-top", Mu & Viswanath 2018), and the next `dimension` are kept, 300 as Cosinet's
paper has. A word's vector depends on the word and the model alone, not on the vocabulary or threads.

Chosen on the dev sets of WikiQA and SQuAD-sent (`experiments/word_vectors.py`), ranking by relatedness alone,
the mean of r_i (Cosinet §4.1.1): dropping 0 to 5 directions gives equal results, and 3 was in use. A layer's
output for the word needs a forward pass, is worse on SQuAD-sent, and in the mean of both sets no better.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file
from threadpoolctl import threadpool_limits
from tokenizers import Tokenizer

from answermill.files.atomic_files import replacing
from answermill.files.model_files import check_weights
from answermill.schemas.arrays import Vectors

Encode = Callable[[Sequence[str]], Vectors]
"""Words → vectors [n, d]."""

_NO_PIECE = re.compile(r"\[.+\]|<.+>")  # [CLS], [unused7], <s>
_UNKNOWN = ("[UNK]", "<unk>")
_TABLE = "word_embeddings.weight"  # of BERT, RoBERTa, ELECTRA, ALBERT, DistilBERT and MPNet


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """Mean and kept directions of a model's input embeddings."""

    mean: npt.NDArray[np.float64]  # [hidden]
    kept: npt.NDArray[np.float64]  # [hidden, d]

    def reduced(self, table: npt.NDArray[np.float64]) -> Vectors:
        """Reduce input embeddings [pieces, hidden] to [pieces, d]."""
        # Several threads give other last bits, and wait for each other on busy cores.
        with threadpool_limits(1, "blas"):
            return ((table - self.mean) @ self.kept).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class WordPieces:
    """Pieces of words, one word after the other, and the directions, from which the model's table gives the
    words' vectors.

    They are stored, since cutting 80,000 words and finding the directions takes a worker process longer than
    all the rest.
    """

    # [words]: number of pieces; 0 if the tokenizer has none, or not for the whole word.
    lengths: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.int32]  # [pieces of all words]
    directions: Directions

    def vectors(self, table: npt.NDArray[np.float64]) -> Vectors:
        """Vectors [words, d] from the model's input embeddings [pieces, hidden]; zeros for a word without
        pieces.

        Raises ValueError if the table has too few pieces, or a different width.
        """
        if table.shape[1] != len(self.directions.mean) or self.numbers.max(initial=0) >= len(table):
            raise ValueError(
                f"the pieces of words are not those of a table of {len(table):,} pieces of {table.shape[1]} "
                "numbers"
            )
        return _means(self.lengths, self.numbers, self.directions.reduced(table))

    def some(self, chosen: npt.NDArray[np.bool_]) -> WordPieces:
        """Pieces of the chosen words, a mask [words]."""
        return replace(
            self, lengths=self.lengths[chosen], numbers=self.numbers[np.repeat(chosen, self.lengths)]
        )

    def save(self, file: Path) -> None:
        arrays = {"lengths": self.lengths, "numbers": self.numbers}
        with replacing(file) as path:
            save_file(
                arrays | {"mean": self.directions.mean, "kept": np.ascontiguousarray(self.directions.kept)},
                path,
            )

    @classmethod
    def load(cls, file: Path) -> WordPieces:
        """Raises SafetensorError, KeyError or ValueError if the file is broken or its arrays do not belong
        together."""
        arrays = load_file(file)
        lengths, numbers, mean, kept = (arrays[name] for name in ("lengths", "numbers", "mean", "kept"))
        if lengths.sum() != len(numbers) or lengths.min(initial=0) < 0 or kept.shape[:1] != mean.shape:
            raise ValueError(f"{file}: its arrays do not belong together")
        return cls(lengths, numbers, Directions(mean, kept))


def word_pieces(
    words: Sequence[str], folder: Path, dimension: int = 300, dropped: int = 3
) -> tuple[WordPieces, Vectors]:
    """Pieces of words by the tokenizer in a folder with the directions of its model, and the words' vectors
    [words, d]: zeros for a word for which the tokenizer has no pieces.

    Raises ValueError if the model has fewer directions.
    """
    tokenizer, table, plain = read_pieces(folder)
    pieces = WordPieces(*_numbers(tokenizer, words), _directions(table[plain], folder, dimension, dropped))
    return pieces, pieces.vectors(table)


def _directions(table: npt.NDArray[np.float64], folder: Path, dimension: int, dropped: int) -> Directions:
    """Directions of a table [pieces, hidden]: embeddings of the pieces that text is made of."""
    if min(table.shape) < dimension + dropped:
        raise ValueError(
            f"{folder}: {dimension} directions besides the {dropped} strongest are more than its "
            f"{len(table):,} pieces of "
            f"{table.shape[1]} numbers have; take a smaller dimension"
        )
    with threadpool_limits(1, "blas"):
        return Directions(table.mean(0), all_but_the_top(table, dimension, dropped))


def _numbers(
    tokenizer: Tokenizer, words: Sequence[str]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(number of pieces of each word, the pieces' numbers); a word that is not all pieces has none."""
    unknown = {number for piece in _UNKNOWN if (number := tokenizer.token_to_id(piece)) is not None}
    cut = (word.ids for word in tokenizer.encode_batch(list(words), add_special_tokens=False))
    numbers = [pieces if unknown.isdisjoint(pieces) else [] for pieces in cut]
    return np.fromiter(map(len, numbers), np.int32, len(numbers)), np.fromiter(
        chain.from_iterable(numbers), np.int32
    )


def _means(lengths: npt.NDArray[np.int32], numbers: npt.NDArray[np.int32], pieces: Vectors) -> Vectors:
    """[words, d]: mean vector of each word's pieces.

    >>> pieces = np.array([[1, 3], [5, 7]], np.float32)
    >>> _means(np.array([2, 0, 1], np.int32), np.array([0, 1, 1], np.int32), pieces).tolist()
    [[3.0, 5.0], [0.0, 0.0], [5.0, 7.0]]
    """
    vectors = np.zeros((len(lengths), pieces.shape[1]), np.float32)
    starts = lengths.cumsum() - lengths
    # Words with equally many pieces at once: a call of numpy for each word takes longer.
    for length in np.unique(lengths[lengths > 0]):
        (rows,) = np.nonzero(lengths == length)
        total = pieces[numbers[starts[rows]]]
        # In place: an array of all words' pieces would take twice as long to fill.
        for place in range(1, length):
            total += pieces[numbers[starts[rows] + place]]
        vectors[rows] = total / np.float32(length)
    return vectors


def read_pieces(folder: Path) -> tuple[Tokenizer, npt.NDArray[np.float64], list[int]]:
    """Tokenizer of a folder, its model's input embeddings [pieces, hidden], and the numbers of the pieces
    that text is made of, without [CLS] and the like.

    They are read from the files: importing transformers for them would take each worker process seconds.
    Raises ValueError if a file is missing or broken, or the model is of another kind; ModelDamaged if a
    weight is NaN or infinite.
    """
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as e:  # tokenizers raises nothing narrower
        raise ValueError(f"{folder}: no tokenizer.json that can be read ({e}); give another model") from e
    table = read_table(folder)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    plain = sorted(n for piece, n in tokenizer.get_vocab().items() if not _NO_PIECE.fullmatch(piece))
    return tokenizer, table, plain


def read_table(folder: Path) -> npt.NDArray[np.float64]:
    """Input embeddings [pieces, hidden] of the model in a folder. Raises the errors of `read_pieces`."""
    file = folder / "model.safetensors"
    try:
        with safe_open(file, framework="pt") as weights:
            names = [name for name in weights.keys() if name.endswith(_TABLE)]  # noqa: SIM118  it is no dict
            table = weights.get_tensor(names[0]) if len(names) == 1 else None
    except SafetensorError as e:
        raise ValueError(f"{file}: no weights that can be read ({e}); give another model") from e

    if table is None:
        raise ValueError(
            f"{file}: it has {len(names)} tables *{_TABLE}, not one; give a BERT or a model like it"
        )

    check_weights({names[0]: table}, file)
    numbers: npt.NDArray[np.float64] = table.double().numpy()
    return numbers


def all_but_the_top(
    vectors: npt.NDArray[np.float64], dimension: int, dropped: int
) -> npt.NDArray[np.float64]:
    """[hidden, dimension]: directions in which vectors [n, hidden] vary most, after the `dropped`
    strongest."""
    _, directions = np.linalg.eigh(np.cov(vectors, rowvar=False))  # the strongest come last
    kept = directions[:, ::-1][:, dropped : dropped + dimension]
    signed: npt.NDArray[np.float64] = kept * np.sign(kept[np.abs(kept).argmax(0), np.arange(dimension)])
    return signed  # LAPACK may reverse a direction
