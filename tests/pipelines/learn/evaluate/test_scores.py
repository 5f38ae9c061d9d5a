"""The scores of a finished run of the sample job, by the plan's order, by position and by stage."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from answermill.pipelines.learn.evaluate.scores import read_scores
from answermill.pipelines.look.report.scored_blocks import blocks
from answermill.pipelines.specs.rerank import RERANK, SCORED, RerankCounts
from tests.pipelines.look.report.written_run import commit, passage, write_run


def test_a_scored_folder_is_in_the_plans_order_with_the_dropped_ones_after_the_kept(sample_run):
    rows = read_scores(sample_run / "scored")
    ours = np.array(rows.question_id.to_pylist()) == "q05"
    values = rows.value[ours].tolist()
    assert len(values) > 100 and values == sorted(values, reverse=True)
    assert len(set(np.array(rows.candidate_id.to_pylist())[ours])) == len(values)


def test_a_stage_gives_its_own_scores_and_the_position_the_original_order(sample_run):
    cosinet = read_scores(sample_run / "scored", "cosinet")
    assert len(set(cosinet.value.tolist())) > 1_000
    cascade = read_scores(sample_run / "scored", "cascade")
    assert 0 < len(cascade) < len(cosinet) == len(read_scores(sample_run / "scored", "position"))


def test_a_run_in_place_of_its_scores_is_refused_with_the_folder_to_give(sample_run):
    with pytest.raises(JobError, match=r"run is a run; give its folder .*/run/scored") as e:
        read_scores(sample_run)
    assert e.value.code == INPUT_MISSING


@pytest.mark.parametrize(
    "content",
    [
        "q1 Q0 a 1 3.5 t\nq1\tQ0 b\t2 2 t\n",
        "q1\tQ0\ta \t1\t3.5\tmy run\nq1\tQ0\tb\t2\t2\tmy run\n",
        "qid\tdocid\tdocno\trank\tscore\tquery\nq1\t7\ta\t0\t3.5\twho\nq1\t8\tb\t1\t2\twho\n",
        "question_id,sentence_id,score".replace(",", "\t") + "\nq1\ta\t3.5\nq1\tb\t2\n",
    ],
)
def test_runs_are_read_at_any_white_space_and_by_the_names_of_other_tools(tmp_path, content):
    (tmp_path / "run.txt").write_text(content, encoding="utf-8")
    scores = read_scores(tmp_path / "run.txt")
    ids = (scores.question_id.to_pylist(), scores.candidate_id.to_pylist())
    assert (*ids, scores.value.tolist()) == (["q1", "q1"], ["a", "b"], [3.5, 2.0])


def test_json_lines_of_scores_are_read_or_refused_with_their_line(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"qid": 1, "docno": "a", "score": 2.5}\n')
    scores = read_scores(path)
    assert (scores.question_id.to_pylist(), scores.value.tolist()) == (["1"], [2.5])
    for row, says in (
        ('{"qid": 1, "score": 2}', "no column candidate_id; it has qid, score"),
        ('{"qid": 1, "docno": "a", "score": [1]}', r"score \[1\] is no number"),
        ('{"qid": "", "docno": "a", "score": 1}', "no question_id: the cell is empty"),
    ):
        path.write_text(f"{row}\n")
        with pytest.raises(JobError, match=f"run.jsonl:1: {says}") as e:
            read_scores(path)
        assert e.value.code == BAD_DATA


def test_a_sentence_keeps_its_score_where_its_passage_was_read_instead_and_no_passage_stands_among_sentences(
    small_run,
):
    rows = list(SCORED.open(small_run).read())
    sentences = {(row.question_id, row.candidate_id): row for row in rows if row.unit == "sentence"}
    assert len(sentences) < len(rows) and any(row.fate == "grouped" for row in rows)
    for by in ("final", "position", "cosinet", "cascade"):
        scores = read_scores(small_run / "scored", by)
        ids = set(zip(scores.question_id.to_pylist(), scores.candidate_id.to_pylist(), strict=True))
        passed = {
            key
            for key, row in sentences.items()
            if by in {"final", "position", *(s.stage for s in row.stages if s.rank)}
        }
        assert ids == passed


def test_passages_are_no_answers_of_a_question_of_which_no_sentence_was_kept(tmp_path):
    """A threshold may leave a question without an answer; its passages come first among the departed ones
    then."""
    answered = write_run(tmp_path / "run", "Which ?", passage("It is this one"))
    rows = list(SCORED.open(answered).read())
    (kept,) = rows
    dropped = replace(kept, rank=None, fate="dropped", dropped_by="last")
    rows = [replace(dropped, unit="passage", candidate_id="d#0"), dropped]
    commit(tmp_path / "none", RERANK, {"scored": rows}, RerankCounts(), stages=[])
    assert read_scores(tmp_path / "none" / "scored").candidate_id.to_pylist() == [kept.candidate_id]
    (block,) = blocks(SCORED.open(tmp_path / "none"), ("first", "last"))
    assert block.is_answer_kind.tolist() == [False, True]


def test_an_unknown_stage_is_refused_with_the_known_ones(sample_run):
    known = "final, position, cascade, complete_sentence, cosinet, first, last, similarity"
    with pytest.raises(JobError, match=f"no stage 'overlap'; known: {re.escape(known)}") as e:
        read_scores(sample_run / "scored", "overlap")
    assert e.value.code == USAGE
    with pytest.raises(JobError, match=r"no stage 'overlap', 'wo'; known: .* or a sum such as"):
        read_scores(sample_run / "scored", "1 * first + 0.3 * overlap + 2 * wo")


def test_a_csv_and_a_table_with_tabs_give_the_ids_as_they_are_written(tmp_path):
    rows = [(" x ", "d1", 0.5), ("a,b", "007", 2.0), ("e\u0301", "\u00e9", -1.0)]
    (tmp_path / "s.csv").write_text(
        "qid;docno;score\n" + "".join(f"{q};{c};{value}\n" for q, c, value in rows), encoding="utf-8"
    )
    (tmp_path / "s.tsv").write_text(
        "qid\tdocno\tscore\n" + "".join(f"{q}\t{c}\t{value}\n" for q, c, value in rows), encoding="utf-8"
    )
    for name in ("s.csv", "s.tsv"):
        read = read_scores(tmp_path / name)
        ids = zip(
            read.question_id.to_pylist(), read.candidate_id.to_pylist(), read.value.tolist(), strict=True
        )
        assert list(ids) == rows
    (tmp_path / "n.csv").write_text("q1,d1,0.5\n")
    with pytest.raises(JobError, match=r"n.csv:1: no header line; write one first, such as question_id"):
        read_scores(tmp_path / "n.csv")
