"""The answers that the sample command shows at its end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.pipelines.look.answers.best_answers import best_answers


def write(run: Path, *answers: tuple[str, str | None, str, float | None]) -> None:
    """answers.jsonl of (question, answer, page, score)."""
    rows = [
        {
            "question": question,
            "answer": answer,
            "doc_id": page,
            "title": page.upper(),
            "url": f"https://{page}",
            "score": score,
        }
        for question, answer, page, score in answers
    ]
    (run / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_answers_with_the_highest_scores_are_shown_one_a_page_and_with_it(tmp_path):
    low, high = ("Low?", "Low.", "a", 0.2), ("High?", "High.", "a", 0.9)
    write(
        tmp_path,
        low,
        ("None?", None, "", None),
        ("Even?", "Even.", "b", 0.5),
        high,
        ("Equal?", "Equal.", "c", 0.5),
    )

    heading, *shown = best_answers(tmp_path)
    assert heading == "3 of 5 answers, those with the highest scores:"
    assert [text.split("\n")[1:] for text in shown] == [
        ["  High?", "  High.", "    A, https://a"],
        ["  Even?", "  Even.", "    B, https://b"],
        ["  Equal?", "  Equal.", "    C, https://c"],
    ]


def test_without_answers_nothing_is_shown(tmp_path):
    assert list(best_answers(tmp_path)) == []


def test_the_sample_command_ends_with_three_answers_of_its_pages(sample_run, tmp_path, capsys):
    shutil.copytree(sample_run.parent, tmp_path / "sample")
    with pytest.raises(SystemExit) as e:
        main(["sample", "--out", str(tmp_path / "sample")])
    assert e.value.code == 0
    summary, shown = capsys.readouterr().out.split("3 of 90 answers")
    assert "ingest     70 pages" in summary and "answermill status" in summary
    answers = [
        json.loads(line) for line in (sample_run / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert (
        sum(f"{a['question']}\n  {a['answer']}\n    {a['title']}, {a['url']}" in shown for a in answers) == 3
    )
