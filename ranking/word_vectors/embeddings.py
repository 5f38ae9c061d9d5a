"""Static word vectors (Cosinet §4.1, §5.1), read from a file or derived from a transformer, and fixed in
training.

The paper uses Numberbatch (Speer & Lowry-Duda 2017). `vector_files.py` reads it and every other file
of word2vec's or GloVe's form. `derive` needs no file: it uses the input embeddings of a transformer.

**Unknown words** have row 0, zeros, and so cosine 0 even with themselves. A rare name in both question and
candidate is strong evidence, so code that compares words should let equal words match, known or not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from itertools import compress
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from answermill.files.atomic_files import replacing, sha256, write_text
from answermill.files.model_files import ModelDamaged
from answermill.ranking.word_vectors.word_pieces import Encode, WordPieces, read_table, word_pieces
from answermill.schemas.arrays import Vectors

Store = Literal["fp32", "fp16", "source"]
"""Form in which vectors are stored: in full or half precision, or not at all, to be derived again from their
transformer."""

WORDS, VECTORS, PIECES = "words.json", "vectors.safetensors", "pieces.safetensors"
_DIGIT = re.compile("[0-9]")


@dataclass(frozen=True, slots=True)
class Source:
    """A transformer whose word pieces give the words' vectors; see `word_pieces.py`."""

    model: str
    sha256: str  # of its model.safetensors
    dimension: int


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Words, lower-cased and in alphabetical order, and their vectors."""

    words: tuple[str, ...]  # word n has row n + 1
    vectors: Vectors  # [1 + len(words), d]; row 0 is zeros: padding and unknown words
    source: Source | None = None  # transformer from which the vectors can be derived again
    pieces: WordPieces | None = None  # with them the vectors can be derived without its tokenizer

    def __post_init__(self) -> None:
        if (
            self.vectors.ndim != 2
            or self.vectors.dtype != np.float32
            or len(self.vectors) != 1 + len(self.words)
        ):
            raise ValueError(
                f"{len(self.words)} words need float32 vectors [{1 + len(self.words)}, d], "
                f"not {self.vectors.dtype} {list(self.vectors.shape)}"
            )

        if self.vectors[0].any() or not np.isfinite(self.vectors).all():
            raise ValueError("row 0 of the vectors must be zeros, and all of them finite")
        if len(self._row) != len(self.words):
            raise ValueError(f"{len(self.words)} words, but only {len(self._row)} different ones")

    @cached_property
    def _row(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words, 1)}

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])

    def rows(self, tokens: Sequence[str]) -> npt.NDArray[np.int32]:
        """Row of each token, lower-cased; 0 if it is unknown.

        Numberbatch and word2vec's news vectors write every number of two digits or more with '#': if '1990'
        has no row, it gets that of '####', as all years do.
        """
        rows = (self._row.get(word) or self._row.get(masked(word), 0) for word in map(str.lower, tokens))
        return np.fromiter(rows, np.int32, len(tokens))

    def save(self, folder: Path, store: Store = "fp32") -> list[str]:
        """Write `words.json` and `vectors.safetensors` or, with `store` 'source', `pieces.safetensors`, from
        which the vectors are derived again. Equal embeddings give equal bytes.

        Returns the names of the files.
        """
        if store == "source" and self.source is None:
            raise ValueError(
                "these vectors come from a file, not from a transformer: they must be stored themselves"
            )

        lexicon = {"words": self.words, "source": asdict(self.source) if self.source else None}
        write_text(folder / WORDS, json.dumps(lexicon, ensure_ascii=False))
        if store == "source":
            if self.pieces is None:
                return [WORDS]
            self.pieces.save(folder / PIECES)
            return [WORDS, PIECES]

        kind = np.float16 if store == "fp16" else np.float32
        with replacing(folder / VECTORS) as path:
            save_file({"vectors": np.ascontiguousarray(self.vectors, kind)}, path)
        return [WORDS, VECTORS]

    @classmethod
    def load(cls, folder: Path, find: Callable[[str], Path] = Path) -> Embeddings:
        """Embeddings that `save` wrote. If the vectors are not stored, `find` gives the folder of the
        transformer; they are then shared, and must not be changed.

        Raises ValueError if the files are broken or do not belong together, or the transformer is another.
        """
        try:
            lexicon = json.loads((folder / WORDS).read_text(encoding="utf-8"))
            words, source = (
                tuple(lexicon["words"]),
                Source(**lexicon["source"]) if lexicon["source"] else None,
            )
            if (folder / VECTORS).is_file() or source is None:
                vectors = load_file(folder / VECTORS)["vectors"].astype(np.float32)
                if not np.isfinite(vectors).all():
                    raise ModelDamaged(
                        f"{folder / VECTORS}: a vector holds NaN or infinity; copy the folder again, or "
                        "train again"
                    )
                return cls(words, vectors, source)
        except (ValueError, TypeError, KeyError, SafetensorError) as e:
            raise ValueError(f"{folder}: words.json and vectors.safetensors are no embeddings: {e}") from e

        model = find(source.model)
        if sha256(model / "model.safetensors") != source.sha256:
            raise ValueError(
                f"{folder}: its word vectors come from another {source.model} (SHA-256 {source.sha256[:16]}…)"
            )
        if (folder / PIECES).is_file():
            return _from_pieces(words, folder / PIECES, sha256(folder / PIECES), model, source)

        return _derived(words, model, source)


def masked(word: str) -> str:
    """The word with numbers as Numberbatch's `standardized_uri` writes them: '24th' → '##th', '7th'
    stays."""
    return _DIGIT.sub("#", word) if re.search("[0-9][0-9]", word) else word


def derive(vocabulary: Collection[str], folder: Path, model: str, dimension: int = 300) -> Embeddings:
    """Vectors of the vocabulary's words from the transformer in `folder`, called `model`: the embeddings that
    need no file.

    The last two vocabularies are cached, since a job checks its models and loads them later.
    """
    source = Source(model, sha256(folder / "model.safetensors"), dimension)
    return _derived(tuple(vocabulary), folder, source)


@lru_cache(maxsize=2)
def _derived(vocabulary: tuple[str, ...], folder: Path, source: Source) -> Embeddings:
    words = sorted({word.lower() for word in vocabulary})
    pieces, vectors = word_pieces(words, folder, source.dimension)
    embeddings = encode_words(words, lambda _: vectors, source)
    return replace(embeddings, pieces=pieces.some(np.any(vectors, axis=1)))


@lru_cache(maxsize=2)
def _from_pieces(words: tuple[str, ...], file: Path, digest: str, model: Path, source: Source) -> Embeddings:
    """Embeddings of stored pieces. `digest` is the file's, so that a changed file is read again.

    Raises ValueError if it is broken.
    """
    try:
        pieces = WordPieces.load(file)
        if len(pieces.lengths) != len(words):
            raise ValueError(f"pieces of {len(pieces.lengths)} words, not of {len(words)}")
        vectors = pieces.vectors(read_table(model))
    except (ValueError, KeyError, SafetensorError) as e:
        raise ValueError(f"{file}: no pieces of the words beside it: {e}") from e
    return Embeddings(
        words, np.concatenate([np.zeros((1, vectors.shape[1]), np.float32), vectors]), source, pieces
    )


def encode_words(vocabulary: Collection[str], encode: Encode, source: Source | None = None) -> Embeddings:
    """Vectors of the vocabulary's words, each encoded once. `source`: transformer that gives them.

    A word whose vector is zeros stays unknown. Raises ValueError if all words do, or a vector is not finite.
    """
    words = sorted({word.lower() for word in vocabulary})
    vectors = encode(words)
    if vectors.ndim != 2 or len(vectors) != len(words) or not np.isfinite(vectors).all():
        raise ValueError(
            f"{len(words)} words were encoded as {list(vectors.shape)}, all finite: "
            f"{np.isfinite(vectors).all()}"
        )

    known: npt.NDArray[np.bool_] = np.any(vectors, axis=1)
    if not known.any():
        raise ValueError(f"none of the {len(words):,} words of the vocabulary could be encoded")

    kept = np.zeros((1 + int(known.sum()), vectors.shape[1]), np.float32)
    kept[1:] = vectors if known.all() else vectors[known]
    return Embeddings(tuple(compress(words, known.tolist())), kept, source)
