"""Whole trainings whose steps hold groups: they serve, go on where they were stopped, and refuse settings
without a meaning."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch import Tensor

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.config.training_file import load_job
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.learn.train.train import run
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training import cross_encoders
from answermill.ranking.training.cross_encoders import PairBatch, PairTask
from answermill.ranking.training.loop import Dev
from answermill.schemas.labels import LabelledCandidate
from testing.tiny import write_body

JOB = """
[transformer]
reranker = "{reranker}"
encoder = "tiny"
limit = 32
tokens = 120
{more}
[data]
name = "a made set"
licence = "CC0"
train = ["{data}"]
dev = ["train.parquet"]
[train]
epochs = 2
learning_rate = 0.001
{train}
{distil}
"""
DISTIL = (
    '[distil]\ntables = ["teachers.parquet"]\nteachers = ["t1", "t2"]\nstrategy = "sum"\nloss = "margin_mse"'
)
GROUPS = 'loss = "softmax"\nbce_weight = 0.3\nnegatives = 3'


def rows(questions: int = 8, candidates: int = 7) -> list[list[LabelledCandidate]]:
    return [
        [
            LabelledCandidate(
                f"q{n}",
                f"Who sang {n} ?",
                f"c{i}",
                "",
                "",
                i,
                f"{'She sang' if i == n % 7 else 'Left'} {i} .",
                int(i == n % 7),
            )
            for i in range(candidates)
        ]
        for n in range(questions)
    ]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training set, one of single candidates, teachers' scores and a tiny body."""
    folder = tmp_path_factory.mktemp("groups")
    pairs = [row for question_rows in rows() for row in question_rows]
    pq.write_table(LabelledCandidate.table(pairs), folder / "train.parquet")
    pq.write_table(
        LabelledCandidate.table([replace(row, position=0) for row in pairs if row.label]),
        folder / "single.parquet",
    )
    scores = {
        name: [10.0 * row.label + n % 5 * sign for n, row in enumerate(pairs)]
        for name, sign in (("t1", 1), ("t2", -1))
    }
    ids = {
        "question_id": [row.question_id for row in pairs],
        "candidate_id": [row.candidate_id for row in pairs],
    }
    pq.write_table(pa.table(ids | scores), folder / "teachers.parquet")

    write_body(folder / "tiny")
    return folder


def job(
    folder: Path, reranker: str, more: str, distil: str = "", train: str = "", data: str = "train.parquet"
) -> Path:
    path = folder / "job.toml"
    path.write_text(JOB.format(reranker=reranker, more=more, distil=distil, train=train, data=data))
    return path


@pytest.mark.parametrize(
    ("name", "reranker", "more", "distil"),
    [
        ("softmax", "pointwise", GROUPS, ""),
        ("drawn", "pointwise", "negatives = 2", ""),
        ("margins", "pointwise", GROUPS, DISTIL),
        ("all", "cascade", f'exits = [1, 2]\nsampling = "all"\nself_distillation = 0.5\n{GROUPS}', DISTIL),
        ("heads", "multihead", f'exits = [1]\nsampling = "all"\n{GROUPS}', DISTIL.replace('"sum"', '"mhs"')),
    ],
)
def test_a_training_of_groups_serves_with_its_dev_score(
    work: Path, name: str, reranker: str, more: str, distil: str
) -> None:
    lines = list(run(load_job(job(work, reranker, more, distil)), work / name))
    score = Dev(rows()).score(load_reranker(reranker, work / name, model=find_model), "MAP", "answerable")
    assert f"best dev MAP {100 * score:.2f}" in lines[-1]
    assert '"negatives": ' in (work / name / "README.md").read_text()


def stopping(after: int) -> Callable[[PairTask, PairBatch], Tensor]:
    loss, calls = PairTask.loss, iter(range(after))

    def stopped(self: PairTask, batch: PairBatch) -> Tensor:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return loss(self, batch)

    return stopped


def test_a_training_of_groups_that_was_stopped_within_an_epoch_ends_with_the_same_bytes(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = f'exits = [1, 2]\nsampling = "all"\nself_distillation = 0.5\n{GROUPS}'
    path = job(work, "cascade", more, DISTIL, "evaluate_every = 2")
    list(run(load_job(path), work / "whole"))
    steps = json.loads((work / "whole" / "training.json").read_text())["step"]
    for after in (3, steps // 2):
        with monkeypatch.context() as patch:
            patch.setattr(cross_encoders.PairTask, "loss", stopping(after))
            with pytest.raises(KeyboardInterrupt):
                list(run(load_job(path), work / "stopped"))
    list(run(load_job(path), work / "stopped"))
    for file in ("model.safetensors", "training.json"):
        assert (work / "stopped" / file).read_bytes() == (work / "whole" / file).read_bytes()


@pytest.mark.parametrize(
    ("more", "distil", "data", "says"),
    [
        (
            'loss = "softmax"',
            "",
            "single.parquet",
            "transformer.loss = 'softmax' compares right candidates with wrong ones",
        ),
        ("", DISTIL, "single.parquet", "distil.loss = 'margin_mse' compares right candidates"),
        (
            'loss = "margin_mse"',
            "",
            "train.parquet",
            "transformer.loss: .*write it as distil.loss, with distil.tables",
        ),
        ("", '[distil]\nloss = "margin_mse"', "train.parquet", "distil.tables"),
        (
            "",
            f"{DISTIL}\ntau = 2.0",
            "train.parquet",
            "tau softens probabilities, and loss = 'margin_mse' has none",
        ),
        ("bce_weight = 0.5", "", "train.parquet", "bce_weight = 0.5 is for loss = 'softmax'"),
        (
            "negatives = 0",
            "",
            "train.parquet",
            "transformer.negatives: Input should be greater than or equal to 1",
        ),
        (
            'sampling = "all"',
            "",
            "train.parquet",
            "unknown key transformer.sampling: cascade, multihead has it",
        ),
        (
            'loss = "softmax"\nnegatives = 6',
            "",
            "train.parquet",
            "steps of 120 tokens for pairs that stay together",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_before_the_first_step(
    work: Path, more: str, distil: str, data: str, says: str
) -> None:
    with pytest.raises(JobError, match=says) as e:
        list(run(load_job(job(work, "pointwise", more, distil, data=data)), work / "refused"))
    assert e.value.code == SETTINGS and not (work / "refused").exists()


def test_the_last_exit_teaches_only_where_all_are_trained(work: Path) -> None:
    with pytest.raises(JobError, match=r"self_distillation = 0.5 is for sampling = 'all'"):
        load_job(job(work, "cascade", "exits = [1, 2]\nself_distillation = 0.5"))
