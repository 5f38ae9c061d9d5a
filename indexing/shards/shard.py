"""A shard, open for search: some passages with their Lucene index and their vectors, in one order (see
shard_files.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from answermill.indexing.shards import sentence_codes, tombstones
from answermill.indexing.shards.lucene.analyzers import ANALYZERS
from answermill.indexing.shards.lucene.bm25 import Bm25Index
from answermill.indexing.shards.lucene.given_index import documents_of
from answermill.indexing.shards.lucene.jvm import Java, anserini_jar, find_java, lucene_version, start
from answermill.indexing.shards.sentence_codes import CodesName, SentenceCodes, ShardCodes
from answermill.indexing.shards.shard_files import (
    BM25,
    CODED,
    DENSE,
    PASSAGES,
    QUANTIZER,
    ROWS_PER_GROUP,
    ShardFile,
    ShardMismatch,
    check_files,
    read_shard_file,
    what_to_do,
)
from answermill.indexing.shards.vectors.coded_index import CodedIndex
from answermill.indexing.shards.vectors.exact_index import DenseIndex
from answermill.indexing.shards.vectors.quantizer import Quantizer
from answermill.schemas.arrays import Rows
from answermill.schemas.corpus import Passage


class Shard:
    """A shard, open for search. Its Lucene and FAISS indexes are loaded when they are first needed."""

    def __init__(
        self, folder: Path, contents: ShardFile, java: Java | None, heap: str, device: str = "cpu"
    ) -> None:
        self.folder, self._device = folder, device
        self.rows, self.encoder, self.coded = contents.rows, contents.encoder, contents.coded
        self._tombstones = contents.gone
        self._fields, self._lucene_version = contents.bm25, contents.lucene
        self._java, self._heap = java, heap

    @classmethod
    def open(
        cls,
        folder: Path,
        java: Java | None = None,
        heap: str = "1g",
        verify: bool = True,
        digest: str | None = None,
        *,
        device: str = "cpu",
    ) -> Shard:
        """Open a shard folder, reading every byte once to compare checksums unless `verify` is off.

        `digest`: the expected SHA-256 of its shard.json. `device`: that which searches an exact dense index,
        as torch names it. Raises ShardDamaged if a file is missing or not the one that was written,
        ShardMismatch if another version of this program wrote the shard.
        """
        contents = read_shard_file(folder, digest)
        if verify:
            check_files(folder, contents.files)
        return cls(folder, contents, java, heap, device)

    def close(self) -> None:
        """Close the files, and free their memory."""
        for name in ("bm25", "_parquet"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()
        for name in ("dense", "_ids"):
            self.__dict__.pop(name, None)

    @cached_property
    def bm25(self) -> Bm25Index:
        """The Lucene index; starts the JVM. Raises ShardMismatch if another Lucene wrote it, or an analyser
        that is not known here, and JavaMissing."""
        fields = self._fields
        if ANALYZERS.get(fields.language) != fields.analyzer:
            raise ShardMismatch(
                f"{self.folder}: its words are by {fields.analyzer} for language {fields.language!r}, which "
                f"is not known here; {what_to_do(self.folder)}"
            )
        version = lucene_version(anserini_jar())
        if version != self._lucene_version:
            raise ShardMismatch(
                f"{self.folder}: written by Lucene {self._lucene_version}, here is {version}; scores could "
                "differ. "
                f"Install the pyserini it was built with, or {what_to_do(self.folder)}"
            )
        start(self._java or find_java(), self._heap)
        gone_index = self.folder / tombstones.BM25 if len(self.gone) else None
        documents = documents_of(self.folder) if fields.foreign else None
        return Bm25Index(self.folder / BM25, fields.language, self.gone, gone_index, documents)

    @cached_property
    def dense(self) -> DenseIndex | CodedIndex:
        """The FAISS index. Raises ShardMismatch if the shard was built without an encoder, or its codes by
        another quantizer than the one beside it."""
        if self.encoder is None:
            raise ShardMismatch(f"{self.folder}: built without an encoder, so it has no dense index")
        if self.coded is None:
            return DenseIndex.open(self.folder / DENSE, self.gone, self._device)
        try:
            quantizer = Quantizer.open(self.folder.parent / QUANTIZER, self.coded.quantizer)
        except (FileNotFoundError, ValueError):
            raise ShardMismatch(
                f"{self.folder}: its codes are by the quantizer {self.coded.quantizer[:16]}, and "
                f"{self.folder.parent / QUANTIZER} is another or missing; {what_to_do(self.folder)}"
            ) from None
        return CodedIndex.open(self.folder / CODED, quantizer, self.gone)

    @cached_property
    def gone(self) -> Rows:
        """The rows that no search finds, ascending."""
        return tombstones.gone_rows(self.folder, self._tombstones)

    def check_encoder(self, fingerprint: str) -> None:
        """Raise ShardMismatch unless the shard's vectors are by the encoder of this fingerprint."""
        if self.encoder is None or self.encoder.fingerprint != fingerprint:
            stored = f"{self.encoder.name} ({self.encoder.fingerprint})" if self.encoder else "none"
            raise ShardMismatch(
                f"{self.folder}: its encoder was {stored}, the job's is {fingerprint}; "
                f"{what_to_do(self.folder)}"
            )

    def check_words(self, language: str, title_weight: float) -> None:
        """Raise ShardMismatch unless the shard's words are of this language, and it has titles if they have
        weight."""
        if self._fields.language != language:
            raise ShardMismatch(
                f"{self.folder}: its words are of language {self._fields.language!r}, the job's is "
                f"{language!r}; {what_to_do(self.folder)}"
            )
        if title_weight and self._fields.foreign:
            raise ShardMismatch(
                f"{self.folder}: the index of index.lucene has no titles by themselves, and the job's "
                f"title_weight is {title_weight:g}; give 0"
            )
        if title_weight and not self._fields.titles:
            raise ShardMismatch(
                f"{self.folder}: written by a version of this program that kept no titles by themselves, and "
                f"the job's title_weight is {title_weight:g}; {what_to_do(self.folder)}"
            )

    def passage_ids(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> list[str]:
        """The ids of these rows, in their order."""
        ids: list[str] = self._ids.take(pa.array(np.asarray(rows, np.int64))).to_pylist()
        return ids

    def passages(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> list[Passage]:
        """The passages of these rows, in their order; reads only the row groups that hold them, each once."""
        different, places = np.unique(np.asarray(rows, np.int64), return_inverse=True)
        passages = Passage.rows(self.passage_table(different))
        return [passages[place] for place in places.tolist()]

    def passage_table(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """The passages of these rows, which ascend, as a table."""
        groups = rows // ROWS_PER_GROUP
        tables = [
            self._parquet.read_row_group(group, use_threads=False).take(
                pa.array(rows[groups == group] - group * ROWS_PER_GROUP)
            )
            for group in np.unique(groups).tolist()
        ]
        return pa.concat_tables(tables) if tables else Passage.schema().empty_table()

    @cached_property
    def _parquet(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.folder / PASSAGES, memory_map=True, page_checksum_verification=True)

    @cached_property
    def _ids(self) -> pa.Array:
        return self._parquet.read(["passage_id"], use_threads=False)["passage_id"].combine_chunks()


def stored_codes(
    folders: Sequence[Path],
    model: str,
    verify: bool = True,
    digests: Sequence[str] | None = None,
    vectors: bool = False,
) -> SentenceCodes | None:
    """The codes that these shards hold by the model of this digest; None if no shard holds codes of any
    model.

    `vectors` looks for vectors in place of bits of tokens; codes of the other form do not count. Compares
    each shard.json with its SHA-256 in `digests`, if these are known, and the codes' sizes, and checksums
    unless `verify` is off. Raises ShardMismatch if the codes are of other models or of another format,
    ShardDamaged if a file is not the one that was written.
    """
    shards = []
    for n, folder in enumerate(folders):
        contents = read_shard_file(folder, digests[n] if digests else None)
        entries = contents.codes
        if any(entry["format"] != sentence_codes.FORMAT for entry in entries):
            raise ShardMismatch(
                f"{folder}: its sentence codes were written by another version of this program; "
                f"{what_to_do(folder)}"
            )

        names = {entry["model"]: CodesName(**entry) for entry in entries}
        names = {
            key: name for key, name in names.items() if (name.form != sentence_codes.TOKEN_BITS) == vectors
        }
        if not names:
            continue

        if model not in names:
            source = "vectors are of encoder and settings" if vectors else "codes are of checkpoint"
            raise ShardMismatch(
                f"{folder}: its sentence {source} {', '.join(sorted(names))}, the job's is {model}. Run this "
                "job's index in "
                "another --out; or rerank in a folder without shards/, where every sentence is encoded anew"
            )

        inside = sentence_codes.folder_of(Path(), model).as_posix()
        check_files(
            folder, {name: file for name, file in contents.files.items() if name.startswith(inside)}, verify
        )
        shards.append(ShardCodes(folder, names[model]))

    return SentenceCodes(shards) if shards else None
