"""A model's settings and files are part of the fingerprint of the steps that use it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from indexing.shards.dense import ModelMissing
from pipelines.config.job_file import Job
from pipelines.steps import model_digests, rerank
from pipelines.steps.model_digests import encoder_inputs, encoder_settings, folder_digest


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "training.json", "README.md"):
        (folder / name).write_text("one")
    return folder


def test_a_digest_follows_the_files_that_decide_the_numbers(model):
    first = folder_digest(model)
    for name in ("training.json", "README.md"):
        (model / name).write_text("another")
    assert folder_digest(model) == first is not None
    (model / "model.safetensors").write_text("two")
    second = folder_digest(model)
    (model / "config.json").rename(model / "settings.json")
    assert len({first, second, folder_digest(model)}) == 3


def test_a_folder_without_files_has_none(tmp_path):
    assert folder_digest(tmp_path) is None


def test_a_file_is_read_once_until_it_changes(model, monkeypatch):
    reads = []
    monkeypatch.setattr(model_digests, "sha256", lambda file: reads.append(file.name) or "0" * 64)
    for _ in range(3):
        folder_digest(model)
    assert reads == ["config.json", "model.safetensors"]
    os.utime(model / "config.json", ns=(1, 1))
    folder_digest(model)
    assert len(reads) == 4


def test_the_passages_and_the_questions_encoder_both_count_where_they_are_used(model):
    index = {"encoder": str(model), "question_encoder": "all-MiniLM-L6-v2"}
    job = Job.model_validate({"index": index, "rerank": {"stages": [{"reranker": "overlap"}]}})
    assert set(encoder_settings(job)) == {"encoder", "question_encoder", "encoder_tokens", "precision"}
    assert list(encoder_inputs(job, questions=False)) == [f"encoder {model}"]
    assert set(encoder_inputs(job)) == {f"encoder {model}", "encoder all-MiniLM-L6-v2"}
    (model / "model.safetensors").unlink()
    with pytest.raises(ModelMissing):
        encoder_inputs(job)


def test_a_plan_that_does_not_use_the_encoder_does_not_depend_on_it(small_run):
    def inputs(*rerankers: str) -> set[str]:
        job = Job.model_validate({"rerank": {"stages": [{"reranker": name} for name in rerankers]}})
        return set(rerank.step_of(job, small_run).inputs)

    assert inputs("overlap") == {"retrieved"}
    assert inputs("overlap", "similarity") == {"retrieved", "encoder all-MiniLM-L6-v2"}
