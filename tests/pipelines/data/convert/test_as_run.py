"""A labelled data set as a run, scored by a plan as a crawl is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.data.convert import as_run
from answermill.pipelines.data.convert.as_run import write_candidates
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, JobError
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.rerank import rerank
from answermill.schemas.labels import LabelledCandidate


def dataset(folder: Path, name: str = "set.parquet", questions: int = 3, first: int = 0) -> Path:
    rows = [
        LabelledCandidate(
            f"q{n}",
            f"Who sang song {n}?",
            f"c{i}",
            f"d{i // 2}",
            "A page",
            i,
            f"{'Ann' * (i == 2)} sang {i}.",
            int(i == 2),
        )
        for n in range(first, first + questions)
        for i in range(5)
    ]
    pq.write_table(LabelledCandidate.table(rows), folder / name)

    return folder / name


def test_a_plan_scores_a_data_set_under_its_own_ids_and_in_its_order(tmp_path: Path) -> None:
    data_set = dataset(tmp_path, questions=as_run.QUESTIONS_OF_PART + 2)
    summary = write_candidates([data_set], tmp_path / "run")
    assert summary.startswith(
        f"candidates set.parquet: {as_run.QUESTIONS_OF_PART + 2} questions, "
        f"{5 * (as_run.QUESTIONS_OF_PART + 2):,} candidates"
    )
    asked = QUESTIONS.open(tmp_path / "run").read()
    assert [row.question_id for row in asked] == [f"q{n}" for n in range(as_run.QUESTIONS_OF_PART + 2)]
    job = Job.model_validate({"rerank": {"stages": [{"reranker": "overlap", "name": "words"}]}})
    lines = list(run_steps(job, tmp_path / "run", ["rerank"], ()))
    assert f"{as_run.QUESTIONS_OF_PART + 2} questions" in lines[0]

    rows = list(SCORED.open(tmp_path / "run").read())
    assert (
        len({(row.question_id, row.candidate_id) for row in rows})
        == len(rows)
        == 5 * (as_run.QUESTIONS_OF_PART + 2)
    )
    assert {row.candidate_id: row.position for row in rows} == {f"c{i}": i for i in range(5)}
    assert all(row.text.endswith(f" sang {row.position}.") and row.stages[0].stage == "words" for row in rows)
    by_run = evaluate(str(tmp_path / "run" / "scored"), data_set, metrics=("MAP",)).means
    assert by_run == evaluate("overlap", data_set, metrics=("MAP",)).means
    assert rerank.summary(tmp_path / "run")


def test_what_is_complete_is_not_written_again_and_another_s_place_not_taken(tmp_path: Path) -> None:
    data_set, other = dataset(tmp_path), dataset(tmp_path, "other.parquet", first=10)
    write_candidates([data_set], tmp_path / "run")
    assert write_candidates([data_set], tmp_path / "run").endswith("(complete)")
    with pytest.raises(JobError, match="holds the output of another job") as e:
        write_candidates([data_set, other], tmp_path / "run")
    assert e.value.code == OUTPUT_EXISTS
    assert "6 questions, 30 candidates" in write_candidates([data_set, other], tmp_path / "both")


def test_a_run_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    data_set = dataset(tmp_path)
    with claimed(tmp_path / "run"), pytest.raises(JobError, match="another process is writing here"):
        write_candidates([data_set], tmp_path / "run")
    assert "3 questions" in write_candidates([data_set], tmp_path / "run")


def test_of_two_data_sets_of_one_name_a_change_of_either_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    data_sets = [dataset(tmp_path / "a"), dataset(tmp_path, first=10)]
    write_candidates(data_sets, tmp_path / "run")
    dataset(tmp_path / "a", questions=4)
    with pytest.raises(JobError, match="holds the output of another job"):
        write_candidates(data_sets, tmp_path / "run")


def test_a_question_id_of_two_data_sets_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    data_set, same = dataset(tmp_path), dataset(tmp_path, "same.parquet")
    with pytest.raises(JobError, match=r"same.parquet: question id 'q0' is in .*set.parquet already") as e:
        write_candidates([data_set, same], tmp_path / "run")
    assert e.value.code == BAD_DATA
    with pytest.raises(JobError, match=r"absent.tsv: no such file") as e:
        write_candidates([tmp_path / "absent.tsv"], tmp_path / "run")
    assert e.value.code == INPUT_MISSING


def test_what_the_messages_of_damaged_candidates_advise_is_enough(tmp_path: Path) -> None:
    file, run = dataset(tmp_path), tmp_path / "run"
    write_candidates([file], run)
    (part,) = (run / "retrieved").glob("part-*")
    before = part.read_bytes()
    part.write_bytes(before[:-9] + bytes([before[-9] ^ 1]) + before[-8:])
    with pytest.raises(JobError, match=f"SHA-256.; `answermill candidates FILE --out {run}` makes it again"):
        list(RETRIEVED.open(run).read())
    assert "(complete)" not in write_candidates([file], run)
    assert part.read_bytes() == before and "(complete)" in write_candidates([file], run)

    other = dataset(tmp_path, "other.parquet", questions=2)
    with pytest.raises(JobError) as e:
        write_candidates([other], run)
    assert (
        f"delete {run}/documents, {run}/questions and {run}/retrieved, then `answermill candidates FILE"
        in str(e.value)
    )
    for name in ("documents", "questions", "retrieved"):
        shutil.rmtree(run / name)

    assert "2 questions" in write_candidates([other], run)
