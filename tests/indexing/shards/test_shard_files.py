"""A file of a shard that is not the one that was written is refused, with what to type."""

import subprocess
from pathlib import Path

import pytest

from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.shard_files import DENSE, PASSAGES, SHARD_FILE, ShardDamaged, ShardMismatch


def copy(folder: Path, to: Path) -> Path:
    subprocess.run(["cp", "-r", folder, to], check=True)
    return to


def test_one_flipped_bit_in_any_file_is_refused(few: Path, tmp_path: Path) -> None:
    folder = copy(few, tmp_path / "copy")
    Shard.open(folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != SHARD_FILE]
    assert {path.name for path in files} >= {PASSAGES, DENSE, "segments_1"}

    for path in files:
        whole = path.read_bytes()
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        with pytest.raises(
            ShardDamaged, match=rf"{path.name} was changed since .* --out {tmp_path.parent} --verify index`"
        ):
            Shard.open(folder)
        path.write_bytes(whole[:-1])
        with pytest.raises(ShardDamaged, match=r"bytes, .* were written"):
            Shard.open(folder)
        path.write_bytes(whole)

    (folder / DENSE).unlink()
    with pytest.raises(ShardDamaged, match=f"{DENSE} is missing"):
        Shard.open(folder)


def test_a_flipped_bit_in_a_page_is_noticed_even_where_checksums_were_not_compared(many: Path) -> None:
    path = many / PASSAGES
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(OSError):
        Shard.open(many, verify=False).passages(range(700))


def test_a_folder_that_is_no_shard_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ShardDamaged, match=r"shard\.json is missing; `answermill run JOB.toml --out .*` builds it again"
    ):
        Shard.open(tmp_path)
    (tmp_path / SHARD_FILE).write_text('{"format"')
    with pytest.raises(ShardDamaged, match="Invalid JSON"):
        Shard.open(tmp_path)
    (tmp_path / SHARD_FILE).write_text('{"format": 0}')
    with pytest.raises(ShardMismatch, match="another version"):
        Shard.open(tmp_path)
