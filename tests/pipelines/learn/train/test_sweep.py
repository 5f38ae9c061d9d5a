"""Sweeps of a training file's settings: what is trained, what is not trained twice, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev

import pytest

from answermill.pipelines.errors import SETTINGS, USAGE, JobError
from answermill.pipelines.learn.train.sweep import names_of, points, sweep
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape

JOB = """
[hashing]
variant = "has"
encoder = "{encoder}"
attention = 4
limit = 32
tokens = 120
[data]
name = "a made set"
licence = "CC0"
train = ["train.tsv"]
dev = ["train.tsv"]
[train]
epochs = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    from answermill.indexing.shards.dense import DEFAULT, find_model

    lines = [
        f"q{n}\tWho sang it ?\t{text}\t{label}"
        for n in range(4)
        for text, label in (("It left .", 0), ("She did .", 1))
    ]
    (tmp_path / "train.tsv").write_text("question_id\tquestion\tsentence\tlabel\n" + "\n".join(lines) + "\n")
    LayeredEncoder(Shape(layers=1, width=16, heads=2, inner=32, vocabulary=30_522)).save(tmp_path / "body")
    (tmp_path / "body" / "tokenizer.json").write_bytes((find_model(DEFAULT) / "tokenizer.json").read_bytes())
    (tmp_path / "train.toml").write_text(JOB.format(encoder="body"))
    return tmp_path


def test_each_value_is_trained_and_measured_once_and_drawn_by_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "hashing").mkdir()  # a folder of the model's name is not taken for its scores
    over = ["hashing.beta=1,5", "hashing.delta=0,1e-6"]
    lines = list(
        sweep(
            folder / "train.toml", over, folder / "out", labels=[folder / "train.tsv"], metrics=["P@1", "MRR"]
        )
    )
    rows = json.loads((folder / "out" / "sweep.json").read_text())
    assert [(row["key"], row["value"], row["checkpoint"]) for row in rows] == [
        ("hashing.beta", "1", "hashing.beta=1"),
        ("hashing.beta", "5", "hashing.beta=5"),
        ("hashing.delta", "0", "hashing.delta=0"),
        ("hashing.delta", "1e-6", "hashing.beta=5"),  # the file's own values, trained already
    ]
    assert all(row["dev MAP"] == row["train MRR"] >= row["train P@1"] for row in rows)

    assert rows[1]["dev MAP"] == rows[3]["dev MAP"]
    config = json.loads((folder / "out" / "hashing.beta=1" / "config.json").read_text())
    assert config["beta"] == 1.0
    drawn = {path.name: path.read_bytes() for path in (folder / "out").glob("*.*g")}
    assert set(drawn) == {f"hashing.{key}.{form}" for key in ("beta", "delta") for form in ("svg", "png")}
    assert sum("best dev" in line for line in lines) == 3
    again = list(
        sweep(
            folder / "train.toml", over, folder / "out", labels=[folder / "train.tsv"], metrics=["P@1", "MRR"]
        )
    )
    assert sum("(complete)" in line for line in again) == 3

    assert drawn == {path.name: path.read_bytes() for path in (folder / "out").glob("*.*g")}


@pytest.mark.parametrize(
    ("over", "code", "says"),
    [
        ([], USAGE, "--over is missing"),
        (["hashing.beta"], USAGE, "write key=value,value"),
        (["hashing.beta=1,,2"], USAGE, "write key=value,value"),
        (["hashing.beta=1,1"], USAGE, "each value once"),
        (["hashing.beta=1", "hashing.beta=2"], USAGE, "hashing.beta is swept already"),
        (["hashing.beta=1,0.5"], SETTINGS, "hashing.beta: Input should be greater than or equal to 1"),
        (["hashing.gamma=1"], SETTINGS, "unknown key hashing.gamma"),
    ],
)
def test_a_sweep_that_cannot_be_meant_is_refused_before_anything_is_trained(
    folder: Path, over: list[str], code: int, says: str
) -> None:
    with pytest.raises(JobError, match=says) as raised:
        points(folder / "train.toml", over, folder / "out")
    assert raised.value.code == code
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a/test.tsv", "a/dev.tsv"], ["test", "dev"]),
        (["a/question.test1.pool", "a/question.test2.pool"], ["question.test1.pool", "question.test2.pool"]),
        (["a/test.tsv", "b/test.tsv"], ["a/test.tsv", "b/test.tsv"]),
    ],
)
def test_data_sets_of_like_names_are_told_apart(files: list[str], names: list[str]) -> None:
    assert names_of([Path(file) for file in files]) == dict(zip(names, map(Path, files), strict=True))


def test_the_same_labels_twice_are_refused() -> None:
    with pytest.raises(JobError, match="twice as --labels") as e:
        names_of([Path("a/test.tsv"), Path("a/test.tsv")])
    assert e.value.code == USAGE


def test_over_seeds_the_mean_and_the_deviation_are_given(folder: Path) -> None:
    lines = list(sweep(folder / "train.toml", ["train.seed=1,2,3"], folder / "out"))
    rows = json.loads((folder / "out" / "sweep.json").read_text())
    means = json.loads((folder / "out" / "means.json").read_text())
    values = [row["dev MAP"] for row in rows]
    assert means == {
        "dev MAP": {"mean": round(mean(values), 6), "deviation": round(stdev(values), 6), "seeds": 3}
    }
    assert f"dev MAP: {100 * mean(values):.2f} ± {100 * stdev(values):.2f} over 3 seeds" in lines
    card = (folder / "out" / "train.seed=1" / "README.md").read_text()
    assert "![Loss and dev MAP by step](curves.svg)" in card
    assert (folder / "out" / "train.seed=1" / "curves.csv").is_file()

    # They go with the next sweep in the folder, whose rows are others.
    list(sweep(folder / "train.toml", ["train.seed=1"], folder / "out"))
    assert not (folder / "out" / "means.json").exists()
