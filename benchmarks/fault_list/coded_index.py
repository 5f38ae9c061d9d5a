"""Faults of a dense index of codes or a graph: damaged files, a quantizer of another training, and kinds that
cannot be."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from benchmarks.fault_list.damage import all_of, cut, emptied, flipped, removed, replaced
from benchmarks.fault_list.fault import Fault, Harm, Place, complete, nothing

CELLS = "IVF4,PQ8x4"  # ivfpq itself is trained on more passages than the small job has
RUN, RETRIEVE = "run JOB --out RUN", "retrieve JOB --out RUN"
REDO, VERIFY = f"{RUN} --redo index", f"{RUN} --verify index"
QUANTIZER, FIRST = "run/shards/quantizer.faiss", "run/shards/00000*/dense"
LATER = ("questions", "questions_rejects", "retrieved", "scored", "answers", "answers.jsonl")
NO_KINDS = {
    "IVF8": "FAISS makes no 'IVF8'",
    "IVF4,PQ7": "should be a multiple of the number of subquantizers",
    "IVF4,PQ8x25": "nbits larger than 24 is not practical",
    "IVF99999999999,PQ8": "FAISS makes no",
    "IVF0,PQ8x4": "the size 0, which is too small",
    "HNSW1": "the size HNSW1, which is too small",
    "PQ8": "which is neither of cells",
    "IVF4,PQ8x4fs": "without fs and Refine",
    '""': "FAISS makes no ''",
}
"""Factory string → what the message says."""


def coded(kind: str) -> Harm:
    """Make the run's shards again with such an index, and keep a copy beside the run; what was made of the
    former shards goes."""

    def harm(place: Place) -> None:
        replaced("job.toml", "[index]\n", f'[index]\nvectors = "{kind}"\n')(place)
        ended = place.call("index JOB --out RUN --redo")
        if ended.code:
            raise RuntimeError(f"the shards of {kind} ended with {ended.code}: {ended.err}")
        removed(*(f"run/{name}" for name in LATER))(place)
        shutil.copytree(place.run / "shards", place.folder / "coded/shards")

    return harm


def as_it_was(place: Place, sound: Place) -> bool:
    """True if the run is complete, and its shards are those that were kept."""
    shards = {name: digest for name, digest in place.rows().items() if name.startswith("shards/")}
    return shards == place.rows("coded") and complete("run")(place, sound)


def other_quantizer(place: Place) -> None:
    """Put another training of the same kind in the place of the run's."""
    import numpy as np

    from answermill.indexing.shards.vectors.quantizer import Quantizer

    vectors = np.random.default_rng(0).normal(size=(100, 32)).astype(np.float32)
    Quantizer.train(CELLS, vectors, len(vectors)).write(place.file(QUANTIZER))


def _files() -> Iterator[Fault]:
    harm = coded(CELLS)
    for name, damage in {"another": other_quantizer, "bit flipped": flipped(QUANTIZER)}.items():
        yield Fault(
            f"quantizer: {name}",
            all_of(harm, damage),
            RETRIEVE,
            65,
            "is another or missing",
            (REDO,),
            as_it_was,
        )
    for name, damage in {
        "lost": removed(QUANTIZER),
        "cut": cut(QUANTIZER),
        "emptied": emptied(QUANTIZER),
    }.items():
        yield Fault(f"quantizer: {name}", all_of(harm, damage), RUN, 0, "makes it again", right=as_it_was)
    yield Fault(
        "quantizer: lost, then retrieve",
        all_of(harm, removed(QUANTIZER)),
        RETRIEVE,
        65,
        "quantizer.faiss",
        (RUN,),
        as_it_was,
    )
    for kind, file in ((CELLS, "codes.npy"), (CELLS, "stored.npy"), ("hnsw", "graph.faiss")):
        path = f"{FIRST}/{file}"
        yield Fault(
            f"{file}: bit flipped",
            all_of(coded(kind), flipped(path)),
            RETRIEVE,
            65,
            "SHA-256",
            (VERIFY,),
            as_it_was,
        )
    yield Fault("codes.npy: cut", all_of(harm, cut(f"{FIRST}/codes.npy")), RUN, 0, "again", right=as_it_was)
    yield Fault(
        "codes.npy: lost", all_of(harm, removed(f"{FIRST}/codes.npy")), RUN, 0, "again", right=as_it_was
    )


def _settings() -> Iterator[Fault]:
    for kind, says in NO_KINDS.items():
        yield Fault(f"index.vectors: {kind}", nothing, f"{REDO} --set index.vectors={kind}", 78, says, (RUN,))
    few = f"{REDO} --set index.vectors="
    yield Fault(
        "index.vectors: ivfpq of few", nothing, few + "ivfpq", 78, "give flat, which is best for few", (RUN,)
    )
    yield Fault(
        "index.vectors: more cells than vectors",
        nothing,
        few + "IVF999,Flat",
        78,
        "give fewer cells, or flat",
        (RUN,),
    )
    narrow = f"{REDO} --set index.probes=1 --set index.rescore=1 --set index.min_recall=1"
    yield Fault(
        "index.min_recall is not reached",
        coded(CELLS),
        narrow,
        78,
        "Raise index.probes (now 1)",
        (f"{RUN} --set index.probes=4 --set index.rescore=8",),
        as_it_was,
    )
    yield Fault(
        "index.min_recall: 1.5", nothing, f"{RUN} --set index.min_recall=1.5", 78, "less than or equal to 1"
    )
    yield Fault(
        "index.stored_vectors: fp8", nothing, f"{RUN} --set index.stored_vectors=fp8", 78, "'fp16' or 'int8'"
    )
    yield Fault(
        "index.stored_vectors: another",
        coded(CELLS),
        f"{RUN} --set index.stored_vectors=int8",
        73,
        "--redo index",
        (f"{REDO} --set index.stored_vectors=int8",),
        complete("run"),
    )


FAULTS = (*_files(), *_settings())
