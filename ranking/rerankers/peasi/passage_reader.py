"""Reading of passages with a PEASI model: PR's logits, and the sentence that EASI extracts from each passage
(§2.1, §2.2).

With k = 2 slots, a passage p of three sentences is read in two windows, (q, p0, p1) and (q, p2). From the
logits [1, 3] and [2, ·] sentence 1 is extracted, with the first window's embedding and log p = 3 − log(e¹ +
e³ + e²). If an earlier stage has dropped sentence 1, sentence 2 is extracted, with log p = 2 − log(e¹ + e³ +
e²).

Our choices. A passage of more than k sentences is read in windows (`windows.py`); its sentences' softmax is
over all windows, so the best window wins, and the windows read are counted. Sentences without text have no
slot. A text that is too long for the model loses tokens from its end, which is counted; a sentence that has
lost all of them cannot be extracted. Nor can one that an earlier stage of the plan has dropped: it is read as
context of the others, and counts in their softmax. Of equal sentences the first is extracted. PR ⊕ EASI takes
the embedding of the window with the best sentence; for a passage without sentences EASI reads the question
alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from answermill.ranking.rerankers.peasi.extractor import Extractor, VectorReading, WholeText
from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel, encoded
from answermill.ranking.rerankers.peasi.windows import PassageWindows, read_windows
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.packing import Pairs, Tokeniser, ranges
from answermill.schemas.arrays import Floats, Ints
from answermill.schemas.ranked import Candidate, RankedList

# Tokens of the texts whose encodings are in memory together: 0.1 GB of 384 numbers in float32.
BATCH_TOKENS = 1 << 16


class AskedPassage(NamedTuple):
    """A passage to be read for a question."""

    question: str
    passage: str
    sentences: tuple[str, ...]
    eligible: frozenset[int] | None = None
    """Numbers of the sentences that may be extracted, from 0; all are read. None: all may."""
    title: str = ""

    @classmethod
    def from_candidate(cls, ranked: RankedList, candidate: Candidate) -> Self:
        """Passage of a candidate; sentences that an earlier stage has dropped are not eligible."""
        passage, eligible = candidate.hit.passage, None
        if candidate.eligible is not None:
            eligible = frozenset(
                n for n, s in enumerate(passage.sentences) if s.sentence_id in candidate.eligible
            )
        return cls(
            ranked.question.text,
            passage.text,
            tuple(s.text for s in passage.sentences),
            eligible,
            passage.title,
        )

    def may_answer(self, sentence: int) -> bool:
        """True if the sentence of that number, from 0, may be extracted."""
        return self.eligible is None or sentence in self.eligible


class _Sentences(NamedTuple):
    """Sentences that EASI has scored, in the order of passages, then of the text: four arrays [sentences]."""

    passage: Ints
    number: Ints
    """Number in its passage, from 0."""
    row: Ints
    """Number of the vector that represents it: `Extractor.rows`."""
    logit: Floats

    def select(self, rows: npt.NDArray[Any]) -> _Sentences:
        """Sentences of a mask [sentences], or of row numbers."""
        return _Sentences(self.passage[rows], self.number[rows], self.row[rows], self.logit[rows])

    def best(self) -> _Sentences:
        """Sentence with the highest logit in each passage that has one; of equal ones the first."""
        size = len(self.passage)
        worst_first = np.lexsort((-np.arange(size), self.logit, self.passage))
        last_of_passage = np.flatnonzero(np.diff(self.passage[worst_first], append=-1))
        return self.select(worst_first[last_of_passage])


class Extracted(NamedTuple):
    """The sentence that EASI extracts from each passage."""

    sentence: Ints
    """[passages]: number of the sentence in the passage, from 0; -1 if there is none."""
    log_p: Floats
    """[passages]: log p(s | p) of the sentence; 0 if there is none."""
    embedding: Tensor
    """[passages, d]: vector that PR ⊕ EASI reads beside the passage: `Extractor.chosen`."""


class EverySentence(NamedTuple):
    """Scores of all sentences that EASI has read, in the order of passages, then of the text: arrays
    [sentences]."""

    passage: Ints
    """Number of its passage, from 0."""
    number: Ints
    """Number in its passage, from 0."""
    log_p: Floats
    """log p(s | p)."""


class PassageReader:
    """Reads passages with a model, and counts the costs."""

    def __init__(
        self,
        model: PeasiModel,
        tokeniser: Tokeniser,
        passages: bool = True,
        sentences: bool = True,
        device: str | None = None,
    ) -> None:
        """`device`: device of the computation; the model's if None."""
        self.model = model.for_inference(device or model.encoder.words.weight.device, passages, sentences)
        self._tokeniser = tokeniser
        self._costs: Counter[str] = Counter()

    def passages(self, inputs: Sequence[AskedPassage]) -> Floats:
        """PR: logits of p(q, p) [passages]."""
        began, reading = time.perf_counter(), self.model.reading
        texts = self._texts(inputs)
        if self.model.at_once:
            windows = self._windows(inputs)
            (vectors,) = self._read(self.model.encoder, windows.pairs, [WholeText(reading.pooling)], began)
            return self._first_windows_logits(windows, vectors, len(inputs))

        # PR ⊕ EASI reads the best of all sentences, those dropped by an earlier stage included.
        whole = [passage._replace(eligible=None) for passage in inputs]
        beside = self.sentences(whole).embedding if self.model.variant == "joint" else None
        began = time.perf_counter()
        pairs = self._tokeniser.pairs(texts, reading.turns)
        (vectors,) = self._read(self.model.encoder, pairs, [WholeText(reading.pooling)], began)

        return self._passage_logits(vectors, beside)

    def _texts(self, inputs: Sequence[AskedPassage]) -> list[tuple[str, ...]]:
        """Texts that PR reads of each passage; a part that a passage lacks is counted."""
        texts = [(p.question, *self.model.reading.arrange(p.passage, p.title)) for p in inputs]
        self._costs.update(self.model.reading.missing(texts))
        return texts

    def both(self, inputs: Sequence[AskedPassage]) -> tuple[Floats, Extracted]:
        """Results of `passages` and `sentences` by one pass over each passage. Raises ValueError if the model
        cannot do so."""
        if not self.model.at_once:
            raise ValueError("the model does not read passages and sentences at once")
        logits, windows, embedding = self._at_once(inputs)
        return logits, self._extracted(inputs, windows, embedding)

    def sentences(self, inputs: Sequence[AskedPassage]) -> Extracted:
        """EASI: the best sentence of each passage."""
        return self._extracted(inputs, *self._easi(inputs))

    def every_sentence(self, inputs: Sequence[AskedPassage]) -> tuple[Floats, EverySentence]:
        """PR's logits of p(q, p) [passages], and log p(s | p) of all their sentences; by one pass if the
        model allows it."""
        if self.model.at_once:
            logits, windows, embedding = self._at_once(inputs)
        else:
            logits, (windows, embedding) = self.passages(inputs), self._easi(inputs)
        scored, log_total = self._scored(len(inputs), windows, embedding)
        return logits, EverySentence(scored.passage, scored.number, scored.logit - log_total[scored.passage])

    def _at_once(self, inputs: Sequence[AskedPassage]) -> tuple[Floats, PassageWindows, Tensor]:
        """PR's logits [passages], and the windows and vectors of `_easi`, by one pass."""
        self._texts(inputs)
        began, windows = time.perf_counter(), self._windows(inputs)
        readings: list[VectorReading] = [WholeText(self.model.reading.pooling), self._extractor]
        passage_vectors, vectors = self._read(self.model.encoder, windows.pairs, readings, began)
        return self._first_windows_logits(windows, passage_vectors, len(inputs)), windows, vectors

    def _easi(self, inputs: Sequence[AskedPassage]) -> tuple[PassageWindows, Tensor]:
        """Windows that EASI reads, and its vectors of them (`Extractor.vectors`)."""
        began, windows = time.perf_counter(), self._windows(inputs)
        (vectors,) = self._read(
            self.model.easi_encoder or self.model.encoder, windows.pairs, [self._extractor], began
        )
        return windows, vectors

    @property
    def _extractor(self) -> Extractor:
        assert self.model.easi is not None
        return self.model.easi

    def _windows(self, inputs: Sequence[AskedPassage]) -> PassageWindows:
        titles = [passage.title for passage in inputs] if self.model.reads_title else None
        return read_windows(
            self._tokeniser, [(p.question, p.sentences) for p in inputs], self._extractor.window, titles
        )

    def _passage_logits(self, passages: Tensor, beside: Tensor | None = None) -> Floats:
        assert self.model.pr is not None
        return _array(self.model.pr.logits(passages, beside))

    def _first_windows_logits(self, windows: PassageWindows, vectors: Tensor, passages: int) -> Floats:
        """PR's logits from the encodings of all windows: a passage that is too long for one is judged by its
        first."""
        first = torch.from_numpy(np.searchsorted(windows.passage, np.arange(passages)))
        return self._passage_logits(vectors[first.to(vectors.device)])

    def _scored(self, passages: int, windows: PassageWindows, vectors: Tensor) -> tuple[_Sentences, Floats]:
        """Sentences that have tokens, with their logits, and log Σ exp(logit) over all of each passage
        [passages]."""
        filled = torch.from_numpy(windows.pairs.filled)
        logits = _array(self._extractor.logits(vectors, filled.to(vectors.device)))  # [windows, k or more]
        rows = self._extractor.rows(filled).numpy()

        window, slot = np.nonzero(windows.pairs.filled)
        places = zip(window.tolist(), slot.tolist(), strict=True)
        number = np.array([windows.numbers[w][s] for w, s in places], np.int64)
        scored = _Sentences(windows.passage[window], number, rows[window, slot], logits[window, slot])

        log_total = np.full(passages, -np.inf)
        # For a logit that is no number the stage raises an error that names the candidate.
        with np.errstate(invalid="ignore"):
            np.logaddexp.at(log_total, scored.passage, scored.logit)
        return scored, log_total

    def _extracted(
        self, inputs: Sequence[AskedPassage], windows: PassageWindows, vectors: Tensor
    ) -> Extracted:
        """Best eligible sentence of each passage, from the windows and vectors of `_easi`."""
        scored, log_total = self._scored(len(inputs), windows, vectors)
        places = zip(scored.passage, scored.number, strict=True)
        best = scored.select(np.array([inputs[n].may_answer(i) for n, i in places], bool)).best()

        sentence, log_p = np.full(len(inputs), -1), np.zeros(len(inputs))
        sentence[best.passage] = best.number
        log_p[best.passage] = best.logit - log_total[best.passage]

        row, first = np.zeros(len(inputs), np.int64), np.searchsorted(windows.passage, np.arange(len(inputs)))
        row[best.passage] = best.row
        places_on_device = (torch.from_numpy(x).to(vectors.device) for x in (row, sentence >= 0, first))
        return Extracted(sentence, log_p, self._extractor.chosen(vectors, *places_on_device))

    def costs(self) -> Counter[str]:
        """Costs since the last call: texts read (predictions), tokens, tokens cut, layers × predictions,
        layers × tokens, milliseconds."""
        costs, self._costs = self._costs, Counter()
        return costs

    @torch.inference_mode()
    def _read(
        self, encoder: LayeredEncoder, pairs: Pairs, readings: Sequence[VectorReading], began: float
    ) -> tuple[Tensor, ...]:
        """Vectors of each reading [vectors, d] in float64, by one pass over the texts. `began`: start of the
        tokenising, for the costs."""
        device = encoder.words.weight.device
        counts = [reading.counts(pairs.filled) for reading in readings]
        firsts = [np.cumsum(count) - count for count in counts]
        sizes = [(int(count.sum()), encoder.shape.width) for count in counts]
        results = tuple(torch.zeros(size, dtype=torch.float64, device=device) for size in sizes)

        # Batches have texts of like length, so their vectors are written to the places of their texts.
        for rows in pairs.batches(BATCH_TOKENS):
            packed = pairs.pack(rows).to(device)
            hidden, stretches = encoded(encoder, packed), pairs.stretches(rows)
            for reading, first, count, vectors in zip(readings, firsts, counts, results, strict=True):
                places = torch.from_numpy(ranges(first[rows], count[rows])).to(device)
                vectors[places] = reading.vectors(hidden, packed, stretches).double()

        texts_read, tokens, layers = len(pairs.sizes), int(pairs.lengths.sum()), encoder.shape.layers
        self._costs.update(predictions=texts_read, tokens=tokens, tokens_cut=int(pairs.cut.sum()))
        self._costs.update(layer_predictions=layers * texts_read, layer_tokens=layers * tokens)
        self._costs.update(milliseconds=round(1000 * (time.perf_counter() - began)))
        return results


def per_list(lists: Sequence[RankedList], values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Values of the candidates of all lists, as one array per list."""
    ends = np.cumsum([len(ranked.candidates) for ranked in lists], dtype=np.int64)
    return np.split(values, ends)[: len(lists)]


def _array(values: Tensor) -> Floats:
    array: Floats = values.cpu().numpy()
    return array
