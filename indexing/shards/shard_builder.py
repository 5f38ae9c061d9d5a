"""Builds a shard: passages, their Lucene index, their vectors and their sentences' codes in one order; whole
or not at all.

A shard is written under another name beside its place, `.NAME.<random>.tmp`, and moved there when every byte
is on the disk. A killed build leaves a folder of such a name; the index step deletes it when it begins.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from answermill.files.atomic_files import replace_folder
from answermill.indexing.shards import sentence_codes
from answermill.indexing.shards.kept_blocks import KeptBlocks
from answermill.indexing.shards.lucene.analyzers import ANALYZERS, ENGLISH
from answermill.indexing.shards.lucene.bm25 import Bm25Writer
from answermill.indexing.shards.lucene.given_index import GivenWriter
from answermill.indexing.shards.lucene.jvm import Java, anserini_jar, find_java, lucene_version, start
from answermill.indexing.shards.sentence_codes import CodeMaker, CodesName
from answermill.indexing.shards.shard_files import (
    BM25,
    CODED,
    DENSE,
    FORMAT,
    PASSAGES,
    ROWS_PER_GROUP,
    CodedName,
    list_files,
    write_shard_file,
)
from answermill.indexing.shards.vectors.coded_index import CodedWriter
from answermill.indexing.shards.vectors.exact_index import DenseWriter
from answermill.indexing.shards.vectors.quantizer import Quantizer
from answermill.indexing.shards.vectors.stored_vectors import Form
from answermill.schemas.corpus import Passage

BLOCK = ROWS_PER_GROUP
"""Passages that are written at a time if there is no encoder whose `at_once` decides."""


class PassageEncoder(Protocol):
    """The dense encoder, as far as a shard needs it and keeps its description."""

    name: str
    dimension: int
    precision: Literal["fp32", "bf16"]
    at_once: int
    """Passages that are encoded in one call, and kept: a multiple of BLOCK, or a shard's row groups would
    depend on it."""

    @property
    def fingerprint(self) -> str: ...

    def encode_passages(self, titles_and_texts: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True)
class Coding:
    """Form of a dense index that is not exact."""

    kind: str
    quantizer: Quantizer
    stored: Form


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Contents of a shard, and the means to build it."""

    encoder: PassageEncoder | None = None
    """None builds no dense index."""
    coders: Sequence[CodeMaker] = ()
    """Makers whose codes of all sentences are stored."""
    java: Java | None = None
    """None takes the one that is found."""
    language: str = ENGLISH
    """The language of the passages, a key of ANALYZERS."""
    heap: str = "1g"
    """The memory of the JVM, as Java's -Xmx takes it."""
    coding: Coding | None = None
    """None builds an exact dense index."""
    lucene: Path | None = None
    """A Lucene index of others, in which each passage's page is a document; None builds one."""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """The size of a shard that was built: passages, bytes on disk, and the seconds that each index took."""

    passages: int
    bytes: int
    seconds_bm25: float
    seconds_dense: float
    codes: tuple[CodesName, ...]
    seconds_codes: tuple[float, ...]
    """Seconds of each of `codes`."""


def build_shard(
    passages: Iterable[Passage],
    folder: Path,
    settings: ShardSettings,
    kept: Path | None = None,
    on_block: Callable[[int, int], object] = lambda passages, kept: None,
) -> ShardReport:
    """Build the shard of these passages, in their order. A folder that is there already is replaced.

    Passages are read in blocks of 256, or of the encoder's `at_once`. The vectors (4 bytes × dimension a
    passage) and the hashes of the sentences stay in memory until the end. `kept`: a folder that holds the
    vectors and codes of the blocks until the shard is complete, so that the next build of the same passages
    goes on there. `on_block` is called after each block with the number of its passages, and the number of
    those that were kept. Raises JavaMissing, and any error of reading the passages.
    """
    start(settings.java or find_java(), settings.heap)
    blocks = KeptBlocks(kept)
    with new_shard(folder) as temporary:
        report = _write_shard(passages, temporary, settings, blocks, on_block)
    blocks.delete()
    return report


@contextmanager
def new_shard(folder: Path) -> Iterator[Path]:
    """A new folder beside a shard's place, which gets its name when the block succeeds."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        replace_folder(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write_shard(
    passages: Iterable[Passage],
    folder: Path,
    settings: ShardSettings,
    blocks: KeptBlocks,
    on_block: Callable[[int, int], object],
) -> ShardReport:
    encoder, rows = settings.encoder, 0
    vectors = _vector_writer(settings) if encoder else None
    writers = [sentence_codes.CodeWriter(folder, coder, blocks) for coder in settings.coders]
    seconds_bm25 = seconds_dense = 0.0
    clock = time.perf_counter

    words = (
        Bm25Writer(folder / BM25, settings.language)
        if settings.lucene is None
        else GivenWriter(settings.lucene, folder / BM25)
    )
    with passage_writer(folder / PASSAGES) as parquet, words as lucene:
        for block in blocks_of(passages, encoder.at_once if encoder else BLOCK):
            read = blocks.read
            parquet.write_table(Passage.table(block), row_group_size=ROWS_PER_GROUP)

            began = clock()
            for passage in block:
                if isinstance(lucene, GivenWriter):
                    lucene.add(passage.doc_id)
                else:
                    lucene.add(passage.title, passage.text)
            seconds_bm25 += clock() - began

            if encoder and vectors:
                began = clock()
                vectors.add(encoded(block, encoder, blocks))
                seconds_dense += clock() - began

            for writer in writers:
                writer.add_passages(block)

            rows += len(block)
            on_block(len(block), len(block) if blocks.read > read else 0)

        began = clock()

    seconds_bm25 += clock() - began  # Lucene writes most of its index when it is closed

    if vectors:
        vectors.write(folder / (CODED if settings.coding else DENSE))
    codes = tuple(writer.finish() for writer in writers)
    size = _describe(folder, rows, settings, codes)
    return ShardReport(
        rows, size, seconds_bm25, seconds_dense, codes, tuple(writer.seconds for writer in writers)
    )


def _vector_writer(settings: ShardSettings) -> DenseWriter | CodedWriter:
    assert settings.encoder is not None
    coding = settings.coding
    if coding is None:
        return DenseWriter(settings.encoder.dimension)
    return CodedWriter(coding.quantizer, coding.stored)


def passage_writer(file: Path) -> pq.ParquetWriter:
    """The writer of a shard's passages; columns whose values repeat have a dictionary."""
    repeated = ["doc_id", "url", "title", "source_file", "source_record", "date"]
    options = {
        "compression": "zstd",
        "write_page_checksum": True,
        "write_statistics": False,
        "use_dictionary": repeated,
    }
    return pq.ParquetWriter(file, Passage.schema(), **options)


def _describe(folder: Path, rows: int, settings: ShardSettings, codes: Sequence[CodesName]) -> int:
    """Write the file that lists all others of the shard, the last one, and return the bytes of all."""
    encoder, coding, files = settings.encoder, settings.coding, list_files(folder)
    contents: dict[str, Any] = {
        "format": FORMAT,
        "rows": rows,
        "passage_schema": Passage.fingerprint(),
        "lucene": lucene_version(anserini_jar()),
        "bm25": {"analyzer": ANALYZERS[settings.language], "language": settings.language, "titles": True},
        "faiss": _faiss_version() if encoder else None,
        "encoder": _encoder_name(encoder) if encoder else None,
        "codes": [asdict(name) for name in codes],
        "files": files,
    }
    if settings.lucene is not None:
        contents["bm25"] |= {"titles": False, "foreign": True}
    if coding is not None:
        name = CodedName(coding.kind, coding.stored, coding.quantizer.digest)
        contents["coded"] = asdict(name)
    return write_shard_file(folder, contents)


def blocks_of(passages: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    """Passages in blocks of `size`, of which the last may be smaller."""
    rest = iter(passages)
    while block := list(islice(rest, size)):
        yield block


def encoded(block: Sequence[Passage], encoder: PassageEncoder, kept: KeptBlocks) -> npt.NDArray[np.float32]:
    """The vectors of a block's passages [passages, dimension], kept for the next build of the shard."""
    texts = [(passage.title, passage.text) for passage in block]
    decisive = ["dense", encoder.fingerprint, encoder.precision, *(part for pair in texts for part in pair)]
    return kept.get(decisive, lambda: {"vectors": encoder.encode_passages(texts)})["vectors"]


def _encoder_name(encoder: PassageEncoder) -> dict[str, str | int]:
    """The fields of `EncoderName`."""
    return {
        "name": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dimension": encoder.dimension,
        "precision": encoder.precision,
    }


def _faiss_version() -> str:
    import faiss

    return str(faiss.__version__)
