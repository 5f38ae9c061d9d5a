"""A shard is there whole or not at all: a build that fails or is killed leaves no shard."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from indexing.shards.dense import Encoder
from indexing.shards.shard import Shard
from indexing.shards.shard_builder import ShardSettings, build_shard
from schemas.corpus import Passage

ROOT = Path(__file__).parents[3]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_an_empty_shard_is_a_shard(default_encoder: Encoder, tmp_path: Path) -> None:
    assert build_shard(iter([]), tmp_path / "empty", ShardSettings(), default_encoder).passages == 0
    shard = Shard.open(tmp_path / "empty")
    assert shard.bm25.search(["ice"], 5, None)[0][0].tolist() == []
    assert shard.dense.search(default_encoder.encode_questions(["ice"]), 5)[0][0].tolist() == []
    assert shard.passage_ids([]) == []


def test_a_build_that_fails_leaves_what_was_there(passages: list[Passage], many: Path) -> None:
    def broken() -> Iterator[Passage]:
        yield from passages[:5]
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        build_shard(broken(), many, ShardSettings(), None)
    assert Shard.open(many).rows == 700
    assert names_in(many.parent) == ["many"]


def test_building_again_replaces_the_shard(passages: list[Passage], many: Path) -> None:
    other = [replace(p, title="again") for p in passages[:9]]
    build_shard(iter(other), many, ShardSettings(), None)
    shard = Shard.open(many)
    assert shard.passages(range(9)) == other
    assert shard.bm25.statistics().documents == 9
    assert names_in(many.parent) == ["many"]


def test_a_build_that_was_killed_leaves_no_shard_and_disturbs_no_other(passages: list[Passage], tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from indexing.shards.shard_builder import ShardSettings, build_shard
from schemas.corpus import Passage

def killed():
    for n in range(9_000):
        yield Passage(f"d#{n}", "d", "", "", 0, 3, "ice", ())
    os.kill(os.getpid(), signal.SIGKILL)

build_shard(killed(), Path(sys.argv[1]), ShardSettings(), None)
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "shard"], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "shard").exists()
    (left,) = names_in(tmp_path)
    assert left.startswith(".shard.") and left.endswith(".tmp")  # as `parquet_folder.sweep` deletes it
    build_shard(iter(passages[:3]), tmp_path / "shard", ShardSettings(), None)
    assert sorted(names_in(tmp_path)) == [left, "shard"]
    assert Shard.open(tmp_path / "shard").rows == 3
