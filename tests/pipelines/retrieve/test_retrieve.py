"""Retrieval over more shards than a worker keeps open reads every byte of a shard once, and finds what one shard finds."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from indexing.shards.bm25 import GlobalStatistics
from indexing.shards.jvm import Java
from indexing.shards.shard import Shard
from indexing.shards.shard_files import ShardDamaged
from pipelines.config.job_file import Job, Retrieve
from pipelines.execution.parquet_folder import Folder
from pipelines.retrieve import open_shards
from pipelines.retrieve.open_shards import OPEN_TO_SEARCH, OpenShards, ShardPlace, shards_of
from pipelines.retrieve.shard_search import Block, QuestionVectors, search
from pipelines.steps.chain import run_steps
from schemas.atomic_files import sha256
from schemas.corpus import Question
from schemas.ranked import Hit

SHARDS = 7
SUBJECTS = ("glacier", "river", "senate", "violin", "comet", "vaccine")


def job(folder: Path, shards: int) -> Job:
    pages = [{"id": f"d{n}", "text": f"{' '.join(SUBJECTS[: n % 6 + 1])} number {n}.", "title": ""} for n in range(40)]
    questions = [{"question_id": f"q{n}", "text": f"Which {subject} is it?"} for n, subject in enumerate(SUBJECTS)]
    for name, rows in (("pages", pages), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Job.model_validate(
        {
            "ingest": {"input": [str(folder / "pages.jsonl")], "min_words": 1},
            "index": {"shards": shards},
            "retrieve": {"questions": str(folder / "questions.jsonl"), "depth": 12, "block": 1},
        }
    )


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("many")
    list(run_steps(job(run, SHARDS), run, ["ingest", "index"], ()))
    assert len(list((run / "shards").glob("0*"))) == SHARDS > OPEN_TO_SEARCH
    return run


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[str], Counter[str]]:
    """Name of a shard → how often it was opened, and how often its checksums were compared."""
    monkeypatch.setattr(open_shards, "_sound", {})
    opened: Counter[str] = Counter()
    verified: Counter[str] = Counter()
    open_shard = Shard.open

    def counted(folder: Path, java: Java | None = None, heap: str = "1g", verify: bool = True, digest: str = "") -> Shard:
        opened[folder.name] += 1
        verified[folder.name] += verify
        return open_shard(folder, java, heap, verify, digest)

    monkeypatch.setattr(Shard, "open", counted)
    return opened, verified


def hits(run: Path) -> list[Hit]:
    return list(Folder.open(run / "retrieved", Hit, "retrieve").read())


def test_a_process_compares_a_shards_checksums_once_and_finds_what_one_shard_finds(
    indexed: Path, openings: tuple[Counter[str], Counter[str]], tmp_path: Path
) -> None:
    opened, verified = openings
    list(run_steps(job(indexed, SHARDS), indexed, ["retrieve"], ()))
    assert len(opened) == SHARDS
    assert set(verified.values()) == {1}
    assert max(opened.values()) <= 3  # to count words, to search, to fetch: never once for each of the six blocks
    list(run_steps(job(tmp_path, 1), tmp_path, ["ingest", "index", "retrieve"], ()))
    assert hits(indexed) == hits(tmp_path)
    assert len(hits(indexed)) >= 6 * 12


def test_a_shard_that_was_closed_opens_again_without_reading_it_all(
    indexed: Path, openings: tuple[Counter[str], Counter[str]]
) -> None:
    opened, verified = openings
    open_shard = OpenShards(job(indexed, SHARDS), most=2)
    for shard in [*shards_of(indexed), *shards_of(indexed)]:
        assert open_shard(shard).passages([0])
    assert set(opened.values()) == {2}
    assert set(verified.values()) == {1}


def test_a_shard_that_was_built_again_is_compared_again(
    indexed: Path, openings: tuple[Counter[str], Counter[str]], tmp_path: Path
) -> None:
    shard = shards_of(indexed)[0]
    again = shutil.copytree(shard.folder, tmp_path / shard.folder.name)
    OpenShards(job(indexed, SHARDS))(replace(shard, folder=again))
    (again / "shard.json").write_text(json.dumps(json.loads((again / "shard.json").read_text())))  # written anew
    whole = (again / "passages.parquet").read_bytes()
    (again / "passages.parquet").write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(ShardDamaged, match=r"passages\.parquet"):
        OpenShards(job(indexed, SHARDS))(ShardPlace(again, sha256(again / "shard.json")))


def test_a_shard_json_that_is_not_the_one_in_the_manifest_is_refused(indexed: Path, tmp_path: Path) -> None:
    shard = shards_of(indexed)[0]
    again = shutil.copytree(shard.folder, tmp_path / shard.folder.name)
    file = again / "shard.json"
    changed = file.read_text().replace('"k1": 0.9', '"k1": 0.8')
    assert changed != file.read_text()
    file.write_text(changed)
    with pytest.raises(ShardDamaged, match=r"shard\.json was changed since it was written"):
        OpenShards(job(indexed, SHARDS))(replace(shard, folder=again))


@pytest.mark.parametrize("source", ["bm25", "dense"])
def test_a_retrieval_score_that_is_no_number_stops_it_with_shard_and_question(source: str) -> None:
    rows = np.arange(2)

    def hits(*_: object) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(rows, np.array([2.0, 1.0])), (rows, np.array([2.0, np.nan]))]

    index: Any = SimpleNamespace(search=hits)
    shard: Any = SimpleNamespace(folder=Path("shards/0"), bm25=index, dense=index, check_encoder=lambda _: None)
    block = Block(0, (Question("q1", "Who?"), Question("q2", "When?")))
    settings = Retrieve(questions="q.tsv", sources=[source])
    vectors = QuestionVectors(np.ones((2, 4), np.float32), "e") if source == "dense" else None
    with pytest.raises(ShardDamaged, match=f"shards/0: {source} gives question q2 a score that is NaN or infinite; `"):
        search(shard, 0, block, vectors, GlobalStatistics(), settings)
