"""A push sends a folder to the hub by huggingface_hub, says before what changes, sends nothing twice, and
never prints the token. The hub is a server of ours that speaks its protocol."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

import answermill as am
from answermill.files.model_files import ModelDamaged
from answermill.pipelines.errors import (
    BAD_DATA,
    INPUT_MISSING,
    IO,
    OUTPUT_EXISTS,
    SETTINGS,
    UNAVAILABLE,
    USAGE,
)
from answermill.ranking.entry import SHIPPED
from testing import hub_server
from testing.hub_server import TOKEN, Hub

ROOT = Path(__file__).parents[3]
NAME = ("dataset", "us/set")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_server.serving() as hub:
        for name, value in {"ENDPOINT": hub.url, "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True}.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield hub


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    """A folder as `answermill publish` writes it, as far as a push looks at it."""
    folder = tmp_path / "set"
    for name in ("passages/train.parquet", "passages/test.parquet", "beir/qrels.tsv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"rows of {name}\n" * 50, encoding="utf-8")
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n# Set\n", encoding="utf-8")
    (folder / ".hidden").touch()
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def pushed(hub: Hub, key: tuple[str, str] = NAME) -> dict[str, bytes]:
    return {path: content for path, content in hub.repositories[key].items() if path != ".gitattributes"}


def test_a_data_set_arrives_as_it_is_in_a_private_repository(hub: Hub, data_set: Path) -> None:
    lines = am.push(data_set, "us/set")
    assert pushed(hub) == files_of(data_set) and hub.private[NAME]
    assert hub.commits == ["Push set by AnswerMill"]
    assert "set: cc-by-nc-4.0" in lines[0] and lines[0].startswith("warning: ")
    assert any(
        line.startswith("new      passages/train.parquet") and line.endswith("bytes") for line in lines
    )
    assert lines[-2].startswith("us/set, a dataset, a new private repository: 4 files new, 0 changed")
    assert TOKEN not in str(lines)


def test_a_checkpoint_arrives_in_a_model_repository(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(SHIPPED / "hashing", folder)
    (folder / "_training").mkdir()
    (folder / "_training" / "state.safetensors").touch()
    lines = am.push(folder, "us/mine", public=True)
    assert pushed(hub, ("model", "us/mine")) == files_of(SHIPPED / "hashing")
    assert not hub.private["model", "us/mine"]
    assert any(line.startswith("warning: MS MARCO") for line in lines)


def test_a_dry_run_lists_and_sends_nothing(hub: Hub, data_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(data_set / "no_token"))
    lines = am.push(data_set, "us/set", dry_run=True)
    assert sum(line.startswith("new ") for line in lines) == 4
    assert lines[-1] == "nothing was sent: --dry-run" and not hub.repositories and not hub.received


def test_a_dry_run_lists_files_without_a_hub(
    hub: Hub, data_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    lines = am.push(data_set, "us/set", dry_run=True)
    assert sum(line.startswith("file     ") for line in lines) == 4
    assert lines[-2].startswith("not compared with what is there: HF_HUB_OFFLINE is set")


def test_a_push_says_what_changes_and_replaces_only_if_told(hub: Hub, data_set: Path) -> None:
    am.push(data_set, "us/set")
    assert am.push(data_set, "us/set")[-1] == "nothing to send: us/set has it all"

    hub.repositories[NAME]["notes.md"] = b"of others"
    (data_set / "passages/test.parquet").write_text("other rows", encoding="utf-8")
    (data_set / "beir/corpus.jsonl").write_text("{}", encoding="utf-8")
    before = dict(hub.repositories[NAME])
    with pytest.raises(am.JobError, match=r"other content in passages/test.parquet; --replace") as e:
        am.push(data_set, "us/set")
    assert e.value.code == OUTPUT_EXISTS and hub.repositories[NAME] == before

    lines = am.push(data_set, "us/set", replace=True)
    assert "stays    notes.md  (only in the repository)" in lines
    assert any(line.startswith("changed  passages/test.parquet") for line in lines)
    assert "1 file new, 1 changed, 3 the same" in lines[-2]
    assert pushed(hub) == files_of(data_set) | {"notes.md": b"of others"}


def test_a_push_that_failed_goes_on_and_sends_nothing_twice(hub: Hub, data_set: Path) -> None:
    lost = hashlib.sha256((data_set / "passages/train.parquet").read_bytes()).hexdigest()
    kept = hashlib.sha256((data_set / "passages/test.parquet").read_bytes()).hexdigest()

    def refused(digest: str) -> bool:
        while digest == lost and kept not in hub.stored:
            time.sleep(0.01)
        return digest == lost

    hub.refuse = refused
    with pytest.raises(am.JobError, match="type the same command again") as e:
        am.push(data_set, "us/set")
    assert e.value.code == IO and TOKEN not in str(e.value)
    assert hub.received == [kept] and not pushed(hub)

    hub.refuse = lambda digest: False
    am.push(data_set, "us/set")
    assert hub.received == [kept, lost] and pushed(hub) == files_of(data_set)


def test_a_killed_push_goes_on_by_the_same_command(hub: Hub, data_set: Path) -> None:
    kept = hashlib.sha256((data_set / "passages/test.parquet").read_bytes()).hexdigest()
    waits = threading.Event()
    hub.refuse = lambda digest: digest != kept and not waits.wait(60)
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-m", "answermill", "push", str(data_set), "us/set"]
    first = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 60
    while kept not in hub.stored and time.monotonic() < until:
        time.sleep(0.02)
    first.kill()
    first.communicate()
    assert hub.received == [kept] and not pushed(hub)

    waits.set()
    second = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert hub.received.count(kept) == 1 and pushed(hub) == files_of(data_set)
    assert TOKEN not in second.stdout + second.stderr


def test_what_cannot_be_pushed_is_refused_before_any_work(
    hub: Hub, data_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def code_of(folder: Path, name: str = "us/set", **options: object) -> int:
        with pytest.raises(am.JobError) as e:
            am.push(folder, name, **options)
        assert "\n" not in str(e.value)
        return e.value.code

    assert code_of(data_set, "set") == USAGE
    assert code_of(tmp_path / "absent") == INPUT_MISSING
    (tmp_path / "other").mkdir()
    assert code_of(tmp_path / "other") == BAD_DATA
    assert code_of(tmp_path / "other", kind="dataset") == INPUT_MISSING
    hub.may_write = False
    assert code_of(data_set) == SETTINGS
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert code_of(data_set) == UNAVAILABLE
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no_token"))
    assert code_of(data_set) == SETTINGS
    assert not hub.repositories and not hub.received


def test_a_damaged_checkpoint_is_not_pushed(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(SHIPPED / "hashing", folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"limit": 1}), encoding="utf-8")
    with pytest.raises((am.JobError, ModelDamaged), match=r"config\.json is not the file"):
        am.push(folder, "us/mine")
    assert not hub.repositories
