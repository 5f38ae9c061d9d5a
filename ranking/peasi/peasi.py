"""PEASI (Zhang, Vu & Moschitti 2021): passages are reranked, and the answer sentence is extracted in place.

`PeasiModel` is §2: the passage reranker PR (§2.1), which reads [CLS] q [SEP] p, the extractor EASI (§2.2), which reads
q [SEP] s1 … [SEP] sk, and their joint variants (§2.3, Table 2):

    pr      PR alone
    easi    EASI alone
    mtl0    both, on one transformer
    mtl1    both, each on its own, trained together
    joint   mtl1 with EASI's embedding in PR: p(q, p) = softmax(W · tanh([E(q, p); E(q, c1 … ck)]) + B), written PR ⊕ EASI

E is the first token's encoding. `PassageReranker` and `Extractor` are the stages, `peasi.pr` and `peasi.easi`.

Settled here. Two classes' softmax is one number's sigmoid: PR has one row of W, and its score is the logit. EASI has k slots
(a setting); a passage of more sentences is read in windows of at most k, of much the same size, and its sentences' softmax
goes over all windows, so the best window wins; how many were read is counted. Sentences without text have no slot. What is
too long for the model loses tokens from its end, which is counted; a sentence that has lost all of them cannot be
extracted. Nor can one that an earlier stage of the plan has dropped: it is read with the others, which it explains, and counts
in their softmax. Of equal sentences the first is extracted. PR ⊕ EASI takes the embedding of the window with the best
sentence; for a passage without sentences EASI reads the question alone.

It can say "none". p(q, p) · p(s | p) is the probability that a sentence answers: its logit, through a logistic regression on it
alone, fitted on dev lists that hold unanswerable questions too, is the answer's confidence (`confidence.py`), below whose
threshold nothing is returned. So answers are in the product's order. The paper has nothing of the kind.
"""

from __future__ import annotations

import copy
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ranking import checkpoint
from ranking.checkpoint import WordsOf
from ranking.peasi import EXTRACTOR, PASSAGE_RERANKER, ExtractorStage
from ranking.peasi.calibration import Calibration
from ranking.reranker import Resources, order_by, to_sentences
from ranking.transformer.encoder import LayeredEncoder
from ranking.transformer.packing import Numbers, Packed, Pairs, Tokeniser
from schemas.ranked import Candidate, RankedList, Unit

Floats = npt.NDArray[np.float64]
Variant = Literal["pr", "easi", "mtl0", "mtl1", "joint"]

BATCH_TOKENS = 1 << 16  # of the texts whose encodings are in memory together: 0.1 GB of 384 numbers in float32


class PeasiModel(nn.Module):
    """One transformer or two, W of PR [1, d or 2 d] with B, and W of EASI [k, d]."""

    def __init__(self, encoder: LayeredEncoder, variant: Variant, slots: int) -> None:
        """`encoder`: PR's, and EASI's where they share it or EASI is alone; else EASI's is new, of the same shape.

        Raises ValueError on slots < 1.
        """
        super().__init__()
        if slots < 1:
            raise ValueError(f"{slots} slots; EASI needs at least one")
        self.variant, self.slots = variant, slots
        width = encoder.shape.width
        self.encoder = encoder
        self.easi_encoder = LayeredEncoder(encoder.shape) if variant in ("mtl1", "joint") else None
        self.passage = nn.Linear(2 * width if variant == "joint" else width, 1) if variant != "easi" else None
        self.sentence = nn.Linear(width, slots, bias=False) if variant != "pr" else None
        self.calibration: Calibration | None = None

    def take_passage_head(self, other: PeasiModel) -> None:
        """Go on with another's PR; in PR ⊕ EASI the part of W that reads EASI's embedding is 0 where the other has none."""
        if self.passage is not None and other.passage is not None:
            known = other.passage.weight.shape[1]
            with torch.no_grad():
                self.passage.weight.zero_()[:, :known] = other.passage.weight[:, : self.passage.weight.shape[1]]
                self.passage.bias.copy_(other.passage.bias)

    def take_sentence_head(self, other: PeasiModel) -> None:
        """Go on with another's EASI, or its first slots. Raises ValueError where that has fewer."""
        if self.sentence is not None and other.sentence is not None:
            if other.slots < self.slots:
                raise ValueError(f"its EASI has {other.slots} slots, not {self.slots}; give slots of at most {other.slots}")
            with torch.no_grad():
                self.sentence.weight.copy_(other.sentence.weight[: self.slots])

    @property
    def reads_passages(self) -> bool:
        """Whether there is a PR."""
        return self.passage is not None

    @property
    def reads_sentences(self) -> bool:
        """Whether there is an EASI."""
        return self.sentence is not None

    def passage_embedding(self, tokens: Packed) -> Tensor:
        """E(q, p) [texts, d]."""
        return first(self.encoder, tokens)

    def sentence_embedding(self, tokens: Packed) -> Tensor:
        """E(q, c1 … ck) [texts, d]."""
        return first(self.easi_encoder or self.encoder, tokens)

    def passage_scores(self, of_passage: Tensor, of_sentences: Tensor | None = None) -> Tensor:
        """[texts, d], for PR ⊕ EASI twice → logits of p(q, p) [texts], in the head's precision, never under autocast (§2.3)."""
        assert self.passage is not None
        read = of_passage if of_sentences is None else torch.cat([of_passage, of_sentences], 1)
        with torch.autocast(read.device.type, enabled=False):
            scores: Tensor = self.passage(read.to(self.passage.weight.dtype).tanh())
        return scores.squeeze(1)

    def sentence_scores(self, of_sentences: Tensor) -> Tensor:
        """[texts, d] → E Wᵀ [texts, k], whose softmax over a passage's sentences is p(c1) … p(ck) (§2.2)."""
        assert self.sentence is not None
        with torch.autocast(of_sentences.device.type, enabled=False):
            scores: Tensor = self.sentence(of_sentences.to(self.sentence.weight.dtype))
        return scores

    def for_inference(self, device: torch.device | str, passages: bool = True, sentences: bool = True) -> PeasiModel:
        """A copy for scoring: transformers in the device's fast precision, what stands on them in float64.

        Without what only reads passages, or sentences, where those are not to be read.
        """
        sentences = sentences or self.variant == "joint"
        alone = {"passage": passages, "sentence": sentences, "easi_encoder": sentences}
        needed = alone | {"encoder": passages or self.easi_encoder is None}
        made = copy.copy(self)
        made._modules = {name: _for_inference(m if needed[name] else None, device) for name, m in self._modules.items()}
        return made.requires_grad_(False).eval()


def _for_inference(module: nn.Module | None, device: torch.device | str) -> nn.Module | None:
    if module is None or isinstance(module, LayeredEncoder):
        return module and module.for_inference(device)
    return copy.deepcopy(module).to(device, torch.float64)


def first(encoder: LayeredEncoder, tokens: Packed) -> Tensor:
    """Each text's first token, [CLS], after the last layer [texts, d]."""
    hidden = encoder.run(encoder.embed(tokens), tokens, 0, encoder.shape.layers)
    return hidden[tokens.starts[:-1].long()]


def windows(texts: Sequence[str], slots: int) -> list[Numbers]:
    """A passage's sentences that have text, by number, in windows of at most `slots`; one empty window if there are none."""
    filled = np.flatnonzero([bool(text.strip()) for text in texts])
    return np.array_split(filled, max(1, math.ceil(len(filled) / slots)))


class Asked(NamedTuple):
    """A passage that is read for a question."""

    question: str
    passage: str
    sentences: tuple[str, ...]
    left: frozenset[int] | None = None
    """Numbers of the sentences that may be extracted; all are read. None: all."""

    @classmethod
    def of(cls, ranked: RankedList, candidate: Candidate) -> Self:
        passage, left = candidate.hit.passage, None
        if candidate.left is not None:
            left = frozenset(n for n, s in enumerate(passage.sentences) if s.sentence_id in candidate.left)
        return cls(ranked.question.text, passage.text, tuple(s.text for s in passage.sentences), left)


def _is_left(asked: Asked, number: int) -> bool:
    return asked.left is None or number in asked.left


class Extracted(NamedTuple):
    """What EASI says of each passage."""

    sentence: Numbers
    """[passages]: number of the best one in its passage; -1 where there is none."""
    log_p: Floats
    """[passages]: log p(s | p) of it; NaN where there is none."""
    embedding: Tensor
    """[passages, d]: E of the window that it stands in."""


class Reader:
    """A model that reads passages, and keeps account of it."""

    def __init__(
        self,
        model: PeasiModel,
        tokeniser: Tokeniser,
        passages: bool = True,
        sentences: bool = True,
        device: str | None = None,
    ) -> None:
        """`device`: where it runs; the model's if None."""
        self.model = model.for_inference(device or model.encoder.words.weight.device, passages, sentences)
        self._tokeniser = tokeniser
        self._costs: Counter[str] = Counter()

    def passages(self, asked: Sequence[Asked]) -> Floats:
        """PR: logits of p(q, p) [passages]."""
        whole = [each._replace(left=None) for each in asked]
        of_sentences = self.sentences(whole).embedding if self.model.variant == "joint" else None
        of_passage, _ = self._read(self.model.encoder, [(each.question, each.passage) for each in asked])
        return _array(self.model.passage_scores(of_passage, of_sentences))

    def sentences(self, asked: Sequence[Asked]) -> Extracted:
        """EASI: the best sentence of each passage."""
        split = [(n, numbers) for n, each in enumerate(asked) for numbers in windows(each.sentences, self.model.slots)]
        passage = np.fromiter((n for n, _ in split), np.int64, len(split))  # [windows]
        texts = [(asked[n].question, *(asked[n].sentences[i] for i in numbers)) for n, numbers in split]
        embedding, pairs = self._read(self.model.easi_encoder or self.model.encoder, texts)
        logits = _array(self.model.sentence_scores(embedding))  # [windows, k]
        window, slot = np.nonzero(pairs.sizes[:, 3::2])  # of the sentences that have tokens, in the order of the text
        number = np.array([split[w][1][s] for w, s in zip(window, slot, strict=True)], np.int64)
        logit, of = logits[window, slot], passage[window]
        whole = np.full(len(asked), -np.inf)  # [passages]: of all their sentences
        np.logaddexp.at(whole, of, logit)
        left = np.array([_is_left(asked[n], i) for n, i in zip(of, number, strict=True)], bool)
        window, number, logit, of = window[left], number[left], logit[left], of[left]
        sentence, log_p = np.full(len(asked), -1), np.full(len(asked), np.nan)
        chosen = np.searchsorted(passage, np.arange(len(asked)))  # [passages]: the first window, unless another has the best
        if len(of):
            starts = np.flatnonzero(np.diff(of, prepend=-1))
            best = np.lexsort((-np.arange(len(of)), logit, of))[np.append(starts[1:], len(of)) - 1]
            there = of[starts]  # the passages that have a sentence to choose
            sentence[there] = number[best]
            log_p[there] = logit[best] - whole[there]
            chosen[there] = window[best]
        return Extracted(sentence, log_p, embedding[torch.from_numpy(chosen).to(embedding.device)])

    def costs(self) -> Counter[str]:
        """What was spent since the last call: texts read (predictions), tokens, tokens cut, layers × each of the first two,
        milliseconds."""
        spent, self._costs = self._costs, Counter()
        return spent

    @torch.inference_mode()
    def _read(self, encoder: LayeredEncoder, texts: Sequence[tuple[str, ...]]) -> tuple[Tensor, Pairs]:
        """E of each question and what follows it, [texts, d] in float64; and their tokens."""
        began = time.perf_counter()
        pairs = self._tokeniser.pairs(texts)
        device = encoder.words.weight.device
        made = torch.zeros(len(pairs.sizes), encoder.shape.width, dtype=torch.float64, device=device)
        for rows in pairs.batches(BATCH_TOKENS):
            made[torch.from_numpy(rows).to(device)] = first(encoder, pairs.pack(rows).to(device)).double()
        read, tokens, layers = len(pairs.sizes), int(pairs.lengths.sum()), encoder.shape.layers
        self._costs.update(predictions=read, tokens=tokens, tokens_cut=int(pairs.cut.sum()))
        self._costs.update(layer_predictions=layers * read, layer_tokens=layers * tokens)
        self._costs.update(milliseconds=round(1000 * (time.perf_counter() - began)))
        return made, pairs


def per_list(lists: Sequence[RankedList], values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """A value per candidate of all lists, as one array for each list."""
    ends = np.cumsum([len(ranked.candidates) for ranked in lists], dtype=np.int64)
    return np.split(values, ends)[: len(lists)]


def _array(values: Tensor) -> Floats:
    made: Floats = values.cpu().numpy()
    return made


class PassageReranker:
    """Score = the logit of p(q, p), which holds a correct sentence."""

    name: ClassVar[str] = PASSAGE_RERANKER
    reads: ClassVar[Unit] = "passage"
    writes: ClassVar[Unit] = "passage"

    def __init__(self, model: PeasiModel, tokeniser: Tokeniser, device: str | None = None) -> None:
        """`device`: where it runs; the model's if None. Raises ValueError if the model has no PR."""
        if not model.reads_passages:
            raise ValueError("the checkpoint is of variant 'easi', which has no passage reranker")
        self._reader = Reader(model, tokeniser, sentences=False, device=device)
        self.costs = self._reader.costs

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls(*load(resources.folder(), resources.model), resources.device)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        scores = per_list(lists, self._reader.passages([Asked.of(ranked, c) for ranked in lists for c in ranked.candidates]))
        return [order_by(ranked, part, self.name) for ranked, part in zip(lists, scores, strict=True)]


class Extractor:
    """A passage's answer sentence. Score = its confidence where `peasi.pr` has scored the passage, else p(s | p)."""

    name: ClassVar[str] = EXTRACTOR
    reads: ClassVar[Unit] = "passage"
    writes: ClassVar[Unit] = "sentence"

    def __init__(
        self,
        model: PeasiModel,
        tokeniser: Tokeniser,
        threshold: float | None = None,
        scored_by: str | None = PASSAGE_RERANKER,
        device: str | None = None,
    ) -> None:
        """`threshold`: least confidence of what is returned. `scored_by`: the stage of `peasi.pr` whose scores the passages
        have. `device`: where it runs; the model's if None. Raises ValueError if the model has no EASI."""
        if not model.reads_sentences:
            raise ValueError("the checkpoint is of variant 'pr', which extracts no sentence")
        self._reader = Reader(model, tokeniser, passages=False, device=device)
        self._calibration = model.calibration or UNCALIBRATED
        self._threshold, self._scored_by = threshold, scored_by
        self.costs = self._reader.costs

    @classmethod
    def load(cls, resources: Resources) -> Self:
        threshold, scored_by = resources.stage(ExtractorStage).threshold, resources.scores.get(PassageReranker.name)
        return cls(*load(resources.folder(), resources.model), threshold, scored_by, resources.device)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        found = self._reader.sentences([Asked.of(ranked, c) for ranked in lists for c in ranked.candidates])
        parts = zip(lists, per_list(lists, found.sentence), per_list(lists, found.log_p), strict=True)
        return [self._extracted(*part) for part in parts]

    def _extracted(self, ranked: RankedList, sentence: Numbers, log_p: Floats) -> RankedList:
        """A sentence that is the best of two passages is taken from where it scores higher, then from the earlier one."""
        there = np.flatnonzero(sentence >= 0)
        scores = self._scores([ranked.candidates[n] for n in there], log_p[there])
        positions = {c.candidate_id: c.position for c in to_sentences(ranked).candidates}
        taken: dict[str, tuple[Candidate, float]] = {}
        for n, score in zip(there, scores.tolist(), strict=True):
            chosen = ranked.candidates[n].hit.passage.sentences[sentence[n]]
            known = taken.get(chosen.sentence_id)
            if (known is None or score > known[1]) and score >= (self._threshold or 0.0):
                made = replace(ranked.candidates[n], sentence=chosen, position=positions[chosen.sentence_id], left=None)
                taken[chosen.sentence_id] = made, score
        candidates, scores_ = zip(*taken.values(), strict=True) if taken else ((), ())
        return order_by(RankedList(ranked.question, tuple(candidates)), scores_, self.name)

    def _scores(self, passages: Sequence[Candidate], log_p: Floats) -> Floats:
        """[passages]. Raises ValueError where a threshold is asked for and `peasi.pr` has not scored them."""
        passage_scores = [next((s.score for s in reversed(c.stages) if s.stage == self._scored_by), None) for c in passages]
        if None not in passage_scores:
            return self._calibration(answer_logit(np.array(passage_scores, np.float64), log_p))
        if self._threshold is not None:
            raise ValueError(f"a threshold is of the confidence, which needs the passages' scores of {PassageReranker.name}")
        made: Floats = np.exp(log_p)
        return made


def answer_logit(passage: Floats, log_p: Floats) -> Floats:
    """Logits of p(q, p) and log p(s | p) [n] → the logit of p(q, p) · p(s | p), the one feature of a confidence [n, 1]."""
    log_product = np.clip(log_p - np.logaddexp(0.0, -passage), -700.0, -1e-15)
    made: Floats = -np.log(np.expm1(-log_product))[:, None]
    return made


class TopPassage:
    """The pipeline 'top-1' (§4): the answer sentence of PR's best passage."""

    def __init__(self, model: PeasiModel, tokeniser: Tokeniser) -> None:
        self._pr, self._easi = PassageReranker(model, tokeniser), Extractor(model, tokeniser)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        best = [RankedList(r.question, r.candidates[:1]) for r in self._pr.rerank(lists)]
        return self._easi.rerank(best)


NAME = "peasi"
UNCALIBRATED = Calibration((1.0,), 0.0)  # the product itself


def save(
    folder: Path,
    model: PeasiModel,
    tokeniser: Tokeniser,
    store: Literal["fp32", "fp16"] = "fp32",
    words: WordsOf | None = None,
) -> None:
    """Write the model folder. See `checkpoint.save_transformer`."""
    calibration = model.calibration and asdict(model.calibration)
    told = {"variant": model.variant, "slots": model.slots, "calibration": calibration}
    checkpoint.save_transformer(folder, NAME, told, model, tokeniser, store, words)


def load(folder: Path, source: Callable[[str], Path] = Path) -> tuple[PeasiModel, Tokeniser]:
    """What `save` wrote. Raises ValueError where the folder is incomplete, broken, or of another format or model."""
    return checkpoint.load_transformer(folder, NAME, _build, source)


def _build(told: Mapping[str, Any], encoder: LayeredEncoder) -> PeasiModel:
    made = PeasiModel(encoder, told["variant"], told["slots"])
    made.calibration = told["calibration"] and Calibration(**told["calibration"])
    return made
