"""A join on string keys whose memory does not grow with the table: its rows, sorted by the hash of their key, stand in
files of Arrow IPC of about ROWS rows, cut by the hash, and a look-up maps one file at a time into memory.

Exact: a hash only says where to look, the keys themselves are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

ROWS = 1 << 18
MOST_BUCKETS = 256
Ints: TypeAlias = NDArray[np.int64]


def hashes(strings: pa.Array) -> NDArray[np.uint64]:
    """A 64-bit hash of each string, none of them null; the same in every process and on every machine."""
    contents = strings.cast(pa.large_binary()).to_pylist()
    return np.fromiter(map(xxh3_64_intdigest, contents), np.uint64, len(contents))


@dataclass(frozen=True, slots=True)
class Buckets:
    """The files '<name>-<n>-of-<count>.arrow' of a folder; bucket n has the hashes whose first bits are n."""

    folder: Path
    name: str

    def write(self, batches: Iterable[pa.RecordBatch], rows: int, settle: Callable[[pa.Table], pa.Table]) -> None:
        """Write about `rows` rows with a column `key`. `settle` is given all rows of some keys, with their `hash`, in any order
        of keys, and returns what shall stand in the table instead."""
        count = 1 << max(0, min(MOST_BUCKETS, -(-rows // ROWS)) - 1).bit_length()
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(f"{self.name}-*.arrow*"):
            left.unlink()
        paths = [self.folder / f"{self.name}-{n:03d}-of-{count:03d}.arrow" for n in range(count)]
        writers: list[Any] = []
        for batch in batches:
            found = hashes(batch.column("key"))
            buckets = _bucket(found, count)
            order = np.argsort(buckets, kind="stable")
            edges = np.searchsorted(buckets[order], np.arange(count + 1))
            cut = batch.append_column("hash", pa.array(found)).take(pa.array(order))
            writers = writers or [pa.ipc.new_file(f"{path}.any", cut.schema) for path in paths]
            for n in map(int, np.flatnonzero(np.diff(edges))):
                writers[n].write_batch(cut.slice(edges[n], edges[n + 1] - edges[n]))
        for writer in writers:
            writer.close()
        for n in range(len(writers)):
            unsorted = paths[n].with_name(f"{paths[n].name}.any")
            with pa.memory_map(str(unsorted)) as file:
                table = settle(pa.ipc.open_file(file).read_all())
            order = np.argsort(table["hash"].to_numpy(), kind="stable")
            table = table.take(pa.array(order)).combine_chunks()
            with pa.ipc.new_file(paths[n], table.schema) as settled:
                settled.write_table(table)
            unsorted.unlink()

    def count(self) -> int:
        """The table's rows."""
        rows = 0
        for path in self.folder.glob(f"{self.name}-*.arrow"):
            with pa.memory_map(str(path)) as file:
                rows += pa.ipc.open_file(file).read_all().num_rows
        return rows

    def join(self, keys: pa.Array) -> tuple[Ints, pa.Table] | None:
        """Every pair of one of `keys` and a row with that key: the key's place, and the row; None where there is no table.

        The order of the pairs is that of no table; a row stands as often as its key is asked for.
        """
        files = sorted(self.folder.glob(f"{self.name}-*.arrow"))
        if not files:
            return None
        found = hashes(keys)
        order = np.argsort(found)
        edges = np.searchsorted(_bucket(found[order], len(files)), np.arange(len(files) + 1))
        places, tables = [], []
        for n, path in enumerate(files):
            asked = order[edges[n] : edges[n + 1]]
            with pa.memory_map(str(path)) as file:
                place, table = _join(keys, found, asked, pa.ipc.open_file(file).read_all())
            places.append(place)
            tables.append(table)
        return np.concatenate(places), pa.concat_tables(tables)


def _bucket(found: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    bits = count.bit_length() - 1
    return found >> np.uint64(64 - bits) if bits else np.zeros_like(found)


def _join(keys: pa.Array, found: NDArray[np.uint64], asked: Ints, table: pa.Table) -> tuple[Ints, pa.Table]:
    """As `join`, of the places `asked` and one file; the rows are copied out of it."""
    inside = table["hash"].to_numpy()
    first = np.searchsorted(inside, found[asked], "left")
    many = np.searchsorted(inside, found[asked], "right") - first
    place = np.repeat(asked, many)
    row = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)
    taken = table.take(pa.array(row))
    same = pc.equal(taken["key"], keys.take(pa.array(place)))
    return place[same.to_numpy()], taken.filter(same).drop_columns(["key", "hash"])
