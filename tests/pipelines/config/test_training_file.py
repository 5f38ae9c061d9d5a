"""A training file: which section says what is trained, which keys it has, and that reading it loads no
model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from answermill.pipelines.config.training_file import TrainJob, keys, load_job
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.ranking.entry import file_names
from answermill.ranking.rerankers.cascade.pair_settings import CascadeSettings
from answermill.ranking.rerankers.registry import trainings

DATA = '[data]\nname = "n"\nlicence = "l"\ntrain = ["train.tsv"]\ndev = ["dev.tsv"]\n'


def job(folder: Path, text: str) -> TrainJob:
    (folder / "train.toml").write_text(text + DATA)
    return load_job(folder / "train.toml")


def refused(folder: Path, text: str) -> str:
    with pytest.raises(JobError) as e:
        job(folder, text)
    assert e.value.code == SETTINGS
    return str(e.value)


def test_the_reranker_of_a_section_decides_its_keys(tmp_path: Path) -> None:
    cascade = job(tmp_path, '[transformer]\nreranker = "cascade"\nexits = [2, 4]\ndrop = [0.3]\n')
    assert isinstance(cascade.trained, CascadeSettings) and cascade.trained.exits == [2, 4]
    assert cascade.section == "transformer" and cascade.training is trainings()["cascade"]
    assert cascade.trained.title == "cascade of all-MiniLM-L6-v2"
    assert list(cascade.tables()) == ["transformer", "data", "train"]
    assert job(tmp_path, '[peasi]\nvariant = "mtl0"\n').training.learns_from == "passages"


@pytest.mark.parametrize("reranker", ["pointwise", "cascade"])
@pytest.mark.parametrize("key", ["heads = 3", "head_layers = 1", 'average = "logits"'])
def test_a_key_of_another_reranker_is_refused_with_its_name(tmp_path: Path, reranker: str, key: str) -> None:
    says = refused(tmp_path, f'[transformer]\nreranker = "{reranker}"\n{key}\n')
    assert (
        f"unknown key transformer.{key.split()[0]}: multihead has it, but this trains another reranker."
        in says
    )
    assert "Known here: reranker, encoder, limit" in says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "",
            "give one of the sections that say what is trained: [transformer] (cascade, multihead, "
            "pointwise), ",
        ),
        ('[hashing]\nvariant = "has"\n[peasi]\nvariant = "pr"\n', "give one of the sections"),
        ("[transformer]\n", "transformer.reranker is missing"),
        ("[hashing]\nbeta = 0.5\n", "hashing.variant is missing"),
        ("[hashing]\nbeta = 0.5\n", "hashing.beta: Input should be greater than or equal to 1, not 0.5"),
        (
            '[model]\nreranker = "cosine"\n',
            "unknown reranker 'cosine'; did you mean 'cosinet'? Known here: compare_aggregate",
        ),
        (
            '[transformer]\nreranker = "cosinet"\n',
            "transformer.reranker: 'cosinet' is trained by a section [model], not by this one. Known here: "
            "cascade, multihead, pointwise",
        ),
        (
            '[model]\nreranker = "cosinet"\n[train]\nmetric = "map"\n',
            "train.metric: unknown metric 'map'; known: MAP, MRR, ",
        ),
        (
            '[trian]\nepochs = 1\n[model]\nreranker = "cosinet"\n',
            "unknown key trian; did you mean 'train'? Known here: ",
        ),
        (
            '[model]\nreranker = "cosinet"\n[train]\nepoch = 1\n',
            "unknown key train.epoch; did you mean 'epochs'?",
        ),
        (
            '[model]\nreranker = "cosinet"\n[train]\ndevice = "gpu"\n',
            "train.device: Input should be 'auto', 'cpu' or 'cuda', not 'gpu'",
        ),
        (
            '[hashing]\nvariant = "has"\n[distil]\ntables = ["t"]\nteachers = ["a"]\nstrategy = "single"\n',
            "[distil] is for cascade, multihead, pointwise, not for hashing; leave it out",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_key(tmp_path: Path, text: str, says: str) -> None:
    assert says in refused(tmp_path, text)


def test_every_key_is_listed_once_for_all_rerankers_that_share_it() -> None:
    listed = {(key, meaning.partition(":")[0]): kind for key, kind, _, meaning in keys()}
    names = [key for key, _ in listed]
    assert listed["transformer.reranker", "model to train"] == "cascade or multihead or pointwise"
    assert names.count("transformer.limit") == 1 and names.count("transformer.exits") == 2
    assert ("transformer.heads", "multihead") in listed and (
        "transformer.sampling",
        "cascade, multihead",
    ) in listed

    assert {key.partition(".")[0] for key in names} == {
        "transformer",
        "model",
        "hashing",
        "peasi",
        "distil",
        "data",
        "train",
    }
    for training in trainings().values():
        assert {f"{training.section}.{key}" for key in training.settings.model_fields} <= set(names)


def test_every_key_that_names_a_file_is_marked(tmp_path: Path) -> None:
    model = job(tmp_path, '[model]\nreranker = "cosinet"\nembeddings = "v.txt"\nvocabulary = ["a", "b"]\n')
    assert list(file_names(model.trained)) == [("v.txt", False), ("a", True), ("b", True)]
    passages = job(tmp_path, '[peasi]\nvariant = "joint"\neasi = "checkpoint"\n')
    assert list(file_names(passages.trained)) == [("all-MiniLM-L6-v2", False), ("checkpoint", False)]


def test_reading_a_training_file_imports_neither_torch_nor_a_model(tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text('[transformer]\nreranker = "multihead"\nheads = 2\n' + DATA)
    code = (
        "import sys; from pathlib import Path; from answermill.pipelines.config.training_file import "
        "load_job, keys; "
        f"load_job(Path({str(tmp_path / 'train.toml')!r})); list(keys()); "
        "heavy = ('torch', 'transformers', 'spacy', 'apache_beam', 'faiss'); "
        "print([name for name in sys.modules if name in heavy or "
        "name.startswith('answermill.ranking.training')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
