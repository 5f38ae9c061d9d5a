"""Labels of sentences as people give them, stored so that any number of sentences can look theirs up (WQA
§3.3).

A label names its sentence by id, by text, or by both. A label with an id is of that one sentence; if it gives
a text too, the sentence must still have that text, letter case and white space folded. A label by text alone
is of every sentence with that text.

A folder holds `given.arrow`, the labels in the order of their lines, and two tables of
indexing/labels/hash_join.py: `ids`, the labels with a sentence id, by that id; and `texts`, the labels by
text alone, one row for each text and question. After `spread` a third table, `spread`, takes the place of
`texts`: in it labels by id count for their texts too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from answermill.indexing.labels.hash_join import Buckets, Ints, hashes
from answermill.indexing.passages.text import fold_all

GIVEN_LABEL = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),  # line of the file, or row of Parquet, both from 1
        pa.field("question_id", pa.string(), nullable=False),
        pa.field("sentence_id", pa.string()),
        pa.field("text", pa.string()),
        pa.field("label", pa.int8(), nullable=False),
    ]
)
SPREAD_LABEL = pa.schema(
    [("key", pa.string()), ("question_id", pa.string()), ("label", pa.int8()), ("number", pa.int64())]
)
"""A label by id that holds for its text as well; `key` is the folded text of its sentence."""

REPEATED = "repeated.npy"
"""The file that is written last."""
SPREAD = "spread"
"""Beginning of the names of the files of labels that were spread."""


class Contradiction(ValueError):
    """Two labels say 1 and 0 of the same question and sentence."""

    def __init__(self, number: int, label: int, first: int) -> None:
        super().__init__(f"labelled {label}, but {1 - label} in line {first}; leave one of them out")
        self.number = number


def may_contradict(batches: Iterable[pa.RecordBatch]) -> bool:
    """True if two labels among batches of GIVEN_LABEL may say 1 and 0 of the same question and sentence.

    False is certain; True may be due to two keys with one hash, which only `GivenLabels.write` finds out. Needs
    no files, and 9 bytes of memory for each label.
    """
    keys, labels = [np.zeros(0, np.uint64)], [np.zeros(0, np.int8)]
    for batch in batches:
        sentence = pc.coalesce(batch.column("sentence_id"), fold_all(batch.column("text")))
        keys.append(hashes(pc.binary_join_element_wise(batch.column("question_id"), sentence, "\0")))
        labels.append(batch.column("label").to_numpy())
    _, key = np.unique(np.concatenate(keys), return_inverse=True)
    votes, ones = np.bincount(key), np.bincount(key, np.concatenate(labels))
    return bool(((ones > 0) & (ones < votes)).any())


@dataclass(frozen=True)
class GivenLabels:
    """The labels in a folder, after `write`."""

    folder: Path

    @property
    def ids(self) -> Buckets:
        """Labels by sentence id: number, question_id, label, text (folded, or null)."""
        return Buckets(self.folder, "ids")

    @property
    def texts(self) -> Buckets:
        """Labels by folded text, one row for each question that has labels of the text.

        `given`: the label by text alone, or -1; `number`: that label's number, or 0. `ones`, `zeros`: the
        labels of the text that say 1 and 0, counted with those that `spread` added. `first_one`,
        `first_zero`: the number of the first label that says so, or 0.
        """
        is_spread = any(self.folder.glob(f"{SPREAD}-*.arrow"))
        return Buckets(self.folder, SPREAD) if is_spread else self._given_texts

    @property
    def _given_texts(self) -> Buckets:
        """`texts` before `spread`."""
        return Buckets(self.folder, "texts")

    @property
    def has_texts(self) -> bool:
        """True if a label is by text alone, or was spread."""
        return self.texts.count() > 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
        """Write the folder from batches of GIVEN_LABEL; returns the number of labels, and the largest of
        their numbers.

        Raises Contradiction if two labels of a question and sentence say 1 and 0, with the first line that
        contradicts an earlier one.
        """
        self.folder.mkdir(parents=True, exist_ok=True)

        labels = with_id = largest = 0
        with pa.ipc.new_file(self.folder / "given.arrow", GIVEN_LABEL) as file:
            for batch in batches:
                file.write_batch(batch)
                labels += batch.num_rows
                with_id += batch.num_rows - batch.column("sentence_id").null_count
                largest = max(largest, pc.max(batch.column("number")).as_py() or 0)

        checks = _Checks([], [])
        self.ids.write(self._labels_with_id(), with_id, checks.settle_ids)
        self._given_texts.write(self._labels_by_text(), labels - with_id, checks.settle_texts)
        if checks.contradictions:
            raise min(checks.contradictions, key=lambda contradiction: contradiction.number)

        pairs = np.concatenate([np.zeros((2, 0), np.int64), *checks.repeats], axis=1)
        np.save(self.folder / REPEATED, pairs[:, np.argsort(pairs[0])], allow_pickle=False)
        return labels, largest

    def spread(self, by_id: Iterable[pa.RecordBatch]) -> int:
        """Let labels by id, batches of SPREAD_LABEL, hold for their texts as well.

        Returns the number of pairs of a text and a question that have labels now.
        """
        table = Buckets(self.folder, SPREAD)
        rows = self.ids.count() + self._given_texts.count()
        table.write(self._texts_and(by_id), rows, _Checks([], []).settle_texts)
        return table.count()

    def repeated(self) -> NDArray[np.int64]:
        """[2, n]: the numbers of labels that repeat an earlier label, ascending, and the numbers of those
        earlier labels."""
        pairs: NDArray[np.int64] = np.load(self.folder / REPEATED, allow_pickle=False)
        return pairs

    def read(self) -> Iterator[pa.RecordBatch]:
        """The labels in the order in which they were given."""
        with pa.memory_map(str(self.folder / "given.arrow")) as source:
            file = pa.ipc.open_file(source)
            yield from (file.get_batch(n) for n in range(file.num_record_batches))

    def _labels_with_id(self) -> Iterator[pa.RecordBatch]:
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

    def _labels_by_text(self) -> Iterator[pa.RecordBatch]:
        for all_labels in self.read():
            batch = all_labels.filter(pc.is_null(all_labels.column("sentence_id")))
            yield pa.record_batch(
                {
                    "key": fold_all(batch.column("text")),
                    "question_id": batch.column("question_id"),
                    "label": batch.column("label"),
                    "number": batch.column("number"),
                    "by_text": pa.array(np.ones(batch.num_rows, bool)),
                }
            )

    def _texts_and(self, by_id: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self._labels_by_text()
        for batch in by_id:
            yield batch.append_column("by_text", pa.array(np.zeros(batch.num_rows, bool)))


@dataclass(frozen=True)
class _Checks:
    """Settles the rows of `ids` and `texts`, and notes their faults."""

    contradictions: list[Contradiction]
    repeats: list[Ints]
    """Arrays [2, n] as `GivenLabels.repeated` returns them."""

    def settle_ids(self, rows: pa.Table) -> pa.Table:
        """The rows, without those that repeat the sentence id, question and text of an earlier one."""
        rows, group = _grouped(rows)
        texts = rows["text"].combine_chunks().dictionary_encode().indices
        return rows.filter(
            pa.array(self._firsts(rows, group, pc.fill_null(texts, -1).to_numpy().astype(np.int64) + 1))
        )

    def settle_texts(self, rows: pa.Table) -> pa.Table:
        """One row for each text and question, with the columns of `GivenLabels.texts`."""
        rows, group = _grouped(rows)
        by_text = np.flatnonzero(rows["by_text"].to_numpy())
        unique = np.ones(len(rows), bool)
        unique[by_text] = self._firsts(
            rows.take(pa.array(by_text)), group[by_text], np.zeros(len(by_text), np.int64)
        )
        return _tally(rows.filter(pa.array(unique)), group[unique])

    def _firsts(self, rows: pa.Table, group: Ints, text: Ints) -> NDArray[np.bool_]:
        """[rows]: True for the first row of its group and text.

        Notes the others as repeats, and those that contradict the first row of their group.
        """
        if not len(group):
            return np.zeros(0, bool)

        number, label = rows["number"].to_numpy(), rows["label"].to_numpy()

        leaders = np.flatnonzero(np.diff(group, prepend=-1))
        # [rows]: the first row of its group.
        leader = np.repeat(leaders, np.diff(np.append(leaders, len(group))))
        contradicting = np.flatnonzero(label != label[leader])

        if len(contradicting):
            row = contradicting[number[contradicting].argmin()]
            self.contradictions.append(
                Contradiction(int(number[row]), int(label[row]), int(number[leader[row]]))
            )

        _, firsts, pair = np.unique(group * (text.max() + 2) + text, return_index=True, return_inverse=True)
        first = firsts[pair]  # [rows]: the first row of its group and text
        repeats: NDArray[np.bool_] = first != np.arange(len(group))
        self.repeats.append(np.stack([number[repeats], number[first[repeats]]]))
        return ~repeats


def _grouped(rows: pa.Table) -> tuple[pa.Table, Ints]:
    """The rows sorted by key, question and number; and the group of each row, from 0: one for each key and
    question.

    >>> rows = pa.table({"hash": [9, 9, 4], "key": ["b", "b", "a"], "question_id": ["q", "q", "q"], "number": [2, 1, 3]})
    >>> rows, group = _grouped(rows)
    >>> rows["number"].to_pylist(), group.tolist()
    ([3, 1, 2], [0, 1, 1])
    """
    rows = rows.take(
        pc.sort_indices(rows, [(name, "ascending") for name in ("hash", "key", "question_id", "number")])
    )
    rows = rows.combine_chunks()
    changes = np.zeros(max(len(rows) - 1, 0), bool)
    for name in ("key", "question_id"):
        values = rows[name].combine_chunks()
        changes |= (
            pc.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False) if len(rows) else changes
        )
    return rows, np.concatenate([np.zeros(min(len(rows), 1), np.int64), np.cumsum(changes)])


def _tally(rows: pa.Table, group: Ints) -> pa.Table:
    """The rows of each group as one row with the columns of `GivenLabels.texts`; `_grouped` gives the rows and
    groups."""
    label, number, by_text = (rows[name].to_numpy() for name in ("label", "number", "by_text"))
    leaders = np.flatnonzero(np.diff(group, prepend=-1))
    label_by_text, number_by_text = np.full(len(leaders), -1, np.int8), np.zeros(len(leaders), np.int64)
    label_by_text[group[by_text]], number_by_text[group[by_text]] = label[by_text], number[by_text]

    columns: dict[str, NDArray[Any]] = {"given": label_by_text, "number": number_by_text}
    for value, name in ((1, "one"), (0, "zero")):
        votes = np.flatnonzero(label == value)[::-1]  # backwards, so that the first is written last
        columns[f"{name}s"] = np.bincount(group[votes], minlength=len(leaders))
        columns[f"first_{name}"] = np.zeros(len(leaders), np.int64)
        columns[f"first_{name}"][group[votes]] = number[votes]

    table = rows.select(["key", "hash", "question_id"]).take(pa.array(leaders))
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table
