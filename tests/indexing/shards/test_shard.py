"""A shard is whole or absent: rows agree across its files, a flipped bit is refused, a killed build leaves no shard."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from indexing.shards import shard as shards
from indexing.shards.dense import Encoder
from indexing.shards.shard import Shard, ShardDamaged, ShardMismatch, ShardSettings
from pipelines.steps.models import dense_encoder
from schemas.corpus import Passage, Sentence

ROOT = Path(__file__).parents[3]
WORDS = ["glacier", "cave", "ice", "water", "river", "stone", "wind", "light", "snow", "mountain"]


def passage(number: int, text: str) -> Passage:
    doc_id, url = f"d{number // 3}", f"http://example.org/{number // 3}"
    sentence = Sentence(sentence_id=f"{doc_id}@0", start=0, end=len(text), text=text)
    passage_id = f"{doc_id}#{number % 3}"
    return Passage(passage_id, doc_id, url, "Ice" if number % 2 else "", 0, len(text), text, (sentence,))


PASSAGES = [passage(n, f"{WORDS[n % 10]} number{n}") for n in range(700)]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return dense_encoder(device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def few(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard of 20 passages with both indexes. Tests that damage it take a copy."""
    folder = tmp_path_factory.mktemp("shards") / "00000-of-00001"
    report = shards.build(iter(PASSAGES[:20]), folder, ShardSettings(k1=1.2, b=0.7), encoder)
    assert report.passages == 20
    assert report.bytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return folder


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A shard of 700 passages, so of several row groups, without a dense index."""
    shards.build(iter(PASSAGES), tmp_path / "many", ShardSettings(), None)
    return tmp_path / "many"


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def copy(folder: Path, to: Path) -> Path:
    subprocess.run(["cp", "-r", folder, to], check=True)
    return to


def test_row_i_is_passage_i_and_lucene_document_i_and_vector_i(few: Path, encoder: Encoder) -> None:
    shard = Shard.open(few)
    assert shard.passages(range(20)) == PASSAGES[:20]
    for row in (0, 7, 19):
        assert shard.bm25.search([f"number{row}"], 1, None)[0][0].tolist() == [row]
    alone = encoder.encode_passages([(p.title, p.text) for p in PASSAGES[7:8]])
    assert (shard.dense.vectors[7] == alone[0]).all()
    assert shard.dense.search(alone, 1)[0][0].tolist() == [7]


def test_a_shard_remembers_how_it_was_made(few: Path, encoder: Encoder) -> None:
    shard = Shard.open(few)
    assert (shard.rows, shard.bm25.k1, shard.bm25.b) == (20, 1.2, 0.7)
    shard.check_encoder(encoder.fingerprint)
    with pytest.raises(ShardMismatch, match="all-MiniLM-L6-v2"):
        shard.check_encoder("0123456789abcdef")


def test_passages_come_in_the_order_asked_across_row_groups(many: Path) -> None:
    shard = Shard.open(many)
    rows = np.random.default_rng(0).integers(0, 700, 300).tolist()  # some twice
    assert len(set(rows)) < len(rows)
    assert shard.passages(rows) == [PASSAGES[row] for row in rows]
    assert shard.passage_ids(rows) == [PASSAGES[row].passage_id for row in rows]
    assert (shard.passages([]), shard.passage_ids([])) == ([], [])


def test_a_shard_without_an_encoder_has_no_dense_index(many: Path) -> None:
    assert not (many / shards.DENSE).exists()
    with pytest.raises(ShardMismatch, match="without an encoder"):
        Shard.open(many).dense  # noqa: B018


def test_an_empty_shard_is_a_shard(encoder: Encoder, tmp_path: Path) -> None:
    assert shards.build(iter([]), tmp_path / "empty", ShardSettings(), encoder).passages == 0
    shard = Shard.open(tmp_path / "empty")
    assert shard.bm25.search(["ice"], 5, None)[0][0].tolist() == []
    assert shard.dense.search(encoder.encode_questions(["ice"]), 5)[0][0].tolist() == []
    assert shard.passage_ids([]) == []


def test_one_flipped_bit_in_any_file_is_refused(few: Path, tmp_path: Path) -> None:
    folder = copy(few, tmp_path / "copy")
    Shard.open(folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != shards.SHARD_FILE]
    assert {path.name for path in files} >= {shards.PASSAGES, shards.DENSE, "segments_1"}
    for path in files:
        whole = path.read_bytes()
        at = len(whole) // 2
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ShardDamaged, match=f"{path.name}.*run the index step again"):
            Shard.open(folder)
        path.write_bytes(whole[:-1])
        with pytest.raises(ShardDamaged, match="bytes"):
            Shard.open(folder)
        path.write_bytes(whole)
    (folder / shards.DENSE).unlink()
    with pytest.raises(ShardDamaged, match=f"{shards.DENSE}: missing"):
        Shard.open(folder)


def test_a_flipped_bit_in_a_page_is_noticed_even_where_checksums_were_not_compared(many: Path) -> None:
    path = many / shards.PASSAGES
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(OSError):
        Shard.open(many, verify=False).passages(range(700))


def test_a_shard_of_another_lucene_is_refused(many: Path) -> None:
    written = json.loads((many / shards.SHARD_FILE).read_text())
    (many / shards.SHARD_FILE).write_text(json.dumps(written | {"lucene": "8.11.0"}))
    shard = Shard.open(many)
    assert shard.passage_ids([0]) == ["d0#0"]  # passages do not need Lucene
    with pytest.raises(ShardMismatch, match=r"written by Lucene 8\.11\.0"):
        shard.bm25  # noqa: B018


def test_a_folder_that_is_no_shard_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="run the index step"):
        Shard.open(tmp_path)
    (tmp_path / shards.SHARD_FILE).write_text('{"format"')
    with pytest.raises(ShardDamaged, match="not JSON"):
        Shard.open(tmp_path)
    (tmp_path / shards.SHARD_FILE).write_text('{"format": 0}')
    with pytest.raises(ShardMismatch, match="another version"):
        Shard.open(tmp_path)


def test_a_build_that_fails_leaves_what_was_there(many: Path) -> None:
    def broken() -> Iterator[Passage]:
        yield from PASSAGES[:5]
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        shards.build(broken(), many, ShardSettings(), None)
    assert Shard.open(many).rows == 700
    assert names_in(many.parent) == ["many"]


def test_building_again_replaces_the_shard(many: Path) -> None:
    other = [replace(p, title="again") for p in PASSAGES[:9]]
    shards.build(iter(other), many, ShardSettings(), None)
    shard = Shard.open(many)
    assert shard.passages(range(9)) == other
    assert shard.bm25.statistics().documents == 9
    assert names_in(many.parent) == ["many"]


def test_a_build_that_was_killed_leaves_no_shard_and_the_next_one_sweeps(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from indexing.shards import shard as shards
from pipelines.steps.models import dense_encoder
from schemas.corpus import Passage

def killed():
    for n in range(9_000):
        yield Passage(f"d#{n}", "d", "", "", 0, 3, "ice", ())
    os.kill(os.getpid(), signal.SIGKILL)

shards.build(killed(), Path(sys.argv[1]), shards.ShardSettings(), None)
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "shard"], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "shard").exists()
    assert len(names_in(tmp_path)) == 1  # what it had written
    shards.build(iter(PASSAGES[:3]), tmp_path / "shard", ShardSettings(), None)
    assert names_in(tmp_path) == ["shard"]
    assert Shard.open(tmp_path / "shard").rows == 3


def test_a_closed_shard_opens_its_indexes_anew(few: Path) -> None:
    shard = Shard.open(few)
    first = shard.bm25.search(["ice"], 3, None)[0][0].tolist()
    shard.passage_ids([0])
    shard.close()
    assert shard.bm25.search(["ice"], 3, None)[0][0].tolist() == first
    assert shard.passage_ids([0]) == ["d0#0"]
