"""`cross_encoder` beside each family's own forward pass: the largest differences of its logits, in fp32.

A random model of each family, of 6 layers of 128 numbers, with a tokenizer of the family's kind; pairs of a
question of the sample with one to twenty others, so of 10 to 128 tokens. `FAMILY_difference` is to
transformers' own forward pass over each pair by itself, `FAMILY_beside_others` that of a pair scored alone
from the same pair among all; logits have a standard deviation of about 1, and scores are rounded to six
decimals before they order a list. `packed` counts the families that the packed encoder computes.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from answermill.files.model_files import load_pretrained
from answermill.pipelines.data import sample
from answermill.ranking.rerankers.pretrained.pair_scorers import load_scorer
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier
from answermill.ranking.transformer.text_vectors import why_not_packed
from testing.family_models import FAMILIES, write_classifier
from testing.harness import arguments, finish, say

PAIRS, LAYERS, WIDTH, POSITIONS, WORDS = 300, 6, 128, 128, 2_000


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


def main() -> None:
    options = arguments("families", __doc__.splitlines()[0], needs_data=False)
    rows = (Path(sample.__path__[0]) / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(row)["text"] for row in rows]
    scored, families, size = pairs(texts), list(FAMILIES), {"layers": LAYERS, "width": WIDTH}
    if options.smoke:
        scored, families, size = scored[:6], ["bert", "deberta-v2"], {"layers": 1, "width": 16}
    result: dict[str, float | int | str] = {"pairs": len(scored), "families": len(families), "packed": 0}

    for family in families:
        with tempfile.TemporaryDirectory() as name:
            folder = write_classifier(Path(name), family, texts, positions=POSITIONS, words=WORDS, **size)
            result["packed"] = int(result["packed"]) + (why_not_packed(folder) is None)
            scorer = load_scorer(PublishedClassifier.read(folder), POSITIONS, "cpu", "fp32")
            together = scorer.score(scored).logits
            alone = np.concatenate([scorer.score([pair]).logits for pair in scored])
            key = family.replace("-", "_")
            result[f"{key}_difference"] = float(np.abs(together - own_logits(folder, scored)).max())
            result[f"{key}_beside_others"] = float(np.abs(together - alone).max())
            say(
                f"{family}: {result[f'{key}_difference']:.2g}, beside others "
                f"{result[f'{key}_beside_others']:.2g}"
            )

    result["largest_difference"] = max(
        float(value) for key, value in result.items() if key.endswith("_difference")
    )
    finish("families", result, options.save)


if __name__ == "__main__":
    main()
