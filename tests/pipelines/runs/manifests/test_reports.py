"""Of several attempts at a unit the first report stands, and a later attempt leaves nothing of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from answermill.pipelines.runs.manifests import reports as reports_module
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.schemas.corpus import Question
from tests.made_steps import Rows, report, reports_of


def attempt(run: Path, *texts: str) -> Report[Rows]:
    """An attempt at unit 3 that writes questions with these texts; returns the report that counts."""
    with PartWriter(run / "questions", Question, 3) as writer:
        writer.write([Question(f"q{n}", text) for n, text in enumerate(texts)])
    return reports_of(run / "work", run).write(report(3, {"questions": writer.parts}, rows=len(texts)))


def files(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_a_later_attempt_takes_the_first_report_and_deletes_its_own_part(tmp_path: Path) -> None:
    first = attempt(tmp_path, "who?", "why?")
    before = files(tmp_path)
    assert attempt(tmp_path, "who?") == first == reports_of(tmp_path / "work").read_one(3)
    assert attempt(tmp_path, "who?") == first
    assert files(tmp_path) == before and len(before) == 2


def test_a_later_attempt_with_the_same_rows_leaves_the_part(tmp_path: Path) -> None:
    first = attempt(tmp_path, "who?")
    before = files(tmp_path)
    assert attempt(tmp_path, "who?") == first
    assert files(tmp_path) == before


def test_a_later_attempt_deletes_its_folder_if_its_part_is_one(tmp_path: Path) -> None:
    reports = reports_of(tmp_path / "work", tmp_path)
    part = attempt(tmp_path, "who?").parts["questions"][0]
    for name in ("0-of-1-a", "0-of-1-b"):
        (tmp_path / "shards" / name / "deep").mkdir(parents=True)
        reports.write(report(0, {"shards": (type(part)(name, 1, 1, ""),)}))
    assert [path.name for path in (tmp_path / "shards").iterdir()] == ["0-of-1-a"]


@pytest.mark.parametrize("content", ["", "{", "{}"])
def test_a_damaged_report_does_not_stand(tmp_path: Path, content: str) -> None:
    first = attempt(tmp_path, "who?")
    (tmp_path / "work/unit-00003.json").write_text(content)
    assert attempt(tmp_path, "who?") == first == reports_of(tmp_path / "work").read_one(3)


def test_a_report_that_another_command_deletes_meanwhile_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(tmp_path, "who?")
    reports = reports_of(tmp_path / "work", tmp_path)

    def damaged(*_: object) -> str:
        (tmp_path / "work" / "unit-00003.json").unlink()  # as a command does that shares a store
        return "the part is missing"

    monkeypatch.setattr(reports_module, "damage_of", damaged)
    damage: list[str] = []
    assert list(reports.sound(damage)) == [] and damage == ["the part is missing"]
    reports.forget([3])
    assert reports.count() == 0 and not reports.has(3)
