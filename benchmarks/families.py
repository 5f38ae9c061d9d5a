"""`cross_encoder` beside each kind of model's own library: the largest differences of its logits, in fp32.

A random model of each family, of 6 layers of 128 numbers, with a tokenizer of the family's kind; modular
cross-encoders, which end in layers of sentence-transformers, and language models that answer yes or no. Pairs
of a question of the sample with one to twenty others, so of 10 to 128 tokens. `KIND_difference` is to
transformers' own forward pass over each pair by itself, or to sentence-transformers' CrossEncoder for kinds
that are its own; `KIND_beside_others` that of every fifth pair scored alone from the same pair among all;
logits have a standard deviation of about 1, and scores are rounded to six decimals before they order a list.
`families` counts the kinds that load, `packed` those that the packed encoder computes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sentence_transformers
import torch

from answermill.files.model_files import load_pretrained
from answermill.pipelines.data import sample
from answermill.ranking.rerankers.pretrained.pair_scorers import PackedScorer, load_scorer
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier
from testing.family_models import FAMILIES, write_classifier, write_modular, write_yes_no
from testing.harness import arguments, finish, say

PAIRS, LAYERS, WIDTH, POSITIONS, WORDS = 300, 6, 128, 128, 2_000
FIFTH = 5


def pairs(texts: list[str]) -> list[tuple[str, str]]:
    """Pairs of each text as a question with a longer or shorter one."""
    count = len(texts)
    lengths = [1 + 7 * n % 20 for n in range(PAIRS)]
    return [
        (texts[n % count], " ".join(texts[(n + 1 + i) % count] for i in range(size)))
        for n, size in enumerate(lengths)
    ]


@torch.inference_mode()
def own_logits(folder: Path, texts: list[tuple[str, str]]) -> np.ndarray[Any, Any]:
    """Logits by transformers, each pair by itself."""
    tokenizer = load_pretrained("AutoTokenizer", folder)
    model = load_pretrained("AutoModelForSequenceClassification", folder, use_safetensors=True).eval()
    options = {"truncation": True, "max_length": POSITIONS, "return_tensors": "pt"}
    return np.array([float(model(**tokenizer(*pair, **options)).logits[0, 0]) for pair in texts])


def library_logits(folder: Path, texts: list[tuple[str, str]]) -> np.ndarray[Any, Any]:
    """Logits by sentence-transformers, each pair by itself."""
    model = sentence_transformers.CrossEncoder(
        str(folder), device="cpu", activation_fn=torch.nn.Identity(), trust_remote_code=False
    )
    return np.array([float(model.predict([pair])[0]) for pair in texts])


KINDS: dict[str, Callable[..., Path]] = {
    "modular_modernbert": partial(write_modular, family="modernbert", pooling="cls"),
    "modular_xlm_roberta": partial(write_modular, family="xlm-roberta", pooling="mean"),
    "modular_deberta": partial(write_modular, family="deberta-v2", pooling="cls"),
    "yes_no_qwen3": partial(write_yes_no, kind="Qwen3"),
    "yes_no_gemma2": partial(write_yes_no, kind="Gemma2"),
}
"""Kinds of sentence-transformers' own → writer of a model of (folder, texts)."""


def main() -> None:
    options = arguments("families", __doc__.splitlines()[0], needs_data=False)
    rows = (Path(sample.__path__[0]) / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(row)["text"] for row in rows]
    scored, size = pairs(texts), {"layers": LAYERS, "width": WIDTH, "positions": POSITIONS, "words": WORDS}
    writers: dict[str, Callable[..., Path]] = {
        name: partial(write_classifier, family=name) for name in FAMILIES
    }
    writers |= KINDS
    if options.smoke:
        scored, size = scored[:6], {"layers": 1, "width": 16, "positions": POSITIONS, "words": WORDS}
        writers = {
            name: writers[name] for name in ("bert", "deberta-v2", "modular_modernbert", "yes_no_qwen3")
        }
    result: dict[str, float | int | str] = {"pairs": len(scored), "families": 0, "packed": 0}

    for name, write in writers.items():
        with tempfile.TemporaryDirectory() as place:
            folder = write(Path(place), texts=texts, **size)
            scorer = load_scorer(PublishedClassifier.read(folder), POSITIONS, "cpu", "fp32")
            result["families"] = int(result["families"]) + 1
            result["packed"] = int(result["packed"]) + isinstance(scorer, PackedScorer)

            together = scorer.score(scored).logits
            alone = np.concatenate([scorer.score([pair]).logits for pair in scored[::FIFTH]])
            expected = (own_logits if name in FAMILIES else library_logits)(folder, scored)
            key = name.replace("-", "_")
            result[f"{key}_difference"] = float(np.abs(together - expected).max())
            result[f"{key}_beside_others"] = float(np.abs(together[::FIFTH] - alone).max())
            say(
                f"{name}: {result[f'{key}_difference']:.2g}, beside others "
                f"{result[f'{key}_beside_others']:.2g}"
            )

    result["largest_difference"] = max(
        float(value) for key, value in result.items() if key.endswith("_difference")
    )
    finish("families", result, options.save)


if __name__ == "__main__":
    main()
