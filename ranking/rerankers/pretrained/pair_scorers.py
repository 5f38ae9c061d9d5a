"""Logits of pairs of texts by a published cross-encoder: by the packed encoder if it computes the
model's family, else by transformers' own forward pass over padded texts.

A pair's logit depends on the pair alone, not on the other pairs of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from answermill.ranking.transformer.classifier import PublishedHead
from answermill.ranking.transformer.devices import BATCH_TOKENS, Arriving, cores, dtype_of
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.layers.pooling import pool
from answermill.ranking.transformer.packing import Pairs, Tokeniser
from answermill.ranking.transformer.padded import (
    PaddedModel,
    PlainTexts,
    Read,
    TextTokens,
    load_body,
    load_whole,
    pooled,
)
from answermill.ranking.transformer.published.causal_model import AnswerTokens, answer_logit, load_causal
from answermill.ranking.transformer.published.modular_head import ModularHead
from answermill.ranking.transformer.published.prompts import Prompts, chat_render, template_render
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier, load_published
from answermill.ranking.transformer.published.published_tokenizer import load_tokenizer
from answermill.ranking.transformer.text_vectors import packed_tokeniser
from answermill.schemas.arrays import Ints, StagePrecision

TOKENISED = 8_192
"""Pairs tokenised at once; a graphics card computes those before meanwhile."""

_TRIAL = ("who", "it")


class Logits(NamedTuple):
    """Logit of each pair, in the order of the pairs, with its tokens."""

    logits: npt.NDArray[np.float64]
    tokens: Ints
    cut: Ints
    """Number of tokens left out."""


class PairScorer(Protocol):
    """Scorer of pairs of texts."""

    @property
    def limit(self) -> int:
        """Most tokens of a pair."""
        ...

    def score(self, pairs: Sequence[tuple[str, str]]) -> Logits:
        """Logits in the order of the pairs."""
        ...

    def sizes(self, pairs: Sequence[tuple[str, str]]) -> Ints:
        """[pairs]: tokens of each pair, those beyond the limit included."""
        ...


@dataclass(frozen=True, slots=True)
class Wording:
    """What a stage says of a model that reads prompts, and its folder does not."""

    yes_token: str | None = None
    no_token: str | None = None
    template: str | None = None
    """Prompt with {question} and {candidate}."""


def load_scorer(
    classifier: PublishedClassifier,
    limit: int,
    device: str,
    precision: StagePrecision = "auto",
    wording: Wording = Wording(),
) -> PairScorer:
    """Scorer of a folder, which has scored one pair. Raises ValueError if the model cannot be used,
    ModelDamaged if a weight is no number."""
    folder = classifier.folder
    dtype = dtype_of(precision, device)
    if (wording.yes_token, wording.no_token) != (None, None) and not classifier.causal:
        raise ValueError(
            f"{folder}: yes_token and no_token are for language models, which this is not; remove them"
        )

    prompted = classifier.causal or classifier.chats or wording.template is not None
    is_plain = not prompted and classifier.pooling in ("first", "mean")
    tokeniser = packed_tokeniser(folder, limit) if is_plain else None
    scorer: PairScorer
    if isinstance(tokeniser, Tokeniser):
        encoder, head = _packed_parts(classifier)
        scorer = PackedScorer(encoder, head, tokeniser, device, dtype)
    elif precision == "int8":
        reason = tokeniser or "it reads prompts, or pools in another way"
        raise ValueError(
            f"{folder}: precision = 'int8' is for models of the packed encoder, which does not compute this "
            f"one ({reason}); set precision = 'auto'"
        )
    else:
        scorer = _padded(classifier, limit, device, dtype, wording)

    if not np.isfinite(scorer.score([_TRIAL]).logits).all():
        raise ValueError(f"{folder}: its score of {_TRIAL} is no number; give another model")
    return scorer


def _packed_parts(classifier: PublishedClassifier) -> tuple[LayeredEncoder, PublishedHead | ModularHead]:
    if classifier.head is None:
        return load_published(classifier)
    encoder = LayeredEncoder.load(classifier.folder)
    return encoder, ModularHead(classifier.head, encoder.shape.width)


class PackedScorer:
    """A BERT or one of its relatives: layers in the given precision, the head in float64."""

    def __init__(
        self,
        encoder: LayeredEncoder,
        head: PublishedHead | ModularHead,
        tokeniser: Tokeniser,
        device: str,
        precision: torch.dtype,
    ) -> None:
        self._encoder, self._tokeniser, self._device = (
            encoder.for_inference(device, precision),
            tokeniser,
            device,
        )
        self._head = head.to(device, torch.float64).requires_grad_(False).eval()

    def score(self, pairs: Sequence[tuple[str, str]]) -> Logits:
        """Logits in the order of the pairs."""
        logits, lengths, cut = (
            np.zeros(len(pairs)),
            np.zeros(len(pairs), np.int64),
            np.zeros(len(pairs), np.int64),
        )
        arriving = []
        for start in range(0, len(pairs), TOKENISED):
            some = slice(start, start + TOKENISED)
            tokenised = self._tokeniser.pairs(pairs[some])
            lengths[some], cut[some] = tokenised.lengths, tokenised.cut
            arriving += [(start + rows, values) for rows, values in self._batches(tokenised)]

        for rows, values in arriving:
            logits[rows] = values.numpy()
        return Logits(logits, lengths, cut)

    @property
    def limit(self) -> int:
        return self._tokeniser.limit

    def sizes(self, pairs: Sequence[tuple[str, str]]) -> Ints:
        tokens = self._tokeniser.pairs(pairs)
        return tokens.lengths + tokens.cut

    @torch.inference_mode()
    def _batches(self, pairs: Pairs) -> Iterator[tuple[Ints, Arriving]]:
        """(numbers of some pairs, their logits) of each batch."""
        for rows in pairs.batches(cores(self._device) * BATCH_TOKENS[self._device]):
            tokens = pairs.pack(rows).to(self._device)
            first_only = self._head.pooling == "first"
            hidden = self._encoder.run_through(
                self._encoder.layers, self._encoder.embed(tokens), tokens, first_only
            )
            hidden = self._encoder.normalised(hidden)
            encodings = hidden if first_only else pool(hidden, tokens, "mean")
            yield rows, Arriving(self._head(encodings.double()))


class PaddedScorer:
    """Any other family, by transformers."""

    def __init__(self, tokens: TextTokens, model: PaddedModel) -> None:
        self._tokens, self._model = tokens, model

    def score(self, pairs: Sequence[tuple[str, str]]) -> Logits:
        """Logits in the order of the pairs."""
        texts = self._tokens(pairs)
        return Logits(self._model.run(texts).astype(np.float64), texts.lengths, texts.cut)

    @property
    def limit(self) -> int:
        return self._tokens.limit

    def sizes(self, pairs: Sequence[tuple[str, str]]) -> Ints:
        texts = self._tokens(pairs)
        return texts.lengths + texts.cut


def _padded(
    classifier: PublishedClassifier, limit: int, device: str, precision: torch.dtype, wording: Wording
) -> PaddedScorer:
    """Scorer whose body computes in the given precision, and whose head in fp32. Raises ValueError if no pair
    can be scored, or weights are missing."""
    folder, tokenizer = classifier.folder, load_tokenizer(classifier.folder)
    if wording.template is not None:
        tokens: TextTokens = Prompts(tokenizer, template_render(wording.template), limit)
    elif classifier.chats:
        tokens = Prompts(tokenizer, chat_render(folder, tokenizer, classifier.prompt), limit)
    else:
        tokens = PlainTexts(tokenizer, limit, classifier.prompt)

    if classifier.head is not None:
        body = load_body(folder)
        head = ModularHead(classifier.head, body.config.get_text_config().hidden_size)
        head.requires_grad_(False).eval()
        model = PaddedModel(folder, tokenizer, body, read=_of_modules(head), tokens=tokens)
        model.serve(device, precision)
        head.to(device)
        return PaddedScorer(tokens, model)

    if classifier.causal:
        whole = load_causal(folder, _answers(classifier, tokenizer, wording))
        model = PaddedModel(folder, tokenizer, whole, read=answer_logit, tokens=tokens, causal=True)
    else:
        whole = load_whole("AutoModelForSequenceClassification", folder)
        model = PaddedModel(folder, tokenizer, whole, read=_logit, tokens=tokens)

    model.serve(device, precision, whole.base_model)
    for part in whole.children():
        if part is not whole.base_model:
            part.register_forward_pre_hook(_in_fp32)
    return PaddedScorer(tokens, model)


def _answers(classifier: PublishedClassifier, tokenizer: Any, wording: Wording) -> AnswerTokens:
    """Tokens of a language model's score: the stage's, or the folder's."""
    yes, no = wording.yes_token, wording.no_token
    if yes is not None and no is not None:
        return AnswerTokens.of_texts(classifier.folder, tokenizer, yes, no)
    if yes is not None or no is not None or classifier.answers is None:
        raise ValueError(
            f"{classifier.folder}: a language model that does not name the two tokens of its score; set "
            "yes_token and no_token, such as 'yes' and 'no'"
        )
    return classifier.answers


def _in_fp32(_part: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs of a part of the head, in fp32."""
    return tuple(
        value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
        for value in inputs
    )


def _logit(out: Any, _mask: Tensor) -> Tensor:
    """[rows]: logit of the only class, or of the second minus the first."""
    logits: Tensor = out.logits.float()
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]


def _of_modules(head: ModularHead) -> Read:
    """Reading of a body's output by a head of modules, in fp32."""

    def logits(out: Any, mask: Tensor) -> Tensor:
        values: Tensor = head(pooled(out.last_hidden_state, mask, head.pooling))
        return values

    return logits
