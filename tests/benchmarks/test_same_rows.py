"""Two runs are compared row by row, and what is not compared is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.same_rows import compare

QUESTIONS = [{"question_id": f"q{n}", "text": f"Which is {n}?"} for n in range(4)]
PASSAGES = [{"url": f"u{n}", "start": n / 3} for n in range(6)]
HITS = [
    {"question_id": f"q{n // 3}", "rank": n % 3, "passage": passage} for n, passage in enumerate(PASSAGES)
]


def write(run: Path, folder: str, rows: Sequence[dict[str, Any]], parts: int = 1) -> None:
    """Write a folder of a run as far as its rows go."""
    (run / folder).mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(rows))
    size = -(-len(rows) // parts)
    for n in range(parts):
        pq.write_table(table.slice(n * size, size), run / folder / f"part-{n:05d}.parquet")
    (run / folder / "_manifest.json").write_text(json.dumps({"rows": len(rows)}))


def hits(**changes: Callable[[Any], Any]) -> list[dict[str, Any]]:
    """HITS with these fields of each passage made from its start."""
    new = [{name: change(passage["start"]) for name, change in changes.items()} for passage in PASSAGES]
    return [{**hit, "passage": PASSAGES[n] | new[n]} for n, hit in enumerate(HITS)]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs with the same rows."""
    for run in ("a", "b"):
        write(tmp_path / run, "questions", QUESTIONS)
        write(tmp_path / run, "retrieved", HITS)
    return tmp_path / "a", tmp_path / "b"


def test_the_same_rows_in_other_files_and_another_order_do_not_differ(runs: tuple[Path, Path]) -> None:
    write(runs[1], "questions", QUESTIONS[::-1], parts=2)
    result = compare(*runs, (), 0)
    assert (result["folders"], result["rows"], result["rows_b"], result["differ"]) == (2, 10, 10, 0)
    assert result["other_order"] == "questions" and result["files_not_compared"] == "*/_manifest.json"


def test_a_changed_row_counts_once_and_so_does_one_that_is_in_one_run_alone(runs: tuple[Path, Path]) -> None:
    write(runs[1], "questions", [{"question_id": "q0", "text": "Another?"}, *QUESTIONS[2:]])
    changed = {"question_id": "q1", "rank": 2, "passage": {"url": "u5", "start": 1.75}}
    write(runs[1], "retrieved", [*HITS[:5], changed, HITS[0]])
    result = compare(*runs, (), 0)
    assert (result["differ_questions"], result["differ_retrieved"], result["differ"]) == (2, 2, 4)


def test_columns_that_are_not_compared_are_named(runs: tuple[Path, Path]) -> None:
    write(runs[1], "retrieved", hits(url=lambda _: "elsewhere", end=lambda _: 1))
    write(runs[1], "questions", [{**question, "asked": 1} for question in QUESTIONS])
    assert compare(*runs, (), 0)["differ"] == 6
    result = compare(*runs, ["url"], 0)
    assert (result["differ"], result["columns_left_out"]) == (0, "retrieved.passage.url")
    assert result["columns_in_one"] == "questions.asked (B), retrieved.passage.end (B)"


def test_numbers_are_the_same_to_as_many_digits_as_are_asked_for(runs: tuple[Path, Path]) -> None:
    write(runs[1], "retrieved", hits(start=lambda start: start * (1 + 1e-9)))
    assert [compare(*runs, (), digits)["differ"] for digits in (0, 12, 6)] == [5, 5, 0]


def test_types_and_folders_that_are_not_in_both_are_named(runs: tuple[Path, Path]) -> None:
    write(runs[0], "answers", QUESTIONS[:3])
    write(runs[1], "retrieved", hits(start=int))
    (runs[0] / "answers.jsonl").touch()
    result = compare(*runs, (), 0)
    assert (result["folders_in_one"], result["differ_answers"]) == ("answers (A)", 3)
    assert result["columns_of_other_types"] == "retrieved.passage.start"
    assert result["files_not_compared"] == "*/_manifest.json, answers.jsonl"


def test_no_run_and_one_with_too_few_rows_are_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"is in {tmp_path / 'c'}"):
        compare(runs[0], tmp_path / "c", (), 0)
    (runs[1] / "questions" / "_manifest.json").write_text('{"rows": 5}')
    with pytest.raises(ValueError, match="4 rows, where its manifest says 5"):
        compare(*runs, (), 0)
