"""Several runs beside the first: one table, whose p-values know how many there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from answermill.pipelines.learn.compare_many import compare_many
from answermill.pipelines.learn.evaluate import compare
from answermill.pipelines.learn.evaluate.compare import compare_files
from answermill.pipelines.learn.evaluate.evaluate import Evaluation, evaluate
from answermill.ranking.evaluation.significance import holm
from answermill.schemas.labels import LabelledCandidate
from testing.command import call


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three runs over twenty questions: always wrong, always right, and right in half of them."""
    monkeypatch.chdir(tmp_path)
    rows = [
        LabelledCandidate(f"q{n}", f"Question {n}?", f"q{n}-{c}", "d", "", c, f"Text {c}.", c)
        for n in range(20)
        for c in range(2)
    ]
    pq.write_table(LabelledCandidate.table(rows), "set.parquet")
    for name, best in (("wrong", lambda n: 0), ("right", lambda n: 1), ("half_&_half", lambda n: n % 2)):
        lines = [f"q{n} Q0 q{n}-{c} 0 {float(c == best(n))} x\n" for n in range(20) for c in range(2)]
        Path(f"{name}.run").write_text("".join(lines))
    return ["wrong.run", "right.run", "half_&_half.run"]


def test_holm_is_never_below_p_nor_above_bonferroni() -> None:
    p = [0.001, 0.2, 0.02, 0.02, 0.9]
    assert all(x <= y <= min(1, len(p) * x) for x, y in zip(p, holm(p), strict=True))
    assert holm([0.3]) == [0.3] and holm([]) == []


def test_each_run_is_evaluated_once_and_compared_with_the_first_as_two_are(
    runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = Path("set.parquet")
    evaluated: list[str] = []

    def counted(name: str, *arguments: Any, **options: Any) -> Evaluation:
        evaluated.append(name)
        return evaluate(name, *arguments, **options)

    monkeypatch.setattr(compare, "evaluate", counted)
    many = compare_many(runs, labels=labels, rounds=500)
    assert evaluated == runs
    for run in runs[1:]:
        assert many.others[run] == compare_files(runs[0], run, labels=labels, rounds=500).metrics
    p = {run: many.others[run]["P@1"].p for run in runs[1:]}
    assert many.corrected["right.run", "P@1"] == pytest.approx(2 * p["right.run"])
    assert p["half_&_half.run"] <= many.corrected["half_&_half.run", "P@1"] < 0.05


def test_the_table_is_written_for_papers(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    files = ("--table", "t.md", "t.tex", "--labels", "set.parquet", "--rounds", 500)
    assert call("compare", *runs, *files) == 0
    assert "p (Holm)" in capsys.readouterr().out
    markdown, latex = Path("t.md").read_text(), Path("t.tex").read_text()
    assert "| right.run | 100.00* |" in markdown and "| wrong.run | 0.00 |" in markdown
    assert "corrected by Holm for 2 runs" in markdown

    assert call("compare", *runs[:2], *files) == 0
    assert "corrected by Holm for 1 run." in Path("t.md").read_text()
    assert r"half\_\&\_half.run & 50.00$^{*}$" in latex and r"\bottomrule" in latex


def test_what_cannot_be_compared_is_refused(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    labels = ("--labels", "set.parquet")
    assert call("compare", *runs, *labels, "--margin", 0.1) == 2
    assert call("compare", *runs, runs[0], *labels) == 2
    assert call("compare", *runs, *labels, "--table", "t.docx") == 2
    err = capsys.readouterr().err
    assert "are for two runs" in err and "wrong.run is named twice" in err and "ends in .md or .tex" in err
