"""`answermill explain`: what became of a question's candidates and of its right answers."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.files.remote import Remote
from answermill.files.store import put, remove_tree
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from answermill.pipelines.look.explain.explain import Explanation, explain
from answermill.pipelines.runs.manifests.manifest import MANIFEST, read_manifest
from answermill.pipelines.runs.manifests.reports import Report, Reports
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.rerank import SCORED, RerankCounts
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVE, RETRIEVED, RetrieveCounts
from answermill.schemas.corpus import Question, Rejected
from answermill.schemas.ranked import ScoredCandidate
from testing.object_store import ObjectStore
from tests.pipelines.look.report.written_run import commit, passage, write_run


def questions_of(run: Path) -> list[Question]:
    return list(QUESTIONS.open(run).read())


def scored(run: Path) -> list[ScoredCandidate]:
    return list(SCORED.open(run).read())


@pytest.fixture
def copy(small_run: Path, tmp_path: Path) -> Path:
    """A run to damage."""
    shutil.copytree(small_run, tmp_path / "run")
    return tmp_path / "run"


def text_of(explanation: Explanation, first: int = 10, every: bool = False) -> str:
    return "\n".join(explanation.lines(first, every))


def test_every_candidate_of_a_question_is_in_the_table_once(small_run: Path) -> None:
    asked = questions_of(small_run)[3]
    explanation = explain(small_run, asked.question_id, gold="colourless green ideas")
    rows = [row for row in scored(small_run) if row.question_id == asked.question_id]
    assert list(explanation.candidates.rows) == rows and len(rows) > 100
    shown = text_of(explanation, every=True).splitlines()
    assert sum(any(line.startswith(f"       {row.candidate_id} ") for row in rows) for line in shown) == len(
        rows
    )
    assert "more: --all shows them" not in text_of(explanation, every=True)
    assert f"{len(rows) - 10:,} candidates more: --all shows them" in text_of(explanation)


def test_a_stage_lets_in_what_stayed_in_the_stage_before_and_keeps_what_it_does_not_drop(
    small_run: Path,
) -> None:
    kinds = set()
    for asked in questions_of(small_run)[::6]:
        views = {view.name: view for view in explain(small_run, asked.question_id).views}
        assert list(views) == [
            "cosinet",
            "complete_sentence",
            "cascade",
            "peasi.pr",
            "peasi.easi",
            "similarity",
        ]

        assert views["cosinet"].kept == views["complete_sentence"].entered == 25
        assert views["complete_sentence"].kept == views["cascade"].entered
        assert views["peasi.pr"].kept == views["peasi.easi"].entered <= 5
        assert views["similarity"].kept == views["similarity"].entered <= views["peasi.easi"].kept
        kinds.add((views["cascade"].kind, views["peasi.pr"].kind))

    assert kinds == {("sentence", "passage")}


def test_what_a_dropped_answer_lacked_is_the_distance_to_the_last_one_kept(sample_run: Path) -> None:
    """By `first`, which keeps 60 of the sentences, and whose scores no later stage of the plan takes from
    another sentence."""
    every, checked = scored(sample_run), 0
    for row in [row for row in every if row.dropped_by == "first" and row.stages[-1].rank in (61, 75)][:8]:
        losses = explain(sample_run, row.question_id, gold=row.text).losses
        loss = next(loss for loss in losses if loss.candidate_id == row.candidate_id)
        rows = [each for each in every if each.question_id == row.question_id]
        (last,) = [
            each.stages[2].score for each in rows if len(each.stages) > 2 and each.stages[2].rank == 60
        ]
        assert (loss.where, loss.stage, loss.place, loss.kept) == (
            "dropped",
            "first",
            row.stages[-1].rank,
            60,
        )

        assert loss.needed == last - row.stages[-1].score >= 0
        assert f"at place {loss.place} of {loss.entered}, of which it kept 60" in loss.explanation
        checked += 1

    assert checked == 8


def test_an_answer_that_left_within_a_stage_is_said_to_have_left_at_its_exit(small_run: Path) -> None:
    row = next(
        row for row in scored(small_run) if row.dropped_by == "cascade" and row.stages[-1].rank is None
    )
    losses = explain(small_run, row.question_id, gold=row.text).losses
    loss = next(loss for loss in losses if loss.candidate_id == row.candidate_id)
    assert loss.needed is None and loss.score == row.stages[-1].score and loss.stage == "cascade"
    assert f"it left at exit {row.stages[-1].exit} with the score" in loss.explanation
    assert loss.place is not None and loss.kept is not None and loss.place > loss.kept


def test_labels_say_what_is_right_and_the_best_comes_first(sample_run: Path) -> None:
    answer = json.loads((sample_run / "answers.jsonl").read_text(encoding="utf-8").splitlines()[21])
    explanation = explain(sample_run, answer["question_id"])
    assert explanation.gold.source == "labels" and explanation.losses[0].rank == 1
    assert (
        explanation.losses[0].text == answer["answer"] and "the answer" in explanation.losses[0].explanation
    )
    shown = text_of(explanation, first=0)
    assert f"right  {answer['answer']}" in shown  # a right candidate is shown, however few are asked for


def test_an_answer_that_no_retrieved_passage_holds_is_looked_for_in_the_corpus(small_run: Path) -> None:
    asked = questions_of(small_run)[0]
    hits = RETRIEVED.open(small_run).where("question_id", {asked.question_id})
    retrieved = {hit.passage.doc_id for hit in hits}
    passages = PASSAGES.open(small_run).read()
    elsewhere = next(passage for passage in passages if passage.doc_id not in retrieved)
    (loss, *_) = explain(small_run, asked.question_id, gold=elsewhere.sentences[0].text.upper()).losses
    assert (loss.where, loss.candidate_id) == ("not_retrieved", elsewhere.passage_id)
    decomposed = unicodedata.normalize("NFD", elsewhere.sentences[0].text)  # as typed on some machines
    assert (
        explain(small_run, asked.question_id, gold=decomposed).losses[0].candidate_id == elsewhere.passage_id
    )

    assert (
        elsewhere.url in loss.explanation and "BM25 returned 20, the last with the score" in loss.explanation
    )
    (loss,) = explain(small_run, asked.question_id, gold="colourless green ideas").losses
    assert loss.where == "not_in_corpus"


def test_an_answer_over_two_sentences_is_no_candidate(small_run: Path) -> None:
    asked = questions_of(small_run)[0]
    hit = next(RETRIEVED.open(small_run).where("question_id", {asked.question_id}))
    loss = explain(small_run, asked.question_id, gold=hit.passage.text).losses[0]
    if any(
        row.candidate_id == hit.passage.passage_id
        for row in scored(small_run)
        if row.question_id == asked.question_id
    ):
        assert loss.stage == "peasi.pr"
    else:
        assert loss.where == "no_candidate" and "no single sentence does" in loss.explanation


def test_what_became_of_a_label_s_sentence_is_what_its_row_says(small_run: Path) -> None:
    rows = {(row.question_id, row.candidate_id): row for row in scored(small_run)}
    compared = 0
    for asked in questions_of(small_run)[::2]:
        for loss in explain(small_run, asked.question_id).losses:
            row = rows.get((asked.question_id, loss.candidate_id))
            if row is None:
                assert loss.where in ("not_retrieved", "no_candidate") or loss.stage in (
                    "peasi.pr",
                    "peasi.easi",
                )
            elif row.fate != "grouped":
                assert (loss.rank, loss.stage) == (row.rank, row.dropped_by)
                compared += 1

    assert compared > 5


def test_a_question_is_named_by_its_text_whatever_its_letter_case(small_run: Path) -> None:
    asked = questions_of(small_run)[5]
    assert explain(small_run, f"  {asked.text.upper()} ").match.question == asked


def test_of_a_question_that_is_not_there_the_nearest_are_named(small_run: Path) -> None:
    asked = questions_of(small_run)[5]
    near = " ".join(asked.text.split()[:-1])
    with pytest.raises(JobError, match=r"no question of .* the nearest: ") as e:
        explain(small_run, near)
    assert e.value.code == INPUT_MISSING and asked.text in str(e.value)
    with pytest.raises(JobError, match=f"the nearest: .*{asked.question_id}"):
        explain(small_run, asked.question_id + "0")


def test_a_run_without_rerank_shows_the_passages_and_says_what_is_missing(copy: Path) -> None:
    for folder in ("scored", "answers", "labels"):
        shutil.rmtree(copy / folder)
    asked = questions_of(copy)[0]
    explanation = explain(copy, asked.question_id)
    assert explanation.missing == [
        "no stage has scored this question: rerank has not run",
        "no labels: propagate has not run",
    ]
    hits = list(explanation.candidates.hits)
    assert len(hits) > 20 and f"       {hits[0].passage.passage_id}  {hits[0].passage.url}" in text_of(
        explanation
    )

    (loss, *_) = explain(copy, asked.question_id, gold=hits[4].passage.sentences[0].text).losses
    assert loss.where == "not_reranked"


def test_of_a_stopped_rerank_the_units_that_are_done_are_read(copy: Path) -> None:
    manifest = read_manifest(copy / "scored")
    assert manifest is not None and len(manifest.parts) == 1
    whole = explain(copy, questions_of(copy)[0].question_id)
    (copy / "scored" / MANIFEST).unlink()
    work = copy / "_work" / "rerank-0123abcd"
    work.mkdir(parents=True)
    asked = questions_of(copy)[0].question_id
    assert "rerank is running or was stopped, with 0 units done" in explain(copy, asked).missing[0]
    Reports(work, RerankCounts, copy).write(Report(0, {"scored": manifest.parts}, RerankCounts()))
    stopped = explain(copy, asked)
    assert stopped.candidates.rows == whole.candidates.rows and not stopped.missing


def test_a_passage_stage_of_an_unfinished_rerank_may_have_any_name(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "Why?", passage("Because."), stages=("reader",), unit="passage")
    (row,) = scored(run)
    shutil.rmtree(run / "scored")
    with PartWriter(run / "scored", ScoredCandidate, 0) as writer:
        writer.write([replace(row, rank=None, fate="dropped", dropped_by="reader")])
    Reports(run / "_work/rerank-0123abcd", RerankCounts, run).write(
        Report(0, {"scored": writer.parts}, RerankCounts())
    )
    (loss,) = explain(run, "q", gold="because").losses
    assert (loss.where, loss.stage, loss.place, loss.entered, loss.kept) == ("dropped", "reader", 1, 1, 0)


@pytest.mark.parametrize("detail", ["Why is the sky blue?", "0.25: Why is the sky blue?"])
def test_of_a_question_that_was_refused_the_reason_is_named(tmp_path: Path, detail: str) -> None:
    asked = [Question("q1", "Why is the sea salty?")]
    refused = [Rejected("questions.jsonl", 2, "q2", "", "low_score", detail)]
    commit(tmp_path, RETRIEVE, {"questions": asked, "questions_rejects": refused}, RetrieveCounts())
    for wanted in ("q2", " why is the SKY blue?"):
        with pytest.raises(JobError, match=r"question q2 was not asked in .*: low_score"):
            explain(tmp_path, wanted)
    for wanted in ("blue?", "the sky blue?", "?"):
        with pytest.raises(JobError, match=f"has the id or the text '{re.escape(wanted)}'"):
            explain(tmp_path, wanted)


def test_a_run_in_an_object_store_is_explained_alike(
    small_run: Path, s3: ObjectStore, tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    folder: Remote = s3.folder("explained")

    for name in (
        "questions",
        "retrieved",
        "scored",
        "labels/sentences",
        "labels/passages",
        "labels/documents",
    ):
        for file in (small_run / name).iterdir():
            shutil.copy(file, tmp_path / "copy")
            put(tmp_path / "copy", folder / name / file.name)

    asked = questions_of(small_run)[2].question_id
    assert text_of(explain(folder, asked)) == text_of(explain(small_run, asked))
    remove_tree(folder)


def test_a_run_of_another_version_is_refused(copy: Path) -> None:
    manifest = copy / "scored" / MANIFEST
    written = json.loads(manifest.read_text(encoding="utf-8"))
    asked = questions_of(copy)[0].question_id
    manifest.write_text(json.dumps({**written, "format": 2}), encoding="utf-8")
    with pytest.raises(JobError, match="format 2, this version reads") as e:
        explain(copy, asked)
    assert e.value.code == BAD_DATA


def test_the_command_prints_lines_or_one_object(small_run: Path, capsys) -> None:
    asked = questions_of(small_run)[0]
    with pytest.raises(SystemExit) as e:
        main(["explain", str(small_run), asked.question_id, "--json", "--first", "2"])
    values = json.loads(capsys.readouterr().out)
    assert e.value.code == 0 and values["question"] == asked.text
    assert [row["place"] for row in values["rows"] if not row["is_gold"]] == [1, 2][: len(values["rows"])]

    assert values["stages"][0] == {
        "stage": "cosinet",
        "reranker": "cosinet",
        "unit": "sentence",
        "in": values["stages"][0]["in"],
        "kept": 25,
        "last_kept_score": values["stages"][0]["last_kept_score"],
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["absent", "q1"], INPUT_MISSING, "no folder absent"),
        (["RUN", "q1", "--gold", " . "], USAGE, "--gold: give some words"),
        (["RUN", "q1", "--first", "-1"], USAGE, "--first -1: give 0 or more"),
    ],
)
def test_wrong_use_is_refused_with_what_to_type(small_run: Path, capsys, arguments, code, message) -> None:
    with pytest.raises(SystemExit) as e:
        main(["explain", *(str(small_run) if each == "RUN" else each for each in arguments)])
    assert e.value.code == code and message in capsys.readouterr().err
