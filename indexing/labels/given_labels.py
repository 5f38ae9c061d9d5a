"""Labels of sentences as people give them, made ready to be joined with any number of sentences (WQA §3.3).

A label names its sentence by id, by text, or by both. By id it is of one sentence, whose text, if the label gives one,
must still be the same (letter case and white space folded); by text alone it is of every sentence with that text. In one
folder: `given.arrow`, the labels in the order of their lines; `ids-*`, those with a sentence id, by it; `texts-*`, those
by text alone, one row for each text and question (indexing/labels/hash_join.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexing.labels.hash_join import Buckets, Ints
from indexing.passages.text import fold_all

GIVEN = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),  # line, or row from 1
        pa.field("question_id", pa.string(), nullable=False),
        pa.field("sentence_id", pa.string()),
        pa.field("text", pa.string()),
        pa.field("label", pa.int8(), nullable=False),
    ]
)
FOUND = pa.schema([("key", pa.string()), ("question_id", pa.string()), ("label", pa.int8()), ("number", pa.int64())])
"""Labels by id whose sentence was found, `key` its folded text."""


class Contradiction(ValueError):
    """Two labels say 1 and 0 of the same question and sentence."""

    def __init__(self, number: int, label: int, first: int) -> None:
        super().__init__(f"labelled {label}, but {1 - label} in line {first}; leave one of them out")
        self.number = number


@dataclass(frozen=True)
class GivenLabels:
    """The labels in a folder, after `write`."""

    folder: Path

    @property
    def ids(self) -> Buckets:
        """number, question_id, label, text (folded, or null); by sentence id."""
        return Buckets(self.folder, "ids")

    @property
    def texts(self) -> Buckets:
        """question_id, given (the label by text alone, -1 where there is none) and its number; and of all labels of the text,
        that is with those that `spread` adds: ones, zeros, first_one, first_zero (how many say so; the first's number, or 0).
        By folded text."""
        return Buckets(self.folder, "spread" if any(self.folder.glob("spread-*.arrow")) else "texts")

    @property
    def has_texts(self) -> bool:
        """Whether any label is by text, or was spread."""
        return self.texts.count() > 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
        """Write the folder from batches of GIVEN; the number of labels, and the largest of their numbers.

        Raises Contradiction where two labels of a question and sentence say 1 and 0: the first line that says otherwise.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        rows = by_id = largest = 0
        with pa.ipc.new_file(self.folder / "given.arrow", GIVEN) as file:
            for batch in batches:
                file.write_batch(batch)
                rows += batch.num_rows
                by_id += batch.num_rows - batch.column("sentence_id").null_count
                largest = max(largest, pc.max(batch.column("number")).as_py() or 0)
        found = _Settled([], [])
        self.ids.write(self._by_id(), by_id, found.ids)
        self.texts.write(self._by_text(), rows - by_id, found.texts)
        if found.wrong:
            raise min(found.wrong, key=lambda wrong: wrong.number)
        pairs = np.concatenate([np.zeros((2, 0), np.int64), *found.repeated], axis=1)
        np.save(self.folder / "repeated.npy", pairs[:, np.argsort(pairs[0])], allow_pickle=False)
        return rows, largest

    def spread(self, found: Iterable[pa.RecordBatch]) -> int:
        """Let labels by id, batches of FOUND, hold for their text as well; the number of texts with labels, by question."""
        spread, by_id = Buckets(self.folder, "spread"), self.ids.count()
        spread.write(_chain(self._by_text(), found), by_id + Buckets(self.folder, "texts").count(), _Settled([], []).texts)
        return spread.count()

    def repeated(self) -> NDArray[np.int64]:
        """[2, n]: the numbers of labels that say what another said before, ascending, and those others' numbers."""
        made: NDArray[np.int64] = np.load(self.folder / "repeated.npy", allow_pickle=False)
        return made

    def read(self) -> Iterator[pa.RecordBatch]:
        """The labels in the order in which they came."""
        with pa.memory_map(str(self.folder / "given.arrow")) as file:
            yield from _batches(pa.ipc.open_file(file))

    def _by_id(self) -> Iterator[pa.RecordBatch]:
        for all_labels in self.read():
            batch = all_labels.filter(pc.is_valid(all_labels.column("sentence_id")))
            yield pa.record_batch(
                {
                    "key": batch.column("sentence_id"),
                    "number": batch.column("number"),
                    "question_id": batch.column("question_id"),
                    "label": batch.column("label"),
                    "text": fold_all(batch.column("text")),
                }
            )

    def _by_text(self) -> Iterator[pa.RecordBatch]:
        for all_labels in self.read():
            batch = all_labels.filter(pc.is_null(all_labels.column("sentence_id")))
            yield pa.record_batch(
                {
                    "key": fold_all(batch.column("text")),
                    "question_id": batch.column("question_id"),
                    "label": batch.column("label"),
                    "number": batch.column("number"),
                    "given": pa.array(np.ones(batch.num_rows, bool)),
                }
            )


def _batches(file: pa.RecordBatchFileReader) -> Iterator[pa.RecordBatch]:
    return (file.get_batch(n) for n in range(file.num_record_batches))


def _chain(own: Iterable[pa.RecordBatch], found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from own
    for batch in found:
        yield batch.append_column("given", pa.array(np.zeros(batch.num_rows, bool)))


@dataclass(frozen=True)
class _Settled:
    """What was met in settling the tables: contradictions, and [2, n] numbers of labels that came twice and of the first."""

    wrong: list[Contradiction]
    repeated: list[Ints]

    def ids(self, rows: pa.Table) -> pa.Table:
        rows, group = _grouped(rows)
        texts = rows["text"].combine_chunks().dictionary_encode().indices
        return rows.filter(pa.array(self._first(rows, group, pc.fill_null(texts, -1).to_numpy().astype(np.int64) + 1)))

    def texts(self, rows: pa.Table) -> pa.Table:
        rows, group = _grouped(rows)
        given = rows["given"].to_numpy()
        asked = np.flatnonzero(given)
        kept = np.ones(len(given), bool)
        kept[asked] = self._first(rows.take(pa.array(asked)), group[asked], np.zeros(len(asked), np.int64))
        rows, group, given = rows.filter(pa.array(kept)), group[kept], given[kept]
        label, number = rows["label"].to_numpy(), rows["number"].to_numpy()
        first = np.flatnonzero(np.diff(group, prepend=-1))
        made = rows.select(["key", "hash", "question_id"]).take(pa.array(first))
        own, ones, zeros = (np.zeros(len(first), np.int64) for _ in range(3))
        by, first_one, first_zero = np.full(len(first), -1, np.int8), ones.copy(), ones.copy()
        by[group[given]], own[group[given]] = label[given], number[given]
        for value, count, least in ((1, ones, first_one), (0, zeros, first_zero)):
            mine = np.flatnonzero(label == value)[::-1]  # the first is written last
            np.add.at(count, group[mine], 1)
            least[group[mine]] = number[mine]
        columns = {"given": by, "number": own, "ones": ones, "zeros": zeros, "first_one": first_one, "first_zero": first_zero}
        for name, values in columns.items():
            made = made.append_column(name, pa.array(values))
        return made

    def _first(self, rows: pa.Table, group: Ints, text: Ints) -> NDArray[np.bool_]:
        """Which rows are the first of their group and text; notes those that are not, and those that contradict the group's
        first."""
        if not len(group):
            return np.zeros(0, bool)
        number, label = rows["number"].to_numpy(), rows["label"].to_numpy()
        leader = np.flatnonzero(np.diff(group, prepend=-1))
        leader = np.repeat(leader, np.diff(np.append(leader, len(group))))
        wrong = np.flatnonzero(label != label[leader])
        if len(wrong):
            at = wrong[number[wrong].argmin()]
            self.wrong.append(Contradiction(int(number[at]), int(label[at]), int(number[leader[at]])))
        _, first, of = np.unique(group * (text.max() + 2) + text, return_index=True, return_inverse=True)
        again: NDArray[np.bool_] = first[of] != np.arange(len(group))
        self.repeated.append(np.stack([number[again], number[first[of][again]]]))
        return ~again


def _grouped(rows: pa.Table) -> tuple[pa.Table, Ints]:
    """The rows by key, question and number; and for each the place, from 0, of its key and question among them all."""
    rows = rows.take(pc.sort_indices(rows, [(name, "ascending") for name in ("hash", "key", "question_id", "number")]))
    rows = rows.combine_chunks()
    changes = np.zeros(max(len(rows) - 1, 0), bool)
    for name in ("key", "question_id"):
        values = rows[name].combine_chunks()
        changes |= pc.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False) if len(rows) else changes
    return rows, np.concatenate([np.zeros(min(len(rows), 1), np.int64), np.cumsum(changes)])
