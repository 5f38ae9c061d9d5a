"""Training from a file: what comes out, what is refused, and that going on changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from huggingface_hub import RepoCard
from safetensors.torch import load_file

from answermill.files.model_files import ModelDamaged
from answermill.indexing.shards.dense import DEFAULT, ModelMissing, find_model
from answermill.pipelines.config.training_file import load_job
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.data.inputs.tables import read_passages
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, SETTINGS, JobError
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.learn.evaluate.rank import RankOptions
from answermill.pipelines.learn.train import train
from answermill.pipelines.learn.train.train import build, run
from answermill.pipelines.runs.lock import LOCK, claimed
from answermill.ranking.lists import ranked_list, ranked_passages
from answermill.ranking.plan import Stage, run_stages
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training import loop
from answermill.ranking.training.state import History
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.schemas.labels import LabelledPassage, LabelledSentence
from testing.tiny import write_body

JOB = """
[model]
form = "{form}"
reranker = "{reranker}"
embeddings = "vectors.txt"
filters = 16
[data]
name = "a made set"
licence = "CC0"
train = ["train.tsv"]
dev = ["train.tsv"]
[train]
epochs = 4
batch = 2
learning_rate = 0.01
"""
WORDS = {
    "who": (1, 0, 0, 0),
    "sang": (0, 1, 0, 0),
    "it": (0, 0, 1, 0),
    "she": (0.9, 0.1, 0, 0),
    "left": (0, 0, 0, 1),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = ["question_id\tquestion\tsentence\tlabel"]
    for n in range(6):
        lines += [
            f"q{n}\tWho sang it ?\tIt left .\t0",
            f"q{n}\tWho sang it ?\tShe sang it .\t1",
            f"q{n}\tWho sang it ?\tLeft {n} .\t0",
        ]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "vectors.txt").write_text("".join(f"{w} {' '.join(map(str, v))}\n" for w, v in WORDS.items()))
    write_job(tmp_path)
    return tmp_path


def write_job(folder: Path, reranker: str = "cosinet", form: str = "birnn") -> Path:
    (folder / "train.toml").write_text(JOB.format(reranker=reranker, form=form))
    return folder / "train.toml"


@pytest.mark.parametrize("reranker", ["cosinet", "compare_aggregate"])
@pytest.mark.parametrize("form", ["pointwise", "birnn"])
def test_a_trained_checkpoint_serves_with_its_dev_score(folder: Path, reranker: str, form: str) -> None:
    lines = list(run(load_job(write_job(folder, reranker, form)), folder / "out"))
    assert lines[0].startswith("train.tsv: 6 questions, 6 answered, 18 candidates; dev train.tsv")
    assert "unknown" in lines[1] and lines[2].startswith(f"train      {reranker} {form}: best dev MAP 100.00")
    evaluation = evaluate(
        reranker, folder / "train.tsv", ranker=RankOptions(checkpoint=str(folder / "out")), metrics=("MAP",)
    )
    assert evaluation.means["MAP"][0] == 1


@pytest.mark.parametrize("there", [True, False])
def test_bf16_that_a_processor_only_emulates_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(
        "torch.cpu.get_capabilities", lambda: {"avx2": True, "avx512_bf16": there, "amx_bf16": False}
    )
    job = load_job(folder / "train.toml", ["train.precision='bf16'", "train.device='cpu'"])
    assert any("only emulates" in line for line in run(job, folder / "out")) is not there


@pytest.mark.parametrize(("there", "precision"), [(True, "bf16"), (False, "fp32")])
def test_auto_is_the_precision_that_the_processor_has_and_a_training_ends_in_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, there: bool, precision: str
) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": there})
    list(
        run(load_job(folder / "train.toml", ["train.precision='auto'", "train.device='cpu'"]), folder / "out")
    )
    assert f'"precision": "{precision}"' in (folder / "out" / "README.md").read_text()

    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": not there})
    with pytest.raises(JobError, match=r"another training: .*precision"):
        list(
            run(
                load_job(folder / "train.toml", ["train.precision='auto'", "train.device='cpu'"]),
                folder / "out",
            )
        )


def test_the_card_tells_data_licence_revision_and_scores(folder: Path) -> None:
    list(run(load_job(folder / "train.toml"), folder / "out"))
    card = (folder / "out" / "README.md").read_text()
    for said in (
        "a made set",
        "CC0",
        "AnswerMill 0.1.0",
        "commit",
        "100.00",
        "train.tsv",
        '"learning_rate": 0.01',
    ):
        assert said in card
    head = RepoCard(card).data.to_dict()
    assert head["license"] == "cc0-1.0" and head["library_name"] == "answermill"
    assert "cosinet" in head["tags"] and "datasets" not in head and "base_model" not in head

    config = json.loads((folder / "out" / "config.json").read_text())
    assert config == {"format": 1, "model": "cosinet", "form": "birnn", "filters": 16}


def test_no_checkpoint_is_complete_without_its_card(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = list[bool]()
    publish = loop.publish

    def look(kept: Path, out: Path, history: History) -> None:
        there.append((out / "README.md").is_file())
        publish(kept, out, history)

    monkeypatch.setattr(loop, "publish", look)
    list(run(load_job(folder / "train.toml", []), folder / "out"))
    assert there == [True]


def test_a_complete_training_is_not_repeated_and_another_s_place_not_taken(folder: Path) -> None:
    list(run(load_job(folder / "train.toml"), folder / "out"))
    before = (folder / "out" / "model.safetensors").stat().st_mtime_ns
    assert list(run(load_job(folder / "train.toml"), folder / "out"))[-1].endswith("(complete)")
    assert (folder / "out" / "model.safetensors").stat().st_mtime_ns == before
    modes = {path.name: path.stat().st_mode for path in (folder / "out").iterdir() if path.is_file()}
    assert len(set(modes.values())) == 1, "all can be read by whom the umask lets"
    with pytest.raises(
        JobError, match=r"holds another training: train.seed = \d+ there, 1 here; give another --out"
    ) as e:
        list(run(load_job(folder / "train.toml", ["train.seed=1"]), folder / "out"))
    assert e.value.code == OUTPUT_EXISTS
    with pytest.raises(JobError, match="holds something else"):
        list(run(load_job(folder / "train.toml"), folder))


@pytest.mark.parametrize("damaged", ["removed", "cut"])
def test_a_complete_training_without_its_model_is_not_complete(folder: Path, damaged: str) -> None:
    job, out = load_job(folder / "train.toml", ["train.epochs=1"]), folder / "out"
    list(run(job, out))
    if damaged == "removed":
        (out / "model.safetensors").unlink()
    else:
        (out / "model.safetensors").write_bytes((out / "model.safetensors").read_bytes()[:100])
    with pytest.raises(ModelDamaged, match=f"delete {out}, and the same command trains anew"):
        list(run(job, out))
    shutil.rmtree(out)
    list(run(job, out))


def test_a_stopped_training_of_other_settings_is_refused_with_the_key_that_differs(folder: Path) -> None:
    job, out = load_job(folder / "train.toml", ["train.epochs=1"]), folder / "out"
    list(run(job, out))
    (out / "_training").mkdir()
    (out / "training.json").rename(out / "_training" / "history.json")
    with pytest.raises(JobError, match=r"holds another training: train\.seed = \d+ there, 1 here") as e:
        list(run(load_job(folder / "train.toml", ["train.epochs=1", "train.seed=1"]), out))
    assert e.value.code == OUTPUT_EXISTS


def test_two_processes_do_not_train_in_one_folder(folder: Path) -> None:
    with claimed(folder / "out"):
        with pytest.raises(JobError, match="another process is writing here") as e:
            list(run(load_job(folder / "train.toml"), folder / "out"))
        assert [path.name for path in (folder / "out").iterdir()] == [LOCK]
    assert e.value.code == OUTPUT_EXISTS


def test_a_training_that_was_stopped_ends_with_the_same_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(run(load_job(folder / "train.toml"), folder / "whole"))
    from answermill.ranking.training import list_models

    real = list_models.ListTask.loss
    calls = []

    def stops(self: list_models.ListTask, batch: object) -> object:
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return real(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(list_models.ListTask, "loss", stops)
    with pytest.raises(KeyboardInterrupt):
        list(run(load_job(folder / "train.toml"), folder / "parts"))
    assert not (folder / "parts" / "training.json").exists()
    list(run(load_job(folder / "train.toml"), folder / "parts"))
    for name in ("model.safetensors", "vectors.safetensors", "words.json", "config.json"):
        assert (folder / "parts" / name).read_bytes() == (folder / "whole" / name).read_bytes()


def test_half_precision_halves_the_checkpoint_and_hardly_moves_a_score(folder: Path) -> None:
    list(run(load_job(folder / "train.toml"), folder / "full"))
    list(run(load_job(folder / "train.toml", ["model.store='fp16'"]), folder / "half"))
    sizes = [(folder / name / "model.safetensors").stat().st_size for name in ("full", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    assert (
        evaluate("cosinet", folder / "train.tsv", ranker=RankOptions(checkpoint=str(folder / "half"))).means[
            "MAP"
        ][0]
        == 1
    )


def test_a_checkpoint_without_vectors_makes_them_again_from_their_transformer(folder: Path) -> None:
    overrides = ["model.embeddings='all-MiniLM-L6-v2'", "train.epochs=1"]
    list(run(load_job(folder / "train.toml", overrides), folder / "stored"))
    list(run(load_job(folder / "train.toml", [*overrides, "model.vectors='source'"]), folder / "source"))
    assert (folder / "stored" / "vectors.safetensors").is_file() and not (
        folder / "source" / "vectors.safetensors"
    ).exists()
    figures = [
        evaluate("cosinet", folder / "train.tsv", ranker=RankOptions(checkpoint=str(folder / name))).means
        for name in ("stored", "source")
    ]
    assert figures[0] == figures[1]


@pytest.mark.parametrize(
    ("override", "code", "says"),
    [
        ("data.train=['absent.tsv']", INPUT_MISSING, "absent.tsv: no such file"),
        ("model.form='gru'", SETTINGS, "model.form: Input should be 'pointwise', 'list'"),
        ("model.fliters=3", SETTINGS, "unknown key model.fliters; did you mean 'filters'?"),
        ("model.vectors='source'", SETTINGS, "vectors.txt is a file of vectors, which must be stored"),
        ("train.learning_rate=1e30", 65, "the loss is"),
    ],
)
def test_what_cannot_be_meant_is_refused(folder: Path, override: str, code: int, says: str) -> None:
    with pytest.raises(JobError) as e:
        list(run(load_job(folder / "train.toml", [override]), folder / "out"))
    assert (e.value.code, says in str(e.value)) == (code, True), str(e.value)


def test_dev_questions_that_are_learnt_from_are_said_on_the_card_too(folder: Path) -> None:
    """The same words in other letters are the same question."""
    rows = [("d0", "WHO SANG IT?", 0), ("d1", "Who left ?", 1)]
    lines = [f"{name}\t{question}\tShe sang it .\t{n}" for name, question, left in rows for n in (0, 1)]
    (folder / "dev.tsv").write_text("question_id\tquestion\tsentence\tlabel\n" + "\n".join(lines) + "\n")
    job = load_job(folder / "train.toml", ["data.dev=['dev.tsv']"])
    said = "1 of the 2 dev questions are also learnt from, so that the dev score says too much"
    assert next(run(job, folder / "out")).endswith(said)
    list(run(job, folder / "out"))
    assert said in (folder / "out" / "README.md").read_text()


def test_another_content_of_the_vector_file_is_another_training(folder: Path) -> None:
    list(run(load_job(folder / "train.toml", ["train.epochs=1"]), folder / "out"))
    assert "`vectors.txt`" in (folder / "out" / "README.md").read_text()
    (folder / "vectors.txt").write_text((folder / "vectors.txt").read_text().replace("0.9", "0.8"))
    with pytest.raises(
        JobError,
        match=r"holds another training: file \d+, vectors.txt, has other content; give another --out",
    ):
        list(run(load_job(folder / "train.toml", ["train.epochs=1"]), folder / "out"))


def test_further_data_sets_and_text_files_give_their_words_vectors(folder: Path) -> None:
    (folder / "vectors.txt").write_text(
        (folder / "vectors.txt").read_text() + "cello 0 0 0 2\nviolin 0 0 2 0\ntuba 1 1 1 1\n"
    )
    (folder / "words.txt").write_text("a cello\n\n")
    (folder / "more.tsv").write_text("question_id\tquestion\tsentence\tlabel\nq\tWho ?\tA violin .\t1\n")
    overrides = ["train.epochs=1", "model.vocabulary=['words.txt', 'more.tsv']"]
    list(run(load_job(folder / "train.toml", overrides), folder / "out"))
    words = json.loads((folder / "out" / "words.json").read_text())["words"]
    assert {"cello", "violin"} <= set(words) and "tuba" not in words
    with pytest.raises(JobError, match=r"absent\.txt: no such file"):
        list(run(load_job(folder / "train.toml", ["model.vocabulary=['absent.txt']"]), folder / "other"))


@pytest.mark.parametrize("section", ["model", "transformer", "hashing", "peasi"])
def test_a_training_runs_where_its_setting_says(
    folder: Path, section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's device without storage is in CUDA's place: what is asked for is what the model is on."""
    encoder = write_body(folder / "tiny")
    path = {
        "model": lambda: write_job(folder),
        "transformer": lambda: write_tiny_job(folder, "pointwise", encoder),
        "hashing": lambda: write_hashing(folder, "has", encoder, epochs=1),
        "peasi": lambda: write_peasi(folder, "mtl1", encoder),
    }[section]()
    learn = (
        read_passages(folder / "passages.parquet")
        if section == "peasi"
        else by_question(read_dataset(folder / "train.tsv"))
    )
    questions = [list(rows) for rows in learn]

    monkeypatch.setattr(train, "device_of", lambda setting: {"cpu": "cpu", "cuda": "meta"}[setting])
    for setting, device in (("cpu", "cpu"), ("cuda", "meta")):
        task = build(load_job(path, [f"train.device='{setting}'"]), questions, questions).task
        assert {weight.device.type for weight in task.model.parameters()} == {device}


@pytest.mark.skipif(torch.cuda.is_available(), reason="runs where there is no CUDA")
def test_a_device_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(JobError, match="torch finds no CUDA here; give 'cpu' or 'auto'") as e:
        list(run(load_job(folder / "train.toml", ["train.device='cuda'"]), folder / "out"))
    assert e.value.code == SETTINGS


def test_a_broken_vector_file_is_refused_with_its_lines(folder: Path) -> None:
    (folder / "vectors.txt").write_text("who 1 2 3 4\nsang 1 2 3\nit 1 x 3 4\n")
    with pytest.raises(JobError, match=r"vectors.txt:2: ") as e:
        list(run(load_job(folder / "train.toml"), folder / "out"))
    assert e.value.code == BAD_DATA


def test_data_without_an_answer_teach_nothing(folder: Path) -> None:
    (folder / "train.tsv").write_text((folder / "train.tsv").read_text().replace("\t1\n", "\t0\n"))
    with pytest.raises(JobError, match="none of the 6 questions has an answer") as e:
        list(run(load_job(folder / "train.toml"), folder / "out"))
    assert e.value.code == BAD_DATA


@pytest.mark.parametrize("key", ["train", "dev"])
def test_a_file_that_is_named_twice_is_refused(folder: Path, key: str) -> None:
    twice = f"data.{key}=['{key}.tsv', './{key}.tsv']"
    with pytest.raises(JobError, match=f"data.{key}: '{key}.tsv' is named twice; leave one out") as e:
        load_job(folder / "train.toml", [twice])
    assert e.value.code == SETTINGS


TRANSFORMER = """
[transformer]
reranker = "{reranker}"
layers = 2
{more}
words = "source"
store = "fp16"
limit = 32
tokens = 64
[data]
name = "a made set"
licence = "CC0"
train = ["train.tsv"]
dev = ["train.tsv"]
[train]
epochs = {epochs}
schedule = "linear"
learning_rate = 0.001
"""


def write_transformer(
    folder: Path, reranker: str = "cascade", more: str = "exits = [1, 2]", epochs: int = 4
) -> Path:
    (folder / "transformer.toml").write_text(TRANSFORMER.format(reranker=reranker, more=more, epochs=epochs))
    return folder / "transformer.toml"


@pytest.mark.parametrize(
    ("reranker", "more"),
    [
        ("cascade", "exits = [1, 2]"),
        pytest.param("pointwise", "", marks=pytest.mark.nightly),
    ],
)
def test_a_trained_transformer_serves_with_its_dev_score(folder: Path, reranker: str, more: str) -> None:
    lines = list(run(load_job(write_transformer(folder, reranker, more)), folder / "out"))
    assert f"{reranker} of all-MiniLM-L6-v2: " in lines[1] and lines[1].endswith(
        "2 layers of 384; 0 tokens cut"
    )
    assert "best dev MAP 100.00" in lines[2]
    head = RepoCard.load(folder / "out" / "README.md").data.to_dict()
    assert head["base_model"] == "sentence-transformers/all-MiniLM-L6-v2" and reranker in head["tags"]
    assert {path.name for path in (folder / "out").iterdir()} == {
        "config.json",
        "model.safetensors",
        "sha256.json",
        "README.md",
        "curves.csv",
        "curves.svg",
        "training.json",
    }

    evaluation = evaluate(
        reranker, folder / "train.tsv", ranker=RankOptions(checkpoint=str(folder / "out")), metrics=("MAP",)
    )
    assert evaluation.means["MAP"][0] == 1


@pytest.mark.parametrize("near", ["training file", "current folder"])
def test_another_tokenizer_of_the_encoder_is_another_training(
    folder: Path, tmp_path: Path, monkeypatch, near: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    body = (folder if near == "training file" else elsewhere) / "tiny"
    write_body(body)
    file = write_transformer(folder, more='exits = [1, 2]\nencoder = "tiny"', epochs=1)
    job = load_job(file)
    list(run(job, folder / "out"))
    with (body / "tokenizer.json").open("a") as tokenizer:
        tokenizer.write("\n")

    with pytest.raises(
        JobError, match=r"holds another training: file \d, tokenizer\.json, has other content"
    ):
        list(run(job, folder / "out"))

    # Another body is named before its files.
    says = (
        r"holds another training: transformer\.encoder = 'tiny' there, 'none' here, file \d, .* is only there"
    )
    with pytest.raises(JobError, match=says):
        list(run(load_job(file, ["transformer.encoder='none'"]), folder / "out"))


def test_a_checkpoint_s_training_goes_on_with_other_data(folder: Path) -> None:
    path = write_tiny_job(folder, "cascade", write_body(folder / "tiny"), "exits = [1, 2]")
    list(run(load_job(path), folder / "transferred"))
    lines = list(run(load_job(write_tiny_job(folder, "cascade", "transferred")), folder / "adapted"))
    assert "begun with transferred" in lines[1]
    assert json.loads((folder / "adapted" / "config.json").read_text())["exits"] == [1, 2]
    card = (folder / "adapted" / "README.md").read_text()
    assert "`model.safetensors`" in card and str(folder) not in card


@pytest.mark.parametrize(
    ("reranker", "more", "says"),
    [
        ("cascade", "", "transformer.exits is missing"),
        ("cascade", "exits = [2, 1]", "exits = "),
        ("cascade", "exits = [1]", "the last exit is after layer 1, but the encoder has 2 layers"),
        (
            "pointwise",
            "exits = [1, 2]",
            "unknown key transformer.exits: cascade, multihead has it, but this trains another",
        ),
        ("cascade", "heads = 3", "unknown key transformer.heads: multihead has it"),
        (
            "pointwise",
            "layer = 3",
            "unknown key transformer.layer; did you mean 'layers'. Known here: reranker, encoder",
        ),
        (
            "cascde",
            "",
            "transformer.reranker: unknown reranker .cascde.; did you mean 'cascade'. Known here: cascade",
        ),
        ("cascade", 'exits = [1, 2]\nencoder = "nowhere"', "no model 'nowhere'"),
        ("cascade", "exits = [1, 2] # batch", "train.batch counts the questions of a list model's step"),
        ("cascade", "exits = [1, 2]\n[model]\nreranker = 'cosinet'", "give one of"),
    ],
)
def test_a_transformer_that_cannot_be_meant_is_refused(
    folder: Path, reranker: str, more: str, says: str
) -> None:
    path = write_transformer(folder, reranker, more)
    if "[model]" in more:
        path.write_text(
            path.read_text().replace("[model]\nreranker = 'cosinet'\n", "")
            + "[model]\nreranker = 'cosinet'\n"
        )
    with pytest.raises((JobError, ModelMissing), match=says):
        list(run(load_job(path, ["train.batch=4"] if "batch" in more else []), folder / "out"))


def write_tiny_job(folder: Path, reranker: str, encoder: str, more: str = "") -> Path:
    path = write_transformer(folder, reranker, more, epochs=1)
    path.write_text(path.read_text().replace("layers = 2", f'encoder = "{encoder}"'))
    return path


def test_a_cascade_that_begins_with_a_monolithic_model_scores_as_it_does_at_its_last_exit(
    folder: Path,
) -> None:
    list(
        run(load_job(write_tiny_job(folder, "pointwise", write_body(folder / "tiny"))), folder / "monolithic")
    )
    job = load_job(write_tiny_job(folder, "cascade", "monolithic", "exits = [1, 2]"))
    learn = list(by_question(read_dataset(folder / "train.tsv")))
    task, _, report, tokens = build(job, learn, learn)
    assert 32 < tokens <= 64
    lists = [ranked_list(rows) for rows in learn]
    monolithic = load_reranker("pointwise", folder / "monolithic", model=find_model)
    ours, theirs = task.reranker().exit_scores(lists), monolithic.exit_scores(lists)  # type: ignore[attr-defined]

    assert report == "begun with monolithic; 0 tokens cut"
    assert all(np.array_equal(a.scores[:, -1], b.scores[:, 0]) for a, b in zip(ours, theirs, strict=True))
    assert not any(np.array_equal(a.scores[:, 0], a.scores[:, 1]) for a in ours)
    list(run(job, folder / "grown"))
    assert json.loads((folder / "grown" / "config.json").read_text())["exits"] == [1, 2]


@pytest.mark.parametrize("recompute", [True, False])
def test_layers_are_computed_again_where_the_setting_says(folder: Path, recompute: bool) -> None:
    encoder, learn = write_body(folder / "tiny"), list(by_question(read_dataset(folder / "train.tsv")))
    for section, path in (
        ("transformer", write_tiny_job(folder, "multihead", encoder, "head_layers = 1")),
        ("hashing", write_hashing(folder, "has", encoder, epochs=1)),
    ):
        job = load_job(path, [f"{section}.recompute={str(recompute).lower()}", "train.device='cpu'"])
        modules = build(job, learn, learn).task.model.modules()
        assert [each.recomputes for each in modules if isinstance(each, LayeredEncoder)] == [recompute]


def torchrun(path: Path, out: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    """Train by two processes of this machine."""
    words = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
        "answermill",
        "train",
        str(path),
    ]

    more = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, *words, "--out", str(out), *more]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )


@pytest.mark.nightly
def test_two_processes_learn_what_one_does_that_accumulates(folder: Path) -> None:
    more = "exits = [1, 2]\nsampling = 'round_robin'"  # so the two often teach other exits in a step
    path = write_tiny_job(folder, "cascade", write_body(folder / "tiny"), more)
    settings = ("train.accumulate=2", "train.device='cpu'", "train.epochs=3", "train.clip=1.0")
    list(run(load_job(path, settings), folder / "one"))
    done = torchrun(path, folder / "two", *settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best dev") == 1  # the first alone says it
    ours, theirs = (load_file(folder / name / "model.safetensors") for name in ("one", "two"))
    for name, weight in ours.items():
        torch.testing.assert_close(theirs[name].float(), weight.float(), rtol=0, atol=1e-4)
    mine, others = (
        json.loads((folder / name / "training.json").read_text())["evaluations"] for name in ("one", "two")
    )
    assert [e["step"] for e in others] == [e["step"] for e in mine] == [2, 4, 6]
    losses = [e["loss"] for e in mine]  # of weights that all steps before have changed
    assert [e["loss"] for e in others] == pytest.approx(losses, abs=1e-5) and np.ptp(losses) > 1e-3

    # By whichever number of processes.
    assert "complete" in "".join(run(load_job(path, settings), folder / "two"))


@pytest.mark.nightly
def test_batches_that_processes_cannot_share_are_refused(folder: Path) -> None:
    path = write_tiny_job(folder, "pointwise", write_body(folder / "tiny"))
    done = torchrun(path, folder / "two", "train.accumulate=3", "train.device='cpu'")
    assert done.returncode != 0
    assert (
        "train.accumulate = 3 batches a step cannot be shared evenly by 2 processes; give a multiple of 2"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("trained", "reranker", "more", "says"),
    [
        ("pointwise", "cascade", "", "transformer.exits is missing"),
        (
            "pointwise",
            "cascade",
            "exits = [1]",
            "the last exit is after layer 1, but the encoder has 2 layers",
        ),
        (
            "pointwise",
            "pointwise",
            "layers = 1",
            "is a checkpoint with exits .2.; leave out transformer.layers",
        ),
        ("cascade", "pointwise", "", "begun is a checkpoint of cascade; pointwise cannot begin with it"),
        (
            "cascade",
            "cascade",
            "exits = [2]",
            "is a checkpoint with exits .1, 2.; leave out transformer.layers and exits",
        ),
        ("pr", "pointwise", "", "begun is a checkpoint of peasi; pointwise cannot begin with it"),
    ],
)
def test_a_checkpoint_that_a_training_cannot_begin_with_is_refused(
    folder: Path, trained: str, reranker: str, more: str, says: str
) -> None:
    tiny = write_body(folder / "tiny")
    if trained == "pr":
        job = write_peasi(folder, "pr", tiny)
    else:
        job = write_tiny_job(folder, trained, tiny, "exits = [1, 2]" if trained == "cascade" else "")
    list(run(load_job(job), folder / "begun"))
    with pytest.raises(JobError, match=says) as e:
        list(run(load_job(write_tiny_job(folder, reranker, "begun", more)), folder / "out"))
    assert e.value.code == SETTINGS and not (folder / "out").exists()


PEASI = """
[peasi]
variant = "{variant}"
encoder = "{encoder}"
slots = 3
limit = 48
tokens = 200
{more}
[data]
name = "made passages"
licence = "CC0"
train = ["passages.parquet"]
dev = ["passages.parquet"]
[train]
epochs = {epochs}
schedule = "constant"
learning_rate = 0.003
metric = "MRR"
"""


def passages(question: int) -> Iterator[LabelledPassage]:
    for n, texts in enumerate(
        [["It left.", "She left."], ["It left.", f"She sang it {question}."], ["She left."] * 4]
    ):
        sentences = tuple(
            LabelledSentence(f"q{question}-{n}@{i}", text, int("sang" in text))
            for i, text in enumerate(texts)
        )
        yield LabelledPassage(
            f"q{question}",
            "Who sang it?",
            f"q{question}-{n}",
            "d",
            "",
            " ".join(texts),
            int(n == 1),
            "window",
            sentences,
        )


def write_peasi(folder: Path, variant: str, encoder: str, more: str = "", epochs: int = 1) -> Path:
    pq.write_table(
        LabelledPassage.table([row for n in range(5) for row in passages(n)]), folder / "passages.parquet"
    )
    (folder / "peasi.toml").write_text(
        PEASI.format(variant=variant, encoder=encoder, more=more, epochs=epochs)
    )
    return folder / "peasi.toml"


def begun(folder: Path) -> PeasiModel:
    """The model of peasi.toml before its first step."""
    job, rows = load_job(folder / "peasi.toml"), read_passages(folder / "passages.parquet")
    task, *_ = build(job, rows, rows)
    assert isinstance(task.model, PeasiModel)
    return task.model


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(peasi_model.load(folder, find_model)[0].state_dict())


def test_a_joint_peasi_begins_with_a_pr_and_an_easi(folder: Path) -> None:
    tiny = write_body(folder / "tiny")
    for variant in ("pr", "easi"):
        lines = list(run(load_job(write_peasi(folder, variant, tiny, epochs=2)), folder / variant))
        assert lines[0].startswith(
            "passages.parquet: 5 questions, 5 answered, 15 candidates; dev passages.parquet"
        )
        assert f"peasi {variant} of tiny: " in lines[1] and lines[1].endswith("2 layers of 16; 0 tokens cut")

    write_peasi(folder, "joint", "pr", 'easi = "easi"', epochs=2)
    grown, pr, easi = begun(folder).state_dict(), weights(folder / "pr"), weights(folder / "easi")
    for name, value in grown.items():
        part, _, rest = name.partition(".")
        begins_with = {"easi_encoder": easi.get(f"encoder.{rest}"), "sentence": easi.get(name)}.get(
            part, pr.get(name)
        )
        if name == "passage.weight":
            assert torch.equal(value[:, :16], pr[name]) and not value[:, 16:].any()
        else:
            assert begins_with is not None and torch.equal(value, begins_with), name

    lines = list(run(load_job(folder / "peasi.toml"), folder / "joint"))
    assert "begun with pr, EASI begun with easi; 0 tokens cut" in lines[1]
    assert lines[2].startswith("train      peasi joint of pr: best dev MRR ")
    config = json.loads((folder / "joint" / "config.json").read_text())
    assert (config["model"], config["variant"], config["slots"], config["limit"]) == ("peasi", "joint", 3, 48)
    card = (folder / "joint" / "README.md").read_text()

    for said in (
        "# peasi joint of pr",
        'reranker = "peasi"',
        "made passages",
        "CC0",
        '"easi": "easi"',
        "EASI begun with easi",
    ):
        assert said in card

    assert card.count("`model.safetensors`") == card.count("`config.json`") == 2 and str(folder) not in card
    assert list(run(load_job(folder / "peasi.toml"), folder / "joint"))[-1].endswith("(complete)")
    list(run(load_job(write_peasi(folder, "easi", tiny, epochs=1), ["train.seed=1"]), folder / "another"))
    shutil.copyfile(folder / "another" / "model.safetensors", folder / "easi" / "model.safetensors")
    write_peasi(folder, "joint", "pr", 'easi = "easi"', epochs=2)

    with pytest.raises(
        JobError, match=r"holds another training: file \d, model\.safetensors, has other content"
    ):
        list(run(load_job(folder / "peasi.toml"), folder / "joint"))


@pytest.mark.parametrize("variant", ["easi", "mtl1", "joint"])
def test_what_goes_on_from_two_transformers_goes_on_with_easi_s_own(folder: Path, variant: str) -> None:
    tiny = write_body(folder / "tiny")
    list(run(load_job(write_peasi(folder, "joint", tiny, epochs=2)), folder / "both"))
    before = weights(folder / "both")
    assert not torch.equal(before["encoder.words.weight"], before["easi_encoder.words.weight"])
    write_peasi(folder, variant, "both")

    for name, value in begun(folder).state_dict().items():
        source = f"easi_{name}" if variant == "easi" and name.startswith("encoder.") else name
        known = before[source][:, : value.shape[1]] if name == "passage.weight" else before[source]
        assert torch.equal(value, known), name

    write_peasi(folder, "joint", tiny, 'easi = "both"')
    model = begun(folder).state_dict()
    assert torch.equal(model["easi_encoder.words.weight"], before["easi_encoder.words.weight"])
    assert torch.equal(model["sentence.weight"], before["sentence.weight"])


def test_a_trained_peasi_serves_with_its_dev_score(folder: Path) -> None:
    path = write_peasi(
        folder, "mtl1", write_body(folder / "tiny"), 'words = "source"\nstore = "fp16"', epochs=10
    )
    lines = list(run(load_job(path), folder / "out"))
    assert "best dev MRR 100.00" in lines[2]
    lists = [ranked_passages(rows) for rows in read_passages(folder / "passages.parquet")]
    plan = [
        Stage(name, load_reranker(name, folder / "out", model=find_model), 1)
        for name in ("peasi.pr", "peasi.easi")
    ]
    assert ["sang" in outcome.kept.candidates[0].text for outcome in run_stages(lists, plan)] == [True] * 5


def test_a_peasi_begins_with_the_body_of_a_monolithic_model(folder: Path) -> None:
    list(run(load_job(write_tiny_job(folder, "pointwise", write_body(folder / "tiny"))), folder / "as2"))
    lines = list(run(load_job(write_peasi(folder, "mtl1", "as2", 'words = "source"')), folder / "out"))
    assert "begun with as2" in lines[1]
    model = begun(folder).state_dict()
    for name, value in load_file(folder / "as2" / "model.safetensors").items():
        if name.startswith("encoder."):
            assert torch.equal(value.float(), model[name]) and torch.equal(
                value.float(), model[f"easi_{name}"]
            )


@pytest.mark.parametrize(
    ("variant", "more", "says"),
    [
        ("joint", 'easi = "easi"', "its EASI has 3 slots, not 5; give slots of at most 3"),
        (
            "mtl0",
            'easi = "easi"',
            "peasi.easi = 'easi', but variant 'mtl0' has one transformer, peasi.encoder",
        ),
        ("pr", 'easi = "easi"', "variant 'pr' has one transformer"),
        ("mtl1", 'easi = "deep"', "tiny has 2 layers of 16, deep 3 of 16"),
        ("mtl1", 'words = "source"\neasi = "easi"', "do not have the same word embeddings; words = 'source'"),
        ("mtl1", 'words = "source"\neasi = "twin"', "do not have the same word embeddings; words = 'source'"),
        ("mtl1", "slots = 46", "47 texts do not fit into 48 tokens; raise the limit"),
        ("pr", "tokens = 20", "steps of 20 tokens for passages of up to"),
        ("mtl2", "", "peasi.variant: Input should be 'pr', 'easi', 'mtl0', 'mtl1' or 'joint'"),
        ("pr", 'encoder = "list"', "list is a checkpoint of cosinet, which has no transformer to begin with"),
    ],
)
def test_a_peasi_that_cannot_be_meant_is_refused(folder: Path, variant: str, more: str, says: str) -> None:
    tiny = write_body(folder / "tiny")
    write_body(folder / "deep", layers=3)
    write_body(folder / "twin", seed=1)
    if "list" in more:
        list(run(load_job(folder / "train.toml", ["train.epochs=1"]), folder / "list"))
    if "easi" in more:
        list(run(load_job(write_peasi(folder, "easi", tiny)), folder / "easi"))
    path = write_peasi(folder, variant, tiny)
    settings = [f"peasi.{line.replace(' = ', '=')}" for line in more.splitlines()]

    settings += ["peasi.slots=5"] if "slots, not 5" in says else []
    with pytest.raises(JobError) as e:
        list(run(load_job(path, settings), folder / "out"))
    assert (e.value.code, says in str(e.value)) == (SETTINGS, True), str(e.value)
    assert not (folder / "out").exists()


def test_a_checkpoint_whose_training_has_not_ended_is_refused_as_a_beginning(folder: Path) -> None:
    list(run(load_job(write_tiny_job(folder, "pointwise", write_body(folder / "tiny"))), folder / "begun"))
    (folder / "begun" / "_training").mkdir()
    (folder / "begun" / "training.json").unlink()
    with pytest.raises(JobError, match="begun: its training has not ended; end it first") as e:
        list(run(load_job(write_tiny_job(folder, "cascade", "begun", "exits = [1, 2]")), folder / "out"))
    assert e.value.code == SETTINGS


def test_a_beginning_that_does_not_say_what_it_is_is_refused(folder: Path) -> None:
    nameless = folder / "nameless"
    nameless.mkdir()
    for name in ("config.json", "training.json"):
        (nameless / name).write_text("{}")
    with pytest.raises(JobError, match="names no model; give another checkpoint"):
        list(run(load_job(write_peasi(folder, "pr", "nameless")), folder / "out"))


def test_files_that_hold_no_labelled_passages_are_refused(folder: Path) -> None:
    path = write_peasi(folder, "pr", write_body(folder / "tiny"))
    pq.write_table(LabelledPassage.table([]), folder / "empty.parquet")
    pq.write_table(pa.table({"question_id": ["q"], "text": ["It left."]}), folder / "other.parquet")
    pq.write_table(LabelledPassage.table([*passages(0)]).drop_columns("sentences"), folder / "bare.parquet")

    for name, code, says in [
        ("absent.parquet", INPUT_MISSING, "absent.parquet: no such file"),
        ("train.tsv", BAD_DATA, "train.tsv: not readable as Parquet"),
        ("other.parquet", BAD_DATA, "`answermill passages RUN --out OTHER` writes them"),
        ("bare.parquet", BAD_DATA, "bare.parquet: no labelled passages"),
        ("empty.parquet", BAD_DATA, "empty.parquet: no passage in it"),
    ]:
        for key in ("train", "dev"):
            with pytest.raises(JobError) as e:
                list(run(load_job(path, [f"data.{key}=['{name}']"]), folder / "out"))
            assert (e.value.code, says in str(e.value)) == (code, True), str(e.value)


def test_dev_passages_without_an_answer_are_refused_before_any_step(folder: Path) -> None:
    path = write_peasi(folder, "easi", write_body(folder / "tiny"))
    wrong = [row for row in passages(0) if not row.label]
    pq.write_table(LabelledPassage.table(wrong), folder / "wrong.parquet")
    with pytest.raises(JobError, match="no passage of the 1 dev questions holds a correct sentence"):
        list(run(load_job(path, ["data.dev=['wrong.parquet']"]), folder / "out"))
    with pytest.raises(JobError, match="0 of 2 passages hold a correct sentence"):
        list(run(load_job(path, ["data.train=['wrong.parquet']"]), folder / "out"))


def test_dev_answers_that_are_all_right_do_not_end_a_training(folder: Path) -> None:
    path = write_peasi(folder, "mtl0", write_body(folder / "tiny"), epochs=2)
    sure = [row for n in range(3) for row in passages(n) if row.label]
    sure = [replace(row, sentences=tuple(replace(s, label=1) for s in row.sentences)) for row in sure]
    pq.write_table(LabelledPassage.table(sure), folder / "sure.parquet")
    lines = list(run(load_job(path, ["data.dev=['sure.parquet']"]), folder / "out"))
    assert "best dev MRR 100.00" in lines[2]
    assert json.loads((folder / "out" / "config.json").read_text())["calibration"] is None


HASHING = """
[hashing]
variant = "{variant}"
encoder = "{encoder}"
attention = 16
limit = 32
tokens = 120
words = "source"
store = "fp16"
{more}
[data]
name = "a made set"
licence = "CC0"
train = ["train.tsv"]
dev = ["train.tsv"]
[train]
epochs = {epochs}
schedule = "linear"
learning_rate = 0.001
"""


def write_hashing(
    folder: Path, variant: str = "has", encoder: str = DEFAULT, more: str = "", epochs: int = 3
) -> Path:
    (folder / "hashing.toml").write_text(
        HASHING.format(variant=variant, encoder=encoder, more=more, epochs=epochs)
    )
    return folder / "hashing.toml"


def test_a_trained_hashing_model_serves_with_its_dev_score_and_another_variant_begins_with_it(
    folder: Path,
) -> None:
    path = write_hashing(folder, "attention", write_body(folder / "tiny"), epochs=12)
    lines = list(run(load_job(path, ["train.learning_rate=0.01"]), folder / "attention"))
    assert "hashing attention of tiny: " in lines[1] and lines[1].endswith("2 layers of 16; 0 tokens cut")
    assert "best dev MAP 100.00" in lines[2]
    evaluation = evaluate(
        "hashing",
        folder / "train.tsv",
        ranker=RankOptions(checkpoint=str(folder / "attention")),
        metrics=("MAP",),
    )
    assert evaluation.means["MAP"][0] == 1

    config_file = folder / "attention" / "config.json"
    config_file.write_text(
        json.dumps(json.loads(config_file.read_text()) | {"context": ["sentence", "next"]})
    )
    (folder / "attention" / "sha256.json").unlink()  # of the file as it was
    lines = list(run(load_job(write_hashing(folder, "has", "attention", epochs=1)), folder / "has"))
    assert "hashing has of attention: " in lines[1] and "begun with attention" in lines[1]
    config = json.loads((folder / "has" / "config.json").read_text())
    assert (config["model"], config["variant"], config["attention"], config["beta"], config["limit"]) == (
        "hashing",
        "has",
        16,
        5.0,
        32,
    )

    assert config["context"] == ["sentence", "next"]  # it reads what it began with
    assert str(folder) not in (folder / "has" / "README.md").read_text()

    with pytest.raises(JobError, match="its attention has M = 16, not 8") as raised:
        list(
            run(
                load_job(write_hashing(folder, "has", "attention"), ["hashing.attention=8"]), folder / "other"
            )
        )

    assert raised.value.code == SETTINGS
    with pytest.raises(JobError, match="attention is a checkpoint of hashing; cascade cannot begin with it"):
        path = write_transformer(folder)
        path.write_text(path.read_text().replace("layers = 2", 'encoder = "attention"'))
        list(run(load_job(path), folder / "other"))


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("hashing.variant=bits", "hashing.variant: Input should be 'pooling', 'attention' or 'has'"),
        ("hashing.beta=0.5", "hashing.beta: Input should be greater than or equal to 1"),
        ("hashing.delta=-1e-6", "hashing.delta: Input should be greater than or equal to 0"),
        ("hashing.gamma=1", "unknown key hashing.gamma"),
        ("hashing.context=['sentence', 'title']", "hashing.context: context = .* the title comes first"),
        (
            "hashing.context=['title', 'sentence']",
            "but none of [0-9]+ candidates has a title; leave 'title' out",
        ),
        ("hashing.tokens=20", "steps of 20 tokens for triplets of up to "),
        (
            "train.batch=2",
            "train.batch counts the questions of a list model's step; a transformer's is hashing.tokens",
        ),
        ("model.reranker='cosinet'", "give one of"),
    ],
)
def test_a_hashing_training_that_cannot_be_meant_is_refused(folder: Path, override: str, says: str) -> None:
    with pytest.raises(JobError, match=says) as raised:
        list(run(load_job(write_hashing(folder), [override]), folder / "out"))
    assert raised.value.code == SETTINGS
