"""Models of PEASI (Zhang, Vu & Moschitti 2022): passages are reranked, and the answer sentence is extracted
in place.

`PeasiModel` is §2: the passage reranker PR (§2.1), which reads [CLS] q [SEP] p, the extractor EASI (§2.2),
which reads q [SEP] s1 … [SEP] sk, and their joint variants (§2.3, Table 2):

    pr      PR alone
    easi    EASI alone
    mtl0    both, on one transformer
    mtl1    both, each on its own, trained together
    joint   mtl1 with EASI's embedding in PR: p(q, p) = softmax(W · tanh([E(q, p); E(q, c1 … ck)]) + B), written PR ⊕ EASI

E is the first token's encoding. Settings choose the parts of a passage that PR reads, and another E(q, p)
(`ranking/context.py`).

PR's head is a linear one (`passage_ranker.py`) and EASI has k slots (`slots.py`), as in the paper. Not the
paper's, and only if a checkpoint names it: PR's head is that of a cross-encoder, or EASI scores a vector of
each sentence in the whole passage (`span.py`). PR ⊕ EASI then reads the vector of the best sentence; in
'mtl0' both read the same text, and one pass over a passage gives p(q, p) and each p(s | p).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from answermill.ranking.context import Reading
from answermill.ranking.evaluation.calibration import Calibration
from answermill.ranking.rerankers.peasi.extractor import Extractor, ExtractorName, Stretches
from answermill.ranking.rerankers.peasi.passage_ranker import ClassifierRanker, LinearRanker, PassageRanker
from answermill.ranking.rerankers.peasi.slots import Slots
from answermill.ranking.rerankers.peasi.span import Span
from answermill.ranking.transformer.classifier import HEADS, HeadName
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.layers.pooling import pool
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.ranking.transformer.transformer_checkpoint import (
    FULL,
    StoredForm,
    load_transformer,
    save_transformer,
)

PASSAGE = Reading(("passage",), "first")
"""Default reading of PR: the passage alone, by the first token."""

Variant = Literal["pr", "easi", "mtl0", "mtl1", "joint"]
PassageHead: TypeAlias = Literal["linear"] | HeadName


class PeasiModel(nn.Module):
    """PR, EASI or both, on one transformer or two."""

    def __init__(
        self,
        encoder: LayeredEncoder,
        variant: Variant,
        slots: int,
        head: PassageHead = "linear",
        extractor: ExtractorName = "slots",
    ) -> None:
        """`encoder`: transformer of PR, and of EASI if they share it or EASI is alone; else EASI's is new, of
        the same shape. `head`: head of PR. `extractor`: extractor of EASI; 'span' has no slots.

        Raises ValueError on slots < 1, and on a head or extractor of another name.
        """
        super().__init__()
        if slots < 1:
            raise ValueError(f"{slots} slots; EASI needs at least one")

        for key, value, known in (
            ("head", head, ("linear", *HEADS)),
            ("extractor", extractor, get_args(ExtractorName)),
        ):
            if value not in known:
                raise ValueError(f"{key} = {value!r}: unknown; known: {', '.join(known)}")

        self.variant, self.slots, self.head = variant, slots, head
        self.reading = PASSAGE
        self.calibration: Calibration | None = None

        width, dropout, joint = encoder.shape.width, encoder.shape.dropout, variant == "joint"
        self.encoder = encoder
        self.easi_encoder = LayeredEncoder(encoder.shape) if variant in ("mtl1", "joint") else None
        self.pr: PassageRanker | None = None

        if variant != "easi" and head == "linear":
            self.pr = LinearRanker(width, joint)
        elif variant != "easi" and head != "linear":
            self.pr = ClassifierRanker(HEADS[head](width, dropout), width, joint)

        self.easi: Extractor | None = None
        if variant != "pr":
            self.easi = Slots(width, slots) if extractor == "slots" else Span(width, dropout)

    # Checkpoints have their own names for the weights of heads.

    def _stored_names(self) -> dict[str, str]:
        """Name of a head's weight here → its name in checkpoints."""
        heads = {"pr": self.pr, "easi": self.easi}
        return {
            f"{n}.{key}": head.stored + key
            for n, head in heads.items()
            if head
            for key, _ in head.named_parameters()
        }

    def state_dict(self, *args: Any, **settings: Any) -> Any:
        """Weights by their names in checkpoints."""
        names = self._stored_names()
        return {
            names.get(name, name): weight for name, weight in super().state_dict(*args, **settings).items()
        }

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load the weights that `state_dict` gave."""
        names = {stored: name for name, stored in self._stored_names().items()}
        return super().load_state_dict(
            {names.get(n, n): weight for n, weight in state_dict.items()}, strict, assign
        )

    def body(self) -> LayeredEncoder:
        """The whole transformer, for another model to begin with."""
        return self.encoder

    def take_passage_head(self, other: PeasiModel) -> None:
        """Take over another's PR, if both have one of the same kind."""
        if self.pr is not None and other.pr is not None:
            self.pr.take(other.pr)

    def take_sentence_head(self, other: PeasiModel) -> None:
        """Take over another's EASI, if both have one of the same kind. Raises ValueError if the other has
        fewer slots."""
        if self.easi is not None and other.easi is not None and self.easi.name == other.easi.name:
            self.easi.take(other.easi)

    @property
    def reads_whole(self) -> bool:
        """True if EASI reads whole passages, as far as they fit, and not windows of k sentences."""
        return self.easi is not None and self.easi.window is None

    @property
    def reads_title(self) -> bool:
        """True if EASI reads the title after a passage's sentences."""
        return self.reads_whole and "title" in self.reading.around

    @property
    def at_once(self) -> bool:
        """True if PR and EASI have one transformer and one text, so that a single pass serves both."""
        shares_text = self.reading.context[0] == "passage" and self.reading.pooling != "candidate"
        return self.variant == "mtl0" and self.reads_whole and shares_text

    def passage_vectors(self, tokens: Packed) -> Tensor:
        """Encodings that PR reads [texts, d]: E(q, p), or another by `reading`."""
        return pool(encoded(self.encoder, tokens), tokens, self.reading.pooling)

    def window_vectors(self, tokens: Packed, stretches: Stretches) -> tuple[Tensor | None, Tensor]:
        """Encodings that PR reads [windows, d], None unless both are read `at_once`, and the vectors that
        EASI reads, by one pass over windows."""
        assert self.easi is not None
        hidden = encoded(self.easi_encoder or self.encoder, tokens)
        passages = pool(hidden, tokens, self.reading.pooling) if self.at_once else None
        return passages, self.easi.vectors(hidden, tokens, stretches)

    def for_inference(
        self, device: torch.device | str, passages: bool = True, sentences: bool = True
    ) -> PeasiModel:
        """Copy for scoring: transformers in the device's fast precision, the heads in float64.

        A transformer that reads only passages, or only sentences, is left out if those are not to be read.
        """
        needed = {
            "encoder": passages or self.easi_encoder is None,
            "easi_encoder": sentences or self.variant == "joint",
        }
        scorer = copy.copy(self)
        scorer._modules = {
            name: _for_inference(module if needed.get(name, True) else None, device)
            for name, module in self._modules.items()
        }
        return scorer.requires_grad_(False).eval()


def _for_inference(module: nn.Module | None, device: torch.device | str) -> nn.Module | None:
    if module is None or isinstance(module, LayeredEncoder):
        return module and module.for_inference(device)
    return copy.deepcopy(module).to(device, torch.float64)


def encoded(encoder: LayeredEncoder, tokens: Packed) -> Tensor:
    """Encodings of all tokens after the last layer [n, d]."""
    return encoder.normalised(encoder.run(encoder.embed(tokens), tokens, 0, encoder.shape.layers))


NAME = "peasi"


def save(
    folder: Path,
    model: PeasiModel,
    tokeniser: Tokeniser,
    stored: StoredForm = FULL,
) -> None:
    """Write the model folder. See `save_transformer`."""
    calibration = model.calibration and asdict(model.calibration)
    details = {
        "variant": model.variant,
        "slots": model.slots,
        "calibration": calibration,
        **model.reading.details(PASSAGE),
    }
    details |= {"head": model.head} if model.head != "linear" else {}
    details |= {"extractor": model.easi.name} if model.easi is not None and model.easi.name != "slots" else {}
    save_transformer(folder, NAME, details, model, tokeniser, stored=stored)


def load(folder: Path, source: Callable[[str], Path] = Path) -> tuple[PeasiModel, Tokeniser]:
    """Model and tokeniser that `save` wrote. Raises ValueError if the folder is incomplete, broken, or of
    another format or model."""
    return load_transformer(folder, NAME, _build, source)


def _build(config: Mapping[str, Any], encoder: LayeredEncoder) -> PeasiModel:
    model = PeasiModel(
        encoder,
        config["variant"],
        config["slots"],
        config.get("head", "linear"),
        config.get("extractor", "slots"),
    )
    model.calibration = config["calibration"] and Calibration(**config["calibration"])
    model.reading = Reading.of(config, PASSAGE)
    return model
