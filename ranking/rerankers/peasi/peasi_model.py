"""The models of PEASI (Zhang, Vu & Moschitti 2021): passages are reranked, and the answer sentence is extracted in place.

`PeasiModel` is §2: the passage reranker PR (§2.1), which reads [CLS] q [SEP] p, the extractor EASI (§2.2), which reads
q [SEP] s1 … [SEP] sk, and their joint variants (§2.3, Table 2):

    pr      PR alone
    easi    EASI alone
    mtl0    both, on one transformer
    mtl1    both, each on its own, trained together
    joint   mtl1 with EASI's embedding in PR: p(q, p) = softmax(W · tanh([E(q, p); E(q, c1 … ck)]) + B), written PR ⊕ EASI

E is the first token's encoding. What PR reads of a passage, and another E(q, p), are settings (`ranking/context.py`).

Our choices. Two classes' softmax is one number's sigmoid: PR has one row of W, and its score is the logit. EASI has k slots
(a setting).

Not the paper's, and only where a checkpoint says so: PR's head is that of a cross-encoder, C (`head`), so that it can begin
as one that ranks sentences ends. In the joint variant its logit is then C(E(q, p)) + V · tanh(E(q, c1 … ck)). Or EASI reads
the whole passage, and its title if PR does, and scores each sentence's vector, the mean of its own tokens, by a classifier
(`extractor` 'span'): the softmax goes over all sentences of the passage, and no k is fixed. PR ⊕ EASI then reads the vector of
the best sentence; in 'mtl0' both read the same text, and one pass over a passage gives p(q, p) and each p(s | p).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from answermill.ranking.context import Pooling, Reading
from answermill.ranking.rerankers.peasi.calibration import Calibration
from answermill.ranking.transformer.classifier import HEADS, Classifier, Head, HeadName, classified_pooled
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.packing import Numbers, Packed, Tokeniser
from answermill.ranking.transformer.pooling import pool, pool_stretches
from answermill.ranking.transformer.transformer_checkpoint import WordSource, load_transformer, save_transformer

PASSAGE = Reading(("passage",), "first")
"""What PR reads unless its checkpoint says otherwise: the passage alone, by the first token."""

Variant = Literal["pr", "easi", "mtl0", "mtl1", "joint"]
PassageHead: TypeAlias = Literal["linear"] | HeadName
Extractor = Literal["slots", "span"]


class PeasiModel(nn.Module):
    """One transformer or two, W of PR [1, d or 2 d] with B, or C and V [1, d] in their place, and W of EASI [k, d], or its
    classifier."""

    def __init__(
        self,
        encoder: LayeredEncoder,
        variant: Variant,
        slots: int,
        head: PassageHead = "linear",
        extractor: Extractor = "slots",
    ) -> None:
        """`encoder`: PR's, and EASI's where they share it or EASI is alone; else EASI's is new, of the same shape.
        `head`: PR's. `extractor`: EASI's; 'span' has no slots.

        Raises ValueError on slots < 1, and on a head or extractor of another name.
        """
        super().__init__()
        if slots < 1:
            raise ValueError(f"{slots} slots; EASI needs at least one")
        for key, value, known in (("head", head, ("linear", *HEADS)), ("extractor", extractor, get_args(Extractor))):
            if value not in known:
                raise ValueError(f"{key} = {value!r}: unknown; known: {', '.join(known)}")
        self.variant, self.slots, self.head, self.extractor = variant, slots, head, extractor
        self.reading = PASSAGE
        width = encoder.shape.width
        self.encoder = encoder
        self.easi_encoder = LayeredEncoder(encoder.shape) if variant in ("mtl1", "joint") else None
        linear = variant != "easi" and head == "linear"
        self.passage = nn.Linear(2 * width if variant == "joint" else width, 1) if linear else None
        self.classifier: Head | None = None
        if variant != "easi" and head != "linear":
            self.classifier = HEADS[head](width, encoder.shape.dropout)
        self.beside = nn.Linear(width, 1, bias=False) if self.classifier is not None and variant == "joint" else None
        slotted, span = (variant != "pr" and extractor == name for name in get_args(Extractor))
        self.sentence = nn.Linear(width, slots, bias=False) if slotted else None
        self.span = Classifier(width, encoder.shape.dropout) if span else None
        self.calibration: Calibration | None = None

    def body(self) -> LayeredEncoder:
        """The whole transformer, for another model to begin with."""
        return self.encoder

    def take_passage_head(self, other: PeasiModel) -> None:
        """Go on with another's PR; in PR ⊕ EASI what reads EASI's embedding is 0 where the other has none."""
        if self.classifier is not None and other.classifier is not None:
            self.take_classifier(other.classifier)
            if self.beside is not None and other.beside is not None:
                self.beside.load_state_dict(other.beside.state_dict())
        if self.passage is not None and other.passage is not None:
            known = other.passage.weight.shape[1]
            with torch.no_grad():
                self.passage.weight.zero_()[:, :known] = other.passage.weight[:, : self.passage.weight.shape[1]]
                self.passage.bias.copy_(other.passage.bias)

    def take_classifier(self, classifier: Head) -> None:
        """Begin PR with a cross-encoder's classifier; what reads EASI's embedding beside it is 0."""
        assert self.classifier is not None
        self.classifier.load_state_dict(classifier.state_dict())
        if self.beside is not None:
            nn.init.zeros_(self.beside.weight)

    def take_sentence_head(self, other: PeasiModel) -> None:
        """Go on with another's EASI, or its first slots. Raises ValueError where that has fewer."""
        if self.span is not None and other.span is not None:
            self.span.load_state_dict(other.span.state_dict())
        if self.sentence is not None and other.sentence is not None:
            if other.slots < self.slots:
                raise ValueError(f"its EASI has {other.slots} slots, not {self.slots}; give slots of at most {other.slots}")
            with torch.no_grad():
                self.sentence.weight.copy_(other.sentence.weight[: self.slots])

    @property
    def reads_passages(self) -> bool:
        """Whether there is a PR."""
        return self.variant != "easi"

    @property
    def reads_sentences(self) -> bool:
        """Whether there is an EASI."""
        return self.variant != "pr"

    def passage_embedding(self, tokens: Packed) -> Tensor:
        """E(q, p) [texts, d]."""
        return encoding(self.encoder, tokens, self.reading.pooling)

    @property
    def window(self) -> int | None:
        """Sentences of a text of EASI (`read_windows`); None: as many as fit."""
        return self.slots if self.extractor == "slots" else None

    @property
    def reads_title(self) -> bool:
        """Whether EASI reads the title behind a passage's sentences."""
        return self.extractor == "span" and "title" in self.reading.around

    @property
    def at_once(self) -> bool:
        """Whether PR and EASI have one transformer and one text, so that a single pass serves both."""
        alike = self.reading.context[0] == "passage" and self.reading.pooling != "candidate"
        return self.variant == "mtl0" and self.extractor == "span" and alike

    def embeddings(self, tokens: Packed, stretches: tuple[Numbers, Numbers]) -> tuple[Tensor, Tensor]:
        """What PR reads of each text [texts, d], and EASI of each sentence [sentences, d], by one pass, where they are read
        `at_once`."""
        hidden = encoded(self.encoder, tokens)
        return pool(hidden, tokens, self.reading.pooling), pool_stretches(hidden, *stretches)

    def sentence_embedding(self, tokens: Packed, stretches: tuple[Numbers, Numbers]) -> Tensor:
        """E(q, c1 … ck) [texts, d]; of 'span' each sentence's vector [sentences, d]. `stretches`: `Pairs.stretches`."""
        encoder = self.easi_encoder or self.encoder
        return encoding(encoder, tokens) if self.extractor == "slots" else span_encoding(encoder, tokens, stretches)

    def passage_scores(self, of_passage: Tensor, of_sentences: Tensor | None = None) -> Tensor:
        """[texts, d], for PR ⊕ EASI twice → logits of p(q, p) [texts], in the head's precision, never under autocast (§2.3)."""
        if self.classifier is not None:
            logits = classified_pooled(self.classifier, of_passage)
            if of_sentences is not None and self.beside is not None:
                with torch.autocast(of_sentences.device.type, enabled=False):
                    logits = logits + self.beside(of_sentences.to(self.beside.weight.dtype).tanh()).squeeze(1)
            return logits
        assert self.passage is not None
        read = of_passage if of_sentences is None else torch.cat([of_passage, of_sentences], 1)
        with torch.autocast(read.device.type, enabled=False):
            scores: Tensor = self.passage(read.to(self.passage.weight.dtype).tanh())
        return scores.squeeze(1)

    def sentence_scores(self, of_sentences: Tensor) -> Tensor:
        """[texts, d] → E Wᵀ [texts, k], whose softmax over a passage's sentences is p(c1) … p(ck) (§2.2); of 'span' the
        sentences' vectors [sentences, d] → their logits [sentences]."""
        if self.span is not None:
            return classified_pooled(self.span, of_sentences)
        assert self.sentence is not None
        with torch.autocast(of_sentences.device.type, enabled=False):
            scores: Tensor = self.sentence(of_sentences.to(self.sentence.weight.dtype))
        return scores

    def best_embedding(self, embedding: Tensor, best: Tensor, filled: Tensor, any_filled: Tensor) -> Tensor:
        """What PR ⊕ EASI reads beside each passage [passages, d]: E of the window of its best slot; of 'span' the vector of its
        best sentence, 0 if it has none. `best` [passages]: places among all slots [windows · k], of which `filled`
        [windows, k] have a sentence; `any_filled` [passages]: whether any slot of it has."""
        if self.extractor == "slots":
            return embedding[best // self.slots]
        row = filled.flatten().cumsum(0)[best] - 1
        return F.pad(embedding, (0, 0, 0, 1))[row.where(any_filled, row.new_tensor(len(embedding)))]

    def for_inference(self, device: torch.device | str, passages: bool = True, sentences: bool = True) -> PeasiModel:
        """A copy for scoring: transformers in the device's fast precision, the heads in float64.

        Without what only reads passages, or sentences, where those are not to be read.
        """
        sentences = sentences or self.variant == "joint"
        of_pr = dict.fromkeys(("passage", "classifier", "beside"), passages)
        of_easi = dict.fromkeys(("sentence", "span", "easi_encoder"), sentences)
        needed = of_pr | of_easi | {"encoder": passages or self.easi_encoder is None}
        scorer = copy.copy(self)
        scorer._modules = {name: _for_inference(m if needed[name] else None, device) for name, m in self._modules.items()}
        return scorer.requires_grad_(False).eval()


def _for_inference(module: nn.Module | None, device: torch.device | str) -> nn.Module | None:
    if module is None or isinstance(module, LayeredEncoder):
        return module and module.for_inference(device)
    return copy.deepcopy(module).to(device, torch.float64)


def encoding(encoder: LayeredEncoder, tokens: Packed, pooling: Pooling = "first") -> Tensor:
    """Each text's encoding after the last layer [texts, d]: that of its first token, [CLS], or what else `pooling` says."""
    hidden = encoded(encoder, tokens)
    return hidden[tokens.starts[:-1].long()] if pooling == "first" else pool(hidden, tokens, pooling)


def span_encoding(encoder: LayeredEncoder, tokens: Packed, stretches: tuple[Numbers, Numbers]) -> Tensor:
    """The mean encoding after the last layer of each stretch of tokens [stretches, d]."""
    return pool_stretches(encoded(encoder, tokens), *stretches)


def encoded(encoder: LayeredEncoder, tokens: Packed) -> Tensor:
    """Every token's encoding after the last layer [n, d]."""
    return encoder.run(encoder.embed(tokens), tokens, 0, encoder.shape.layers)


def side_by_side(logits: Tensor, filled: Tensor, counts: Tensor) -> Tensor:
    """Logits of windows [windows, k] → those of each passage's windows side by side [passages, most windows · k]; −∞ where
    `filled` [windows, k] is False. `counts` [passages]: windows of each."""
    of_passages = torch.split(logits.masked_fill(~filled, -torch.inf), counts.tolist())
    return pad_sequence([of_one.flatten() for of_one in of_passages], batch_first=True, padding_value=-torch.inf)


NAME = "peasi"


def save(
    folder: Path,
    model: PeasiModel,
    tokeniser: Tokeniser,
    store: Literal["fp32", "fp16"] = "fp32",
    words: WordSource | None = None,
) -> None:
    """Write the model folder. See `save_transformer`."""
    calibration = model.calibration and asdict(model.calibration)
    details = {"variant": model.variant, "slots": model.slots, "calibration": calibration, **model.reading.details(PASSAGE)}
    details |= {"head": model.head} if model.head != "linear" else {}
    details |= {"extractor": model.extractor} if model.extractor != "slots" else {}
    save_transformer(folder, NAME, details, model, tokeniser, store, words)


def load(folder: Path, source: Callable[[str], Path] = Path) -> tuple[PeasiModel, Tokeniser]:
    """What `save` wrote. Raises ValueError where the folder is incomplete, broken, or of another format or model."""
    return load_transformer(folder, NAME, _build, source)


def _build(config: Mapping[str, Any], encoder: LayeredEncoder) -> PeasiModel:
    model = PeasiModel(
        encoder, config["variant"], config["slots"], config.get("head", "linear"), config.get("extractor", "slots")
    )
    model.calibration = config["calibration"] and Calibration(**config["calibration"])
    model.reading = Reading.of(config, PASSAGE)
    return model
