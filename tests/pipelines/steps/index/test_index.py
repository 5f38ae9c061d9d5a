"""A shard's passages are read without reading, or checking, those of the other shards again."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from answermill.files import atomic_files
from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import JobError
from answermill.pipelines.runs import parquet_folder
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests import manifest
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.parquet_folder import ROWS_PER_GROUP, Folder, PartWriter
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.steps.index.index import build, index, ranges, shard_settings, step_of
from answermill.pipelines.steps.index.passage_rows import rows_between
from answermill.pipelines.steps.models import passage_encoder
from answermill.schemas.corpus import Passage, Sentence
from tests.made_steps import Rows, made_step, report

SIZES = (5 * ROWS_PER_GROUP + 3, 7, 0, 2 * ROWS_PER_GROUP)
"""Rows of the parts: one that is as large as many shards, one smaller than a shard, an empty one, and one
more."""


def passage(number: int) -> Passage:
    doc_id, text = f"d{number}", f"passage {number}"
    return Passage(
        f"{doc_id}#0", doc_id, "", "", 0, len(text), text, (Sentence(f"{doc_id}@0", 0, len(text), text),)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder[Passage]:
    run = tmp_path_factory.mktemp("run")
    step = made_step(run, "ingest", {"passages": Passage})
    Commit(step).begin()
    numbers = iter(range(sum(SIZES)))
    for unit, rows in enumerate(SIZES):
        with PartWriter(run / "passages", Passage, unit) as part:
            part.write([passage(next(numbers)) for _ in range(rows)])
        step.reports.write(report(unit, {"passages": part.parts}))
    Commit(step).finish(Outcome.of(Rows(), step.reports.each()))
    return PASSAGES.open(run)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each batch that passages are made of."""
    rows: list[int] = []
    parse = Passage.rows

    def counted(batch: pa.RecordBatch) -> Iterator[Passage]:
        rows.append(batch.num_rows)
        return iter(parse(batch))

    monkeypatch.setattr(Passage, "rows", counted)
    return rows


@pytest.mark.parametrize("shards", [1, 3, 40])
def test_the_shards_rows_are_the_folders_rows_and_each_is_parsed_once(
    folder: Folder[Passage], parsed: list[int], shards: int
) -> None:
    units = ranges(folder.rows, shards, 1)
    ids = [row.doc_id for unit in units for row in rows_between(folder, unit.start, unit.stop)]
    assert len(units) == shards
    assert ids == [f"d{n}" for n in range(sum(SIZES))]
    assert sum(parsed) == sum(SIZES)


@pytest.mark.parametrize(
    ("rows", "shards", "longest"),
    [(500, 1, 500), (60_000, 3, 20_000), (1_000_000, 16, 62_500), (12_345_678, 50, 246_914)],
)
def test_a_small_corpus_is_cut_for_the_cores_and_a_large_one_for_the_search(
    rows: int, shards: int, longest: int
) -> None:
    sizes = [unit.stop - unit.start for unit in ranges(rows, 0, 0)]
    assert (len(sizes), max(sizes), sum(sizes)) == (shards, longest, rows)


def test_a_given_size_of_shards_is_kept_to() -> None:
    assert [unit.stop - unit.start for unit in ranges(1_000_000, 0, 500_000)] == [500_000, 500_000]
    assert len(ranges(1_000_000, 3, 20_000)) == 3


def test_a_part_is_hashed_once_for_all_shards(
    folder: Folder[Passage], monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest._check.cache_clear()
    hashed: Counter[str] = Counter()
    sha256 = atomic_files.sha256

    def counted(path: Path) -> str:
        hashed[path.name] += 1
        return sha256(path)

    monkeypatch.setattr(atomic_files, "sha256", counted)
    for unit in ranges(folder.rows, 40, 1):
        assert sum(1 for _ in rows_between(folder, unit.start, unit.stop)) == unit.stop - unit.start
    assert hashed == {part.file: 1 for part in folder.parts if part.rows}


def test_a_shard_reads_no_part_but_its_own(folder: Folder[Passage], tmp_path: Path) -> None:
    part = folder.parts[3]
    (tmp_path / "passages").mkdir()
    for name in (MANIFEST, part.file):
        shutil.copy(folder.path / name, tmp_path / "passages" / name)
    alone = PASSAGES.open(tmp_path)
    first = sum(each.rows for each in folder.parts[:3])
    assert sum(1 for _ in rows_between(alone, first, first + part.rows)) == part.rows > 0


def test_a_part_that_was_changed_is_refused(folder: Folder[Passage]) -> None:
    path = folder.path / folder.parts[0].file
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        with pytest.raises(JobError, match="SHA-256"):
            next(rows_between(folder, 3 * ROWS_PER_GROUP, 3 * ROWS_PER_GROUP + 1))
    finally:
        path.write_bytes(whole)


def test_only_the_row_groups_of_the_range_are_read(
    folder: Folder[Passage], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[Any] = []
    read = parquet_folder.pq.ParquetFile.read_row_group

    def counted(file: Any, group: int, **settings: Any) -> pa.Table:
        groups.append(group)
        return read(file, group, **settings)

    monkeypatch.setattr(parquet_folder.pq.ParquetFile, "read_row_group", counted)
    start = 3 * ROWS_PER_GROUP - 1
    assert [row.doc_id for row in rows_between(folder, start, start + 3)] == [
        f"d{start + n}" for n in range(3)
    ]
    assert groups == [2, 3]


def test_a_shard_that_was_reported_is_not_built_again(small_run: Path, tmp_path: Path) -> None:
    job = load(small_run.parent / "job.toml")
    shutil.copytree(small_run / "passages", tmp_path / "passages")
    step, passages = step_of(job, tmp_path), PASSAGES.open(tmp_path)
    first, second = ranges(passages.rows, job.index.shards, job.index.passages_per_shard)
    Commit(step).begin()
    rows = rows_between(passages, first.start, first.stop)
    build(first, rows, shard_settings(job, passage_encoder(job), ()), step)
    [built] = (tmp_path / "shards").iterdir()
    written = (built / "shard.json").stat().st_mtime_ns
    index(job, tmp_path)

    assert (built / "shard.json").stat().st_mtime_ns == written
    assert [shard.name.rpartition("-")[0] for shard in sorted((tmp_path / "shards").glob("0*"))] == [
        first.name,
        second.name,
    ]


def test_shards_that_other_keys_would_cut_in_the_same_places_are_complete(small_run: Path) -> None:
    file, rows = small_run.parent / "job.toml", PASSAGES.open(small_run).rows
    half = -(-rows // 2)
    for overrides in (
        [f"index.passages_per_shard={rows}"],
        ["index.shards=0", f"index.passages_per_shard={half}"],
    ):
        assert Commit(step_of(load(file, overrides), small_run)).is_complete()
    says = r"settings passages_per_shard = 0 there, \d+ here, settings shards = 2 there, 0 here"
    with pytest.raises(JobError, match=says):
        Commit(
            step_of(load(file, ["index.shards=0", f"index.passages_per_shard={half - 1}"]), small_run)
        ).is_complete()
