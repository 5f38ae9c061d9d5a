"""A reranker that learns is its package and one line: a toy is added so, trained, and used through the
command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file

from answermill.pipelines.specs.rerank import SCORED
from answermill.ranking.rerankers import registry
from testing.command import call

PACKAGE = {
    "__init__.py": """
from typing import Annotated, Literal
from pydantic import Field
from answermill.ranking.entry import Entry, FileName, StageSettings, Training, TrainingSettings

class WeighedStage(StageSettings):
    bias: float = Field(0.0, description="number added to every score")

class WeighedSettings(TrainingSettings):
    reranker: Literal["weighed"] = "weighed"
    stop_words: Annotated[list[str], FileName(required=True)] = Field([], description="files of words that do not count")

    @property
    def title(self) -> str:
        return "weighed overlap"

ENTRIES = (
    Entry(
        "weighed",
        "weighed_overlap.weighed:Weighed",
        settings=WeighedStage,
        checkpoint="weighed",
        training=Training("overlap", WeighedSettings, "weighed_overlap.weighed:build"),
    ),
)
""",
    "weighed.py": '''
"""Score = w · (words that question and sentence share, words of the sentence)."""
import json
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from answermill.ranking.reranker import order_by
from answermill.ranking.training.inputs import Built
from answermill.ranking.training.loop import Dev
from weighed_overlap import WeighedStage

def features(question, text, stop):
    asked, said = (set(t.lower().split()) - stop for t in (question, text))
    return [float(len(asked & said)), float(len(said))]

class Weighed:
    name, reads, writes = "weighed", "sentence", "sentence"

    def __init__(self, weights, stop, bias=0.0):
        self.weights, self.stop, self.bias = weights, stop, bias

    @classmethod
    def load(cls, resources):
        folder = resources.folder()
        stop = set(json.loads((folder / "config.json").read_text())["stop"])
        weights = load_file(folder / "model.safetensors")["weight"][0]
        return cls(weights, stop, resources.stage(WeighedStage).bias)

    def rerank(self, lists):
        return [
            order_by(r, [self.score(r.question.text, c.text) for c in r.candidates], self.name) for r in lists
        ]

    def score(self, question, text):
        return float(torch.tensor(features(question, text, self.stop)) @ self.weights) + self.bias

class Task:
    def __init__(self, lists, stop, seed):
        self.model = torch.nn.Linear(2, 1, bias=False)
        self.rates = [(1.0, list(self.model.parameters()))]
        self.lists, self.stop, self.seed, self.steps = lists, stop, seed, len(lists)

    def batches(self, epoch):
        for n in np.random.default_rng([self.seed, epoch]).permutation(self.steps):
            rows = self.lists[n]
            inputs = torch.tensor([features(row.question, row.text, self.stop) for row in rows])
            yield inputs, torch.tensor([float(row.label) for row in rows])

    def loss(self, batch):
        return torch.nn.functional.binary_cross_entropy_with_logits(self.model(batch[0])[:, 0], batch[1])

    def reranker(self):
        return Weighed(self.model.weight[0].detach(), self.stop)

    def save(self, folder):
        folder.mkdir(parents=True)
        save_file(self.model.state_dict(), folder / "model.safetensors")
        config = {"format": 1, "model": "weighed", "stop": sorted(self.stop)}
        (folder / "config.json").write_text(json.dumps(config))

def build(inputs):
    if inputs.device != "cpu":
        raise ValueError("it is too small for another device")
    stop = {word for name in inputs.settings.stop_words for text in inputs.texts(name) for word in text.lower().split()}
    return Built(Task(inputs.learn, stop, inputs.recipe.seed), Dev(inputs.dev), f"{len(stop)} stop words")
''',
}

JOB = """
[overlap]
stop_words = ["stop.txt"]
[data]
name = "six questions"
licence = "CC0"
train = ["train.tsv"]
dev = ["train.tsv"]
[train]
epochs = 20
learning_rate = 0.1
schedule = "constant"
device = "cpu"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, its line in the registry, and something to train on."""
    package = tmp_path / "packages" / "weighed_overlap"
    package.mkdir(parents=True)
    for name, text in PACKAGE.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    for name, entry in registry.entries(("weighed_overlap",)).items():
        monkeypatch.setitem(registry.RERANKERS, name, entry)
    lines = ["question_id\tquestion\tsentence\tlabel"]

    for n in range(6):
        lines += [
            f"q{n}\tWho sang song {n} on the stage ?\t{text}\t{int('sang' in text)}"
            for text in (
                "On the stage on the stage it rained for many days",
                f"She sang song {n}",
                "It rained",
            )
        ]

    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "stop.txt").write_text("on\nthe\n")
    (tmp_path / "train.toml").write_text(JOB)
    return tmp_path


def test_it_is_trained_and_evaluated_through_the_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder / "out"
    assert call("train", folder / "train.toml", "--out", out) == 0
    shown = capsys.readouterr().out
    assert "weighed overlap: 2 parameters; 2 stop words" in shown and "best dev MAP 100.00" in shown
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "model.safetensors",
        "README.md",
        "curves.csv",
        "curves.svg",
        "training.json",
    }

    weight = load_file(out / "model.safetensors")["weight"][0].tolist()
    assert weight[0] > 0 > weight[1]
    card = (out / "README.md").read_text()
    assert "# weighed overlap" in card and 'reranker = "weighed"' in card and str(folder) not in card
    assert "`stop.txt`" in card and '"stop_words": [\n   "stop.txt"\n  ]' in card
    assert call("train", folder / "train.toml", "--out", out) == 0 and "(complete)" in capsys.readouterr().out

    figures = folder / "figures.json"
    labels = ("--labels", folder / "train.tsv", "--metrics", "MAP", "--json", figures)
    assert call("evaluate", "weighed", "--checkpoint", out, *labels) == 0
    assert next(value for key, value in json.loads(figures.read_text()).items() if key.startswith("MAP")) == 1

    (folder / "stop.txt").write_text("on\n")
    assert call("train", folder / "train.toml", "--out", out) == 73  # other stop words, another training


def test_a_stage_uses_what_was_trained(folder: Path, small_run: Path) -> None:
    assert call("train", folder / "train.toml", "--out", folder / "out") == 0
    run = folder / "run"
    for name in ("documents", "questions", "retrieved"):
        shutil.copytree(small_run / name, run / name)
    (folder / "job.toml").write_text(
        '[[rerank.stages]]\nreranker = "weighed"\ncheckpoint = "out"\nbias = 7.5\n'
    )
    assert call("rerank", folder / "job.toml", "--out", run) == 0
    weight = load_file(folder / "out" / "model.safetensors")["weight"][0].tolist()

    rows = list(SCORED.open(run).read())
    assert len(rows) > 30
    for row in rows:
        asked, said = (set(text.lower().split()) - {"on", "the"} for text in (row.question, row.text))
        assert row.stages[0].score == pytest.approx(
            weight[0] * len(asked & said) + weight[1] * len(said) + 7.5, abs=1e-5
        )


@pytest.mark.parametrize(
    ("setting", "code", "says"),
    [
        (
            "overlap.stop_word=['x']",
            78,
            "unknown key overlap.stop_word; did you mean 'stop_words'? Known here: reranker, stop_words",
        ),
        (
            "overlap.reranker=weighd",
            78,
            "overlap.reranker: unknown reranker 'weighd'; did you mean 'weighed'?",
        ),
        ("overlap.stop_words=5", 78, "overlap.stop_words: Input should be a valid list, not 5"),
        ("overlap.stop_words=['absent.txt']", 66, "absent.txt: no such file"),
        ("distil.strategy='sum'", 78, "distil.tables is missing"),
        (
            "model.form='list'",
            78,
            "[hashing] (hashing), [peasi] (peasi), [overlap] (weighed)",
        ),
        ("modle.form='list'", 78, "unknown key modle; did you mean 'model'? Known here: "),
    ],
)
def test_its_keys_are_checked_as_all_are(
    folder: Path, capsys: pytest.CaptureFixture[str], setting: str, code: int, says: str
) -> None:
    assert call("train", folder / "train.toml", "--out", folder / "out", "--set", setting) == code
    assert says in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_its_keys_are_listed_and_teachers_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("keys", "--of", "train") == 0
    shown = capsys.readouterr().out
    assert "overlap.stop_words\n    list[str], default []\n    files of words that do not count" in shown
    table = '[distil]\ntables = ["x"]\nteachers = ["t"]\nstrategy = "single"\n'
    (folder / "train.toml").write_text(JOB + table)
    assert call("train", folder / "train.toml", "--out", folder / "out") == 78
    assert "[distil] is for cascade, multihead, pointwise, not for weighed" in capsys.readouterr().err
