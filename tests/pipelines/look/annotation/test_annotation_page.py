"""The page on the people who judge: who has done what, how far they agree, and their conflicts with texts."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from answermill.pipelines.config.job_file import load
from answermill.pipelines.data.annotation_tools.spreadsheet import unquote
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.look.annotation.annotation_page import PAGE
from answermill.pipelines.look.annotation.annotation_progress import annotation_figures, conflict_rows
from answermill.pipelines.look.report.run_report import write_report
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.annotate.annotate import annotate
from answermill.pipelines.steps.collect.collect import collect

SETTINGS = (
    "annotate.people=['anna', 'ben', 'chris']",
    "annotate.annotators=2",
    "annotate.tools=['csv']",
    "annotate.top=4",
    "annotate.random=0",
)


@pytest.fixture(scope="module")
def dealt(sample_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose tasks are dealt to three people, two a task; nobody has judged."""
    run = tmp_path_factory.mktemp("dealt") / "run"
    shutil.copytree(sample_run, run, ignore=shutil.ignore_patterns("tasks", "packs", "collected", "report*"))
    annotate(load(sample_run.parent / "job.toml", SETTINGS), run)
    return run


@pytest.fixture(scope="module")
def judged(dealt: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Anna has judged all of hers as correct, Ben the first half of his as wrong, but for one that he could
    not tell; Chris has not begun."""
    folder = tmp_path_factory.mktemp("judged")
    shutil.copytree(dealt, folder / "run")
    exports = []
    for person in ("anna", "ben"):
        with (dealt / f"packs/csv/{person}/tasks-00001.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        for n, row in enumerate(rows):
            row["label"] = "correct" if person == "anna" else "wrong" if n < len(rows) // 2 else ""
        if person == "ben":
            rows[0]["label"] = "cannot tell"
        exports.append(folder / f"{person}.csv")
        with exports[-1].open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    assert list(collect(folder / "run", exports))
    return folder / "run"


def test_a_round_that_begins_has_everything_open(dealt: Path, tmp_path: Path) -> None:
    figures = annotation_figures(Run.open(dealt))
    assert figures is not None and not figures.is_collected
    assert {person.name for person in figures.people} == {"anna", "ben", "chris"}
    assert all(person.open == person.dealt and not person.judged for person in figures.people)
    assert sum(person.dealt or 0 for person in figures.people) == 2 * figures.tasks

    write_report(dealt, out=tmp_path)
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "Nothing is collected yet" in page and "<tr data-state=" not in page


def test_each_person_s_tasks_are_judged_without_label_or_open(judged: Path) -> None:
    figures = annotation_figures(Run.open(judged))
    assert figures is not None and figures.is_collected
    anna, ben, chris = figures.people
    assert anna.judged == anna.dealt and anna.open == 0 and anna.positive == 1
    assert (ben.judged, ben.no_label) == ((ben.dealt or 0) // 2 - 1, 1) and ben.positive == 0
    assert ben.judged + ben.no_label + (ben.open or 0) == ben.dealt
    assert chris.open == chris.dealt and chris.positive is chris.with_others is None
    assert anna.with_others == ben.with_others == 0

    said = json.loads((judged / "collected/agreement.json").read_text(encoding="utf-8"))
    assert figures.alpha == said["krippendorff_alpha"]["value"] is not None
    assert [pair.people for pair in figures.pairs] == [("anna", "ben")]


def test_who_has_only_skipped_is_there(dealt: Path, tmp_path: Path) -> None:
    shutil.copytree(dealt, tmp_path / "run")
    with (dealt / "packs/csv/anna/tasks-00001.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))[:3]
    exports = []
    for person, label in (("anna", "correct"), ("dora", "cannot tell")):
        exports.append(tmp_path / f"{person}.csv")
        with exports[-1].open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row | {"label": label, "annotator": person} for row in rows)
    assert list(collect(tmp_path / "run", exports))
    figures = annotation_figures(Run.open(tmp_path / "run"))
    assert figures is not None
    by_name = {person.name: person for person in figures.people}
    assert (by_name["dora"].judged, by_name["dora"].no_label, by_name["dora"].dealt) == (0, 3, None)
    assert by_name["anna"].judged == 3


def test_conflicts_have_their_texts_and_what_each_said(judged: Path, tmp_path: Path) -> None:
    rows = list(conflict_rows(Run.open(judged)))
    figures = annotation_figures(Run.open(judged))
    assert figures is not None and len(rows) == figures.conflicts > 5
    assert {row.votes for row in rows} == {(("anna", "correct"), ("ben", "wrong"))}
    assert {row.state for row in rows} == {"open"}
    shown = {}
    for person in ("anna", "ben"):
        with (judged / f"packs/csv/{person}/tasks-00001.csv").open(encoding="utf-8-sig", newline="") as file:
            shown |= {unquote(row["task_id"]): row for row in csv.DictReader(file)}
    for row in rows:
        pack = shown[row.task_id]
        texts = (row.question, row.sentence, row.title, row.url)
        assert texts == tuple(unquote(pack[name]) for name in ("question", "sentence", "title", "url"))

    write_report(judged, out=tmp_path)
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert page.count('<tr data-state="open" data-label="-"') == len(rows)
    assert page.count("<script>") == 1 and '<form id="filter" hidden>' in page
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f'href="{PAGE}"' in report and "Krippendorff&#39;s alpha" in report
    digests = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["digests"]
    assert PAGE in digests


def test_a_run_without_tasks_has_no_such_page(dealt: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(dealt, run)
    write_report(run)
    assert (run / PAGE).exists()
    for folder in ("tasks", "packs"):
        shutil.rmtree(run / folder)
    write_report(run)
    assert not (run / PAGE).exists()
    assert PAGE not in (run / "report.html").read_text(encoding="utf-8")


def test_a_damaged_list_of_people_is_named(dealt: Path, tmp_path: Path) -> None:
    shutil.copytree(dealt, tmp_path / "run")
    (tmp_path / "run/packs/people.json").write_text("[1]")
    with pytest.raises(JobError, match=r"people\.json: not readable") as e:
        annotation_figures(Run.open(tmp_path / "run"))
    assert e.value.code == BAD_DATA
