"""`answermill audit` at the command line: its lines, its JSON, its exit codes, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from answermill.pipelines.learn.audit import audit as module
from answermill.ranking.entry import SHIPPED
from testing.command import call

ROWS = [
    ("q1", "Who is it?", "It is Ann.", 1),
    ("q1", "Who is it?", "It is a secret.", 0),
    ("q2", "Where is the town hall of the old city?", "In the square.", 1),
    ("q2", "Where is the town hall of the old city?", "Far away.", 0),
]


def table(path: Path, rows: list[tuple[str, str, str, int]]) -> Path:
    lines = [("question_id", "question", "sentence", "label"), *rows]
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in lines), encoding="utf-8")
    return path


@pytest.fixture
def test_set(tmp_path: Path) -> Path:
    return table(tmp_path / "test.tsv", ROWS)


@pytest.fixture
def training(tmp_path: Path) -> Path:
    return table(
        tmp_path / "training.tsv", [("r1", "who is it", "it is Ann", 1), ("r1", "who is it", "x", 0)]
    )


def test_shared_questions_and_answers_are_told_and_written(
    training: Path, test_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("audit", training, "--against", test_set, "--vectors", "0", "--json", tmp_path / "audit.json")
    assert call(*words) == 0
    out = capsys.readouterr().out
    assert "test.tsv: 2 questions" in out and "training.tsv: 1 question, 2 candidates" in out
    assert "     1   50.0%  the same question\n" in out and "by vectors" not in out
    assert "            1.00  q1: Who is it?\n                  r1: who is it\n" in out

    kinds = json.loads((tmp_path / "audit.json").read_text())["overlap"]["kinds"]
    assert kinds["pair"] == {
        "questions": 1,
        "share": 0.5,
        "worst": [
            {
                "likeness": 1.0,
                "question_id": "q1",
                "text": "It is Ann.",
                "training_question_id": "r1",
                "training_text": "it is Ann",
            }
        ],
    }


@pytest.mark.parametrize(("margin", "code"), [("0.49", 3), ("0.5", 0)])
def test_more_than_the_margin_exits_with_3(
    training: Path, test_set: Path, margin: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("audit", training, "--against", test_set, "--vectors", "0", "--margin", margin) == code
    assert ("training has 50.0% of the test questions" in capsys.readouterr().err) == (code == 3)


def test_probes_tell_what_each_adds(test_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("audit", "overlap", "--probes", test_set) == 0
    out = capsys.readouterr().out
    assert "2 questions: P@1 1.000\n" in out and "  -1.000  (-1.000 to -1.000)  repeated question\n" in out


def test_a_model_is_audited_by_the_lists_that_it_learnt_from(
    training: Path, test_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model": "cascade", "format": 1}')
    words = ("audit", model, "--against", test_set, "--vectors", "0", "--data", tmp_path)
    assert call(*words) == 66
    assert "does not say by which lists it learnt; give the lists" in capsys.readouterr().err

    settings = {"data": {"train": ["training.tsv"]}, "file 1, training.tsv,": module.sha256(training)}
    (model / "training.json").write_text(json.dumps({"settings": settings}))
    assert call(*words) == 0
    assert "  the same question\n" in capsys.readouterr().out

    table(training, ROWS)
    assert call(*words) == 65
    assert "training.tsv is not the file that" in capsys.readouterr().err

    training.unlink()
    assert call(*words) == 66
    assert "learnt from training.tsv, which is not in" in capsys.readouterr().err


def test_a_shipped_model_needs_its_lists(
    test_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("audit", "cosinet", "--against", test_set, "--data", tmp_path) == 66
    assert "name its folder with --data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["audit", "cosinet"], 2, "give --against SET, --probes LISTS, or both"),
        (["audit", "TEST", "--probes", "TEST"], 2, "--probes asks a model"),
        (["audit", "TEST", "--against", "TEST", "--vectors", "-1"], 2, "--vectors -1: give 0 or more"),
        (["audit", "TEST", "--against", "TEST", "--margin", "2"], 2, "give a number from 0 to 1"),
        (["audit", "overlap", "--probes", "TEST", "--margin", "0.1"], 2, "and --against SET"),
        (["audit", "TEST", "--against", "MODEL"], 65, "is a model folder; give a labelled data set"),
        (["audit", "overlap", "--probes", "MODEL"], 65, "is a model folder; give a labelled data set"),
        (["audit", "TEST", "--against", "gone.tsv"], 66, "gone.tsv: no such file or folder"),
        (["audit", "nothing", "--probes", "TEST"], 66, "neither a file, nor a model folder, nor a reranker"),
        (["audit", "overlap", "--against", "TEST"], 66, "neither a file of lists nor a model folder"),
        (["audit", "TEST", "--against", "BAD"], 65, "write --columns question=NAME"),
        (["audit", "peasi.pr", "--probes", "TEST"], 78, "probes are of sentences"),
        (["audit", "scores", "--probes", "TEST"], 78, "scores"),
    ],
)
def test_a_mistake_is_refused_in_a_sentence(
    words: list[str], code: int, says: str, test_set: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = test_set.with_name("bad.tsv")
    bad.write_text("id\tsentence\tlabel\nq\ta\t1\n")
    names = {"TEST": test_set, "BAD": bad, "MODEL": SHIPPED / "cosinet"}
    assert call(*(str(names.get(word, word)) for word in words)) == code
    err = capsys.readouterr().err
    assert says in err and "Traceback" not in err and len(err.strip().splitlines()) == 1
