"""BM25's settings are tried on a run's shards, which stay as they are; another is advised only if it is
surely better."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from answermill.__main__ import main
from answermill.indexing.shards.lucene.statistics import Scoring
from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from answermill.pipelines.learn.evaluate.tune_bm25 import (
    Trials,
    TunedBm25,
    numbers,
    right_answers,
    tune_bm25,
    values_of,
)
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.index.index import step_of as index_step
from answermill.pipelines.steps.retrieve.retrieve import step_of as retrieve_step
from answermill.ranking.evaluation.best_of_many import differences


def labels_of(run: Path, folder: Path, rank: int) -> Path:
    """Labels that call right, of each question, a sentence of the passage that BM25 found at this rank."""
    file, asked = folder / "labels.tsv", set[str]()
    with file.open("w", encoding="utf-8") as rows:
        rows.write("question_id\tsentence_id\tsentence\tlabel\n")
        for hit in RETRIEVED.open(run).read():
            if hit.bm25_rank == rank:
                sentence = hit.passage.sentences[0]
                asked.add(hit.question_id)
                rows.write(f"{hit.question_id}\t{sentence.sentence_id}\t\t1\n")
                rows.write(f"{hit.question_id}\t\tNobody has written this.\t0\n")
    assert len(asked) > 10
    return file


@pytest.mark.parametrize("rank", [1, 3])
def test_the_jobs_own_setting_finds_what_retrieve_found(small_run: Path, tmp_path: Path, rank: int) -> None:
    job = load(small_run.parent / "job.toml")
    tuned = tune_bm25(
        job, small_run, labels_of(small_run, tmp_path, rank), Trials((2.0,), (0.9,), (0.0, 3.0))
    )
    assert tuned.settings == [Scoring(), Scoring(2.0, 0.9), Scoring(2.0, 0.9, 3.0)]
    assert tuned.ranks[0].max() == rank  # a passage that overlaps may hold the sentence before it
    assert (tuned.ranks[0] == rank).mean() > 0.8
    assert (tuned.ranks[1] != rank).any() and (tuned.ranks[2] != tuned.ranks[1]).any()


def test_another_k1_asks_again_and_builds_nothing(small_run: Path) -> None:
    job = load(small_run.parent / "job.toml", ["retrieve.k1=1.5", "retrieve.title_weight=0.5"])
    assert Commit(index_step(job, small_run)).is_complete()
    says = r"settings k1 = 0.9 there, 1.5 here"
    with pytest.raises(JobError, match=says):
        Commit(retrieve_step(job, small_run)).is_complete()


def test_the_command_keeps_the_jobs_setting_where_no_other_is_surely_better(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, labels, out = small_run.parent / "job.toml", labels_of(small_run, tmp_path, 1), tmp_path / "all.json"
    command = ["tune-bm25", job, "--out", small_run, "--labels", labels, "--k1", "0.9,1.2", "--b", "0.4"]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, command), "--json", str(out)])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.endswith("so keep it:\n\n[retrieve]\nk1 = 0.9\nb = 0.4\ntitle_weight = 0\n")
    written = json.loads(out.read_text())
    assert (written["k1"], written["is_better"], len(written["settings"])) == (0.9, False, 2)
    assert written["settings"][0]["MRR"] == 1


def test_the_lines_for_the_job_are_those_of_a_surely_better_setting() -> None:
    ranks = np.array([[3] * 40, [1] * 40, [2] * 40])
    settings = [Scoring(), Scoring(1.2, 0.75), Scoring(1.2, 0.9)]
    tuned = TunedBm25(settings, ranks, 20, "MRR", 0, differences(values_of(ranks, "MRR"), 0))
    lines = list(tuned.lines())
    assert lines[-4:] == ["[retrieve]", "k1 = 1.2", "b = 0.75", "title_weight = 0"]
    assert "surely better than the job's own; for the job file:" in lines


def test_a_text_is_right_in_every_passage_that_holds_it_and_an_id_in_its_own(
    small_run: Path, tmp_path: Path
) -> None:
    passage = next(iter(RETRIEVED.open(small_run).read())).passage
    sentence = passage.sentences[-1]
    file = tmp_path / "labels.jsonl"
    rows = [
        {"question_id": "id", "sentence_id": sentence.sentence_id, "label": 1},
        {"question_id": "text", "sentence": f"  {sentence.text.upper()} ", "label": 1},
        {"question_id": "wrong", "sentence": sentence.text, "label": 0},
        {"question_id": "other", "sentence": sentence.text + " and more", "label": 1},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers = right_answers(file)
    assert {name: answer.are_in(passage) for name, answer in answers.items()} == {
        "id": True,
        "text": True,
        "other": False,
    }


def test_labels_of_other_questions_and_wrong_options_are_refused(small_run: Path, tmp_path: Path) -> None:
    job, labels = load(small_run.parent / "job.toml"), tmp_path / "labels.tsv"
    labels.write_text("question_id\tsentence\tlabel\nnobody\tA sentence.\t1\n")
    (tmp_path / "asked").mkdir()
    asked = labels_of(small_run, tmp_path / "asked", rank=1)
    refusals = [
        (
            BAD_DATA,
            "of which the job asks 0; name their file",
            lambda: tune_bm25(job, small_run, labels, Trials()),
        ),
        (
            USAGE,
            r"--metric recall@101: only the best \d+ passages are searched; name a smaller number, or --set",
            lambda: tune_bm25(job, small_run, asked, Trials(metric="recall@101")),
        ),
        (INPUT_MISSING, "no such file", lambda: right_answers(tmp_path / "none")),
        (USAGE, "--b 1.5: give numbers from 0 to 1", lambda: Trials(b=(1.5,))),
        (USAGE, "--title-weight -1: give numbers of 0 or more", lambda: Trials(title_weight=(-1,))),
        (USAGE, "recall@0: unknown", lambda: Trials(metric="recall@0")),
        (USAGE, "--title-weight much: not numbers", lambda: numbers("title_weight", "much")),
    ]
    for code, says, work in refusals:
        with pytest.raises(JobError, match=says) as refused:
            work()
        assert refused.value.code == code
