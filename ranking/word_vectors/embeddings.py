"""Static word vectors (Cosinet §4.1, §5.1): read from a file, or derived from a transformer's; fixed in training.

The paper takes Numberbatch (Speer & Lowry-Duda 2017). `vector_files.py` reads it and every other file
of word2vec's or GloVe's form. `derive` needs no file: the input embeddings of a transformer serve.

**Unknown words** have row 0, zeros, and so cosine 0 even with themselves. A rare name in both question and candidate is strong
evidence, so code that compares words should let equal words match, known or not.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import compress
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file
from threadpoolctl import threadpool_limits
from tokenizers import Tokenizer

from schemas.atomic_files import replacing, sha256, write_text
from schemas.model_files import ModelDamaged, check_weights

Vectors = npt.NDArray[np.float32]
Encode = Callable[[Sequence[str]], Vectors]
"""Words → vectors [n, d]."""
Store = Literal["fp32", "fp16", "source"]
"""How vectors are stored: in full or half precision, or not at all, to be derived again from their transformer."""

WORDS, VECTORS = "words.json", "vectors.safetensors"
_DIGIT = re.compile("[0-9]")
_NO_PIECE = re.compile(r"\[.+\]|<.+>")  # [CLS], [unused7], <s>
_UNKNOWN = ("[UNK]", "<unk>")
_TABLE = "word_embeddings.weight"  # of BERT, RoBERTa, ELECTRA, ALBERT, DistilBERT and MPNet


@dataclass(frozen=True, slots=True)
class Source:
    """A transformer whose word pieces' vectors make the words' own; see `word_encoder`."""

    model: str
    sha256: str  # of its model.safetensors
    dimension: int


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Words, lower-cased and in alphabetical order, and their vectors."""

    words: tuple[str, ...]  # word n has row n + 1
    vectors: Vectors  # [1 + len(words), d]; row 0 is zeros: padding and unknown words
    source: Source | None = None  # the transformer that the vectors can be made from again

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or self.vectors.dtype != np.float32 or len(self.vectors) != 1 + len(self.words):
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
        """The row of each token, lower-cased; 0 if it is unknown.

        Numberbatch and word2vec's news vectors write every number of two digits or more with '#': if '1990' has no row, it
        gets that of '####', as all years do.
        """
        rows = (self._row.get(word) or self._row.get(masked(word), 0) for word in map(str.lower, tokens))
        return np.fromiter(rows, np.int32, len(tokens))

    def save(self, folder: Path, store: Store = "fp32") -> list[str]:
        """Write `words.json`, and `vectors.safetensors` unless `store` is 'source': the same embeddings, the same bytes.

        Returns the names of the files.
        """
        if store == "source" and self.source is None:
            raise ValueError("these vectors come from a file, not from a transformer: they must be stored themselves")
        lexicon = {"words": self.words, "source": asdict(self.source) if self.source else None}
        write_text(folder / WORDS, json.dumps(lexicon, ensure_ascii=False))
        if store == "source":
            return [WORDS]
        kind = np.float16 if store == "fp16" else np.float32
        with replacing(folder / VECTORS) as path:
            save_file({"vectors": np.ascontiguousarray(self.vectors, kind)}, path)
        return [WORDS, VECTORS]

    @classmethod
    def load(cls, folder: Path, find: Callable[[str], Path] = Path) -> Embeddings:
        """The embeddings that `save` wrote; `find` gives the folder of the transformer if the vectors are not stored: then they
        are shared, and not to be changed.

        Raises ValueError if the files are broken or do not belong together, or the transformer is another.
        """
        try:
            lexicon = json.loads((folder / WORDS).read_text(encoding="utf-8"))
            words, source = tuple(lexicon["words"]), Source(**lexicon["source"]) if lexicon["source"] else None
            if (folder / VECTORS).is_file() or source is None:
                vectors = load_file(folder / VECTORS)["vectors"].astype(np.float32)
                if not np.isfinite(vectors).all():
                    raise ModelDamaged(
                        f"{folder / VECTORS}: a vector holds NaN or infinity; copy the folder again, or train again"
                    )
                return cls(words, vectors, source)
        except (ValueError, TypeError, KeyError, SafetensorError) as e:
            raise ValueError(f"{folder}: words.json and vectors.safetensors are no embeddings: {e}") from e
        derived = derive(words, find(source.model), source.model, source.dimension)
        if derived.source != source:
            raise ValueError(f"{folder}: its word vectors come from another {source.model} (SHA-256 {source.sha256[:16]}…)")
        return derived


def masked(word: str) -> str:
    """As Numberbatch's `standardized_uri` writes numbers: '24th' → '##th', '7th' stays."""
    return _DIGIT.sub("#", word) if re.search("[0-9][0-9]", word) else word


def derive(vocabulary: Collection[str], folder: Path, model: str, dimension: int = 300) -> Embeddings:
    """Vectors of the vocabulary's words from the transformer in `folder`, called `model`: the embeddings that need no file.

    Those of the last two vocabularies are remembered: a job checks its models, and loads them later.
    """
    source = Source(model, sha256(folder / "model.safetensors"), dimension)
    return _derived(tuple(vocabulary), folder, source)


@lru_cache(maxsize=2)
def _derived(vocabulary: tuple[str, ...], folder: Path, source: Source) -> Embeddings:
    return encode_words(vocabulary, word_encoder(folder, source.dimension), source)


def encode_words(vocabulary: Collection[str], encode: Encode, source: Source | None = None) -> Embeddings:
    """Vectors of the vocabulary's words, each encoded once; `source`: the transformer that they come from.

    A word whose vector is zeros stays unknown. Raises ValueError if all words do, or a vector is not finite.
    """
    words = sorted({word.lower() for word in vocabulary})
    vectors = encode(words)
    if vectors.ndim != 2 or len(vectors) != len(words) or not np.isfinite(vectors).all():
        raise ValueError(f"{len(words)} words were encoded as {list(vectors.shape)}, all finite: {np.isfinite(vectors).all()}")
    known: npt.NDArray[np.bool_] = np.any(vectors, axis=1)
    if not known.any():
        raise ValueError(f"none of the {len(words):,} words of the vocabulary could be encoded")
    kept = np.zeros((1 + int(known.sum()), vectors.shape[1]), np.float32)
    kept[1:] = vectors if known.all() else vectors[known]
    return Embeddings(tuple(compress(words, known.tolist())), kept, source)


@lru_cache(maxsize=2)
def word_encoder(folder: Path, dimension: int = 300, dropped: int = 3) -> Encode:
    """Words → static vectors: the mean of a word's pieces in the input embeddings of the BERT-like model in a folder.

    The mean of all pieces' embeddings is subtracted; of the directions in which they vary most, the `dropped` strongest,
    which tell frequency rather than meaning, are left out ("all-but-the-top", Mu & Viswanath 2018), and the next `dimension`
    are kept, 300 as the paper's. A word's vector depends on the word and the model alone, not on vocabulary or threads. Zeros
    for a word that the tokenizer has no pieces for. Raises ValueError if the model has fewer directions.

    Chosen on the dev sets of WikiQA and SQuAD-sent (`benchmarks/word_vectors.py`), ranking by relatedness alone, the mean of
    r_i (§4.1.1): to drop 0 to 5 directions comes out equal, and 3 was in use. A layer's output for the word needs a forward
    pass, is worse on SQuAD-sent, and in the mean of both sets no better.
    """
    tokenizer, table, plain = read_pieces(folder)
    if min(len(plain), table.shape[1]) < dimension + dropped:
        raise ValueError(
            f"{folder}: {dimension} directions besides the {dropped} strongest are more than its {len(plain):,} pieces of "
            f"{table.shape[1]} numbers have; take a smaller dimension"
        )
    with threadpool_limits(1, "blas"):  # more threads give other last bits, and on busy cores wait for each other
        of_text = table[plain]
        kept = all_but_the_top(of_text, dimension, dropped)
        pieces = ((table - of_text.mean(0)) @ kept).astype(np.float32)  # [pieces, dimension]
    unknown = {number for piece in _UNKNOWN if (number := tokenizer.token_to_id(piece)) is not None}

    def encode(words: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(words), dimension), np.float32)
        numbers = [word.ids for word in tokenizer.encode_batch(list(words), add_special_tokens=False)]
        of_length: dict[int, list[int]] = defaultdict(list)
        for n, of_word in enumerate(numbers):
            if of_word and unknown.isdisjoint(of_word):
                of_length[len(of_word)].append(n)
        for length, rows in of_length.items():  # words of as many pieces at once: a call of numpy's for each word takes longer
            first, *others = np.array([numbers[n] for n in rows]).T
            total = pieces[first]
            for piece in others:  # in place: an array of all words' pieces would take twice as long to fill as to add up
                total += pieces[piece]
            vectors[rows] = total / np.float32(length)
        return vectors

    return encode


def read_pieces(folder: Path) -> tuple[Tokenizer, npt.NDArray[np.float64], list[int]]:
    """The tokenizer of a folder, its model's input embeddings [pieces, hidden], and the numbers of the pieces that text is made
    of, not [CLS] and its like.

    They are read from the files: to import transformers for them would take each worker process seconds. Raises ValueError if
    a file is missing or broken, or the model is of another kind, ModelDamaged if a number is none.
    """
    file = folder / "model.safetensors"
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as e:  # tokenizers raises nothing narrower
        raise ValueError(f"{folder}: no tokenizer.json that can be read ({e}); give another model") from e
    try:
        with safe_open(file, framework="pt") as weights:
            names = [name for name in weights.keys() if name.endswith(_TABLE)]  # noqa: SIM118  it is no dict
            table = weights.get_tensor(names[0]) if len(names) == 1 else None
    except SafetensorError as e:
        raise ValueError(f"{file}: no weights that can be read ({e}); give another model") from e
    if table is None:
        raise ValueError(f"{file}: it has {len(names)} tables *{_TABLE}, not one; give a BERT or a model like it")
    check_weights({names[0]: table}, file)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    plain = sorted(n for piece, n in tokenizer.get_vocab().items() if not _NO_PIECE.fullmatch(piece))
    return tokenizer, table.double().numpy(), plain


def all_but_the_top(vectors: npt.NDArray[np.float64], dimension: int, dropped: int) -> npt.NDArray[np.float64]:
    """The directions in which vectors [n, hidden] vary most, after the `dropped` strongest: [hidden, dimension]."""
    _, directions = np.linalg.eigh(np.cov(vectors, rowvar=False))  # the strongest come last
    kept = directions[:, ::-1][:, dropped : dropped + dimension]
    signed: npt.NDArray[np.float64] = kept * np.sign(kept[np.abs(kept).argmax(0), np.arange(dimension)])
    return signed  # LAPACK may turn a direction round
