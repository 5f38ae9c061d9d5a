"""What changed between two runs: the questions whose first answer is another, each with both answers, and
what explains it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from answermill.pipelines.look.report.two_runs import read_comparison, write_comparison
from answermill.pipelines.specs.ingest import INGEST, IngestCounts
from tests.pipelines.look.report.written_run import commit, passage, write_run


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return write_run(tmp_path / "a", "Why?", passage("Because."))


@pytest.fixture
def b(tmp_path: Path) -> Path:
    return write_run(
        tmp_path / "b",
        "Why?",
        passage("Since <b>so</b>.", url="javascript:alert(1)"),
        stages=("first", "new"),
    )


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """By which A's sentence, whose id has its start, is correct, and so is another that no run has."""
    (tmp_path / "labels.qrels").write_text("q 0 d@7 1\nq 0 d@99 1\n")
    return tmp_path / "labels.qrels"


def test_a_changed_answer_has_both_sides_and_the_settings_that_differ(a: Path, b: Path) -> None:
    compared = read_comparison(a, b)
    assert (compared.questions, compared.unchanged, compared.changed) == (
        1,
        0,
        {"lost": 0, "gained": 0, "other": 1},
    )
    (change,) = compared.shown
    assert (change.question, change.a.text, change.b.text) == ("Why?", "Because.", "Since <b>so</b>.")
    assert compared.settings == ("rerank.stages = first, last in A, first, new in B",)

    assert not compared.metrics
    assert {(each.what, each.a, each.b) for each in compared.seconds} == {
        ("first", 1.0, 1.0),
        ("last", 2.0, None),
        ("new", None, 2.0),
    }


def test_inputs_that_differ_are_reported_whichever_they_are(tmp_path: Path) -> None:
    files = {f"pages-{n:02d}.jsonl": "5 bytes" for n in range(30)}
    former = write_run(tmp_path / "a", "Why?", passage("So."), inputs=files)
    added = write_run(tmp_path / "b", "Why?", passage("So."), inputs={"pages-00.a.jsonl": "5 bytes"} | files)
    assert read_comparison(former, added).settings == (
        "ingest: input.pages-00.a.jsonl = absent in A, '5 bytes' in B",
    )
    last = write_run(tmp_path / "c", "Why?", passage("So."), inputs=files | {"pages-29.jsonl": "6 bytes"})
    assert read_comparison(former, last).settings == (
        "ingest: input.pages-29.jsonl = '5 bytes' in A, '6 bytes' in B",
    )

    other = write_run(tmp_path / "d", "Why?", passage("So."), inputs=dict.fromkeys(files, "6 bytes"))
    assert read_comparison(former, other).settings == (
        "ingest: 30 inputs differ, pages-00.jsonl, pages-01.jsonl, pages-02.jsonl and others",
    )


def test_seconds_have_a_price_if_one_is_given(a: Path, b: Path) -> None:
    assert read_comparison(a, b).dollars == ()
    write_comparison(a, b, price_per_hour=3600)
    dollars = json.loads((b / "compared.json").read_text(encoding="utf-8"))["dollars"]
    assert {(each["what"], each["a"], each["b"]) for each in dollars} == {
        ("first", 1.0, 1.0),
        ("last", 2.0, None),
        ("new", None, 2.0),
    }
    assert "$ 2.00" in (b / "compared.html").read_text(encoding="utf-8")


def test_a_comparison_reads_no_passage(a: Path, b: Path) -> None:
    for part in (b / "retrieved").glob("part-*"):
        part.write_bytes(bytes(part.stat().st_size))
    assert len(read_comparison(a, b).shown) == 1


def test_a_run_and_itself_differ_in_nothing(small_run: Path) -> None:
    compared = read_comparison(small_run, small_run)
    assert compared.questions == compared.unchanged == 15 and not compared.shown and not compared.settings
    assert compared.metrics["P@1"].difference == 0 and compared.metrics["MRR"].ties == compared.labelled > 10
    assert all(each.a == each.b for each in (*compared.counts, *compared.seconds))


def test_with_labels_a_change_is_lost_or_gained(a: Path, b: Path, labels: Path, tmp_path: Path) -> None:
    page = passage("So.")
    elsewhere = replace(page, sentences=(replace(page.sentences[0], sentence_id="d@8"),))
    other = write_run(tmp_path / "other", "Why?", elsewhere)
    lost = read_comparison(a, other, labels)
    assert lost.changed == {"lost": 1, "gained": 0, "other": 0} and lost.metrics["P@1"].difference == -1.0
    gained = read_comparison(other, a, labels)
    assert gained.changed["gained"] == 1 and gained.shown[0].kind == "gained" and gained.labelled == 1
    assert read_comparison(a, b, labels).changed["other"] == 1  # both answers have the id that is labelled


def test_two_runs_without_a_common_question_are_refused(a: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", "Where?", passage("Here."))
    with pytest.raises(JobError, match="no question in common") as e:
        write_comparison(a, other)
    assert e.value.code == BAD_DATA


def test_no_more_are_shown_than_asked_for(a: Path, b: Path) -> None:
    compared = read_comparison(a, b, show=0)
    assert compared.shown == () and compared.changed["other"] == 1
    with pytest.raises(JobError, match="--show -1") as e:
        read_comparison(a, b, show=-1)
    assert e.value.code == USAGE


def test_a_run_without_answers_is_refused(a: Path, b: Path) -> None:
    (b / "answers/_manifest.json").unlink()
    with pytest.raises(JobError, match=r"rerank JOB\.toml") as e:
        write_comparison(a, b)
    assert e.value.code == INPUT_MISSING


def test_two_runs_without_answers_are_compared_as_far_as_they_are(tmp_path: Path) -> None:
    runs = []
    for name, pages in (("a", 2), ("b", 3)):
        counts = IngestCounts(pages=pages, documents=pages)
        commit(tmp_path / name, INGEST, {"passages": [passage("So.")]}, counts, min_words=pages)
        runs.append(tmp_path / name)
    compared = read_comparison(*runs)
    assert not compared.has_answers and compared.questions == 0
    assert compared.settings == ("ingest.min_words = 2 in A, 3 in B",)
    assert {pair.what: (pair.a, pair.b) for pair in compared.counts}["pages"] == (2, 3)
    assert write_comparison(*runs).startswith("report     neither run has answers yet")
    page = (tmp_path / "b/compared.html").read_text(encoding="utf-8")
    assert "Neither run has answers yet." in page and "questions of both" not in page
    assert page.index('id="counts"') < page.index('id="settings"')


def test_the_command_writes_the_page_into_the_second_run_and_escapes_it(a: Path, b: Path, capsys) -> None:
    with pytest.raises(SystemExit) as e:
        main(["report", str(a), str(b)])
    assert e.value.code == 0
    assert capsys.readouterr().out == f"report     1 question, 1 first answers changed; {b}/compared.html\n"
    page = (b / "compared.html").read_text(encoding="utf-8")
    assert "Since &lt;b&gt;so&lt;/b&gt;." in page and "<script" not in page and 'href="javascript' not in page
    assert json.loads((b / "compared.json").read_text(encoding="utf-8"))["changed"]["other"] == 1
