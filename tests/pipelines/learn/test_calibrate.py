"""From a run and its labels to answers with probabilities, and to none below a bar."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import JobError
from answermill.pipelines.specs.rerank import ANSWERS, RERANK, SCORED
from answermill.pipelines.steps.rerank.rerank import check
from answermill.ranking.rerankers.probability.calibration_file import CalibrationFile
from testing.command import call

PLAN = '[[rerank.stages]]\nreranker = "overlap"\nkeep = 12\n'
PROBABILITY = '[[rerank.stages]]\nreranker = "probability"\ncalibration_file = "calibration.json"\n'


def reranked(small_run: Path, folder: Path, plan: str) -> Path:
    """A run in the folder whose retrieved/ is the small run's, by this plan."""
    run = folder / "run"
    for name in ("questions", "retrieved"):
        shutil.copytree(small_run / name, run / name)
    (folder / "job.toml").write_text(plan)
    assert call("rerank", folder / "job.toml", "--out", run) == 0
    return run


def write_labels(run: Path, file: Path, unanswerable: bool = True) -> Path:
    """Labels by which the first answer is right where it holds more of the question's words than half of the
    first answers; of other questions none is right, or without `unanswerable` the second."""
    rows = ["question_id\tcandidate_id\tlabel"]
    scored = list(SCORED.open(run).read())
    middle = median(row.stages[-1].score for row in scored if row.rank == 1)
    for row in scored:
        if row.rank == 1:
            is_right = row.stages[-1].score > middle
            rows.append(f"{row.question_id}\t{row.candidate_id}\t{int(is_right)}")
        elif row.rank == 2:
            rows.append(f"{row.question_id}\t{row.candidate_id}\t{int(not is_right and not unanswerable)}")
    file.write_text("\n".join(rows) + "\n")
    return file


@pytest.fixture(scope="module")
def calibrated(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of PLAN, labels of it, and its calibration."""
    folder = tmp_path_factory.mktemp("calibrated")
    run = reranked(small_run, folder, PLAN)
    labels = write_labels(run, folder / "labels.tsv")
    out = folder / "calibration.json"
    plot = folder / "reliability.svg"
    assert call("calibrate", run / "scored", "--labels", labels, "--out", out, "--plot", plot) == 0
    return folder


@pytest.fixture(scope="module")
def with_bar(calibrated: Path, small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run by the calibrated plan, with a bar that some answers reach."""
    folder = tmp_path_factory.mktemp("with_bar")
    shutil.copy(calibrated / "calibration.json", folder)
    return reranked(small_run, folder, PLAN + PROBABILITY + "[rerank.answers]\nmin_probability = 0.5\n")


def test_calibrate_says_what_it_fitted_and_draws_it(calibrated: Path, capsys) -> None:
    out = calibrated / "again.json"
    arguments = (calibrated / "run/scored", "--labels", calibrated / "labels.tsv", "--out", out)
    assert call("calibrate", *arguments) == 0
    assert out.read_bytes() == (calibrated / "calibration.json").read_bytes()
    says = capsys.readouterr().out
    content = CalibrationFile.read(out)
    assert f"{content.questions} labelled questions, {content.without_answer} of them without" in says
    assert "calibration error" in says and "max_wrong = 0.1: " in says
    assert [stage.key for stage in content.plan] == ["overlap"] and content.labels == "labels.tsv"
    assert content.plan[0].settings["keep"] == 12
    assert "<svg" in (calibrated / "reliability.svg").read_text()


def test_every_candidate_gets_a_probability_and_keeps_its_rank(calibrated: Path, with_bar: Path) -> None:
    before = {(row.question_id, row.candidate_id): row.rank for row in SCORED.open(calibrated / "run").read()}
    after = {(row.question_id, row.candidate_id): row for row in SCORED.open(with_bar).read()}
    assert {key: row.rank for key, row in after.items()} == before
    kept = [row for row in after.values() if row.rank is not None]
    assert all(row.stages[-1].stage == "probability" and 0 <= row.stages[-1].score <= 1 for row in kept)


def test_below_the_bar_the_answer_is_none_with_the_best_candidate_beside(with_bar: Path) -> None:
    first = {row.question_id: row for row in SCORED.open(with_bar).read() if row.rank == 1}
    answers = list(ANSWERS.open(with_bar).read())
    lines = [json.loads(line) for line in (with_bar / "answers.jsonl").read_text().splitlines()]
    answered = [answer for answer in answers if answer.answer is not None]
    declined = [answer for answer in answers if answer.declined is not None]
    assert answered and declined

    for answer, line in zip(answers, lines, strict=True):
        if answer.candidate_id is None:
            continue
        best = first[answer.question_id]
        assert answer.probability == best.stages[-1].score == line["probability"]
        assert (answer.answer, answer.declined)[answer.probability < 0.5] == best.text
        assert (answer.answer is None) != (answer.declined is None)
        assert (answer.candidate_id, line["url"]) == (best.candidate_id, best.url)
        assert line["answer"] == answer.answer and line.get("declined") == answer.declined

    counts = RERANK.counts_of(SCORED.open(with_bar).manifest)
    assert (counts.answered, counts.declined) == (len(answered), len(declined))


def test_evaluate_counts_right_wrong_and_declined(calibrated: Path, with_bar: Path, capsys, tmp_path) -> None:
    scored, labels = with_bar / "scored", calibrated / "labels.tsv"
    assert call("evaluate", scored, "--labels", labels, "--json", tmp_path / "f.json") == 0
    flat = json.loads((tmp_path / "f.json").read_text())
    right = {tuple(line.split("\t")[:2]) for line in labels.read_text().splitlines() if line.endswith("\t1")}
    answers = [answer for answer in ANSWERS.open(with_bar).read() if answer.candidate_id is not None]
    first = [(answer.question_id, answer.candidate_id) for answer in answers if answer.answer is not None]
    right_ones = sum(key in right for key in first)
    assert (flat["answers_right"], flat["answers_wrong"]) == (right_ones, len(first) - right_ones)
    assert flat["answers_declined"] == len(answers) - len(first)
    assert flat["answers_declined_unanswerable"] <= flat["answers_unanswerable"] == len(answers) - len(right)
    says = capsys.readouterr().out
    assert f"answers of probability 0.5 or more: {right_ones} right" in says
    assert call("evaluate", calibrated / "run/scored", "--labels", labels) == 0
    assert "declined" not in capsys.readouterr().out


def test_report_says_how_many_are_declined(with_bar: Path) -> None:
    assert call("report", with_bar) == 0
    counts = RERANK.counts_of(SCORED.open(with_bar).manifest)
    page = " ".join((with_bar / "report.html").read_text().split())
    assert f"since the best candidate is below the bar: {counts.declined}." in page


def refused(folder: Path, text: str) -> str:
    (folder / "refused.toml").write_text(text)
    with pytest.raises(JobError) as e:
        check(load(folder / "refused.toml"), folder / "run")
    assert e.value.code == 78
    return str(e.value)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ("max_wrong = 0.001", "max_wrong = 0.001: no bar can promise that at most 0.1 % of the answers are"),
        ("max_wrong = 0.0", "Input should be greater than 0"),
        ("min_probability = 1.5", "Input should be less than or equal to 1"),
        ("max_wrong = 0.1\nmin_probability = 0.5", "give one of min_probability and max_wrong"),
        ("confidence = 0.4", "confidence is that of the promise of max_wrong; give both, or neither"),
    ],
)
def test_a_bar_that_cannot_be_is_refused(calibrated: Path, answers: str, says: str) -> None:
    assert says in refused(calibrated, PLAN + PROBABILITY + f"[rerank.answers]\n{answers}\n")


def test_a_bar_without_probabilities_and_a_changed_plan_are_refused(calibrated: Path) -> None:
    says = refused(calibrated, PLAN + "[rerank.answers]\nmin_probability = 0.5\n")
    assert 'end the plan with reranker = "probability"' in says
    says = refused(calibrated, PLAN.replace("12", "11") + PROBABILITY)
    assert "calibration.json is of another plan: overlap had keep = 12, and has 11" in says


def test_labels_without_unanswerable_questions_promise_nothing(calibrated: Path, tmp_path, capsys) -> None:
    run = calibrated / "run"
    labels = write_labels(run, tmp_path / "labels.tsv", unanswerable=False)
    out = tmp_path / "calibration.json"
    assert call("calibrate", run / "scored", "--labels", labels, "--out", out) == 0
    assert "no promise can be given: the labels have no question without an answer" in capsys.readouterr().out
    says = refused(tmp_path, PLAN + PROBABILITY + "[rerank.answers]\nmax_wrong = 0.3\n")
    assert "has an answer, so nothing can be promised where some have none" in says


def test_a_promise_is_in_the_manifest_with_its_labels(calibrated: Path, small_run: Path, tmp_path) -> None:
    shutil.copy(calibrated / "calibration.json", tmp_path)
    run = reranked(small_run, tmp_path, PLAN + PROBABILITY + "[rerank.answers]\nmax_wrong = 0.7\n")
    rule = SCORED.open(run).manifest.settings["answer_rule"]
    bar = CalibrationFile.read(tmp_path / "calibration.json").bar(0.7)
    assert rule["bar"] == bar.probability
    assert rule["promise"] == f"{bar.statement()}, on labels.tsv"


@pytest.mark.parametrize("missing", [(), ("scored",)])
def test_too_few_labels_and_a_missing_run_are_refused(
    calibrated: Path, tmp_path: Path, capsys, missing: Sequence[str]
) -> None:
    labels = tmp_path / "labels.tsv"
    labels.write_text("\n".join((calibrated / "labels.tsv").read_text().splitlines()[:5]) + "\n")
    scored = tmp_path / "none" if missing else calibrated / "run/scored"
    arguments = ("calibrate", scored, "--labels", labels, "--out", tmp_path / "c.json")
    assert call(*arguments) == (66 if missing else 65)
    says = capsys.readouterr().err
    assert ("no such file or folder" if missing else "a calibration needs 10 and more") in says
