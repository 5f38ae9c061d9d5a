"""Shards for the tests of this folder; for reading only, or to be copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.shard_builder import ShardSettings, build_shard
from answermill.pipelines.steps.models import dense_encoder
from answermill.schemas.corpus import Passage, Sentence

WORDS = ["glacier", "cave", "ice", "water", "river", "stone", "wind", "light", "snow", "mountain"]


def passage(number: int, text: str) -> Passage:
    doc_id, url = f"d{number // 3}", f"http://example.org/{number // 3}"
    sentence = Sentence(sentence_id=f"{doc_id}@0", start=0, end=len(text), text=text)
    passage_id = f"{doc_id}#{number % 3}"
    return Passage(passage_id, doc_id, url, "Ice" if number % 2 else "", 0, len(text), text, (sentence,))


@pytest.fixture(scope="session")
def passages() -> list[Passage]:
    """700 passages, three a document; every second one has a title."""
    return [passage(n, f"{WORDS[n % 10]} number{n}") for n in range(700)]


@pytest.fixture(scope="session")
def default_encoder() -> Encoder:
    return dense_encoder(device="cpu", precision="fp32")


@pytest.fixture(scope="session")
def few(passages: list[Passage], default_encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard of the first 20 passages with both indexes. Tests that damage it take a copy."""
    folder = tmp_path_factory.mktemp("shards") / "00000-of-00001"
    report = build_shard(iter(passages[:20]), folder, ShardSettings(encoder=default_encoder))
    assert report.passages == 20
    assert report.bytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return folder


@pytest.fixture
def many(passages: list[Passage], tmp_path: Path) -> Path:
    """A shard of 700 passages, so of several row groups, without a dense index."""
    build_shard(iter(passages), tmp_path / "many", ShardSettings())
    return tmp_path / "many"
