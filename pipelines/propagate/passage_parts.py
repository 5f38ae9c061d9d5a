"""A unit of propagate: a part of passages/, read as sentences of whole documents; and of documents/, for their texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexing.labels.propagation import COLUMNS, Labelled, Sentences
from pipelines.errors import BAD_DATA, JobError
from pipelines.execution.parquet_folder import Folder, Part, read_batches
from schemas.corpus import Document, Passage

AT_ONCE = 8_192
"""Passages that are labelled at once, and more where a document has more."""


def units_of(run: Path, windows: bool) -> list[Unit]:
    passages = Folder.open(run / "passages", Passage, "ingest")
    if not windows:
        return [Unit(n, passages.path, part) for n, part in enumerate(passages.parts)]
    documents = Folder.open(run / "documents", Document, "ingest")
    pairs = enumerate(zip(passages.parts, documents.parts, strict=True))
    return [Unit(n, passages.path, part, (documents.path, texts)) for n, (part, texts) in pairs]


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of passages/; and of documents/, of the same documents in the same order, where windows are wanted."""

    number: int
    passages: Path
    part: Part
    texts: tuple[Path, Part] | None = None

    def sentences(self) -> Iterator[Sentences]:
        """Of whole documents, AT_ONCE passages or more at a time."""
        held: pa.Table | None = None
        for batch in read_batches(self.passages, self.part, COLUMNS, rows=AT_ONCE):
            table = pa.Table.from_batches([batch])
            held = table if held is None else pa.concat_tables([held, table])
            ids = held["doc_id"].combine_chunks()
            whole = pc.index(pc.equal(ids, ids[-1]), True).as_py()  # of a document that goes on, the first passage
            if whole:
                yield Sentences.read(held.slice(0, whole))
                held = held.slice(whole)
        if held is not None and len(held):
            yield Sentences.read(held)


class Texts:
    """The texts of a part of documents/, asked for in its order."""

    def __init__(self, folder: Path, part: Part) -> None:
        self._folder, self._part = folder, part
        self._batches = read_batches(folder, part, ["doc_id", "text"])
        self._batch: pa.RecordBatch | None = None

    def of(self, labelled: Labelled) -> list[str]:
        """Of each document of the sentences; '' where none of its sentences has a label."""
        here = labelled.sentences
        made = [""] * (int(here.document[-1]) + 1)
        wanted = np.unique(here.of[labelled.sentence[labelled.rows()]])
        places = dict(zip(here.doc_ids(wanted).to_pylist(), wanted.tolist(), strict=True))
        names = pa.array(list(places), pa.string())
        while places:
            if self._batch is not None:
                rows = self._batch.filter(pc.is_in(self._batch.column("doc_id"), value_set=names))
                for doc_id, text in zip(*(rows.column(name).to_pylist() for name in ("doc_id", "text")), strict=True):
                    made[places.pop(doc_id)] = text
            if places and (following := next(self._batches, None)) is None:
                path = self._folder / self._part.file
                raise JobError(f"{path} has no document {next(iter(places))!r}, or not where passages/ has it", BAD_DATA)
            self._batch = following if places else self._batch
        return made
