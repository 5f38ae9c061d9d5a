"""Kinds of dense index side by side: recall, memory, disk, speed of search and of building; one thread.

Vectors are the default encoder's, of --vectors passages of `corpus-wiki` (VECTORS unless given): its passages
of at most WORDS words, and where these are too few, passages of SENTENCES drawn sentences. --work keeps the
vectors for a later run. Questions are QUESTIONS of Natural Questions, encoded as questions; they ask for the
best DEPTH with the default width of search. In turns, medians over the rounds, for each of KINDS:

`recall_`: share of the DEPTH nearest by exact search of the float32 vectors that are found.
`bytes_per_vector_`: memory of the process that an open index takes, its mapped vectors left out.
`disk_bytes_per_vector_`: its files, and the quantizer. `questions_per_s_`: from vectors to scored rows, in
batches of BATCH. `build_vectors_per_s_`: training and writing, without encoding. `shards_differ` counts the
questions whose best DEPTH from SHARDS shards of one quantizer, scores included, are not those of one shard,
over all kinds but the graph; `shards_differ_hnsw` those of the graph, which has no such equality.
"""

from __future__ import annotations

import ctypes
import gc
import gzip
import json
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from answermill.files.atomic_files import sha256
from answermill.files.store import remove_tree as remove
from answermill.indexing.shards.rank_fusion import Best, candidates, merge
from answermill.indexing.shards.shard_files import CODED, DENSE, QUANTIZER
from answermill.indexing.shards.vectors.coded_index import CodedIndex, CodedWriter
from answermill.indexing.shards.vectors.exact_index import DenseIndex, DenseWriter
from answermill.indexing.shards.vectors.quantizer import Quantizer, sample_size
from answermill.indexing.shards.vectors.stored_vectors import rounded
from answermill.indexing.shards.vectors.vector_kinds import FLAT, VectorSearch, rescore_for
from answermill.pipelines.steps.models import dense_encoder, use_threads
from testing.drawn_text import drawn, wiki
from testing.harness import arguments, finish, processes, say, shrink, work_folder

TAKES = "fifteen minutes, on a quiet machine"

VECTORS, WORDS, SENTENCES, QUESTIONS, DEPTH, BATCH = 100_000, 100, 2, 500, 100, 64
KINDS = (FLAT, "hnsw", "ivfpq", "ivfrabitq")
SHARDS, CHUNK = 7, 1_024
ASKED = "questions/nq-open-dev.jsonl.gz"
Vectors = npt.NDArray[np.float32]
Index = DenseIndex | CodedIndex
Ranking = list[tuple[bytes, float]]
"""(row, score) of a question's best."""


def texts(data: Path, number: int) -> Iterator[tuple[str, str]]:
    """(title, text) of the corpus' passages, then of drawn sentences; always the same."""
    documents, passages = wiki(data), list[tuple[str, str]]()
    for title, text in documents:
        words = text.split()
        passages += [(title, " ".join(words[n : n + WORDS])) for n in range(0, len(words), WORDS)]
    random.Random(0).shuffle(passages)
    yield from passages[:number]
    for title, sentences in islice(drawn(documents, SENTENCES), max(number - len(passages), 0)):
        yield title, " ".join(sentences)


def encoded(data: Path, number: int, work: Path) -> tuple[Vectors, Vectors]:
    """(vectors of the passages, of the questions), from the files in `work` as far as they go."""
    encoder = dense_encoder(device="cpu", precision="fp32")
    passages, parts = list(texts(data, number)), list[Vectors]()
    for start in range(0, number, CHUNK):
        file = work / f"vectors-{start}-{min(start + CHUNK, number)}.npy"
        if not file.is_file():
            vectors = encoder.encode_passages(passages[start : start + CHUNK])
            np.save(file, vectors, allow_pickle=False)
            say(f"{min(start + CHUNK, number):,} vectors")
        parts.append(np.load(file, allow_pickle=False))
    with gzip.open(data / ASKED, "rt", encoding="utf-8") as file_:
        asked = [json.loads(line)["question"] for line in file_][:QUESTIONS]
    return np.concatenate(parts), encoder.encode_questions(asked)


def train(kind: str, vectors: Vectors, folder: Path) -> None:
    """Write the kind's quantizer, of as many vectors as the index step would take."""
    size = sample_size(kind, vectors.shape[1], len(vectors))
    chosen = np.sort(np.random.default_rng(0).permutation(len(vectors))[:size])
    Quantizer.train(kind, rounded(vectors[chosen], "fp16"), len(vectors)).write(folder / QUANTIZER)


def build(kind: str, vectors: Vectors, folder: Path, quantizer: Path) -> None:
    folder.mkdir(parents=True)
    writer = (
        DenseWriter(vectors.shape[1]) if kind == FLAT else CodedWriter(opened_quantizer(quantizer), "fp16")
    )
    for start in range(0, len(vectors), CHUNK):
        writer.add(vectors[start : start + CHUNK])
    writer.write(folder / (DENSE if kind == FLAT else CODED))


def opened_quantizer(folder: Path) -> Quantizer:
    file = folder / QUANTIZER
    return Quantizer.open(file, sha256(file))


def opened(kind: str, folder: Path, quantizer: Path) -> Index:
    if kind == FLAT:
        return DenseIndex.open(folder / DENSE)
    return CodedIndex.open(folder / CODED, opened_quantizer(quantizer))


def search(kind: str, shards: Sequence[tuple[Index, int]], questions: Vectors) -> list[Ranking]:
    """The best DEPTH of each question, merged over shards: an index, and its first row's number."""
    width = VectorSearch(0, rescore_for(kind) * DEPTH)
    lists = list[Ranking]()
    for start in range(0, len(questions), BATCH):
        batch = questions[start : start + BATCH]
        by_shard = [
            index.search(batch, width) if isinstance(index, CodedIndex) else index.search(batch, DEPTH)
            for index, _ in shards
        ]
        for n in range(len(batch)):
            parts = [
                Best.of(0, rows, [f"{first + row:09d}" for row in rows.tolist()], scores, *values)
                for (_, first), (rows, scores, *values) in zip(
                    shards, (hits[n] for hits in by_shard), strict=True
                )
            ]
            best = merge(parts if kind == FLAT else [candidates(parts, width.candidates)], DEPTH)
            lists.append(list(zip(best.ids.tolist(), best.scores.tolist(), strict=True)))
    return lists


def memory(kind: str, folder: Path, quantizer: Path, questions: Vectors) -> int:
    """Bytes of memory, those of mapped files left out, that the open index takes in a new process."""
    use_threads()
    vectors = np.ones((10, questions.shape[1]), np.float32)
    DenseWriter(questions.shape[1]).add(vectors)  # FAISS is loaded
    before = anonymous()
    index = opened(kind, folder, quantizer)
    search(kind, [(index, 0)], questions[:2])
    return anonymous() - before


def anonymous() -> int:
    """Bytes of this process' memory that are in use and of no file (Linux, with glibc)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(re.findall(r"RssAnon:\s+(\d+)", status)[0])


def took(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    options = arguments(
        "dense_index",
        __doc__ or "",
        paths={"work": "folder that keeps the vectors, out/dense_index if not given"},
        numbers={"vectors": "vectors that are indexed"},
    )
    if options.smoke:
        small = {"VECTORS": 300, "QUESTIONS": 4, "DEPTH": 5, "SHARDS": 3, "CHUNK": 256, "WORDS": 10}
        shrink(globals(), KINDS=(FLAT, "hnsw", "IVF4,SQ8", "ivfrabitq"), **small)
    use_threads()
    number = int(options.vectors or VECTORS)

    with work_folder(options, "dense_index") as work:
        vectors, questions = encoded(options.data, number, work)
        result: dict[str, float | int | str] = {
            "vectors": len(vectors),
            "questions": len(questions),
            "dimension": vectors.shape[1],
            "depth": DEPTH,
            "shards": SHARDS,
        }
        exact = np.argsort(-(questions @ vectors.T), axis=1, kind="stable")[:, :DEPTH].copy()
        edges = [len(vectors) * n // SHARDS for n in range(SHARDS + 1)]
        differ, indexes = {"cells": 0, "hnsw": 0}, dict[str, Index]()

        for kind in KINDS:
            name, place = kind.lower().replace(",", "_"), work / f"index-{len(vectors)}-{kind}"
            remove(place)
            place.mkdir()
            seconds = 0.0 if kind == FLAT else took(partial(train, kind, vectors, place))
            seconds += took(partial(build, kind, vectors, place / "whole", place))
            result[f"build_vectors_per_s_{name}"] = len(vectors) / seconds
            files = [path for path in place.rglob("*") if path.is_file()]
            result[f"disk_bytes_per_vector_{name}"] = sum(p.stat().st_size for p in files) / len(vectors)

            with processes(1, inline=options.smoke) as pool:
                taken = pool.submit(memory, kind, place / "whole", place, questions).result()
            result[f"bytes_per_vector_{name}"] = taken / len(vectors)

            indexes[kind] = opened(kind, place / "whole", place)
            whole = search(kind, [(indexes[kind], 0)], questions)
            hits = sum(
                len({int(row) for row, _ in best} & {*nearest.tolist()})
                for best, nearest in zip(whole, exact, strict=True)
            )
            result[f"recall_{name}"] = hits / exact.size

            shards = []
            for n, (start, stop) in enumerate(pairwise(edges)):
                build(kind, vectors[start:stop], place / f"{n}", place)
                shards.append((opened(kind, place / f"{n}", place), start))
            merged = search(kind, shards, questions)
            differing = sum(one != other for one, other in zip(whole, merged, strict=True))
            differ["hnsw" if kind == "hnsw" else "cells"] += differing
            say(f"{kind}: recall {result[f'recall_{name}']:.4f}, {differing} differ")

        times: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(options.rounds):
            for kind, index in indexes.items():
                times[kind].append(took(partial(search, kind, [(index, 0)], questions)))
        for kind, all_seconds in times.items():
            name = kind.lower().replace(",", "_")
            result[f"questions_per_s_{name}"] = len(questions) / statistics.median(all_seconds)
            remove(work / f"index-{len(vectors)}-{kind}")

    result |= {"shards_differ": differ["cells"], "shards_differ_hnsw": differ["hnsw"]}
    finish("dense_index", result, options.save)


if __name__ == "__main__":
    main()
