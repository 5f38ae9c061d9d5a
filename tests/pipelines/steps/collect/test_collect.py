"""Collect: every annotation is a vote or a reject, every task has one fate, only the exports named count."""

from __future__ import annotations

import csv
import hashlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.data.inputs.columns import Columns
from answermill.pipelines.data.inputs.labels import LabelSource
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, USAGE, JobError
from answermill.pipelines.look.status import status
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.specs.annotate import AnnotateCounts
from answermill.pipelines.specs.collect import (
    ANNOTATIONS,
    COLLECT,
    COLLECT_REJECTS,
    CONFLICTS,
    LABELS,
    CollectCounts,
)
from answermill.pipelines.steps.collect.collect import collect
from answermill.pipelines.steps.collect.resolution import ResolutionRules
from answermill.schemas.annotation import Task
from answermill.schemas.corpus import Rejected
from tests.made_steps import made_step

Row = tuple[str, str, str]
"""Task, label, annotator."""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def task(name: str, stratum: str = "top", expected: int | None = None) -> Task:
    sentence = f"=Sentence {name}, with a comma."

    return Task(
        task_id=name,
        question_id=f"q-{name}",
        question=f"Why {name}?",
        sentence_id=f"d-{name}@0",
        sentence=sentence,
        doc_id=f"d-{name}",
        passage_id=f"d-{name}#0",
        passage=sentence + "\nMore.",
        start=0,
        end=len(sentence),
        title="-title",
        url="https://example.org",
        text_hash=digest(name),
        score=0.5,
        rank=1,
        stratum=stratum,
        probability=0.25 if stratum == "random" else 1.0,
        expected=expected,
        annotators=2,
    )


def run_of(folder: Path, tasks: Sequence[Task]) -> Path:
    """A run with these tasks, committed in two parts."""
    step = made_step(folder / "run", "annotate", {"tasks": Task}, counts=AnnotateCounts)
    Commit(step).begin()
    for unit, rows in enumerate((tasks[:2], tasks[2:])):
        with PartWriter(folder / "run/tasks", Task, unit) as writer:
            writer.write(rows)
        step.reports.write(Report(unit, {"tasks": writer.parts}, AnnotateCounts()))
    Commit(step).finish(Outcome.of(AnnotateCounts(), step.reports.each()))
    return folder / "run"


def sheet(folder: Path, name: str, rows: Sequence[Row], **hashes: str) -> Path:
    """A CSV export; text hashes are right but where others are given."""
    file = folder / name
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["task_id", "text_hash", "label", "annotator"])
        writer.writerows([t, hashes.get(t, digest(t)), label, who] for t, label, who in rows)
    return file


def labels(run: Path) -> dict[str, int]:
    rows = LABELS.open(run).read()
    return {row.question_id.removeprefix("q-"): row.label for row in rows}


def conflicts(run: Path) -> dict[str, tuple[tuple[str, ...], int | None]]:
    return {row.task_id: (row.votes, row.label) for row in CONFLICTS.open(run).read()}


def rejects(run: Path) -> list[Rejected]:
    return list(COLLECT_REJECTS.open(run).read())


def figures(run: Path) -> dict:
    return json.loads((run / "collected/agreement.json").read_text(encoding="utf-8"))


TASKS = [
    task("a"),
    task("b"),
    task("c", "random"),
    task("d"),
    task("e"),
    task("k0", "control", 0),
    task("k1", "control", 1),
]
THREE = [
    *[("a", "correct", who) for who in ("anna", "bo", "cy")],
    *[("b", "correct", "anna"), ("b", "wrong", "bo"), ("b", "wrong", "cy")],
    *[("c", "correct", "anna"), ("c", "wrong", "bo")],
    ("d", "wrong", "cy"),
    *[
        ("k0", "wrong", "anna"),
        ("k0", "correct", "bo"),
        ("k1", "correct", "anna"),
        ("k1", "wrong", "bo"),
        ("k1", "wrong", "cy"),
    ],
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_of(tmp_path, TASKS)


def test_the_majority_gives_labels_a_tie_stays_open_and_controls_have_none(run: Path, tmp_path: Path) -> None:
    lines = list(collect(run, [sheet(tmp_path, "x.csv", THREE)]))
    assert labels(run) == {"a": 1, "b": 0, "d": 0}
    assert conflicts(run) == {"b": (("anna=1", "bo=0", "cy=0"), 0), "c": (("anna=1", "bo=0"), None)}
    rows = {row.question_id: row for row in LABELS.open(run).read()}
    assert (rows["q-b"].votes, rows["q-b"].positive) == (3, pytest.approx(1 / 3))
    assert (rows["q-b"].sentence_id, rows["q-b"].stratum, rows["q-b"].probability) == ("d-b@0", "top", 1.0)
    assert (
        "7 tasks = 3 labelled + 1 open + 2 control + 0 too few votes + 1 not judged; 2 conflicts" in lines[1]
    )
    assert figures(run)["counts"]["controls_judged"] == 2


def test_fewer_votes_than_wanted_give_no_label(run: Path, tmp_path: Path) -> None:
    list(collect(run, [sheet(tmp_path, "x.csv", THREE)], ResolutionRules(min_votes=3)))
    assert labels(run) == {"a": 1, "b": 0} and figures(run)["counts"]["fates"]["too_few_votes"] == 2


def test_a_label_of_a_task_of_known_label_is_what_people_said_unless_it_is_only_a_control(
    tmp_path: Path,
) -> None:
    run = run_of(tmp_path, [task("a", "top", 1), task("c", "random", 0), task("k", "control", 1)])
    list(
        collect(
            run,
            [sheet(tmp_path, "x.csv", [("a", "wrong", "bo"), ("c", "wrong", "bo"), ("k", "wrong", "bo")])],
        )
    )
    assert labels(run) == {"a": 0, "c": 0}
    assert (
        figures(run)["annotators"]["bo"]["controls"]["right"] == 1
        and figures(run)["annotators"]["bo"]["controls"]["of"] == 3
    )


def test_weighted_votes_follow_who_is_right_on_controls(run: Path, tmp_path: Path) -> None:
    """anna 2 of 2: ln 3; bo 0 of 2: none; cy 0 of 1: none; dee has judged none: the mean, ln 3 / 3."""
    rows = [*THREE, ("b", "wrong", "dee"), ("e", "wrong", "bo")]
    list(collect(run, [sheet(tmp_path, "x.csv", rows)], ResolutionRules("weighted")))
    assert labels(run) == {"a": 1, "b": 1, "c": 1}
    weights = {name: figure["weight"] for name, figure in figures(run)["annotators"].items()}
    assert weights == {
        "anna": pytest.approx(1.0986, abs=1e-4),
        "bo": 0,
        "cy": 0,
        "dee": pytest.approx(0.3662, abs=1e-4),
    }

    resolved = {row.question_id: row for row in LABELS.open(run).read()}
    assert resolved["q-b"].positive == pytest.approx(0.75) and resolved["q-b"].votes == 4
    assert {name: label for name, (_, label) in conflicts(run).items()} == {
        "b": 1,
        "c": 1,
        "d": None,
        "e": None,
    }


def test_adjudication_leaves_all_disagreement_open_until_the_adjudicator_has_spoken(
    run: Path, tmp_path: Path
) -> None:
    first = sheet(tmp_path, "x.csv", THREE)
    lines = list(collect(run, [first], ResolutionRules("adjudicate")))
    assert labels(run) == {"a": 1, "d": 0} and "2 open: " in lines[-3]
    assert lines[-2].endswith("agreement.json, adjudication.csv, adjudication.txt")
    assert (run / "collected/adjudication.txt").read_text() == "b\nc\n"
    with (run / "collected/adjudication.csv").open(encoding="utf-8-sig", newline="") as file:
        pack = list(csv.DictReader(file))
    assert [row["task_id"] for row in pack] == ["b", "c"] and set(pack[0].values()) >= {"", "'-title"}
    assert pack[0]["sentence"].startswith("'=Sentence b") and "anna" not in str(pack)
    judged = tmp_path / "judged.csv"

    with judged.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, pack[0])
        writer.writeheader()
        writer.writerows([{**pack[0], "label": "correct"}, {**pack[1], "label": "wrong"}])

    before = figures(run)["krippendorff_alpha"]
    list(collect(run, [first, judged], ResolutionRules("adjudicate", adjudicator="judged")))
    assert labels(run) == {"a": 1, "b": 1, "c": 0, "d": 0}
    assert conflicts(run)["b"] == (("anna=1", "bo=0", "cy=0", "judged=1"), 1)
    assert figures(run)["krippendorff_alpha"] == before and "judged" not in figures(run)["annotators"]
    assert (run / "collected/adjudication.txt").read_text() == ""
    with pytest.raises(JobError, match="--adjudicator dee: the annotators are anna, bo, cy"):
        list(collect(run, [first], ResolutionRules(adjudicator="dee")))


def test_the_later_of_two_labels_holds_by_time_else_by_order(run: Path, tmp_path: Path) -> None:
    early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00+01:00"
    text = "task_id,label,annotator,updated_at\na,1,bo,{}\na,0,bo,{}\nb,1,bo,{}\nb,0,bo,{}\n"
    file = tmp_path / "times.csv"
    file.write_text(text.format(late, early, early, late))
    second = sheet(tmp_path, "second.csv", [("c", "0", "bo"), ("c", "1", "bo"), ("d", "1", "bo")])
    third = sheet(tmp_path, "third.csv", [("d", "0", "bo"), ("a", "1", "cy")])
    list(collect(run, [file, second, third]))
    assert labels(run) == {"a": 1, "b": 0, "c": 1, "d": 0}
    places = [(Path(r.source_file).name, r.source_offset, r.source_record) for r in rejects(run)]
    assert places == [
        ("times.csv", 3, "a"),
        ("times.csv", 4, "b"),
        ("second.csv", 2, "c"),
        ("second.csv", 4, "d"),
    ]

    assert {r.reason for r in rejects(run)} == {"duplicate"}
    list(collect(run, [file, third, second]))
    assert labels(run)["d"] == 1


def test_what_is_no_vote_is_kept_with_its_reason(run: Path, tmp_path: Path) -> None:
    rows = [
        ("a", "correct", "bo"),
        ("b", "wrong", "bo"),
        ("other", "wrong", "bo"),
        ("1.23E+15", "wrong", "bo"),
    ]
    rows += [("c", "cannot tell", "bo"), ("d", "dunno", "bo"), ("e", "", "bo"), ("a", "wrong", "bo")]
    result = {"completed_by": 1, "was_cancelled": True, "result": []}
    studio = tmp_path / "studio.json"
    studio.write_text(json.dumps([{"data": {"task_id": "a"}, "annotations": [result]}]))

    list(collect(run, [sheet(tmp_path, "x.csv", rows, b="another"), studio]))
    reasons = {(r.source_record, r.reason) for r in rejects(run)}
    assert reasons == {
        ("a", "duplicate"),
        ("b", "text_changed"),
        ("other", "unknown_task"),
        ("1.23E+15", "unknown_task"),
        ("c", "skipped"),
        ("d", "not_a_label"),
        ("a", "cancelled"),
    }

    assert "a spreadsheet made a number of the id" in next(
        r.detail for r in rejects(run) if r.source_record == "1.23E+15"
    )
    counts = CollectCounts.from_json(figures(run)["counts"])
    assert (counts.annotations, counts.votes, counts.rejects, counts.unanswered) == (8, 1, 7, 1)
    assert counts.rejected["text_changed"] == 1 and labels(run) == {"a": 0}


def many(folder: Path, seed: int) -> list[Path]:
    """Exports of all kinds with repetitions, skips, strangers and changed texts."""
    generator = random.Random(seed)
    said = ["correct", "wrong", "cannot tell", "what?", ""]
    rows = [
        (
            generator.choice([*"abcde", "k0", "k1", "zz"]),
            generator.choices(said, [5, 5, 1, 1, 1])[0],
            generator.choice("pqr"),
        )
        for _ in range(60)
    ]
    lines = [
        {
            "task_id": t,
            "text_hash": digest(t),
            "accept": [s] if s else [],
            "answer": "accept",
            "_session_id": w,
        }
        for t, s, w in rows
    ]
    (folder / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))

    return [sheet(folder, "x.csv", rows[:40], a="another" if seed % 2 else digest("a")), folder / "p.jsonl"]


@pytest.mark.parametrize("seed", range(6))
def test_annotations_in_are_annotations_out_and_rejects(run: Path, tmp_path: Path, seed: int) -> None:
    list(collect(run, many(tmp_path, seed), ResolutionRules(min_votes=1 + seed % 2)))
    counts = CollectCounts.from_json(figures(run)["counts"])
    kept = list(ANNOTATIONS.open(run).read())
    assert counts.annotations == len(kept) + len(rejects(run)) and len(kept) > 8 and len(rejects(run)) > 8
    assert counts.annotations + counts.unanswered == 100
    by_reason = Counter(r.reason for r in rejects(run))
    assert by_reason == counts.rejected and len(by_reason) >= 4
    assert [(a.task_id, a.annotator) for a in kept] == sorted({(a.task_id, a.annotator) for a in kept})
    assert counts.tasks == 7 == sum(counts.fates.values())


def content(run: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(run)): p.read_bytes() for p in sorted((run / "collected").rglob("*")) if p.is_file()
    }


def test_the_same_exports_give_the_same_bytes_and_others_replace_them(run: Path, tmp_path: Path) -> None:
    files = many(tmp_path, 1)
    list(collect(run, files))
    first = content(run)
    list(collect(run, [sheet(tmp_path, "y.csv", THREE)]))
    assert labels(run) == {"a": 1, "b": 0, "d": 0} and content(run) != first
    assert len(list((run / "collected/labels").glob("part-*"))) == 1
    list(collect(run, files))
    assert content(run) == first and len(first) == 11
    assert not (run / "_work").exists()


def test_a_collect_killed_between_its_renames_loses_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sheet(tmp_path, "x.csv", THREE), sheet(tmp_path, "y.csv", THREE[:3])
    list(collect(run, [first]))
    before, labels_digest = content(run), LabelSource.of(Job.model_validate({"propagate": {}}), run).digest()
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if target == run / "collected" and path.name == "collected":
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "rename", killed)
        list(collect(run, [second]))

    assert not (run / "collected").exists()
    assert LabelSource.of(Job.model_validate({"propagate": {}}), run).digest() == labels_digest
    assert content(run) == before  # a reader brings the earlier one back
    (tmp_path / "cut.csv").write_text("task_id,label,annotator\na,corr")
    with pytest.raises(JobError, match=r"cut\.csv:2: the file ends"):
        list(collect(run, [tmp_path / "cut.csv"]))
    assert content(run) == before  # the earlier one is back, whatever becomes of the next
    list(collect(run, [second]))
    assert labels(run) == {"a": 1} and not (run / "_work").exists()


def test_status_knows_the_folders(run: Path, tmp_path: Path) -> None:
    list(collect(run, [sheet(tmp_path, "x.csv", THREE)]))
    states = {folder: (rows, state) for step, folder, rows, state in status(run) if step == "collect"}
    assert states.keys() == {folder.name for folder in COLLECT} and states["collected/labels"] == (
        "3",
        "complete, 1 part",
    )


def test_a_collect_that_fails_leaves_the_earlier_one(run: Path, tmp_path: Path) -> None:
    list(collect(run, [sheet(tmp_path, "x.csv", THREE)]))
    before = content(run)
    cut = tmp_path / "cut.jsonl"
    cut.write_text('{"task_id": "a", "answer": "accept"}\n{"task_id": "b", "ans')
    with pytest.raises(JobError, match=r"cut.jsonl:2: no whole JSON object"):
        list(collect(run, [tmp_path / "x.csv", cut]))
    assert content(run) == before


def test_a_run_that_another_process_writes_is_left_alone(run: Path, tmp_path: Path) -> None:
    file = sheet(tmp_path, "votes.csv", THREE)
    with claimed(run), pytest.raises(JobError, match="another process is writing here"):
        list(collect(run, [file]))
    assert not (run / "collected").exists()
    list(collect(run, [file]))
    assert labels(run)


def test_work_that_somebody_has_done_is_never_replaced(run: Path, tmp_path: Path) -> None:
    first = sheet(tmp_path, "x.csv", THREE)
    list(collect(run, [first]))
    pack = run / "collected/adjudication.csv"
    with pytest.raises(JobError, match="is in the folder that collect replaces") as e:
        list(collect(run, [first, pack]))
    assert e.value.code == USAGE
    pack.write_text(pack.read_text() + "x")
    with pytest.raises(JobError, match=r"adjudication.csv was edited after collect wrote it") as e:
        list(collect(run, [first]))
    assert e.value.code == OUTPUT_EXISTS

    pack.rename(tmp_path / "moved.csv")
    list(collect(run, [first]))
    (run / "collected/agreement.json").unlink()
    with pytest.raises(JobError, match="was not written by collect"):
        list(collect(run, [first]))


def test_files_that_name_no_annotator_stand_for_one_each(run: Path, tmp_path: Path) -> None:
    rows = [("a", "1", ""), ("b", "1", "")], [("a", "0", ""), ("b", "1", "")]
    by = [sheet(tmp_path, f"tasks.{name}.csv", each) for name, each in zip(("anna", "bo"), rows, strict=True)]
    list(collect(run, by))
    assert figures(run)["annotators"].keys() == {"tasks.anna", "tasks.bo"} and not rejects(run)
    folders = []
    for name, each in zip(("anna", "bo"), rows, strict=True):
        (tmp_path / name).mkdir()
        folders.append(sheet(tmp_path / name, "tasks-00001.csv", each))

    with pytest.raises(
        JobError, match=r"both would stand for one, 'tasks-00001'; call each by its annotator"
    ) as e:
        list(collect(run, folders))

    assert e.value.code == BAD_DATA and figures(run)["annotators"].keys() == {"tasks.anna", "tasks.bo"}
    named = [sheet(file.parent, "anna.csv", [("a", "1", "anna")]) for file in folders]  # in two rounds
    assert list(collect(run, named)) and figures(run)["annotators"].keys() == {"anna"}


def test_what_cannot_be_collected_is_refused(run: Path, tmp_path: Path) -> None:
    blank = sheet(tmp_path, "blank.csv", [("zz", "", "bo"), ("yy", "", "bo")])
    with pytest.raises(
        JobError, match=r"blank\.csv: no label is filled in, in 2 records; judge them, then collect"
    ):
        list(collect(run, [blank]))

    strangers = sheet(tmp_path, "x.csv", [("zz", "1", "bo"), ("yy", "1", "bo")])
    with pytest.raises(
        JobError,
        match=r"none of 2 annotations is a label of a task in .*: 2 unknown_task; the first, .*x\.csv, "
        r"record 2, unknown_task by bo: task 'zz': not in tasks/",
    ) as e:
        list(collect(run, [strangers]))

    assert e.value.code == BAD_DATA
    with pytest.raises(JobError, match=r"run `answermill annotate JOB.toml --out .*` first") as e:
        list(collect(tmp_path / "other", [strangers]))
    assert e.value.code == INPUT_MISSING
    with pytest.raises(JobError, match="give at least one export") as e:
        list(collect(run, []))
    assert e.value.code == USAGE
    with pytest.raises(JobError, match="--min-votes 0"):
        ResolutionRules(min_votes=0)


def test_the_command_tells_what_was_made_of_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        str(sheet(tmp_path, f"{who}.csv", [row for row in THREE if row[2] == who]))
        for who in ("anna", "bo", "cy")
    ]
    with pytest.raises(SystemExit) as e:
        main(["collect", str(run), *files, "--resolve", "weighted", "--min-votes", "2"])
    out = capsys.readouterr().out
    assert e.value.code == 0

    for line in (
        "3 exports: 14 annotations = 14 used + 0 rejects; 0 records unanswered",
        "top: 2 labels, 2 correct (100.0%)",
        "Krippendorff's alpha",
        "anna           5    80.0%          20.0%       2/2",
        "100.0% (34.2% to 100.0%)    1.10",
        "anna and bo: ",
    ):
        assert line in out, line

    with pytest.raises(SystemExit) as e:
        main(["collect", str(run), *files, "--resolve", "loudest"])
    assert e.value.code != 0


def test_columns_are_those_of_any_of_the_tables(tmp_path: Path) -> None:
    run = run_of(tmp_path, TASKS)
    usual = sheet(tmp_path, "ben.csv", [("a", "wrong", "ben")])
    nameless = tmp_path / "cy.csv"
    nameless.write_text("task_id,label\nb,wrong\n")
    renamed = tmp_path / "anna.csv"
    renamed.write_text("Aufgabe;Urteil;Wer\na;correct;anna\n")
    names = ["task_id=Aufgabe", "label=Urteil", "annotator=Wer"]
    list(collect(run, [usual, nameless, renamed], columns=Columns.of(names)))
    rows = {(row.task_id, row.annotator, row.label) for row in ANNOTATIONS.open(run).read()}
    assert rows == {("a", "ben", 0), ("b", "cy", 0), ("a", "anna", 1)}

    with pytest.raises(JobError, match="--columns annotator=Wer: no CSV among the exports has that") as e:
        list(collect(run, [usual, nameless], columns=Columns.of(names[2:])))
    assert e.value.code == BAD_DATA and "ben.csv has task_id, text_hash, label, annotator" in str(e.value)
