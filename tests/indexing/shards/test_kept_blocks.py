"""A build that was stopped goes on within its shard, and ends with the same bytes; several builds may share
what is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest

from answermill.indexing.shards.kept_blocks import KeptBlocks
from answermill.indexing.shards.shard_builder import BLOCK, ShardReport, ShardSettings, build_shard
from answermill.indexing.shards.shard_files import SHARD_FILE
from answermill.schemas.corpus import Passage, Sentence

PASSAGES = 4 * BLOCK + 7


class Stopped(Exception):
    pass


def numbers_of(text: str, count: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)[:count]


@dataclass
class Vectors:
    """A dense encoder that counts its calls; `before` is called before each."""

    fingerprint: str = "a"
    before: Callable[[int], None] = lambda call: None
    calls: int = 0
    name: str = "counting"
    dimension: int = 8
    at_once: int = BLOCK
    precision: Literal["fp32", "bf16"] = "fp32"

    def encode_passages(self, titles_and_texts: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        self.before(self.calls)
        self.calls += 1
        return np.array(
            [numbers_of(f"{self.fingerprint} {pair}", 8) for pair in titles_and_texts], np.float32
        )


@dataclass(frozen=True)
class Encoded:
    bits: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int64]
    cut: npt.NDArray[np.int64]


@dataclass
class Codes:
    """An encoder of sentences that counts its calls."""

    model: str = "0" * 32
    width: int = 16
    calls: list[int] = field(default_factory=list)

    form: str = "bits"
    precision: str = ""

    def texts(self, passage: Passage) -> list[tuple[str, ...]]:
        return [(sentence.text,) for sentence in passage.sentences]

    def encode(self, texts: Sequence[tuple[str, ...]]) -> Encoded:
        self.calls.append(len(texts))
        lengths = np.array([1 + len(text) % 3 for (text,) in texts], np.int64)
        rows = [
            numbers_of(text, 2) for (text,), length in zip(texts, lengths, strict=True) for _ in range(length)
        ]
        return Encoded(np.stack(rows), lengths, np.zeros(len(texts), np.int64))


def passages() -> list[Passage]:
    def one(n: int) -> Passage:
        text = f"ice {n % 1000}"  # some sentences come twice
        return Passage(
            f"d{n}#0", f"d{n}", "", "", 0, len(text), text, (Sentence(f"d{n}@0", 0, len(text), text),)
        )

    return [one(n) for n in range(PASSAGES)]


def build(
    folder: Path, kept: Path, encoder: Vectors, codes: Codes, progress: list[tuple[int, int]] | None = None
) -> ShardReport:
    def on_block(rows: int, kept_rows: int) -> None:
        if progress is not None:
            progress.append((rows, kept_rows))

    return build_shard(
        iter(passages()), folder, ShardSettings(encoder=encoder, coders=[codes]), kept, on_block
    )


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a shard; Lucene's have random ids and are left out."""
    files = json.loads((folder / SHARD_FILE).read_text())["files"]
    return {name: file["sha256"] for name, file in files.items() if not name.startswith("bm25/")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder, encoder, codes = tmp_path_factory.mktemp("undisturbed"), Vectors(), Codes()
    build(folder / "shard", folder / "kept", encoder, codes)
    assert encoder.calls == 5 and len(codes.calls) == 4  # the last passages have no new sentence
    return digests(folder / "shard")


def stop_at(number: int) -> Callable[[int], None]:
    def stop(call: int) -> None:
        if call == number:
            raise Stopped

    return stop


def test_a_stopped_build_goes_on_at_its_block_and_ends_with_the_same_bytes(
    undisturbed: dict[str, str], tmp_path: Path
) -> None:
    shard, kept = tmp_path / "shard", tmp_path / "kept"
    first, second = Codes(), Codes()
    with pytest.raises(Stopped):
        build(shard, kept, Vectors(before=stop_at(3)), first)
    assert not shard.exists() and len(first.calls) == 3
    encoder, progress = Vectors(), list[tuple[int, int]]()
    build(shard, kept, encoder, second, progress)
    assert encoder.calls == 2 and len(second.calls) == 1
    assert progress == [(BLOCK, BLOCK)] * 3 + [(BLOCK, 0), (7, 0)]
    assert digests(shard) == undisturbed and "dense.faiss" in undisturbed
    assert list(kept.iterdir()) == []


def test_blocks_of_another_encoder_are_not_taken(undisturbed: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        build(tmp_path / "shard", tmp_path / "kept", Vectors("b", stop_at(3)), Codes(model="1" * 32))
    encoder, codes = Vectors(), Codes()
    build(tmp_path / "shard", tmp_path / "kept", encoder, codes)
    assert encoder.calls == 5 and len(codes.calls) == 4
    assert digests(tmp_path / "shard") == undisturbed


def test_a_damaged_block_is_computed_again(undisturbed: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        build(tmp_path / "shard", tmp_path / "kept", Vectors(before=stop_at(4)), Codes())
    blocks = sorted((tmp_path / "kept").iterdir())
    assert len(blocks) == 8
    for place, block in zip((0, 40, 300, -300, -30, None, None, None), blocks, strict=True):
        content = bytearray(block.read_bytes())
        # A digit of the number of rows, after which numpy reads no further.
        rows = content.index(b"'shape': (") + len(b"'shape': (") + 1
        content[rows if place is None else place] ^= 1
        block.write_bytes(content)
    encoder = Vectors()
    build(tmp_path / "shard", tmp_path / "kept", encoder, Codes())
    assert encoder.calls == 5
    assert digests(tmp_path / "shard") == undisturbed


def test_half_a_block_is_computed_again(tmp_path: Path) -> None:
    for size in (0, 10, 32, 200, None):
        first = KeptBlocks(tmp_path)
        first.get(["a"], lambda: {"x": np.arange(100)})
        (file,) = tmp_path.iterdir()
        file.write_bytes(file.read_bytes()[:size])
        again = KeptBlocks(tmp_path)
        assert again.get(["a"], lambda: {"x": np.arange(100)})["x"].tolist() == list(range(100))
        assert again.read == (size is None)


@pytest.mark.parametrize("call", [0, 2, 4])
def test_two_builds_of_a_shard_do_not_harm_each_other(
    undisturbed: dict[str, str], tmp_path: Path, call: int
) -> None:
    shard, kept = tmp_path / "shard", tmp_path / "kept"

    def build_the_same(now: int) -> None:
        if now == call:
            build(shard, kept, Vectors(), Codes())
            assert digests(shard) == undisturbed

    build(shard, kept, Vectors(before=build_the_same), Codes())
    assert digests(shard) == undisturbed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "shard"]
    assert list(kept.iterdir()) == []


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    blocks = KeptBlocks(None)
    sizes = iter([1, 2])
    assert [len(blocks.get(["a"], lambda: {"x": np.ones(next(sizes))})["x"]) for _ in range(2)] == [1, 2]
    blocks.delete()
