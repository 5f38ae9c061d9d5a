"""Exact dense search on a graphics card, beside the processor's: questions a second, and hits that differ;
and passages encoded a second.

VECTORS drawn vectors of DIMENSION numbers and length 1, some of them equal, are searched for the best DEPTH
of QUESTIONS drawn questions, in blocks of BATCH as the job has them, from vectors to scored rows. In turns,
medians over the rounds: `questions_per_s` with the vectors on the card, where `upload_s` brings them;
`sent_questions_per_s`, their first CPU_QUESTIONS, with vectors that are sent anew for each block, as where
they do not fit; and `cpu_questions_per_s`, the same first questions on all threads of the processor, by
`cpu_search`: FAISS, or torch where FAISS is not installed. `rows_differ` counts the questions whose rows or
scores on the card, kept or sent, are not those of the processor, bit for bit.

`encode_passages_per_s`: PASSAGES of WORDS words of a drawn vocabulary, from text to vectors, by a random
encoder of all-MiniLM-L6-v2's shape, in bf16 where the card multiplies it; absent where packages are that the
encoder needs. No data is read, and nothing else is needed but torch, numpy and pyarrow.

Without a card it ends with a sentence; with --smoke the same code runs on tiny sizes, on the processor if
there is no card.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from answermill.indexing.shards.vectors.card_search import CardSearch
from answermill.indexing.shards.vectors.exact_index import DenseIndex, DenseWriter, Scores, Vectors
from answermill.schemas.arrays import Rows
from testing.harness import arguments, finish, installed, say, shrink

TAKES = "on a graphics card; without one it says so and ends"

VECTORS, DIMENSION, QUESTIONS, CPU_QUESTIONS, DEPTH, BATCH = 1_000_000, 384, 16_384, 512, 100, 64
PASSAGES, WORDS, VOCABULARY, LIMIT = 65_536, 130, 30_000, 256
LAYERS, HEADS = 6, 12
CHUNK = 65_536
Hits = list[tuple[Rows, Scores]]


def drawn(number: int, seed: int) -> Vectors:
    """Vectors [number, DIMENSION] of length 1; every hundredth is equal to the one after it."""
    draw, vectors = np.random.default_rng(seed), np.empty((number, DIMENSION), np.float32)
    for start in range(0, number, CHUNK):
        part = draw.standard_normal(vectors[start : start + CHUNK].shape, np.float32)
        vectors[start : start + CHUNK] = part / np.linalg.norm(part, axis=1, keepdims=True)
    equal = np.arange(0, number - 1, 100)
    vectors[equal] = vectors[equal + 1]
    return vectors


def search(index: DenseIndex, questions: Vectors) -> Hits:
    """The best DEPTH of each question, block by block."""
    blocks = (questions[start : start + BATCH] for start in range(0, len(questions), BATCH))
    return [hits for block in blocks for hits in index.search(block, DEPTH)]


def by_processor(vectors: Vectors) -> tuple[str, DenseIndex]:
    """(library, index) of the processor's search: FAISS if it is installed, else torch."""
    faiss, _ = installed({"faiss": lambda: __import__("faiss")})
    if not faiss:
        return "torch", DenseIndex.by_torch(vectors, "cpu")
    with tempfile.TemporaryDirectory() as folder:
        file, writer = Path(folder) / "dense.faiss", DenseWriter(vectors.shape[1])
        for start in range(0, len(vectors), CHUNK):
            writer.add(vectors[start : start + CHUNK])
        writer.write(file)
        return "faiss", DenseIndex.open(file)


def took(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def searched(device: str, rounds: int) -> dict[str, float | int | str]:
    """Figures of the search."""
    vectors, questions = drawn(VECTORS, 0), drawn(QUESTIONS, 1)
    library, processor = by_processor(vectors)
    torch.zeros(1, device=device).item()  # the card is started

    began = time.perf_counter()
    kept = DenseIndex.by_torch(vectors, device)
    search(kept, questions[:BATCH])  # waits until the vectors are there
    upload = time.perf_counter() - began
    sent = DenseIndex(vectors, CardSearch(vectors, device, most_bytes=0).nearest)

    few = questions[:CPU_QUESTIONS]
    runs = {"": (kept, questions), "sent_": (sent, few), "cpu_": (processor, few)}
    hits = {name: [pack(each) for each in search(index, few)] for name, (index, _) in runs.items()}
    differ = {n for name in ("", "sent_") for n in range(len(few)) if hits[name][n] != hits["cpu_"][n]}

    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (index, asked) in runs.items():
            times[name].append(took(lambda index=index, asked=asked: search(index, asked)))  # type: ignore[misc]
    figures: dict[str, float | int | str] = {
        f"{name}questions_per_s": len(runs[name][1]) / statistics.median(all_seconds)
        for name, all_seconds in times.items()
    }
    say(f"{figures['questions_per_s']:,.0f} questions/s, {len(differ)} differ")
    about = {"vectors": VECTORS, "dimension": DIMENSION, "depth": DEPTH, "batch": BATCH}
    return figures | {"rows_differ": len(differ), "upload_s": upload, "cpu_search": library, **about}


def pack(hits: tuple[Rows, Scores]) -> tuple[bytes, bytes]:
    """A question's rows and scores, to the bit."""
    rows, scores = hits
    return rows.astype(np.int64).tobytes(), scores.tobytes()


def tokenizer_json() -> str:
    """A tokenizer of VOCABULARY words, as BERT's frames its texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{n}" for n in range(VOCABULARY))]
    numbers = {name: n for n, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"])
    )
    return str(tokenizer.to_str())


def random_encoder(device: str) -> Any:
    """An encoder of texts on the device; its modules need packages that a card's machine may lack."""
    from answermill.ranking.transformer.devices import fast
    from answermill.ranking.transformer.encoder import LayeredEncoder
    from answermill.ranking.transformer.huggingface import Shape
    from answermill.ranking.transformer.packing import Tokeniser
    from answermill.ranking.transformer.text_vectors import PackedTransformer

    torch.manual_seed(0)
    rows = VOCABULARY + 4
    shape = Shape(layers=LAYERS, width=DIMENSION, heads=HEADS, inner=4 * DIMENSION, vocabulary=rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        LayeredEncoder(shape).save(folder)
        (folder / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
        in_bf16 = device == "cuda" and fast(device) == torch.bfloat16
        return PackedTransformer(
            folder, LIMIT, device, "bf16" if in_bf16 else "fp32", Tokeniser(folder, LIMIT)
        )


def encoded(device: str, rounds: int) -> dict[str, float | int | str]:
    """Figures of the encoder; none where it cannot be loaded."""
    loaded, missing = installed({"the encoder": lambda: random_encoder(device)})
    if missing:
        return {}
    encoder, draw = loaded["the encoder"], np.random.default_rng(2)
    lengths = draw.integers(WORDS // 2, WORDS * 3 // 2, PASSAGES)
    texts = [(" ".join(f"w{n}" for n in draw.integers(0, VOCABULARY, length)),) for length in lengths]

    def encode() -> None:
        for start in range(0, len(texts), encoder.at_once):
            encoder.encode(texts[start : start + encoder.at_once], "mean")

    encode()  # the first one warms up, and tries how many tokens fit
    seconds = statistics.median(took(encode) for _ in range(rounds))
    say(f"{len(texts) / seconds:,.0f} passages/s")
    return {"encode_passages_per_s": len(texts) / seconds, "tokens_per_passage": float(lengths.mean()) + 2}


def main() -> None:
    options = arguments("gpu_search", (__doc__ or "").splitlines()[0], needs_data=False)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.smoke:
        raise SystemExit(
            "benchmarks.gpu_search: PyTorch finds no graphics card here, so nothing was measured; run it "
            "where torch.cuda.is_available(), or try the code with --smoke"
        )
    if options.smoke:
        small = {
            "VECTORS": 500,
            "DIMENSION": 32,
            "QUESTIONS": 20,
            "CPU_QUESTIONS": 10,
            "DEPTH": 5,
            "BATCH": 8,
        }
        shrink(globals(), PASSAGES=10, WORDS=10, VOCABULARY=50, LAYERS=2, HEADS=2, **small)

    result: dict[str, float | int | str] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "processor",
        "cpu_threads": torch.get_num_threads(),
    }
    result |= searched(device, options.rounds) | encoded(device, options.rounds)
    finish("gpu_search", result, options.save)


if __name__ == "__main__":
    main()
