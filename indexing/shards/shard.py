"""The shard folder: passages, their Lucene index and their vectors, in one order; built whole or not at all.

    shards/00017-of-00512/
      passages.parquet   row i is …
      bm25/              … Lucene's document i …
      dense.faiss        … and vector i; absent where the shard was built without an encoder
      codes/<model>/     of each different sentence the bits of its matrix, where the plan has a model that reads them
      shard.json         written last: rows, versions, encoder, and the size and SHA-256 of every other file

A shard is written under another name beside its place, and moved there when every byte is on the disk. Lucene and FAISS
do not notice every flipped bit, so opening compares the checksums before either reads a byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from indexing.shards import answer_codes
from indexing.shards.answer_codes import AnswerCodes, AnswerEncoder, CodesName, ShardCodes
from indexing.shards.bm25 import ANALYZER, Bm25Index, Bm25Writer
from indexing.shards.jvm import Java, anserini_jar, find_java, lucene_version, start
from indexing.shards.vector_index import DenseIndex, DenseWriter
from schemas.corpus import Passage

FORMAT = 1
SHARD_FILE = "shard.json"
PASSAGES = "passages.parquet"
BM25 = "bm25"
DENSE = "dense.faiss"

_GROUP = 256  # rows of a row group: what is read and unpacked to fetch one passage
_CHUNK = 16 * _GROUP  # passages in memory while building


class ShardDamaged(RuntimeError):
    """A file of the shard is missing, or is not the one that was written; the message says what to type."""


class ShardMismatch(RuntimeError):
    """The shard was made by another Lucene, or by another encoder, than the one at hand."""


class PassageEncoder(Protocol):
    """What a shard needs of the dense encoder, and what it keeps of it."""

    name: str
    dimension: int
    precision: Literal["fp32", "bf16"]

    @property
    def fingerprint(self) -> str: ...

    def encode_passages(self, titles_and_texts: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """How a shard is built: BM25's k1 and b, and the memory of the JVM, as Java's -Xmx takes it."""

    k1: float = 0.9
    b: float = 0.4
    heap: str = "1g"


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What was built: passages, bytes on disk, and the seconds that each index took."""

    passages: int
    bytes: int
    seconds_bm25: float
    seconds_dense: float
    seconds_codes: float
    codes: tuple[CodesName, ...]


def build(
    passages: Iterable[Passage],
    folder: Path,
    settings: ShardSettings,
    encoder: PassageEncoder | None,
    java: Java | None = None,
    answers: Sequence[AnswerEncoder] = (),
) -> ShardReport:
    """Build the shard of these passages, in their order; without an encoder it has no dense index.

    `answers`: of each, the codes of all sentences are stored. Passages pass through in chunks of 4,096; what stays in memory
    until the end is the vectors (4 bytes × dimension a passage) and the hashes of the sentences. A folder that is there
    already is replaced. Raises JavaMissing, and what reading the passages raises.
    """
    java = java or find_java()
    start(java, settings.heap)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    made = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    made.mkdir()
    try:
        report = _write(passages, made, settings, encoder, answers)
        _put(made, folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return report


def _write(
    passages: Iterable[Passage],
    made: Path,
    settings: ShardSettings,
    encoder: PassageEncoder | None,
    answers: Sequence[AnswerEncoder],
) -> ShardReport:
    seconds_bm25 = seconds_dense = seconds_codes = 0.0
    vectors = DenseWriter(encoder.dimension) if encoder else None
    writers = [answer_codes.CodeWriter(made, each) for each in answers]
    rows = 0
    clock = time.perf_counter
    with (
        pq.ParquetWriter(
            made / PASSAGES,
            Passage.schema(),
            compression="zstd",
            write_page_checksum=True,
            write_statistics=False,
            use_dictionary=["doc_id", "url", "title"],
        ) as parquet,
        Bm25Writer(made / BM25) as lucene,
    ):
        for chunk in _chunks(passages):
            parquet.write_table(Passage.table(chunk), row_group_size=_GROUP)
            began = clock()
            for passage in chunk:
                lucene.add(passage.title, passage.text)
            seconds_bm25 += clock() - began
            if encoder and vectors:
                began = clock()
                vectors.add(encoder.encode_passages([(passage.title, passage.text) for passage in chunk]))
                seconds_dense += clock() - began
            began = clock()
            for writer in writers:
                writer.add([sentence.text for passage in chunk for sentence in passage.sentences])
            seconds_codes += clock() - began
            rows += len(chunk)
        began = clock()
    seconds_bm25 += clock() - began
    if vectors:
        vectors.write(made / DENSE)
    stored = tuple(writer.finish() for writer in writers)
    files: dict[str, dict[str, Any]] = {
        path.relative_to(made).as_posix(): {"size": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(made.rglob("*"))
        if path.is_file()
    }
    written = {
        "format": FORMAT,
        "rows": rows,
        "passage_schema": Passage.fingerprint(),
        "lucene": lucene_version(anserini_jar()),
        "bm25": {"k1": settings.k1, "b": settings.b, "analyzer": ANALYZER},
        "faiss": _faiss_version() if encoder else None,
        "encoder": asdict(EncoderName(encoder.name, encoder.fingerprint, encoder.dimension, encoder.precision))
        if encoder
        else None,
        "codes": [asdict(each) for each in stored],
        "files": files,
    }
    (made / SHARD_FILE).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    size = sum(file["size"] for file in files.values()) + (made / SHARD_FILE).stat().st_size
    return ShardReport(rows, size, seconds_bm25, seconds_dense, seconds_codes, stored)


@dataclass(frozen=True, slots=True)
class EncoderName:
    """Which encoder made the vectors."""

    name: str
    fingerprint: str
    dimension: int
    precision: str


class Shard:
    """A shard, open for search. Its Lucene and FAISS indexes are loaded when first asked for."""

    def __init__(self, folder: Path, written: dict[str, Any], java: Java | None, heap: str) -> None:
        self.folder = folder
        self.rows: int = written["rows"]
        self.encoder = EncoderName(**written["encoder"]) if written["encoder"] else None
        self.k1, self.b = float(written["bm25"]["k1"]), float(written["bm25"]["b"])
        self._lucene_version: str = written["lucene"]
        self._java, self._heap = java, heap

    @classmethod
    def open(cls, folder: Path, java: Java | None = None, heap: str = "1g", verify: bool = True) -> Shard:
        """Open a shard folder, reading every byte once to compare checksums unless `verify` is off.

        Raises FileNotFoundError where there is no shard, ShardDamaged where a file is not the one that was written.
        """
        written = _read(folder)
        if verify:
            _verify(folder, written["files"])
        return cls(folder, written, java, heap)

    def close(self) -> None:
        """Give files and memory back."""
        for name in ("bm25", "_parquet"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()
        for name in ("dense", "_ids"):
            self.__dict__.pop(name, None)

    @cached_property
    def bm25(self) -> Bm25Index:
        """The Lucene index; starts the JVM. Raises ShardMismatch where another Lucene wrote it, and JavaMissing."""
        version = lucene_version(anserini_jar())
        if version != self._lucene_version:
            raise ShardMismatch(
                f"{self.folder}: written by Lucene {self._lucene_version}, here is {version}; scores could differ. "
                f"Install the pyserini it was built with, or {_again(self.folder)}"
            )
        start(self._java or find_java(), self._heap)
        return Bm25Index(self.folder / BM25, self.k1, self.b)

    @cached_property
    def dense(self) -> DenseIndex:
        """The FAISS index. Raises ShardMismatch where the shard was built without an encoder."""
        if self.encoder is None:
            raise ShardMismatch(f"{self.folder}: built without an encoder, so it has no dense index")
        return DenseIndex.open(self.folder / DENSE)

    def check_encoder(self, fingerprint: str) -> None:
        """Raises ShardMismatch where the vectors were made by another encoder than the one of this fingerprint."""
        if self.encoder is None or self.encoder.fingerprint != fingerprint:
            made_by = f"{self.encoder.name} ({self.encoder.fingerprint})" if self.encoder else "none"
            raise ShardMismatch(f"{self.folder}: its encoder was {made_by}, the job's is {fingerprint}; {_again(self.folder)}")

    def passage_ids(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> list[str]:
        """The ids of these rows, in their order."""
        found: list[str] = self._ids.take(pa.array(np.asarray(rows, np.int64))).to_pylist()
        return found

    def passages(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> list[Passage]:
        """The passages of these rows, in their order; reads only the row groups that hold them, each once."""
        wanted = np.asarray(rows, np.int64)
        found: dict[int, Passage] = {}
        for group in np.unique(wanted // _GROUP).tolist():
            inside = np.unique(wanted[wanted // _GROUP == group])
            table = self._parquet.read_row_group(group, use_threads=False).take(pa.array(inside - group * _GROUP))
            found.update(zip(inside.tolist(), Passage.rows(table), strict=True))
        return [found[row] for row in wanted.tolist()]

    @cached_property
    def _parquet(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.folder / PASSAGES, memory_map=True, page_checksum_verification=True)

    @cached_property
    def _ids(self) -> pa.Array:
        return self._parquet.read(["passage_id"], use_threads=False)["passage_id"].combine_chunks()


def stored_codes(folders: Sequence[Path], model: str, verify: bool = True) -> AnswerCodes | None:
    """The codes that these shards hold by the model of this digest; None where no shard holds codes of any.

    Compares sizes, and checksums unless `verify` is off. Raises ShardMismatch where the codes are of other models or of another
    format, ShardDamaged where a file is not the one that was written.
    """
    found = []
    for folder in folders:
        written = _read(folder)
        held = written.get("codes", [])
        if any(each["format"] != answer_codes.FORMAT for each in held):
            raise ShardMismatch(f"{folder}: its answer codes were written by another version of this program; {_again(folder)}")
        names = {each["model"]: CodesName(**each) for each in held}
        if not names:
            continue
        if model not in names:
            raise ShardMismatch(
                f"{folder}: its answer codes are of checkpoint {', '.join(sorted(names))}, the job's is {model}. Run this "
                "job's index in another --out; or rerank in a folder without shards/, where every answer is encoded anew"
            )
        inside = answer_codes.folder_of(Path(), model).as_posix()
        _verify(folder, {name: file for name, file in written["files"].items() if name.startswith(inside)}, verify)
        found.append(ShardCodes(folder, names[model]))
    return AnswerCodes(found) if found else None


def _read(folder: Path) -> dict[str, Any]:
    """shard.json. Raises as `Shard.open`."""
    try:
        written: dict[str, Any] = json.loads((folder / SHARD_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise FileNotFoundError(f"{folder}: no {SHARD_FILE}, so no shard; run the index step") from e
    except ValueError as e:
        raise ShardDamaged(f"{folder / SHARD_FILE}: not JSON ({e}); {_again(folder)}") from e
    if written.get("format") != FORMAT or written.get("passage_schema") != Passage.fingerprint():
        raise ShardMismatch(f"{folder}: written by another version of this program; {_again(folder)}")
    return written


def _chunks(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    given = iter(passages)
    while chunk := list(islice(given, _CHUNK)):
        yield chunk


def _verify(folder: Path, files: dict[str, dict[str, Any]], checksums: bool = True) -> None:
    for name, file in files.items():
        path = folder / name
        if not path.is_file():
            raise ShardDamaged(f"{path}: missing; {_again(folder)}")
        if path.stat().st_size != file["size"]:
            raise ShardDamaged(f"{path}: {path.stat().st_size:,} bytes, {file['size']:,} were written; {_again(folder)}")
        if checksums and _sha256(path) != file["sha256"]:
            raise ShardDamaged(f"{path}: its SHA-256 is not the one that was written; {_again(folder)}")


def _again(folder: Path) -> str:
    return f"delete {folder} and run the index step again"


def _put(made: Path, folder: Path) -> None:
    """Bring every byte to the disk, then give the folder its name."""
    for path in [*made.rglob("*"), made]:
        _fsync(path)
    if folder.exists():  # a shard whose report was never written, or of a run that begins anew
        old = made.with_suffix(".old")
        folder.rename(old)
        made.rename(folder)
        shutil.rmtree(old)
    else:
        made.rename(folder)
    _fsync(folder.parent)


def _sweep(folder: Path) -> None:
    """Delete what builds of this shard left that were killed. One process builds a shard at a time."""
    for left in [*folder.parent.glob(f".{folder.name}.*.tmp"), *folder.parent.glob(f".{folder.name}.*.old")]:
        shutil.rmtree(left, ignore_errors=True)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _faiss_version() -> str:
    import faiss

    return str(faiss.__version__)
