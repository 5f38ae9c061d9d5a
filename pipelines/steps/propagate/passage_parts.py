"""The units of propagate: parts of passages/, read as sentences of whole documents; and of documents/, for
their texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from answermill.indexing.labels.propagation import LabelledSentences
from answermill.indexing.labels.sentence_table import COLUMNS, SentenceTable
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.runs.parquet_folder import Folder, Part, read_batches
from answermill.pipelines.specs.ingest import DOCUMENTS, PASSAGES
from answermill.schemas.corpus import Document, Passage

AT_ONCE = 8_192
"""Passages that are labelled at once; more if one document has more."""


@dataclass(frozen=True)
class PassageParts:
    """The parts of a run's passages, by number; with the texts of their documents if windows are made."""

    passages: Folder[Passage]
    documents: Folder[Document] | None = None

    @classmethod
    def of(cls, run: Path, windows: bool) -> PassageParts:
        passages = PASSAGES.open(run)
        documents = DOCUMENTS.open(run) if windows else None
        if documents is not None and len(documents.parts) != len(passages.parts):
            raise RuntimeError(
                f"{len(passages.parts)} parts in {passages.path}, {len(documents.parts)} in {documents.path}"
            )
        return cls(passages, documents)

    def __len__(self) -> int:
        return len(self.passages.parts)

    def __iter__(self) -> Iterator[PassagePart]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> PassagePart:
        texts = (self.documents.path, self.documents.parts[number]) if self.documents is not None else None
        return PassagePart(number, self.passages.path, self.passages.parts[number], texts)


@dataclass(frozen=True, slots=True)
class PassagePart:
    """A part of passages/; `texts` is the part of documents/ with the same documents in the same order, if
    there is one."""

    number: int
    passages: Path
    part: Part
    texts: tuple[Path, Part] | None = None

    def sentences(self) -> Iterator[SentenceTable]:
        """The sentences of whole documents, AT_ONCE passages or more at a time."""
        pending: pa.Table | None = None
        for batch in read_batches(self.passages, self.part, COLUMNS, rows=AT_ONCE):
            table = pa.Table.from_batches([batch])
            pending = table if pending is None else pa.concat_tables([pending, table])
            ids = pending["doc_id"].combine_chunks()
            # The last document may go on in the next batch.
            whole = pc.index(pc.equal(ids, ids[-1]), True).as_py()
            if whole:
                yield SentenceTable.read(pending.slice(0, whole))
                pending = pending.slice(whole)
        if pending is not None and len(pending):
            yield SentenceTable.read(pending)


class DocumentTexts:
    """The texts of a part of documents/, to be read in the order of the part."""

    def __init__(self, folder: Path, part: Part) -> None:
        self._folder, self._part = folder, part
        self._batches = read_batches(folder, part, ["doc_id", "text"])
        self._batch: pa.RecordBatch | None = None

    def read(self, labelled: LabelledSentences) -> list[str]:
        """The text of each document of `labelled.sentences`; '' if none of the document's sentences has a
        label.

        Raises JobError (65) if documents/ lacks such a document, or has it in another order than passages/.
        """
        sentences = labelled.sentences
        texts = [""] * (int(sentences.document_of_passage[-1]) + 1)
        documents = np.unique(sentences.document[labelled.sentence[labelled.decided()]])
        pending = dict(zip(sentences.doc_ids(documents).to_pylist(), documents.tolist(), strict=True))
        doc_ids = pa.array(list(pending), pa.string())

        while pending:
            if self._batch is not None:
                rows = self._batch.filter(pc.is_in(self._batch.column("doc_id"), value_set=doc_ids))
                for doc_id, text in zip(
                    *(rows.column(name).to_pylist() for name in ("doc_id", "text")), strict=True
                ):
                    texts[pending.pop(doc_id)] = text

            if pending:
                self._batch = next(self._batches, None)
                if self._batch is None:
                    path = self._folder / self._part.file
                    raise JobError(
                        f"{path} has no document {next(iter(pending))!r} where passages/ has it; they are "
                        "of two runs; "
                        "run `answermill ingest` into a new folder",
                        BAD_DATA,
                    )

        return texts
