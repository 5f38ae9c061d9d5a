"""What an index takes over from that of an earlier run, whose crawl had most of the same pages: whole shards.

A shard of that run is taken over if most of its passages are in passages/ as they were: id, title, text and
sentences. Those that are not become tombstones in it; passages that are in no such shard go into new ones.
So each passage is in one shard, and found once. The rows that are found, and their scores, are those of an
index of passages/ from nothing; a dense index that is not exact keeps the earlier run's quantizer.

The command compares the passages, and writes where they are into the step's work folder, for workers and for
a run that goes on. It holds 24 bytes of each passage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from answermill.files.atomic_files import replacing, sha256
from answermill.files.store import fetch
from answermill.indexing.passages.row_digests import row_digests
from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.lucene.jvm import anserini_jar, lucene_version
from answermill.indexing.shards.shard_files import (
    PASSAGES,
    QUANTIZER,
    ShardFile,
    check_files,
    read_shard_file,
)
from answermill.indexing.shards.taken_shard import FormerShard
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.manifest import fetch_shard
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Folder, Part, PartWriter, read_batches
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.index import SHARDS, IndexCounts
from answermill.pipelines.steps.index.passage_rows import Places, tables_at
from answermill.pipelines.steps.index.shard_ranges import ShardRange, ranges, shards_of
from answermill.schemas.corpus import Passage
from answermill.schemas.record import Record, column, record

LEAST = 0.7
"""Share of a shard's rows that must still be in passages/, or searches would carry along too much that is
gone."""
SMALLEST = 0.1
"""Least passages that must be, as a share of those of a shard from nothing: what was new in the last crawls
becomes a shard together, and the number of shards does not grow with that of the crawls."""
SINCE = "since"
"""The input of a step that stands for the earlier run's shards, where shards may be taken over."""
FOLDER = "places"
_SAME = ["passage_id", "title", "text", "sentences"]
"""Columns of a passage that are the same as it was."""
_ROWS_AT_ONCE = 8_192
Keys = npt.NDArray[np.uint64]


@record
class PlacedRow(Record):
    """A passage, where it is. A part has those of a shard of the earlier run, by row, none if that is not
    taken over; the last part those in no such shard, by place."""

    row: int = column(pa.int32(), "its row in the earlier run's shard")
    place: int = column(pa.int64(), "its row in passages/, from 0")


@dataclass(frozen=True)
class Delta:
    """The shards of a run, of which the first ones are taken over from an earlier run."""

    former: Folder[Passage]
    passages: Folder[Passage]
    folder: Path
    parts: Sequence[Part]
    """As PlacedRow says."""
    new: Sequence[ShardRange]
    """The new shards, as ranges of the rows of the last part, numbered after those that are taken over."""

    @property
    def taken(self) -> list[int]:
        """The numbers of the earlier run's shards that are taken over."""
        return [number for number, part in enumerate(self.parts[:-1]) if part.rows]

    @property
    def sizes(self) -> list[int]:
        """Passages of each of this run's shards."""
        taken = [self.parts[number].rows for number in self.taken]
        return [*taken, *(unit.stop - unit.start for unit in self.new)]

    def name(self, number: int) -> str:
        """Name of a shard that is taken over, by its number in this run."""
        return ShardRange(number, len(self.sizes), 0, 0).name

    def places(self, unit: ShardRange) -> Places:
        """The places in passages/ of a new shard's rows."""
        return self._columns(len(self.parts) - 1)[1][unit.start : unit.stop]

    def taken_shard(self, number: int) -> tuple[FormerShard, pa.Table, Places]:
        """A shard that is taken over, by its number in this run: what it was, its passages [rows] as they are
        now, and the rows, ascending, that are gone. The passages are in memory, as a table. Raises
        ShardDamaged."""
        number = self.taken[number]
        former = _former_shard(self.former, self.former.parts[number])
        rows, places = self._columns(number)
        gone = _others(former, rows)

        # The rows as passages/ has them, by place, and behind them those that are gone, as they were.
        by_place = np.argsort(places, kind="stable")
        old = Passage.schema().empty_table()
        if len(gone):
            check_files(former.folder, {PASSAGES: former.contents.files[PASSAGES]})
            with pq.ParquetFile(former.folder / PASSAGES) as file:
                old = file.read(use_threads=False).take(pa.array(gone))
        table = pa.concat_tables([*tables_at(self.passages, places[by_place]), old])

        order = np.empty(former.contents.rows, np.int64)
        order[rows[by_place]] = np.arange(len(rows))
        order[gone] = np.arange(len(rows), len(table))
        return former, table.take(pa.array(order)), gone

    def gone(self) -> dict[int, Places]:
        """Number in the earlier run of each shard that is taken over → its rows, ascending, that are gone. A
        page that has moved, or changed in one place, has other ids, and most of its texts among these."""
        gone = {}
        for number in self.taken:
            shard = _former_shard(self.former, self.former.parts[number], only=())
            gone[number] = _others(shard, self._columns(number)[0])
        return gone

    def quantizer(self, run: Path) -> Part:
        """The earlier run's quantizer as a file of this run: the new shards' codes are by it too."""
        former, path = fetch(self.former.path / QUANTIZER), SHARDS.path(run) / QUANTIZER
        with replacing(path) as temporary:
            temporary.write_bytes(former.read_bytes())
        return Part(f"{SHARDS.name}/{QUANTIZER}", 0, path.stat().st_size, sha256(path))

    def _columns(self, part: int) -> tuple[Places, Places]:
        """Rows and places of a part."""
        batches = list(read_batches(self.folder, self.parts[part], rows=65_536))
        table = pa.Table.from_batches(batches, PlacedRow.schema())
        return table["row"].to_numpy().astype(np.int64), table["place"].to_numpy()


def fits(former: Folder[Passage], step: Step[IndexCounts], cut: Sequence[str]) -> bool:
    """True if shards of the earlier run may be this run's: all that decides them is the same, but for the
    passages and the keys that `cut` them into shards."""

    def decisive(
        settings: Mapping[str, Any], inputs: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        return (
            {key: value for key, value in settings.items() if key not in cut},
            {name: digest for name, digest in inputs.items() if name not in ("passages", SINCE)},
        )

    manifest = former.manifest
    is_same = decisive(manifest.settings, manifest.inputs) == decisive(step.settings, step.inputs)
    return is_same and manifest.revision == step.spec.revision


def planned(
    job: Job, former: Folder[Passage], passages: Folder[Passage], step: Step[IndexCounts], encoder: Encoder
) -> Delta:
    """The shards of the run: the plan that is there, or else a new one. `encoder`: the job's. Raises
    ShardDamaged if a file of the earlier run's shards is not the one that was written."""
    planning = _planning(step)
    Commit(planning).begin(job.workers)
    if not planning.reports.has(0):
        writer = PartWriter(planning.run / FOLDER, PlacedRow, 0)
        with writer:
            for number, table in enumerate(_placed(job, former, passages, encoder)):
                if number:
                    writer.begin_part()
                writer.write_table(table)
        planning.reports.write(Report(0, {FOLDER: writer.parts}, IndexCounts()))
    return written_plan(job, former, passages, step)


def written_plan(
    job: Job, former: Folder[Passage], passages: Folder[Passage], step: Step[IndexCounts]
) -> Delta:
    """The plan that `planned` has left."""
    planning = _planning(step)
    report = planning.reports.read_one(0)
    assert report is not None  # the command writes it before any unit
    parts = report.parts[FOLDER]
    taken = sum(part.rows > 0 for part in parts[:-1])
    new = new_shards(job, passages.rows, parts[-1].rows, taken)
    return Delta(former, passages, planning.run / FOLDER, parts, new)


def _planning(step: Step[IndexCounts]) -> Step[IndexCounts]:
    return step.within("delta", {FOLDER: PlacedRow}, IndexCounts, {})


def new_shards(job: Job, rows: int, new: int, taken: int) -> list[ShardRange]:
    """The ranges of the new passages, in shards about as large as those of a run from nothing; none if there
    are no new passages, but some shards."""
    if taken and not new:
        return []
    usual = len(shards_of(job, rows))
    units = ranges(new, -(-usual * new // max(rows, 1)), 0)
    count = taken + len(units)
    return [ShardRange(taken + unit.number, count, unit.start, unit.stop) for unit in units]


def _placed(
    job: Job, former: Folder[Passage], passages: Folder[Passage], encoder: Encoder
) -> Iterator[pa.Table]:
    """Rows of PlacedRow: a table for each shard of the earlier run, and the one of the passages in none."""
    keys = _keys(
        batch for part in passages.parts for batch in read_batches(passages.path, part, _SAME, _ROWS_AT_ONCE)
    )
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    keys, is_free = keys[order], np.ones(passages.rows, np.bool_)
    least = SMALLEST * passages.rows / max(1, len(shards_of(job, passages.rows)))

    for part in former.parts:
        shard = _former_shard(former, part, only=(PASSAGES,))
        rows, places = _matches(shard, keys, order)
        own = is_free[places]
        rows, places = rows[own], places[own]
        is_enough = len(rows) >= max(1, least, LEAST * shard.contents.rows)
        if not (is_enough and _is_usable(shard.contents, encoder)):
            rows = places = rows[:0]
        is_free[places] = False
        yield _table(rows, places)

    new = np.flatnonzero(is_free)
    yield _table(np.full(len(new), -1), new)


def _is_usable(contents: ShardFile, encoder: Encoder) -> bool:
    """True if a shard could be one of ours by its versions and encoder."""
    name = contents.encoder
    is_ours = name is not None and (name.fingerprint, name.precision) == (
        encoder.fingerprint,
        encoder.precision,
    )
    return is_ours and contents.bm25.titles and contents.lucene == lucene_version(anserini_jar())


def _matches(shard: FormerShard, keys: Keys, order: Places) -> tuple[Places, Places]:
    """The rows, ascending, of a shard's passages that passages/ has, and their places there, with tombstones
    whose passages have returned are among them. `keys`: those of passages/, sorted by `order`."""
    check_files(shard.folder, {PASSAGES: shard.contents.files[PASSAGES]})
    with pq.ParquetFile(shard.folder / PASSAGES) as file:
        own = _keys(file.iter_batches(_ROWS_AT_ONCE, columns=_SAME))
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)

    first = np.minimum(np.searchsorted(keys[:, 0], own[:, 0]), len(keys) - 1)
    is_there = (keys[first] == own).all(axis=1)
    return np.flatnonzero(is_there), order[first[is_there]]


def _keys(batches: Iterable[pa.RecordBatch]) -> Keys:
    """[rows, 2]: a key of each passage, of its columns _SAME."""
    return np.concatenate([np.empty((0, 2), np.uint64), *(row_digests(b.select(_SAME)) for b in batches)])


def _table(rows: Places, places: Places) -> pa.Table:
    columns = [pa.array(rows, pa.int32()), pa.array(places, pa.int64())]
    return pa.Table.from_arrays(columns, schema=PlacedRow.schema())


def _others(shard: FormerShard, rows: Places) -> Places:
    """The other rows of a shard, ascending."""
    return np.setdiff1d(np.arange(shard.contents.rows), rows)


def _former_shard(former: Folder[Passage], part: Part, only: Sequence[str] | None = None) -> FormerShard:
    """A shard of the earlier run on this machine; `only`: the files that are needed, None for all."""
    folder = fetch_shard(former.path / part.file, part.sha256, lambda name: only is None or name in only)
    return FormerShard(folder, read_shard_file(folder, part.sha256))
