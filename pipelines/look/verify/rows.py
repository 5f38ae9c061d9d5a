"""Verification of a run's rows: schemas, unique ids, links to other folders, places of texts, ranks 1 to n.

Rows are read a few hundred at a time; hashes of ids are kept in files (id_sets.py); memory holds one
question's list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from answermill.files.store import fetch
from answermill.indexing.labels.hash_join import hashes
from answermill.indexing.passages.row_digests import row_digests
from answermill.indexing.shards.tombstones import ROWS
from answermill.pipelines.look.verify.finding import Finding, Remedy
from answermill.pipelines.look.verify.id_sets import IdSet, files_for
from answermill.pipelines.runs.manifests.manifest import Manifest, Part
from answermill.pipelines.specs.registry import folder_specs, spec_of

BATCH = 512
_BETWEEN = "\x1f"
Places = npt.NDArray[np.int64]
OnRead = Callable[[int], object]
"""Called with the number of rows that were read."""


class _ListRow(NamedTuple):
    """Checked values of a row of a list. `filled`: values of the columns of `FolderSpec.filled`."""

    question: str
    rank: int | None
    candidate: tuple[Any, ...]
    fate: str
    filled: tuple[Any, ...]


class RunRows:
    """Rows of the committed folders of `run` whose files are sound. `scratch`: an empty folder of this
    machine for hashes. `further`: folder → the same folder of other places, whose ids may be linked to as
    well."""

    def __init__(
        self,
        run: Path,
        manifests: Mapping[str, Manifest],
        scratch: Path,
        further: Mapping[str, Sequence[RunRows]] | None = None,
    ) -> None:
        self._run, self._manifests, self._scratch, self._further = run, manifests, scratch, further or {}
        self._specs = folder_specs()
        self._files = files_for(max((manifest.rows for manifest in manifests.values()), default=0))

    def check(self, on_read: OnRead) -> Iterator[Finding]:
        """All faults of the rows; texts are read once, the columns of ids twice."""
        sound = []
        for folder, manifest in self._manifests.items():
            wrong = list(self._schemas(folder, manifest))
            yield from wrong
            sound += [] if wrong else [folder]

        keyed = [folder for folder in sound if self._specs[folder].key]
        keys = {folder: self._ids(folder, self._specs[folder].key, f"keys-{folder}") for folder in keyed}
        for folder, ids in keys.items():
            key = self._specs[folder].key
            for value in self._named(folder, key, set(ids.repeated()), more_than_once=True):
                yield self._wrong(folder, f"has two rows of {' and '.join(key)} {value}")

        for folder, others in self._further.items():
            for other in others if folder in keys else ():
                for ids_of_batch in other._keys(folder, self._specs[folder].key):
                    keys[folder].add(ids_of_batch)

        for folder in sound:
            for column, target in self._specs[folder].links.items():
                if target in keys and self._manifests[target].rows:
                    ids = self._ids(folder, (column,), f"{folder}-{column}")
                    for value in self._named(folder, (column,), set(ids.absent_from(keys[target]))):
                        yield self._wrong(folder, f"has {column} {value}, which is not in {target}/")

        for folder in sound:
            yield from (self._wrong(folder, wrong) for wrong in self._own_checks(folder, sound))
            on_read(self._manifests[folder].rows)

    def _own_checks(self, folder: str, sound: Sequence[str]) -> Iterator[str]:
        """Faults of a folder beyond its keys and links."""
        spec = self._specs[folder]
        if spec.cut_from in sound:
            yield from self._texts(folder, spec.cut_from)
        if spec.part_is_folder and spec.same_rows_as:
            yield from self._shards(folder, spec.same_rows_as)
        if spec.list_of:
            yield from self._lists(folder)

    def _wrong(self, folder: str, what: str) -> Finding:
        return Finding(folder, what, self._manifests[folder].step, Remedy.REDO)

    def _schemas(self, folder: str, manifest: Manifest) -> Iterator[Finding]:
        """Faults of the parts' schemas and numbers of rows."""
        record = self._specs[folder].record
        if manifest.record != record.__name__ or manifest.schema != record.fingerprint():
            yield self._wrong(
                folder,
                f"holds {manifest.record} {manifest.schema}, this version {record.__name__} "
                f"{record.fingerprint()}",
            )
            return

        for part in manifest.parts:
            with pq.ParquetFile(self._file(folder, part)) as file:
                if not file.schema_arrow.equals(record.schema()):
                    yield self._wrong(
                        folder, f"has {part.file}, whose columns are not those of {record.__name__}"
                    )
                rows = file.metadata.num_rows - len(self._gone(folder, part))
                if rows != part.rows:
                    yield self._wrong(folder, f"has {part.file} of {rows:,} rows, {part.rows:,} were written")

    def _file(self, folder: str, part: Part) -> Path:
        if self._specs[folder].part_is_folder:
            place = self._run / folder / part.file / "passages.parquet"
            return fetch(place)
        return fetch(self._run / folder / part.file, part.sha256)

    def _gone(self, folder: str, part: Part) -> Places:
        """The rows of a part that are tombstones, ascending; only a shard has some."""
        place = self._run / folder / part.file
        if not (self._specs[folder].part_is_folder and (place / ROWS).is_file()):
            return np.empty(0, np.int64)
        rows: Places = np.load(fetch(place / ROWS), allow_pickle=False)
        return rows

    def _batches(
        self, folder: str, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[Part, pa.RecordBatch]]:
        for part in self._manifests[folder].parts:
            gone, first = self._gone(folder, part), 0
            with pq.ParquetFile(self._file(folder, part)) as file:
                for batch in file.iter_batches(BATCH, columns=list(columns) if columns else None):
                    own = gone[slice(*np.searchsorted(gone, [first, first + len(batch)]))] - first
                    yield part, batch.take(np.delete(np.arange(len(batch)), own)) if len(own) else batch
                    first += len(batch)

    def _keys(self, folder: str, columns: Sequence[str]) -> Iterator[pa.Array]:
        """Values of one column, or of several joined, batch by batch."""
        for _, batch in self._batches(folder, columns):
            arrays = [_column(batch, name) for name in columns]
            yield arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, _BETWEEN)

    def _ids(self, folder: str, columns: Sequence[str], name: str) -> IdSet:
        ids = IdSet(self._scratch / name.replace("/", "-"), self._files)
        for keys in self._keys(folder, columns):
            ids.add(keys)
        return ids

    def _named(
        self, folder: str, columns: Sequence[str], wanted: set[int], more_than_once: bool = False
    ) -> list[str]:
        """Quoted keys with these hashes that occur, or occur more than once."""
        if not wanted:
            return []
        counts: Counter[str] = Counter()
        for keys in self._keys(folder, columns):
            counts.update(
                key
                for key, digest in zip(keys.to_pylist(), hashes(keys).tolist(), strict=True)
                if digest in wanted
            )
        return [repr(key.replace(_BETWEEN, ", ")) for key, n in counts.items() if n > more_than_once]

    def _texts(self, folder: str, source: str) -> Iterator[str]:
        """Passages and sentences whose text differs from their document's at that place, or whose id is of
        another place."""
        documents = chain.from_iterable(
            zip(batch["doc_id"].to_pylist(), batch["text"].to_pylist(), strict=True)
            for _, batch in self._batches(source, ["doc_id", "text"])
        )

        doc_id, text, number = None, "", 0
        for _, batch in self._batches(folder, ["passage_id", "doc_id", "start", "end", "text", "sentences"]):
            for row in batch.to_pylist():
                number += 1
                if row["doc_id"] != doc_id:
                    doc_id, text = next((pair for pair in documents if pair[0] == row["doc_id"]), (None, ""))
                    number = 0

                if doc_id is None:
                    yield f"has {row['passage_id']!r} out of the documents' order"
                    return

                if (
                    row["passage_id"] != f"{doc_id}#{number}"
                    or text[row["start"] : row["end"]] != row["text"]
                ):
                    yield f"has {row['passage_id']!r}, whose text is not its document's there"

                for sentence in row["sentences"]:
                    name, start, end = sentence["sentence_id"], sentence["start"], sentence["end"]
                    if name != f"{doc_id}@{start}" or text[start:end] != sentence["text"]:
                        yield f"has sentence {name!r}, whose text is not its document's there"

    def _shards(self, folder: str, source: str) -> Iterator[str]:
        """First shard with a row that their source has not, which has as many; the order of shards that were
        taken over from another run is another."""
        if source not in self._manifests:
            return

        own, theirs = (self._rows(name, f"rows-{name}") for name in (folder, source))
        wanted = {*own.absent_from(theirs), *own.repeated()}
        for part, batch in self._batches(folder) if wanted else ():
            if not wanted.isdisjoint(hashes(_digests(batch)).tolist()):
                yield f"has other {source} in {part.file} than {source}/ has"
                return

    def _rows(self, folder: str, name: str) -> IdSet:
        """All rows of a folder, by their digests."""
        rows = IdSet(self._scratch / name, self._files)
        for _, batch in self._batches(folder):
            rows.add(_digests(batch))
        return rows

    def _lists(self, folder: str) -> Iterator[str]:
        """Faults of the lists of questions: ranks, repeated candidates, fates that do not add up."""
        spec, fates = self._specs[folder], Counter[str]()
        questions = IdSet(self._scratch / f"lists-{folder}", self._files)
        for question, group in groupby(self._list_rows(folder), key=lambda row: row.question):
            rows = list(group)
            questions.add(pa.array([question]))
            ranks = sorted(row.rank for row in rows if row.rank is not None)
            if ranks != list(range(1, len(ranks) + 1)) or (not spec.fate and len(ranks) < len(rows)):
                yield f"has other ranks than 1 to {len(ranks)} for question {question!r}"
            if len({row.candidate for row in rows}) < len(rows):
                yield f"has a candidate twice for question {question!r}"

            fates.update(row.fate for row in rows if row.fate)
            filled = ((row.fate == fate, row.filled[n]) for row in rows for n, fate in enumerate(spec.filled))
            if any(is_its_fate != (value is not None) for is_its_fate, value in filled):
                yield f"has a fate that is not that of its rank for question {question!r}"

        if next(questions.repeated(), None) is not None:
            yield "has two lists of one question"
        if fates != self._fates_counted(folder):
            yield f"has {dict(sorted(fates.items()))}, other fates than were counted"

    def _list_rows(self, folder: str) -> Iterator[_ListRow]:
        spec = self._specs[folder]
        columns = [spec.list_of, "rank", *spec.candidate, *filter(None, [spec.fate]), *spec.filled.values()]
        for _, batch in self._batches(folder, columns):
            values = {name: _column(batch, name).to_pylist() for name in columns}
            candidates = zip(*(values[name] for name in spec.candidate), strict=True)
            fates = values[spec.fate] if spec.fate else repeat("")
            filled = zip(*(values[name] for name in spec.filled.values()), strict=True)
            lists = (values[spec.list_of], values["rank"], candidates, fates)
            yield from map(_ListRow, *lists, filled if spec.filled else repeat(()))

    def _fates_counted(self, folder: str) -> Counter[str]:
        """Fate → number of its rows by the step's counts; empty if the folder's rows have no fate."""
        spec, manifest = self._specs[folder], self._manifests[folder]
        writer = spec_of(manifest.step)
        if not spec.fate or writer is None:
            return Counter()
        counts = writer.counts_of(manifest)
        return Counter({fate: getattr(counts, fate) for fate in counts.sums[spec.rows]})


def _digests(batch: pa.RecordBatch) -> pa.Array:
    """A digest of each row."""
    return pa.array([digest.tobytes() for digest in row_digests(batch)], pa.binary())


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Column by its name, or by 'passage.passage_id' a field of a struct."""
    outer, _, inner = name.partition(".")
    return pc.struct_field(batch[outer], inner) if inner else batch[outer]
