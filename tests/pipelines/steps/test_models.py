"""A worker process holds one copy of a model, and nothing but `use_threads` and the device setting say how it runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from indexing.shards.dense import Encoder
from pipelines.config.job_file import Job
from pipelines.execution.step import Step
from pipelines.steps import models
from pipelines.steps.models import dense_encoder, device_of, passage_encoder, shared, use_threads
from pipelines.steps.rerank import RunStages
from pipelines.steps.shard_search import EncodeQuestions
from ranking.entry import Entry
from ranking.reranker import Reranker, Resources
from tests.tiny import write_dense


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


def test_instances_of_a_worker_share_one_copy_of_the_encoder(threads: int, loads: list[str]) -> None:
    settings = job().retrieve
    assert settings is not None
    gc.collect()
    workers = [EncodeQuestions(job(), settings) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(EncodeQuestions.setup, workers))
    assert passage_encoder(job()) is passage_encoder(job())
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
    workers = [RunStages(job(), tmp_path, Step(tmp_path, "rerank", {}, {}, {})) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(RunStages.setup, workers))
    assert loaded == ["overlap"]


def test_loading_a_model_leaves_torchs_threads_alone(threads: int) -> None:
    use_threads(3)
    encoder = passage_encoder(job())
    assert torch.get_num_threads() == 3
    del encoder


def test_a_worker_computes_on_one_thread_whatever_its_plan(threads: int, tmp_path: Path) -> None:
    use_threads(3)
    RunStages(job(), tmp_path, Step(tmp_path, "rerank", {}, {}, {})).setup()  # a plan without any neural network
    assert torch.get_num_threads() == 1


def test_auto_is_cuda_where_the_machine_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for has in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has=has: has)
        assert device_of("auto") == ("cuda" if has else "cpu")
        assert (device_of("cpu"), device_of("cuda")) == ("cpu", "cuda")
