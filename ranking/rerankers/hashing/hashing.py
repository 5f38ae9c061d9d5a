"""HAS (Xu & Li, AAAI 2020) as a reranker: answers are encoded once, as matrices of bits, and compared with
the question afterwards.

Reads sentences, writes sentences. The model is in `hashing_model.py`, its arithmetic on bits in `bits.py`.
`AnswerCoder` makes the bits of all sentences when they are indexed; `Hashing` reads them, and encodes missing
ones.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from answermill.ranking.entry import StageSettings
from answermill.ranking.reranker import Resources, ScoreNotFinite, SentenceCodes, order_by
from answermill.ranking.rerankers.hashing import HashingStage
from answermill.ranking.rerankers.hashing.bits import Attention, Codes, pack
from answermill.ranking.rerankers.hashing.hashing_model import NAME, HashingModel, load, variant_of
from answermill.ranking.transformer.packing import Pairs, Tokeniser
from answermill.schemas.arrays import Bytes, Floats, Ints
from answermill.schemas.ranked import CandidateKind, RankedList

# Tokens of the answers whose matrices are in memory together: 0.1 GB of 384 numbers in float32.
BATCH_TOKENS = 1 << 16


CODE_TOKENS = 1 << 14  # of the answers that become bits together: 50 MB of 384 numbers in float64


class Encoded(NamedTuple):
    """Answers as bits, end to end."""

    bits: Bytes
    """[tokens, D / 8]."""
    lengths: Ints
    """[answers]: number of tokens."""
    cut: Ints
    """[answers]: number of tokens left out."""
    finite: npt.NDArray[np.bool_]
    """[answers]: true if the model gave finite numbers for all its tokens; bits do not show this, since NaN
    and infinity have a sign too."""


Parts = tuple[str, ...]
"""Texts that are read of a candidate, in the order of the model's `reading`."""


@torch.inference_mode()
def encode(model: HashingModel, tokeniser: Tokeniser, answers: Sequence[Parts]) -> Encoded:
    """Encode answers as bits of B̄_a, each by itself: its bits do not depend on the others."""
    pairs = tokeniser.pairs([(model.reading.one_text(answer),) for answer in answers])
    lengths = pairs.lengths
    ends = np.cumsum(lengths)
    packed = np.zeros((int(lengths.sum()), model.encoder.shape.width // 8), np.uint8)
    finite = np.ones(len(answers), np.bool_)

    for rows in pairs.batches(CODE_TOKENS):
        encoded = model.encoded(pairs.pack(rows).to(model.encoder.words.weight.device))
        edges = np.cumsum(lengths[rows])[:-1]
        for row, part in zip(rows, np.split(pack(encoded), edges), strict=True):
            packed[ends[row] - lengths[row] : ends[row]] = part
        sound = encoded.isfinite().all(1).cpu().numpy()  # [tokens]
        finite[rows] = [part.all() for part in np.split(sound, edges)]

    return Encoded(packed, lengths, pairs.cut, finite)


class AnswerCoder:
    """Encodes all sentences as bits when they are indexed."""

    form, precision = "bits", ""

    def __init__(self, model: HashingModel, tokeniser: Tokeniser, device: str | None = None) -> None:
        """`device`: device of the computation; the model's if None. Raises ValueError if the model does not
        hash."""
        if model.variant != "has":
            raise ValueError(f"a model of variant {model.variant!r} makes no bits")
        self._model = model.for_inference(device or model.encoder.words.weight.device)
        self._tokeniser = tokeniser
        self.reading, self.width = model.reading, model.encoder.shape.width

    @classmethod
    def decisive(cls, stage: StageSettings, checkpoint: Path | None) -> tuple[str, ...] | None:
        """() if bits are stored and the checkpoint's model makes some, since no setting decides them; else
        None. Raises ValueError if it is no checkpoint of this model."""
        if checkpoint is None or variant_of(checkpoint) != "has":
            return None
        return () if isinstance(stage, HashingStage) and stage.stored else None

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls(*load(resources.folder(), resources.model), resources.device)

    def encode(self, texts: Sequence[Parts]) -> Encoded:
        """Encode answers as bits. Raises ScoreNotFinite, with the text, if the model gives NaN or
        infinity."""
        encoded = encode(self._model, self._tokeniser, texts)
        for n in np.flatnonzero(~encoded.finite)[:1]:
            text = self.reading.one_text(texts[n])
            raise ScoreNotFinite(
                f"{NAME}: it gives no numbers for the sentence {text[:80]!r}; give another model"
            )
        return encoded


class Hashing:
    """Reranker by s(q, a), a cosine. Each different question and answer of a call is encoded once, or read
    from the store."""

    name: ClassVar[str] = NAME
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(
        self,
        model: HashingModel,
        tokeniser: Tokeniser,
        store: SentenceCodes | None = None,
        device: str | None = None,
    ) -> None:
        """`store`: answers that this model has encoded before; only `has` reads them. `device`: device of the
        computation; the model's if None."""
        self._model = model.for_inference(device or model.encoder.words.weight.device)
        self._tokeniser = tokeniser
        self._store = store
        self.readings = (model.reading,)
        self._costs: Counter[str] = Counter()
        self._attention: Attention | None = None
        if model.variant == "has" and model.w1 and model.w2 and model.m:
            own_device = self._model.encoder.words.weight.device
            self._attention = Attention(model.w1.weight, model.w2.weight, model.m.weight[0], own_device)

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls(*load(resources.folder(), resources.model), resources.codes, resources.device)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        began, reading = time.perf_counter(), self._model.reading
        texts: dict[Parts, int] = {}
        answer_of = [
            texts.setdefault(parts, len(texts)) for ranked in lists for parts in reading.texts(ranked)
        ]
        sizes = np.fromiter((len(ranked.candidates) for ranked in lists), np.int64, len(lists))
        question_of = np.repeat(np.arange(len(lists)), sizes)
        scores = self._scored(
            [ranked.question.text for ranked in lists],
            list(texts),
            question_of,
            np.array(answer_of, np.int64),
        )

        self._costs.update(reading.missing(reading.tuples(lists)) if reading.around else {})
        self._costs.update(
            candidates=len(answer_of), milliseconds=round(1000 * (time.perf_counter() - began))
        )
        parts = np.split(scores, np.cumsum(sizes)[:-1]) if len(lists) else []

        return [order_by(ranked, part, self.name) for ranked, part in zip(lists, parts, strict=True)]

    def costs(self) -> Counter[str]:
        """Costs since the last call: candidates, candidates without a part that the context names, answers
        encoded, answers read from the store, tokens of encoded questions and answers, layers × these tokens,
        tokens cut, answers cut (longer than L, encoded or read), milliseconds."""
        costs, self._costs = self._costs, Counter()
        return costs

    @torch.inference_mode()
    def _scored(
        self, questions: Sequence[str], answers: Sequence[Parts], question_of: Ints, answer_of: Ints
    ) -> Floats:
        """s [pairs] of questions[question_of[p]] and answers[answer_of[p]], for as many answers at a time as
        BATCH_TOKENS allows."""
        result = np.zeros(len(answer_of))
        if not len(answer_of):
            return result

        vectors = self._questions(questions)
        if self._attention is not None:
            return self._from_bits(self._attention, vectors, answers, question_of, answer_of)

        # Each answer is encoded once, for all its pairs.
        pairs = self._tokenised([self._model.reading.one_text(answer) for answer in answers])
        self._costs.update(answers=len(answers), answers_cut=int(np.count_nonzero(pairs.cut)))
        by_answer = np.argsort(answer_of, kind="stable")
        ends = np.cumsum(np.bincount(answer_of, minlength=len(answers)))

        for rows in pairs.batches(BATCH_TOKENS):
            tokens = pairs.pack(rows).to(vectors.device)
            pairs_of_answer = [by_answer[(ends[row - 1] if row else 0) : ends[row]] for row in rows]
            chosen = np.concatenate(pairs_of_answer)
            number = np.repeat(np.arange(len(rows)), [len(numbers) for numbers in pairs_of_answer])
            scores = self._model.scores(
                vectors, self._model.kept(tokens), tokens.starts, question_of[chosen], number
            )
            result[chosen] = scores.cpu().numpy()

        return result

    def _from_bits(
        self,
        attention: Attention,
        vectors: Tensor,
        answers: Sequence[Parts],
        question_of: Ints,
        answer_of: Ints,
    ) -> Floats:
        """s [pairs] as in `_scored`, from the questions' vectors and the answers' bits, stored or encoded.
        NaN for an answer that has no finite numbers."""
        bits, finite = self._bits(answers)
        lengths = np.fromiter(map(len, bits), np.int64, len(bits))
        result = np.zeros(len(answer_of))
        for question in np.unique(question_of):
            rows = np.flatnonzero(question_of == question)
            codes = Codes(
                np.concatenate([bits[answer] for answer in answer_of[rows]]), lengths[answer_of[rows]]
            )
            result[rows] = attention.scores(vectors[question], codes)
        result[~finite[answer_of]] = np.nan
        return result

    def _bits(self, answers: Sequence[Parts]) -> tuple[list[Bytes], npt.NDArray[np.bool_]]:
        """Bits [tokens, D / 8] of each answer; and [answers], true if the model gave finite numbers for
        it."""
        stored = self._store.find(answers) if self._store else [None] * len(answers)
        missing = [n for n, answer in enumerate(stored) if answer is None]
        encoded = encode(self._model, self._tokeniser, [answers[n] for n in missing])
        new = (
            dict(zip(missing, np.split(encoded.bits, np.cumsum(encoded.lengths)[:-1]), strict=True))
            if missing
            else {}
        )
        cut = [answer.cut for answer in stored if answer is not None]
        self._costs.update(answers=len(missing), answers_stored=len(cut))

        self._costs.update(answers_cut=int(np.count_nonzero(encoded.cut)) + sum(map(bool, cut)))
        self._encoded(int(encoded.lengths.sum()), int(encoded.cut.sum()) + sum(cut))
        finite = np.ones(len(answers), np.bool_)
        finite[missing] = encoded.finite
        return [new[n] if answer is None else answer.bits for n, answer in enumerate(stored)], finite

    def _questions(self, texts: Sequence[str]) -> Tensor:
        """u_q [texts, D]."""
        number: dict[str, int] = {}
        row = np.array([number.setdefault(text, len(number)) for text in texts], np.int64)
        pairs = self._tokenised(list(number))
        device = self._model.encoder.words.weight.device
        vectors = torch.zeros(
            len(number), self._model.encoder.shape.width, dtype=self._model.precision, device=device
        )
        for rows in pairs.batches(BATCH_TOKENS):
            vectors[torch.from_numpy(rows).to(device)] = self._model.question(pairs.pack(rows).to(device))
        return vectors[torch.from_numpy(row).to(device)]

    def _tokenised(self, texts: Sequence[str]) -> Pairs:
        pairs = self._tokeniser.pairs([(text,) for text in texts])
        self._encoded(int(pairs.lengths.sum()), int(pairs.cut.sum()))
        return pairs

    def _encoded(self, tokens: int, cut: int) -> None:
        layers = self._model.encoder.shape.layers
        self._costs.update(tokens=tokens, tokens_cut=cut, layer_tokens=layers * tokens)
