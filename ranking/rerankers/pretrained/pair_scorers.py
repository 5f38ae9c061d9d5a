"""Logits of pairs of texts by a published sequence classifier: by the packed encoder if it computes the
model's family, else by transformers' own forward pass over padded texts.

A pair's logit depends on the pair alone, not on the other pairs of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from answermill.files.model_files import load_pretrained
from answermill.ranking.transformer.classifier import PublishedHead, classified
from answermill.ranking.transformer.devices import BATCH_TOKENS, Arriving, fast
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.packing import Pairs, Tokeniser
from answermill.ranking.transformer.padded import PaddedModel
from answermill.ranking.transformer.published import PublishedClassifier, load_published
from answermill.ranking.transformer.text_vectors import why_not_packed
from answermill.schemas.arrays import Ints, PrecisionSetting

TOKENISED = 8_192
"""Pairs tokenised at once; a graphics card computes those before meanwhile."""


class Logits(NamedTuple):
    """Logit of each pair, in the order of the pairs, with its tokens."""

    logits: npt.NDArray[np.float64]
    tokens: Ints
    cut: Ints
    """Number of tokens left out."""


class PairScorer(Protocol):
    """Scorer of pairs of texts."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Logits: ...


def load_scorer(
    classifier: PublishedClassifier, limit: int, device: str, precision: PrecisionSetting = "auto"
) -> PairScorer:
    """Scorer of a folder. Raises ValueError if the model cannot be used, ModelDamaged if a weight is no
    number."""
    dtype = fast(device) if precision == "auto" else torch.bfloat16 if precision == "bf16" else torch.float32
    if why_not_packed(classifier.folder) is None:
        encoder, head = load_published(classifier)
        return PackedScorer(encoder, head, Tokeniser(classifier.folder, limit), device, dtype)
    return PaddedScorer(classifier, limit, device, dtype)


class PackedScorer:
    """A BERT or one of its relatives: layers in the given precision, the head in float64."""

    def __init__(
        self,
        encoder: LayeredEncoder,
        head: PublishedHead,
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

    @torch.inference_mode()
    def _batches(self, pairs: Pairs) -> Iterator[tuple[Ints, Arriving]]:
        """(numbers of some pairs, their logits) of each batch."""
        for rows in pairs.batches(BATCH_TOKENS[self._device]):
            tokens = pairs.pack(rows).to(self._device)
            first_only = self._head.pooling == "first"
            hidden = self._encoder.run_through(
                self._encoder.layers, self._encoder.embed(tokens), tokens, first_only
            )
            pooling = None if first_only else self._head.pooling
            yield rows, Arriving(classified(self._head, self._encoder.normalised(hidden), tokens, pooling))


class PaddedScorer:
    """Any other family, by transformers: the body in the given precision, the head in fp32."""

    def __init__(
        self, classifier: PublishedClassifier, limit: int, device: str, precision: torch.dtype
    ) -> None:
        """Raises ValueError if the tokenizer cannot pad, or weights are missing."""
        folder = classifier.folder
        tokenizer = load_pretrained("AutoTokenizer", folder)
        if tokenizer.pad_token_id is None:
            raise ValueError(
                f"{folder}: its tokenizer has no padding token, so pairs cannot be put into a batch; set "
                "tokenizer.pad_token "
                "in transformers and write it with save_pretrained(folder)"
            )
        if not tokenizer.is_fast:
            raise ValueError(
                f"{folder}: no fast tokenizer (tokenizer.json), which alone is used here; give another model"
            )

        self._tokeniser = Tokeniser(folder, limit, tokenizer.backend_tokenizer)

        model, names = load_pretrained(
            "AutoModelForSequenceClassification",
            folder,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
        if missing := sorted(names["missing_keys"]):
            raise ValueError(
                f"{folder}: its weights lack {missing[0]}, which would be random; give another model"
            )

        if len(tokenizer) > model.config.vocab_size:
            sizes = f"its tokenizer has {len(tokenizer):,} tokens, its weights {model.config.vocab_size:,}"
            raise ValueError(f"{folder}: {sizes}; copy both from one model")

        # The body computes in the precision asked for, the head in fp32.
        model.base_model.to(precision)
        for part in model.children():
            if part is not model.base_model:
                part.register_forward_pre_hook(_in_fp32)

        self._model = PaddedModel(model, tokenizer.pad_token_id, device, limit)

    def score(self, pairs: Sequence[tuple[str, str]]) -> Logits:
        """Logits in the order of the pairs."""
        tokenised = self._tokeniser.pairs(pairs)
        ids, types = _texts(tokenised)
        logits = self._model.run(ids, types, _logit).astype(np.float64)
        return Logits(logits, tokenised.lengths, tokenised.cut)


def _in_fp32(_part: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs of a part of the head, in fp32."""
    return tuple(
        value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
        for value in inputs
    )


def _texts(pairs: Pairs) -> tuple[list[list[int]], list[list[int]]]:
    """(ids, types) of the tokens of each pair."""
    packed = pairs.pack()
    ends = np.cumsum(packed.lengths)
    ids, types = (
        [part.tolist() for part in np.split(column.numpy(), ends)[:-1]]
        for column in (packed.ids, packed.types)
    )
    return ids, types


def _logit(out: Any, mask: Tensor) -> Tensor:
    """[rows]: logit of the only class, or of the second minus the first."""
    logits: Tensor = out.logits.float()
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
