"""A data set of one's own, as the README tells it: a run, packs, labels, passages, a published set, and a
model of it."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from answermill.__main__ import main
from answermill.indexing.passages.text import fold
from answermill.pipelines.specs.collect import LABELS
from answermill.pipelines.specs.propagate import PASSAGE_LABELS
from answermill.pipelines.specs.retrieve import QUESTIONS
from benchmarks.sample import gold
from testing.tiny import write_body

ANSWERS = """
[[rerank.stages]]
reranker = "peasi.pr"
checkpoint = "checkpoint"

[[rerank.stages]]
reranker = "peasi.easi"
checkpoint = "checkpoint"
"""


@pytest.fixture
def folder(sample_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run without labels, and its job with the recipe's last steps."""
    shutil.copytree(sample_run.parent, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "run/labels")
    job = (tmp_path / "job.toml").read_text().partition("[propagate]")[0]
    (tmp_path / "job.toml").write_text(
        job + '[annotate]\ntop = 5\ntools = ["csv"]\n\n[propagate]\nwindows = "center"\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str) -> None:
    with pytest.raises(SystemExit) as e:
        main(arguments)
    assert e.value.code == 0, arguments


def judge(run: Path, pack: Path, export: Path) -> int:
    """Fill in a pack by the sample's known answers; how many are correct."""
    asked = {question.text: question.question_id for question in QUESTIONS.open(run).read()}
    correct = gold()
    with pack.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        right = fold(row["sentence"]) in correct.get(asked[row["question"]], ())
        row |= {"label": "correct" if right else "wrong", "annotator": "ann"}

    with export.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)

    return sum(row["label"] == "correct" for row in rows)


@pytest.mark.nightly
def test_people_s_judgements_become_a_published_set_and_a_model_that_answers(folder: Path, capsys) -> None:
    # Goes on where the run was: to the packs, as nothing is collected yet.
    call("run", "job.toml", "--out", "run")
    assert (folder / "run/tasks/_manifest.json").is_file() and not (folder / "run/labels").exists()
    correct = judge(folder / "run", folder / "run/packs/csv/tasks-00001.csv", folder / "ann.csv")
    call("collect", "run", "ann.csv")
    labels = list(LABELS.open(folder / "run").read())
    assert len(labels) == 90 * 7 and sum(label.label for label in labels) == correct > 50
    call("run", "job.toml", "--out", "run")  # now there are labels to propagate
    positive = {p.passage_id for p in PASSAGE_LABELS.open(folder / "run").read() if p.label}
    assert (
        30 < len(positive) <= correct
        and len(list((folder / "run/labels/windows").glob("part-*.parquet"))) > 0
    )

    call(
        "passages",
        "run",
        "--out",
        "mine/data",
        "--negatives",
        "2",
        "--group",
        "center",
        "--split",
        "0.6",
        "0.2",
        "0.2",
    )

    counts = json.loads((folder / "mine/data/passages.json").read_text())
    used = counts["labels_used"] + counts.get("labels_left_out_document_of_another_split", 0)
    assert used == counts["labels"] == len(labels)
    assert min(counts[f"{name}_positives"] for name in ("train", "dev", "test")) > 0
    call("publish", "mine/data", "--out", "set", "--run", "run", "--name", "Tides", "--licence", "Apache-2.0")
    tables = [pq.read_table(folder / f"set/passages/{name}.parquet") for name in ("train", "dev", "test")]
    assert sum(map(len, tables)) == sum(counts[f"{name}_passages"] for name in ("train", "dev", "test"))
    questions = [set(table["question_id"].to_pylist()) for table in tables]
    assert not (questions[0] & questions[1] or questions[0] & questions[2] or questions[1] & questions[2])

    card = (folder / "set/README.md").read_text(encoding="utf-8")
    assert "# Tides" in card and f"{len(labels):,}" in card

    call("recipe", "peasi", "--out", "mine")
    write_body(folder / "mine/tiny")
    call(
        "train",
        "mine/peasi.toml",
        "--out",
        "mine/checkpoint",
        "--set",
        "peasi.encoder=tiny",
        "--set",
        "train.epochs=1",
    )

    (folder / "mine/answers.toml").write_text(ANSWERS)
    for name in ("documents", "questions", "retrieved"):
        shutil.copytree(folder / "run" / name, folder / "answered" / name)
    call("rerank", "mine/answers.toml", "--out", "answered")
    capsys.readouterr()
    call("evaluate", "answered/scored", "--labels", "set/trec/test.sentences.qrels")
    assert "P@1" in capsys.readouterr().out
