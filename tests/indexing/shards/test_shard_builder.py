"""A shard is there whole or not at all: a build that fails or is killed leaves no shard."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.shard_builder import ShardSettings, build_shard
from answermill.indexing.shards.shard_files import DENSE, PASSAGES
from answermill.schemas.corpus import Passage

ROOT = Path(__file__).parents[3]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_an_empty_shard_is_a_shard(default_encoder: Encoder, tmp_path: Path) -> None:
    assert build_shard(iter([]), tmp_path / "empty", ShardSettings(encoder=default_encoder)).passages == 0
    shard = Shard.open(tmp_path / "empty")
    assert shard.bm25.search(["ice"], 5, None)[0][0].tolist() == []
    assert shard.dense.search(default_encoder.encode_questions(["ice"]), 5)[0][0].tolist() == []
    assert shard.passage_ids([]) == []


class OnCard:
    """Wants more passages at once than a row group has, and gives a vector of each text's length."""

    name, dimension, precision, fingerprint = "lengths", 1, "fp32", "0" * 16

    def __init__(self, at_once: int) -> None:
        self.at_once, self.calls = at_once, list[int]()

    def encode_passages(self, titles_and_texts: Sequence[tuple[str, str]]) -> np.ndarray:
        self.calls.append(len(titles_and_texts))
        return np.array([[len(text)] for _, text in titles_and_texts], np.float32)


def test_an_encoder_is_given_as_many_passages_as_suit_it_and_the_shard_is_the_same(
    passages: list[Passage], tmp_path: Path
) -> None:
    few, many = OnCard(256), OnCard(512)
    heard = list[int]()
    build_shard(iter(passages), tmp_path / "few", ShardSettings(encoder=few))
    build_shard(
        iter(passages),
        tmp_path / "many",
        ShardSettings(encoder=many),
        on_block=lambda number, _: heard.append(number),
    )
    assert (few.calls, many.calls, heard) == ([256, 256, 188], [512, 188], [512, 188])
    for file in (PASSAGES, DENSE):
        assert (tmp_path / "few" / file).read_bytes() == (tmp_path / "many" / file).read_bytes()


def test_a_build_that_fails_leaves_what_was_there(passages: list[Passage], many: Path) -> None:
    def broken() -> Iterator[Passage]:
        yield from passages[:5]
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        build_shard(broken(), many, ShardSettings())
    assert Shard.open(many).rows == 700
    assert names_in(many.parent) == ["many"]


def test_building_again_replaces_the_shard(passages: list[Passage], many: Path) -> None:
    other = [replace(p, title="again") for p in passages[:9]]
    build_shard(iter(other), many, ShardSettings())
    shard = Shard.open(many)
    assert shard.passages(range(9)) == other
    assert shard.bm25.statistics().documents == 9
    assert names_in(many.parent) == ["many"]


def test_a_build_that_was_killed_leaves_no_shard_and_disturbs_no_other(
    passages: list[Passage], tmp_path: Path
) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from answermill.indexing.shards.shard_builder import ShardSettings, build_shard
from answermill.schemas.corpus import Passage

def killed():
    for n in range(9_000):
        yield Passage(f"d#{n}", "d", "", "", 0, 3, "ice", ())
    os.kill(os.getpid(), signal.SIGKILL)

build_shard(killed(), Path(sys.argv[1]), ShardSettings())
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "shard"], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL

    assert not (tmp_path / "shard").exists()
    (left,) = names_in(tmp_path)
    assert left.startswith(".shard.") and left.endswith(".tmp")  # as `parquet_folder.sweep` deletes it
    build_shard(iter(passages[:3]), tmp_path / "shard", ShardSettings())
    assert sorted(names_in(tmp_path)) == [left, "shard"]
    assert Shard.open(tmp_path / "shard").rows == 3
