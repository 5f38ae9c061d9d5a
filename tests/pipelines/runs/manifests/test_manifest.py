"""What a manifest says is held against what is there; a manifest that is none is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from answermill.files.atomic_files import sha256
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.runs.manifests.manifest import (
    FORMAT,
    MANIFEST,
    Manifest,
    Part,
    check_part,
    damage_of,
    read_manifest,
)
from answermill.pipelines.runs.manifests.run_folder import committed
from answermill.pipelines.specs.propagate import PROPAGATE
from answermill.pipelines.specs.rerank import SCORED

WRONG = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"format": "\xff"}',
    "nested": b"[" * 100_000,
    "a list": b"[]",
    "an empty object": b"{}",
    "another format": b'{"format": 1}',
    "the format alone": json.dumps({"format": FORMAT}).encode(),
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_a_manifest_that_is_none_is_refused_with_its_name_and_the_command(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "scored" / MANIFEST
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(JobError) as e:
        SCORED.manifest(tmp_path)
    assert e.value.code == BAD_DATA
    assert str(file) in str(e.value) and f"`answermill run JOB.toml --out {tmp_path} --redo rerank`" in str(
        e.value
    )
    assert committed(tmp_path) == {}


def shard(folder: Path) -> Part:
    """A shard of two files, as index writes it."""
    inside = folder / "00000-of-00001"
    (inside / "bm25").mkdir(parents=True)
    for name in ("dense.faiss", "bm25/segments_1"):
        (inside / name).write_text("12345")
    files = {
        name: {"size": 5, "sha256": sha256(inside / name)} for name in ("dense.faiss", "bm25/segments_1")
    }
    (inside / "shard.json").write_text(json.dumps({"k1": 0.9, "files": files}))
    return Part(inside.name, 1, 10, sha256(inside / "shard.json"))


@pytest.mark.parametrize(
    ("file", "content", "noticed"),
    [
        ("shard.json", "", True),
        ("shard.json", None, True),
        ("dense.faiss", None, True),
        ("dense.faiss", "1234", True),
        ("bm25/segments_1", "12346", False),
    ],
)
def test_damage_to_a_shard_is_seen(tmp_path: Path, file: str, content: str | None, noticed: bool) -> None:
    part = shard(tmp_path)
    assert damage_of(tmp_path, part, checksums=True) is None
    path = tmp_path / part.file / file
    path.unlink() if content is None else path.write_text(content)
    assert (damage_of(tmp_path, part) is not None) == noticed
    wrong = damage_of(tmp_path, part, checksums=True)
    assert wrong is not None and wrong.startswith(str(path))


def test_one_digit_of_shard_json_is_seen_without_reading_the_shard(tmp_path: Path) -> None:
    part = shard(tmp_path)
    listing = tmp_path / part.file / "shard.json"
    listing.write_text(listing.read_text().replace("0.9", "0.8"))
    assert damage_of(tmp_path, part) == f"{listing} was changed since it was written (SHA-256)"


def test_the_command_makes_only_what_is_lost_again_where_every_run_notices_it(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "labels" / "windows"
    folder.mkdir(parents=True)
    file = folder / "part-00000-0.parquet"
    file.write_text("12345")
    part = Part(file.name, 1, 5, sha256(file))
    check_part(folder, part)
    Manifest(PROPAGATE.maker, "W", "s", "f", {}, {}, "1", 1, {}, (part,), folder="labels/windows").write(
        folder
    )

    file.write_text("12346")
    with pytest.raises(
        JobError, match=rf"changed .*; `answermill run JOB.toml --out {tmp_path / 'run'} --verify propagate`"
    ):
        check_part(folder, part)

    file.unlink()
    with pytest.raises(
        JobError, match=rf"is missing; `answermill run JOB.toml --out {tmp_path / 'run'}` makes"
    ):
        check_part(folder, part)


def test_a_manifest_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Manifest(PROPAGATE.maker, "W", "s", "f", {}, {}, "1", 0, {}, ()).write(tmp_path)
    read, names = Path.read_bytes, list[str]()

    def noted(path: Path) -> bytes:
        names.append(path.name)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    assert read_manifest(tmp_path) is not None
    assert names == [MANIFEST], "or two requests to a store, between which it may be written anew"
