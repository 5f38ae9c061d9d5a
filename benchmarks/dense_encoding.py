"""The dense index's encoder: the packed encoder that the rerankers run on, against Hugging Face's own
forward, padded.

Texts: passages of `corpus-wiki`, of at most 100 words; and questions, one a call. Each encoder runs on one
thread, and its CPU seconds are counted; rounds are interleaved, and ratios are taken round by round.
"""

from __future__ import annotations

import gzip
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from answermill.indexing.shards.dense import Encoder, load_encoder
from answermill.pipelines.steps.models import use_threads
from answermill.ranking.transformer.padded import PaddedTransformer
from answermill.ranking.transformer.text_vectors import PackedTransformer
from testing.harness import arguments, finish, say, shrink

PASSAGES = 160
WORDS = 100
QUESTIONS = 30


def passages(data: Path) -> list[tuple[str, str]]:
    """(title, text) of passages of at most 100 words, in the order of the corpus."""
    cut: list[tuple[str, str]] = []
    with gzip.open(data / "corpus-wiki/documents.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            document = json.loads(line)
            words = document["text"].split()
            cut += [
                (document.get("title") or "", " ".join(words[start : start + WORDS]))
                for start in range(0, len(words), WORDS)
            ]
            if len(cut) >= PASSAGES:
                break
    return cut[:PASSAGES]


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    options = arguments("dense_encoding", __doc__ or "")
    if options.smoke:
        shrink(globals(), PASSAGES=6, QUESTIONS=2, WORDS=20)
    use_threads()
    texts = passages(options.data)
    questions = [text.split(".")[0] for _, text in texts[:QUESTIONS]]
    encoders: dict[str, Encoder] = {
        "packed": load_encoder(PackedTransformer),
        "padded": load_encoder(PaddedTransformer),
    }

    # Also warms them up.
    vectors = {name: encoder.encode_passages(texts) for name, encoder in encoders.items()}
    works: dict[str, tuple[int, Callable[[Encoder], object]]] = {
        "passages": (len(texts), lambda encoder: encoder.encode_passages(texts)),
        "questions": (
            len(questions),
            lambda encoder: [encoder.encode_questions([text]) for text in questions],
        ),
    }
    result: dict[str, float | int | str] = {
        "passages": len(texts),
        "rounds": options.rounds,
        "precision": encoders["packed"].precision,
        "torch": torch.__version__,
        "largest_difference": float(np.abs(vectors["packed"] - vectors["padded"]).max()),
    }

    for what, (count, work) in works.items():
        taken: dict[str, list[float]] = {name: [] for name in encoders}
        for number in range(options.rounds):
            for name in sorted(encoders, reverse=bool(number % 2)):
                taken[name].append(seconds(lambda name=name, work=work: work(encoders[name])))  # type: ignore[misc]
            say(
                f"{what} round {number + 1}: "
                + ", ".join(f"{name} {count / taken[name][-1]:.1f}/s" for name in taken)
            )

        for name, all_seconds in taken.items():
            result[f"{name}_{what}_per_s"] = count / statistics.median(all_seconds)
        result[f"{what}_ratio"] = statistics.median(
            slow / fast for slow, fast in zip(taken["padded"], taken["packed"], strict=True)
        )

    finish("dense_encoding", result, options.save)


if __name__ == "__main__":
    main()
