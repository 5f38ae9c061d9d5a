"""The checkpoints that come with the package: what they weigh, and that their cards name data and licence.
And what is no checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import RepoCard
from safetensors import safe_open

from answermill.ranking.checkpoint import config_of, kind_of
from answermill.ranking.entry import SHIPPED

LIMITS_MB = {"cosinet": 5, "cascade": 6, "cascade_base": 15, "hashing": 7, "peasi": 4}


def test_the_table_of_limits_names_every_shipped_checkpoint() -> None:
    assert {folder.name for folder in SHIPPED.iterdir() if folder.is_dir()} == set(LIMITS_MB)


@pytest.mark.parametrize(("name", "limit_mb"), LIMITS_MB.items())
def test_a_shipped_checkpoint_is_small_half_precision_or_less_and_says_what_it_learnt_from(
    name: str, limit_mb: int
) -> None:
    folder = SHIPPED / name
    assert sum(file.stat().st_size for file in folder.iterdir()) < limit_mb * 1e6
    with safe_open(folder / "model.safetensors", framework="pt") as weights:
        assert {weights.get_slice(key).get_dtype() for key in weights.keys()} <= {"F16", "I8"}  # noqa: SIM118
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "SQuAD v1.1 train" in card and "CC BY-SA 4.0" in card and "QED train" in card
    assert json.loads((folder / "config.json").read_text())["model"] == name.removesuffix("_base")


@pytest.mark.parametrize("name", LIMITS_MB)
def test_a_shipped_card_begins_with_what_a_hub_reads(name: str) -> None:
    head = RepoCard.load(SHIPPED / name / "README.md").data.to_dict()
    body = "all-mpnet-base-v2" if name.endswith("_base") else "all-MiniLM-L6-v2"
    assert head["base_model"] == f"sentence-transformers/{body}" and head["license"] == "apache-2.0"
    assert head["library_name"] == "answermill" and head["pipeline_tag"] == "text-ranking"
    assert name.removesuffix("_base") in head["tags"]


def test_the_shipped_checkpoints_are_small_together() -> None:
    assert sum(file.stat().st_size for file in SHIPPED.rglob("*") if file.is_file()) <= 35e6


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("file", "it is a file, no folder"),
        ("absent", "there is no such folder"),
        ("empty", "it has no config.json"),
        ("odd", "config.json is not JSON: Expecting value"),
        ("barred", "config.json: Is a directory"),
    ],
)
def test_what_is_no_checkpoint_is_named_in_words(tmp_path: Path, place: str, fault: str) -> None:
    (tmp_path / "file").touch()
    for folder in ("empty", "odd", "barred/config.json"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "odd" / "config.json").write_text("x")
    with (
        pytest.raises(ValueError, match=f"^{tmp_path / place} is no checkpoint of cascade: {fault}"),
        config_of(tmp_path / place, "cascade"),
    ):
        pass
    with pytest.raises(ValueError, match=f"^{tmp_path / place} is no checkpoint: {fault}"):
        kind_of(tmp_path / place)
