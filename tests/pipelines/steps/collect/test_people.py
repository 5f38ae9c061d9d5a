"""No vote is lost or joined: users of two servers, users whom their tool has forgotten, and exports of one
annotation twice."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from answermill.pipelines.errors import BAD_DATA, USAGE, JobError
from answermill.pipelines.specs.collect import ANNOTATIONS, COLLECT_REJECTS, CONFLICTS
from answermill.pipelines.steps.collect.collect import collect
from answermill.pipelines.steps.collect.people import UserNumbers, parse_people
from answermill.pipelines.steps.collect.resolution import ResolutionRules
from tests.pipelines.steps.collect.test_collect import digest, run_of, task

Said = tuple[str, object, int, str]
"""Task, user, annotation id, choice."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_of(tmp_path, [task("a"), task("b"), task("c")])


def label_studio(folder: Path, name: str, rows: Sequence[Said], day: int = 1) -> Path:
    """An export of a server on which each annotation was made on this day."""
    records: list[dict[str, Any]] = []
    for task_id, user, annotation_id, said in rows:
        result = [{"from_name": "answer", "type": "choices", "value": {"choices": [said]}}]
        annotation = {
            "id": annotation_id,
            "completed_by": user,
            "result": result,
            "created_at": f"2026-05-{day:02d}T10:00:00Z",
            "updated_at": f"2026-05-{day:02d}T10:00:00Z",
        }
        data = {"task_id": task_id, "text_hash": digest(task_id)}
        records.append({"id": 1, "data": data, "annotations": [annotation]})
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(records))
    return file


def votes(
    run: Path,
    *files: Path,
    numbers: UserNumbers | None = None,
    persons: Mapping[str, str] | None = None,
) -> set[tuple[str, str, int]]:
    list(collect(run, files, numbers=numbers, persons=persons))
    return {(row.task_id, row.annotator, row.label) for row in ANNOTATIONS.open(run).read()}


def test_a_number_of_two_servers_is_asked_about_and_per_file_makes_two_people(
    run: Path, tmp_path: Path
) -> None:
    anna = label_studio(tmp_path, "anna.json", [("a", 1, 5, "correct"), ("b", 1, 6, "wrong")])
    bob = label_studio(tmp_path, "bob.json", [("a", 1, 8, "wrong"), ("b", 1, 9, "wrong")], day=2)
    with pytest.raises(JobError, match=r"anna.json and .*bob.json: user 1 .*--user-numbers per-file") as e:
        list(collect(run, [anna, bob]))
    assert e.value.code == BAD_DATA

    assert votes(run, anna, bob, numbers="per-file") == {
        ("a", "anna:1", 1),
        ("b", "anna:1", 0),
        ("a", "bob:1", 0),
        ("b", "bob:1", 0),
    }
    assert [row.task_id for row in CONFLICTS.open(run).read()] == ["a"]
    assert votes(run, anna, bob, numbers="shared") == {("a", "1", 0), ("b", "1", 0)}


def test_one_id_of_two_annotations_shows_two_servers_though_they_share_no_task(
    run: Path, tmp_path: Path
) -> None:
    anna = label_studio(tmp_path, "anna.json", [("a", 1, 1, "correct")])
    bob = label_studio(tmp_path, "bob.json", [("b", 1, 1, "wrong")])
    with pytest.raises(JobError, match="--user-numbers"):
        list(collect(run, [anna, bob]))
    same_task = label_studio(tmp_path, "carl.json", [("a", 1, 1, "correct")], day=3)
    with pytest.raises(JobError, match="--user-numbers"):
        list(collect(run, [anna, same_task]))


def test_a_number_in_exports_without_a_contradiction_is_one_person_and_said_so(
    run: Path, tmp_path: Path
) -> None:
    first = label_studio(tmp_path, "first.json", [("a", 1, 1, "correct")])
    second = label_studio(tmp_path, "second.json", [("b", 1, 2, "wrong")])
    lines = list(collect(run, [first, second]))
    assert any("user 1 in several exports" in line and "--user-numbers per-file" in line for line in lines)
    assert {row.annotator for row in ANNOTATIONS.open(run).read()} == {"1"}
    assert not any("several exports" in line for line in collect(run, [first, second], numbers="shared"))


def test_an_annotation_that_is_exported_twice_is_one_vote(run: Path, tmp_path: Path) -> None:
    rows: list[Said] = [("a", 1, 1, "correct"), ("b", None, 2, "wrong"), ("b", None, 3, "correct")]
    first = label_studio(tmp_path, "monday.json", rows)
    second = label_studio(tmp_path, "friday.json", rows)
    assert votes(run, first, second) == votes(run, first)
    assert {row.reason for row in COLLECT_REJECTS.open(run).read()} == set()
    assert len(votes(run, first, second)) == 3
    assert [row.reason for row in COLLECT_REJECTS.open(run).read()] == ["duplicate"] * 3


def test_an_export_that_is_named_twice_counts_once_though_its_name_stands_for_the_annotator(
    run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "anna.csv"
    file.write_text("task_id,label\na,correct\nb,wrong\n")
    assert votes(run, file) == votes(run, file, file) == {("a", "anna", 1), ("b", "anna", 0)}


@pytest.mark.parametrize("user", [None, {"id": None}])
def test_users_whom_the_tool_has_forgotten_stay_apart(run: Path, tmp_path: Path, user: object) -> None:
    file = label_studio(
        tmp_path, "two.json", [("a", user, 1, "correct"), ("a", user, 2, "wrong"), ("b", user, 3, "wrong")]
    )
    assert votes(run, file) == {
        ("a", "two:unknown-1", 1),
        ("a", "two:unknown-2", 0),
        ("b", "two:unknown-1", 0),
    }
    assert [row.task_id for row in CONFLICTS.open(run).read()] == ["a"]
    assert any(
        "3 votes are of users whom their tool no longer names" in line for line in collect(run, [file])
    )


def test_forgotten_users_of_files_of_one_name_in_two_folders_are_refused(run: Path, tmp_path: Path) -> None:
    files = [
        label_studio(tmp_path, f"{folder}/export.json", [("a", None, n, "correct")])
        for n, folder in enumerate(("x", "y"))
    ]
    with pytest.raises(JobError, match="call each by its annotator"):
        list(collect(run, files))


def test_a_table_of_label_studio_that_says_none_names_no_user(run: Path, tmp_path: Path) -> None:
    rows = [
        {"task_id": "a", "text_hash": digest("a"), "answer": said, "annotator": "None", "annotation_id": n}
        for n, said in enumerate(("correct", "wrong"), 1)
    ]
    (tmp_path / "min.json").write_text(json.dumps(rows))
    assert votes(run, tmp_path / "min.json") == {("a", "min:unknown-1", 1), ("a", "min:unknown-2", 0)}


def test_argilla_s_forgotten_users_stay_apart_without_ids(run: Path, tmp_path: Path) -> None:
    responses = [{"value": "correct", "user_id": None}, {"value": "wrong", "user_id": None}]
    record = {
        "id": "a",
        "fields": {},
        "metadata": {"text_hash": digest("a")},
        "responses": {"answer": responses},
        "_server_id": "s",
    }
    for name in ("all.json", "all.2.json"):
        (tmp_path / name).write_text(json.dumps([record]))
    assert votes(run, tmp_path / "all.json") == {("a", "all:unknown-1", 1), ("a", "all:unknown-2", 0)}
    assert len(votes(run, tmp_path / "all.json", tmp_path / "all.2.json")) == 2  # the same export again


def test_a_number_in_a_spreadsheet_is_a_name_that_people_typed(run: Path, tmp_path: Path) -> None:
    for name, label in (("one.csv", "correct"), ("one.2.csv", "wrong")):
        (tmp_path / name).write_text(f"task_id,text_hash,label,annotator\na,{digest('a')},{label},1\n")
    assert votes(run, tmp_path / "one.csv", tmp_path / "one.2.csv") == {("a", "1", 0)}


def test_a_number_is_the_person_who_was_named_for_it(run: Path, tmp_path: Path) -> None:
    anna = label_studio(tmp_path, "anna.json", [("a", 1, 5, "correct"), ("b", 1, 6, "cannot tell")])
    bob = label_studio(tmp_path, "bob.json", [("a", 2, 8, "wrong")], day=2)
    persons = parse_people(["1=anna@example.org", "2 = bob@example.org"])
    assert votes(run, anna, bob, persons=persons) == {
        ("a", "anna@example.org", 1),
        ("a", "bob@example.org", 0),
    }
    (skipped,) = COLLECT_REJECTS.open(run).read()
    assert skipped.detail.startswith("by anna@example.org: ")

    # Of two servers, a number has the name of its file.
    bob = label_studio(tmp_path, "bob.json", [("a", 1, 5, "wrong"), ("c", 1, 9, "cannot tell")], day=2)
    persons = parse_people(["anna:1=anna@example.org", "bob:1=bob@example.org"])
    assert votes(run, anna, bob, numbers="per-file", persons=persons) == {
        ("a", "anna@example.org", 1),
        ("a", "bob@example.org", 0),
    }
    by = {
        reject.source_record: reject.detail.partition(": ")[0] for reject in COLLECT_REJECTS.open(run).read()
    }
    assert by == {"b": "by anna@example.org", "c": "by bob@example.org"}


def test_a_person_of_nobody_in_the_exports_is_refused_with_who_is_there(run: Path, tmp_path: Path) -> None:
    file = label_studio(tmp_path, "all.json", [("a", 1, 5, "correct")])
    with pytest.raises(JobError, match=r"--people 3=…: nobody of that name .* are 1\n") as e:
        votes(run, file, persons={"1": "1", "3": "carl"})
    assert e.value.code == USAGE


@pytest.mark.parametrize("written", [["1"], ["=anna"], ["1="], ["1=anna", "1=bob"], ["Anna=a", "anna=b"]])
def test_people_who_are_not_clear_are_refused(written: list[str]) -> None:
    with pytest.raises(JobError, match="--people") as e:
        parse_people(written)
    assert e.value.code == USAGE


def test_whoever_is_dealt_tasks_and_seems_to_be_another_is_asked_about(run: Path, tmp_path: Path) -> None:
    (run / "packs").mkdir()
    (run / "packs" / "people.json").write_text('{"anna@example.org": ["a"], "bob@example.org": ["b"]}')
    file = label_studio(tmp_path, "all.json", [("a", 1, 5, "correct"), ("b", 2, 6, "wrong")])
    advice = "1, 2 judged tasks that were dealt to others, and anna@example.org, bob@example.org judged none"
    assert any(advice in line and "--people 1=anna@example.org" in line for line in collect(run, [file]))

    persons = {"1": "anna@example.org", "2": "bob@example.org"}
    assert not any("judged none" in line for line in collect(run, [file], persons=persons))
    # Half of the people have sent nothing yet: nothing is odd about that.
    half = label_studio(tmp_path, "half.json", [("a", "anna@example.org", 5, "correct")])
    assert not any("judged none" in line for line in collect(run, [half]))


NFC, NFD = "Zo\u00eb", "Zoe\u0308"


@pytest.mark.parametrize(
    ("first", "second", "noted"),
    [("Anna", "anna", True), (NFC, NFD, False), ("Anna Li", " Anna  Li ", False), (NFD, "zo\u00eb", True)],
)
def test_a_person_s_name_is_one_however_it_is_typed(
    run: Path, tmp_path: Path, first: str, second: str, noted: bool
) -> None:
    name = unicodedata.normalize("NFC", first)
    rows = f"a,{digest('a')},correct,{first}\na,{digest('a')},wrong,{second}\nb,{digest('b')},wrong,bo\n"
    sheet = tmp_path / "all.csv"
    sheet.write_text("task_id,text_hash,label,annotator\n" + rows, encoding="utf-8")
    assert votes(run, sheet) == {("a", name, 0), ("b", "bo", 0)}
    (again,) = COLLECT_REJECTS.open(run).read()
    assert again.reason == "duplicate" and again.detail.startswith(f"by {name}: ")
    notes = [line for line in collect(run, [sheet]) if "taken for one person" in line]
    assert [f"note: {name} and " in line or f" and {name}: " in line for line in notes] == [True] * noted


def test_people_who_were_dealt_tasks_and_persons_of_the_user_give_a_name_its_spelling(
    run: Path, tmp_path: Path
) -> None:
    (run / "packs").mkdir()
    (run / "packs" / "people.json").write_text(json.dumps({NFC: ["a"], "Bo": ["b"]}))
    sheet = tmp_path / f"{NFD.lower()}.csv"
    sheet.write_text(f"task_id,text_hash,label\na,{digest('a')},correct\n", encoding="utf-8")
    studio = label_studio(tmp_path, "all.json", [("b", 2, 1, "wrong"), ("c", "X@Y.org", 2, "wrong")])
    persons = parse_people(["2=bo", "x@y.org=Cy"])
    assert votes(run, sheet, studio, persons=persons) == {("a", NFC, 1), ("b", "Bo", 0), ("c", "Cy", 0)}

    lines = collect(run, [sheet, studio], ResolutionRules(adjudicator="bo"), persons=persons)
    assert not any("judged none" in line for line in lines)


def test_forgotten_users_of_files_that_differ_by_letter_case_stay_apart(run: Path, tmp_path: Path) -> None:
    files = [
        label_studio(tmp_path, name, [("a", None, n, said)], day=n)
        for n, (name, said) in enumerate((("Two.json", "correct"), ("two.2.json", "wrong")), 1)
    ]
    assert votes(run, *files) == {("a", "Two:unknown-1", 1), ("a", "Two:unknown-2", 0)}
