"""A worker process holds one copy of a model, run as `use_threads` and the device setting say; its files are
fingerprinted."""

from __future__ import annotations

import gc
import os
import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from answermill.files import model_files
from answermill.files.model_files import folder_digest
from answermill.indexing.shards.dense import Encoder, ModelMissing
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import JobError
from answermill.pipelines.runs.parquet_folder import Folder, Part
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED, PassCounts
from answermill.pipelines.steps import model_work, models
from answermill.pipelines.steps.job_plan import CheckedPlan
from answermill.pipelines.steps.model_work import ModelWork
from answermill.pipelines.steps.models import (
    WORKER_THREADS,
    dense_encoder,
    device_of,
    encoder_inputs,
    encoder_settings,
    passage_encoder,
    shared,
    use_threads,
)
from answermill.pipelines.steps.rerank.rerank import RunStages, step_of
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions
from answermill.pipelines.steps.retrieve.passes import Pass
from answermill.pipelines.steps.retrieve.shard_search import EncodeQuestions
from answermill.ranking.entry import Entry
from answermill.ranking.reranker import Reranker, Resources
from testing.tiny import checkpoint as write_checkpoint
from testing.tiny import write_dense
from tests.made_steps import NoUnits, made_step


@pytest.fixture
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of every dense encoder that is loaded."""
    names: list[str] = []
    load = models.load_encoder

    def counted(name: str, *rest: Any, **settings: Any) -> Encoder:
        names.append(name)
        return load(name, *rest, **settings)

    monkeypatch.setattr(models, "load_encoder", counted)
    return names


def job(**index: int) -> Job:
    return Job.model_validate(
        {
            "index": index,
            "retrieve": {"questions": "questions.tsv"},
            "rerank": {"stages": [{"reranker": "overlap"}]},
            "workers": {"device": "cpu"},
        }
    )


def test_instances_of_a_worker_share_one_copy_of_the_encoder(
    threads: int, loads: list[str], tmp_path: Path
) -> None:
    shorter = job(encoder_tokens=77)  # no other test holds this one
    target = Pass(made_step(tmp_path, "retrieve", {}, counts=PassCounts), 1)
    asked = AskedQuestions(tmp_path, Part("", 0, 0, ""), 64, 1, 1)
    workers = [EncodeQuestions(target, asked, shorter) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(EncodeQuestions.setup, workers))
    assert passage_encoder(shorter) is passage_encoder(shorter)
    assert len(loads) == 1


def test_another_setting_is_another_model() -> None:
    encoder, shorter = passage_encoder(job()), passage_encoder(job(encoder_tokens=16))
    assert encoder is not shorter
    assert encoder.fingerprint != shorter.fingerprint


def test_a_model_goes_when_nobody_holds_it() -> None:
    class Model: ...

    count: list[int] = []

    def load() -> Model:
        count.append(1)
        return Model()

    first = shared("a model", load)
    assert shared("a model", load) is first
    assert shared("another", load) is not first
    del first
    gc.collect()
    shared("a model", load)
    assert len(count) == 3


def test_a_model_that_was_written_again_is_loaded_again(tmp_path: Path) -> None:
    folder = str(write_dense(tmp_path, seed=0))
    before = dense_encoder(folder, device="cpu")
    assert dense_encoder(folder, device="cpu") is before
    write_dense(tmp_path, seed=1)
    after = dense_encoder(folder, device="cpu")
    assert not np.allclose(before.encode_questions(["ice"]), after.encode_questions(["ice"]))


def test_instances_of_a_worker_share_one_copy_of_a_stages_model(
    threads: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded: list[str] = []
    load = Entry.load

    def counted(entry: Entry, resources: Resources) -> Reranker:
        loaded.append(entry.name)
        return load(entry, resources)

    monkeypatch.setattr(Entry, "load", counted)
    gc.collect()
    workers = [_stages(tmp_path) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(RunStages.setup, workers))
    assert loaded == ["overlap"]


def test_loading_a_model_leaves_torchs_threads_alone(threads: int) -> None:
    use_threads(3)
    encoder = passage_encoder(job())
    assert torch.get_num_threads() == 3
    del encoder


@pytest.mark.parametrize(("set_by_user", "expected"), [("3", 3), ("", os.cpu_count()), ("0", os.cpu_count())])
def test_the_commands_own_process_computes_on_all_cores(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_by_user: str, expected: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", set_by_user)
    use_threads(7)
    _stages(tmp_path).setup()  # a plan without any neural network
    assert torch.get_num_threads() == expected


def _stages(run: Path) -> RunStages:
    questions, retrieved = Folder(run / "questions", QUESTIONS), Folder(run / "retrieved", RETRIEVED)
    return RunStages(CheckedPlan.of(job()), questions, retrieved, Step(run, RERANK, {}, {}))


def test_another_process_computes_on_one_thread(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    stages = _stages(tmp_path)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    stages.setup()
    assert torch.get_num_threads() == 1


def test_auto_is_cuda_where_the_machine_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for has in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has=has: has)
        assert device_of("auto") == ("cuda" if has else "cpu")
        assert device_of("cpu") == "cpu"
    with pytest.raises(
        JobError, match="device is 'cuda', and torch finds no CUDA here; give 'cpu' or 'auto'"
    ):
        device_of("cuda")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "training.json", "README.md"):
        (folder / name).write_text("one")
    return folder


def test_a_digest_follows_the_files_that_decide_the_numbers(model):
    first = folder_digest(model)
    for name in ("training.json", "README.md", "int8.json"):
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
    monkeypatch.setattr(model_files, "sha256", lambda file: reads.append(file.name) or "0" * 64)
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
        return set(step_of(job, small_run).inputs)

    assert inputs("overlap") == {"retrieved"}
    assert inputs("overlap", "similarity") == {"retrieved", "encoder all-MiniLM-L6-v2"}


def test_another_precision_is_another_rerank_and_nothing_else(small_run, tmp_path):
    def fingerprint(**settings: str) -> str:
        stage = {"reranker": "cascade", "checkpoint": str(tmp_path / "cascade"), **settings}
        return step_of(Job.model_validate({"rerank": {"stages": [stage]}}), small_run).fingerprint()

    write_checkpoint("cascade", tmp_path / "cascade")
    fingerprints = [fingerprint(), fingerprint(precision="fp32"), fingerprint(precision="int8")]
    assert len(set(fingerprints)) == 3 and fingerprint(precision="int8") == fingerprints[-1]

    # A measured loss decides no row.
    (tmp_path / "cascade" / "int8.json").write_text("{}")
    assert fingerprint(precision="int8") == fingerprints[-1]


class NoUnitsOfModels(NoUnits, ModelWork):
    """Work with models that ends before its first unit."""


def test_a_process_of_another_machine_is_not_the_command_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(model_work, "use_threads", chosen.append)
    monkeypatch.setattr(model_work, "command_threads", lambda: 7)
    work = NoUnitsOfModels("rerank", tmp_path)
    work.prepare()
    # Whose containers number their processes from 1, too.
    monkeypatch.setattr(platform, "node", lambda: "another")
    work.prepare()
    assert chosen == [7, WORKER_THREADS]
