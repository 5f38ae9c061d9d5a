"""Training from a file: what comes out, what is refused, and that going on changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from indexing.dense import ModelMissing
from pipelines.errors import INPUT_MISSING, OUTPUT_EXISTS, SETTINGS, JobError
from pipelines.evaluate import evaluate
from pipelines.train import load_job, run

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
WORDS = {"who": (1, 0, 0, 0), "sang": (0, 1, 0, 0), "it": (0, 0, 1, 0), "she": (0.9, 0.1, 0, 0), "left": (0, 0, 0, 1)}


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
    made = evaluate(reranker, folder / "train.tsv", checkpoint=str(folder / "out"), metrics=("MAP",))
    assert made.means["MAP"][0] == 1


def test_the_card_tells_data_licence_revision_and_scores(folder: Path) -> None:
    list(run(load_job(folder / "train.toml"), folder / "out"))
    card = (folder / "out" / "README.md").read_text()
    for said in ("a made set", "CC0", "AnswerMill 0.1.0", "commit", "100.00", "train.tsv", '"learning_rate": 0.01'):
        assert said in card
    config = json.loads((folder / "out" / "config.json").read_text())
    assert config == {"format": 1, "model": "cosinet", "form": "birnn", "filters": 16}


def test_a_complete_training_is_not_repeated_and_another_s_place_not_taken(folder: Path) -> None:
    list(run(load_job(folder / "train.toml"), folder / "out"))
    before = (folder / "out" / "model.safetensors").stat().st_mtime_ns
    assert list(run(load_job(folder / "train.toml"), folder / "out"))[-1].endswith("(complete)")
    assert (folder / "out" / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(JobError, match="holds something else") as e:
        list(run(load_job(folder / "train.toml", ["train.seed=1"]), folder / "out"))
    assert e.value.code == OUTPUT_EXISTS
    with pytest.raises(JobError, match="holds something else"):
        list(run(load_job(folder / "train.toml"), folder))


def test_a_training_that_was_stopped_ends_with_the_same_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(run(load_job(folder / "train.toml"), folder / "whole"))
    from ranking import listtask

    real = listtask.ListTask.loss
    calls = []

    def stops(self: listtask.ListTask, batch: object) -> object:
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return real(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(listtask.ListTask, "loss", stops)
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
    assert evaluate("cosinet", folder / "train.tsv", checkpoint=str(folder / "half")).means["MAP"][0] == 1


def test_a_checkpoint_without_vectors_makes_them_again_from_their_transformer(folder: Path) -> None:
    overrides = ["model.embeddings='all-MiniLM-L6-v2'", "train.epochs=1"]
    list(run(load_job(folder / "train.toml", overrides), folder / "stored"))
    list(run(load_job(folder / "train.toml", [*overrides, "model.vectors='source'"]), folder / "source"))
    assert (folder / "stored" / "vectors.safetensors").is_file() and not (folder / "source" / "vectors.safetensors").exists()
    figures = [evaluate("cosinet", folder / "train.tsv", checkpoint=str(folder / name)).means for name in ("stored", "source")]
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


def test_a_broken_vector_file_is_refused_with_its_lines(folder: Path) -> None:
    (folder / "vectors.txt").write_text("who 1 2 3 4\nsang 1 2 3\nit 1 x 3 4\n")
    with pytest.raises(JobError, match=r"vectors.txt:2: ") as e:
        list(run(load_job(folder / "train.toml"), folder / "out"))
    assert e.value.code == SETTINGS


def test_data_without_an_answer_teach_nothing(folder: Path) -> None:
    (folder / "train.tsv").write_text((folder / "train.tsv").read_text().replace("\t1\n", "\t0\n"))
    with pytest.raises(JobError, match="none of the 6 questions has an answer"):
        list(run(load_job(folder / "train.toml"), folder / "out"))


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


def write_transformer(folder: Path, reranker: str = "cascade", more: str = "exits = [1, 2]", epochs: int = 4) -> Path:
    (folder / "transformer.toml").write_text(TRANSFORMER.format(reranker=reranker, more=more, epochs=epochs))
    return folder / "transformer.toml"


@pytest.mark.parametrize(("reranker", "more"), [("cascade", "exits = [1, 2]"), ("pointwise", "")])
def test_a_trained_transformer_serves_with_its_dev_score(folder: Path, reranker: str, more: str) -> None:
    lines = list(run(load_job(write_transformer(folder, reranker, more)), folder / "out"))
    assert f"{reranker} of all-MiniLM-L6-v2: " in lines[1] and lines[1].endswith("2 layers of 384; 0 tokens cut")
    assert "best dev MAP 100.00" in lines[2]
    assert {path.name for path in (folder / "out").iterdir()} == {
        "config.json",
        "model.safetensors",
        "README.md",
        "training.json",
    }
    made = evaluate(reranker, folder / "train.tsv", checkpoint=str(folder / "out"), metrics=("MAP",))
    assert made.means["MAP"][0] == 1


def test_a_checkpoint_s_training_goes_on_with_other_data(folder: Path) -> None:
    list(run(load_job(write_transformer(folder)), folder / "transferred"))
    path = write_transformer(folder, epochs=1)
    path.write_text(path.read_text().replace("layers = 2\nexits = [1, 2]", 'encoder = "transferred"'))
    lines = list(run(load_job(path), folder / "adapted"))
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
        ("pointwise", "exits = [1, 2]", "exits is for the cascade"),
        ("cascade", 'exits = [1, 2]\nencoder = "nowhere"', "no model 'nowhere'"),
        ("cascade", "exits = [1, 2] # batch", "train.batch counts the questions of a list model's step"),
        ("cascade", "exits = [1, 2]\n[model]\nreranker = 'cosinet'", "give one of"),
    ],
)
def test_a_transformer_that_cannot_be_meant_is_refused(folder: Path, reranker: str, more: str, says: str) -> None:
    path = write_transformer(folder, reranker, more)
    if "[model]" in more:
        path.write_text(path.read_text().replace("[model]\nreranker = 'cosinet'\n", "") + "[model]\nreranker = 'cosinet'\n")
    with pytest.raises((JobError, ModelMissing), match=says):
        list(run(load_job(path, ["train.batch=4"] if "batch" in more else []), folder / "out"))
