"""A labelled data set becomes a job that runs: its documents as pages, with its questions and labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import answermill as am
from answermill.pipelines.data.recipes.job_recipe import JobChoices
from answermill.pipelines.runs.new_folder import UNFINISHED
from testing.command import call

LISTS = (
    "question_id,question,doc_id,title,sentence,label\n"
    "q1,When was the dam completed?,d1,The dam,The dam is 126 m high.,0\n"
    "q1,When was the dam completed?,d1,The dam,It was completed in 1970.,1\n"
    "q2,How high is the dam?,d1,The dam,The dam is 126 m high.,1\n"
    'q2,How high is the dam?,,,"It is wide. Its lake, behind it, is very long.",0\n'
    "q3,Whose is the lake?,,,Mine. It is named after Nasser.,1\n"
)
ASKED = {
    "id": "s1",
    "question": "When was it completed?",
    "answers": [{"answer_start": 37, "text": "1970"}],
}
PARAGRAPH = {"context": "The dam is high. It was completed in 1970.", "qas": [ASKED]}
SQUAD = {"data": [{"title": "The dam", "paragraphs": [PARAGRAPH]}]}


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_lists_become_pages_questions_and_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "set-dev.csv").write_text(LISTS)
    assert call("dataset", tmp_path / "set-dev.csv", "--as-job", tmp_path / "job") == 0
    out = capsys.readouterr().out
    assert "3 pages, 3 questions, 6 labels" in out
    assert "1 correct candidates cut" in out and "1 wrong candidates cut" in out
    pages = rows(tmp_path / "job/pages.jsonl")
    assert pages[0] == {
        "id": "d1",
        "title": "The dam",
        "text": "The dam is 126 m high.\nIt was completed in 1970.",
    }
    assert len({page["id"] for page in pages}) == 3
    labels = {
        (row["question_id"], row["sentence"]): row["label"] for row in rows(tmp_path / "job/labels.jsonl")
    }
    assert labels["q1", "It was completed in 1970."] == 1 and labels["q2", "It is wide."] == 0
    assert labels["q3", "It is named after Nasser."] == 1 and ("q3", "Mine.") not in labels
    assert {row["split"] for row in rows(tmp_path / "job/splits.jsonl")} == {"dev"}


@pytest.mark.parametrize(("name", "text"), [("set.csv", LISTS), ("set.json", json.dumps(SQUAD))])
def test_the_job_runs_and_its_labels_meet_its_sentences(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert call("dataset", tmp_path / name, "--as-job", tmp_path / "job") == 0
    cheap = ["retrieve.sources=['bm25']", "rerank={stages=[{reranker='overlap'}]}"]
    run = am.run(am.load_job(tmp_path / "job/job.toml", cheap), tmp_path / "run")
    right = {row.question_id for row in run["labels/sentences"] if row.label}  # type: ignore[attr-defined]
    assert right == {row["question_id"] for row in rows(tmp_path / "job/questions.jsonl")}
    figures = am.evaluate(tmp_path / "run/scored", tmp_path / "run/labels/sentences").summary()
    assert figures["P@1"] > 0


def test_a_text_with_both_labels_is_correct_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_ = [("Where?", "Here.", 1), ("Where?", "Here.", 0), ("Where?", "Here.", 0), ("Where?", "There.", 0)]
    lines = "".join(f"{question},{text},{label}\n" for question, text, label in rows_)
    (tmp_path / "set.csv").write_text(f"question,sentence,label\n{lines}")
    assert call("dataset", tmp_path / "set.csv", "--as-job", tmp_path / "job") == 0
    out = capsys.readouterr().out
    assert "2 labels that contradict others" in out and "1 question, 2 labels" in out
    assert [row["label"] for row in rows(tmp_path / "job/labels.jsonl")] == [1, 0]


def test_a_folder_with_files_or_another_output_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "set.csv").write_text(LISTS)
    assert call("dataset", tmp_path / "set.csv", "--as-job", tmp_path) == 73
    assert call("dataset", tmp_path / "set.csv", "--as-job", tmp_path / "a", "--out", tmp_path / "b") == 2
    assert "leave --out and --published out" in capsys.readouterr().err and not (tmp_path / "a").exists()


def test_a_killed_command_writes_its_folder_anew(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text(LISTS)
    (tmp_path / "job").mkdir()
    for name in (UNFINISHED, "splits.jsonl", ".labels.jsonl.0.tmp"):
        (tmp_path / "job" / name).write_text("")
    assert call("dataset", tmp_path / "set.csv", "--as-job", tmp_path / "job") == 0
    there = {path.name for path in (tmp_path / "job").iterdir()}
    assert there == {"pages.jsonl", "questions.jsonl", "labels.jsonl", "job.toml"}
    assert call("dataset", tmp_path / "set.csv", "--as-job", tmp_path / "job") == 73


def test_a_question_in_two_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(LISTS)
    assert call("dataset", tmp_path / "a.csv", tmp_path / "b.csv", "--as-job", tmp_path / "job") == 65
    wrong = "b.csv: question q1 is in another file already; write each file into another folder, or"
    assert wrong in capsys.readouterr().err


def test_the_template_has_every_line_that_a_choice_replaces() -> None:
    choices = JobChoices(pages=["a"], questions="b", labels="c", plan="sure", language="", min_words=0)
    assert 'input = ["a"]' in choices.text() and 'language = ""' in choices.text()
