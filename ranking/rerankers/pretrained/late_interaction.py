"""Late interaction (ColBERT, Khattab & Zaharia 2020, §3.1): question and sentence are encoded apart, as a
vector for each token; the score is MaxSim, Σ over the question's vectors of the largest dot product with a
vector of the sentence.

Reads sentences, writes sentences. The model is a `MultiVectorEncoder` of sentence-transformers, which also
reads models of PyLate and Stanford's ColBERT; prompts, lengths, query expansion and the tokens left out of
the sum are the model folder's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import torch
from torch import Tensor

from answermill.files.extras import need
from answermill.files.model_files import PYLATE_DENSE, check_weights, json_table, module_types
from answermill.ranking.context import Reading
from answermill.ranking.reranker import Resources, order_by
from answermill.ranking.rerankers.pretrained import LateInteractionStage
from answermill.schemas.ranked import CandidateKind, RankedList

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

NATIVE, STANFORD = "MultiVectorEncoder", "HF_ColBERT"
"""Marks of such a model: `model_type` in config_sentence_transformers.json, and an architecture in
config.json."""
SENTENCE = Reading()
"""Default reading: the sentence alone."""


class LateInteraction:
    """Reranker by MaxSim(question, sentence), or the model's other `similarity_fn_name`, in fp32."""

    name: ClassVar[str] = "late_interaction"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, encoder: MultiVectorEncoder, reading: Reading = SENTENCE) -> None:
        self._encoder = encoder
        self.readings = (reading,)
        self._costs: Counter[str] = Counter()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls(
            load_encoder(resources.folder(), resources.device), resources.stage(LateInteractionStage).reading
        )

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        began = time.perf_counter()
        (reading,) = self.readings
        tuples = list(reading.tuples(lists))
        candidates = iter([reading.one_text(texts[1:]) for texts in tuples])
        vectors: dict[str, Tensor] = {}  # each different text is encoded once

        reranked = []
        for ranked in lists:
            question = self._encode("query", ranked.question.text)
            texts_of_list = [next(candidates) for _ in ranked.candidates]
            for text in texts_of_list:
                if text not in vectors:
                    vectors[text] = self._encode("document", text)
            scores = [
                float(self._encoder.similarity_pairwise([question], [vectors[text]]))
                for text in texts_of_list
            ]
            reranked.append(order_by(ranked, scores, self.name))

        self._costs.update(reading.missing(tuples) if reading.around else {})
        self._costs.update(candidates=len(tuples), milliseconds=round(1000 * (time.perf_counter() - began)))
        return reranked

    def _encode(self, task: Literal["query", "document"], text: str) -> Tensor:
        """Vectors [tokens, d] of one text, by itself, so that no other text's padding decides the arithmetic.
        The model cuts a text that is too long for it."""
        encode = self._encoder.encode_query if task == "query" else self._encoder.encode_document
        vectors: Tensor = encode(text, show_progress_bar=False)
        self._costs.update(vectors=len(vectors))
        return vectors

    def costs(self) -> Counter[str]:
        """Costs since the last call: candidates, vectors encoded, milliseconds, and candidates without a part
        that the context names."""
        costs, self._costs = self._costs, Counter()
        return costs


def load_encoder(folder: Path, device: str) -> MultiVectorEncoder:
    """Model of a folder. Raises ValueError if it is no model of late interaction, or has pickled weights;
    ExtraMissing if sentence-transformers is not installed."""
    need("sentence_transformers", "sentence-transformers", "late_interaction")
    from sentence_transformers import MultiVectorEncoder

    if not _is_late_interaction(folder):
        raise ValueError(
            f"{folder}: no model of late interaction, so its vectors of tokens would be random; give a "
            "MultiVectorEncoder of "
            "sentence-transformers, or a model of PyLate or ColBERT"
        )

    for pickled in sorted([*folder.rglob("*.bin"), *folder.rglob("*.pt")]):
        if not pickled.with_name("model.safetensors").is_file():
            raise ValueError(
                f"{pickled} holds pickled weights, which are not loaded; load the model once with "
                "sentence-transformers and "
                "write it with save_pretrained(folder)"
            )

    encoder = MultiVectorEncoder(
        str(folder),
        device=device,
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs={"use_safetensors": True, "dtype": torch.float32},
    ).eval()
    check_weights(dict(encoder.named_parameters()), folder)

    return encoder


def _is_late_interaction(folder: Path) -> bool:
    own, config = (json_table(folder / name) for name in ("config_sentence_transformers.json", "config.json"))
    by_name = own.get("model_type") == NATIVE or STANFORD in (config.get("architectures") or [])
    return by_name or PYLATE_DENSE in module_types(folder)
