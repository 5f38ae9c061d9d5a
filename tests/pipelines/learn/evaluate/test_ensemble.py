"""Ensembles and agreement from a run's stages, and the heads of a student as stages of their own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from answermill.__main__ import main
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.data.convert.as_run import write_candidates
from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, SETTINGS, UNAVAILABLE, USAGE, JobError
from answermill.pipelines.learn.evaluate.ensemble import WeightTuning, agree, tune_ensemble
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.learn.evaluate.scores import read_scores
from answermill.pipelines.learn.train.heads import write_heads
from answermill.pipelines.steps.chain import run_steps
from answermill.ranking.rerankers.multihead.multihead import save, split
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.labels import LabelledCandidate

BY_TENTHS = WeightTuning("MAP", "answerable", 10)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set, a random student of two heads, and the run in which it, its heads and word overlap have
    scored."""
    folder = tmp_path_factory.mktemp("ensemble")
    words = ["apple", "river", "engine", "violin", "glacier", "senate"]
    rows = [
        LabelledCandidate(
            f"q{n}",
            f"Which {words[n]} ?",
            f"c{i}",
            "",
            "",
            i,
            f"The {word} {words[n - i]} .",
            int(i == n % 3),
        )
        for n in range(6)
        for i, word in enumerate(words[:5])
    ]
    pq.write_table(LabelledCandidate.table(rows), folder / "dev.parquet")

    torch.manual_seed(0)
    model = split(LayeredEncoder(Shape(layers=2, width=16, heads=2, inner=32, vocabulary=30_522)), 2, 1)
    for weight in model.parameters():
        weight.data *= 4
    save(folder / "student", model, Tokeniser(find_model(DEFAULT)))
    write_heads(folder / "student", folder / "heads")
    stages = [{"reranker": "multihead", "name": "student", "checkpoint": str(folder / "student")}]
    stages += [
        {"reranker": "multihead", "name": f"h{n}", "checkpoint": str(folder / "heads" / str(n))}
        for n in (1, 2)
    ]

    write_candidates([folder / "dev.parquet"], folder / "run")
    plan = Job.model_validate({"rerank": {"stages": [*stages, {"reranker": "overlap"}]}})
    list(run_steps(plan, folder / "run", ["rerank"], ()))
    return folder


def scores(work: Path, by: str) -> dict[tuple[str, str], float]:
    rows = read_scores(work / "run" / "scored", by)
    ids = zip(rows.question_id.to_pylist(), rows.candidate_id.to_pylist(), strict=True)
    return dict(zip(ids, rows.value.tolist(), strict=True))


def test_the_heads_are_checkpoints_whose_mean_is_the_student(work: Path) -> None:
    student, first, second = (scores(work, name) for name in ("student", "h1", "h2"))
    assert all(
        value == pytest.approx((first[pair] + second[pair]) / 2, abs=2e-6) for pair, value in student.items()
    )
    assert len({round(value, 4) for value in student.values()}) > 10 and first != second
    assert scores(work, "0.5 * h1 + 0.5*h2") == pytest.approx(student, abs=2e-6)


def test_the_tuned_weights_are_what_evaluate_measures(work: Path) -> None:
    tuned = tune_ensemble(work / "run" / "scored", work / "dev.parquet", ["h1", "h2", "overlap"], BY_TENTHS)
    measured = evaluate(
        str(work / "run" / "scored"), work / "dev.parquet", by=tuned.by, metrics=("MAP",)
    ).means["MAP"][0]
    assert (
        tuned.value == pytest.approx(measured)
        and tuned.value >= max(tuned.alone)
        and tuned.value >= tuned.even
    )

    assert len(set(tuned.alone)) > 1
    said = "\n".join(tuned.lines())
    assert (
        "6 questions, MAP in percent; 0 labelled candidates not scored by all" in said
        and f"--by {tuned.by!r}" in said
    )


def test_what_a_stage_has_not_scored_counts_as_not_ranked(work: Path, tmp_path: Path) -> None:
    """As in `evaluate`: else the dev score would be that of the easy half."""
    stages = [{"reranker": "overlap", "name": "all", "keep": 2}, {"reranker": "overlap", "name": "few"}]
    write_candidates([work / "dev.parquet"], tmp_path / "run")
    list(run_steps(Job.model_validate({"rerank": {"stages": stages}}), tmp_path / "run", ["rerank"], ()))
    tuning = WeightTuning("MAP", "answerable", 2)
    tuned = tune_ensemble(tmp_path / "run" / "scored", work / "dev.parquet", ["all", "few"], tuning)
    measured = evaluate(
        str(tmp_path / "run" / "scored"), work / "dev.parquet", by=tuned.by, metrics=("MAP",)
    ).means["MAP"][0]
    assert tuned.missing == 18 and tuned.questions == 6 and tuned.value == pytest.approx(measured)

    few = evaluate(str(tmp_path / "run" / "scored"), work / "dev.parquet", by="few", metrics=("MAP",)).means[
        "MAP"
    ][0]
    assert tuned.alone[1] == pytest.approx(few) and few < tuned.alone[0]


def test_labels_without_an_answer_are_refused(work: Path, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("".join(f"q{n} 0 c{i} 0\n" for n in range(6) for i in range(5)))
    with pytest.raises(JobError, match="protocol answerable keeps no question of") as e:
        tune_ensemble(work / "run" / "scored", tmp_path / "qrels", ["h1", "h2"], BY_TENTHS)
    assert e.value.code == BAD_DATA


def test_two_labels_of_a_candidate_are_refused_and_one_given_twice_is_one(work: Path, tmp_path: Path) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    same.write_text("q0 0 c0 1\nq0 0 c1 0\nq0 0 c0 1\n")
    other.write_text("q0 0 c0 1\nq0 0 c1 0\nq0 0 c0 0\n")
    assert tune_ensemble(work / "run" / "scored", same, ["h1", "h2"], BY_TENTHS).questions == 1
    with pytest.raises(JobError, match="c0 of question q0 has two labels"):
        tune_ensemble(work / "run" / "scored", other, ["h1", "h2"], BY_TENTHS)


def test_the_commands_print_and_write(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, labels = str(work / "run" / "scored"), str(work / "dev.parquet")
    calls = [
        ["ensemble", table, "--labels", labels, "--stages", "h1", "h2", "--json", str(tmp_path / "e.json")],
        [
            *(
                "agreement",
                table,
                "--labels",
                labels,
                "--heads",
                "h1",
                "h2",
                "--teachers",
                "student",
                "overlap",
            ),
            *("--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.svg"), str(tmp_path / "a.png")),
        ],
        ["heads", str(work / "student"), "--out", str(tmp_path / "heads")],
    ]
    for call in calls:
        with pytest.raises(SystemExit) as e:
            main(call)
        assert e.value.code == 0 and capsys.readouterr().out

    assert sum(json.loads((tmp_path / "e.json").read_text())["weights"]) == pytest.approx(1)
    written = json.loads((tmp_path / "a.json").read_text())
    assert len(written["agreement"]) == 2 and all(
        value is None or 0 <= value <= 1 for row in written["agreement"] for value in row
    )
    before = (tmp_path / "a.svg").read_bytes()
    agree(Path(table), Path(labels), ["h1", "h2"], ["student", "overlap"]).write(None, [tmp_path / "a.svg"])
    assert (tmp_path / "a.svg").read_bytes() == before and (tmp_path / "a.png").stat().st_size > 1_000
    assert sorted(path.name for path in (tmp_path / "heads").iterdir()) == ["1", "2"]


@pytest.mark.parametrize(
    ("stages", "trials", "code", "says"),
    [
        (["h1"], 0, USAGE, "give at least two --stages"),
        (["h1", "final"], 0, USAGE, "--stages final is an order and no stage"),
        (["h1", "h1"], 0, USAGE, "named twice"),
        (["h1", "h3"], 0, USAGE, "no stage 'h3'; known: final, position, h1, h2, overlap, student"),
    ],
)
def test_what_cannot_be_combined_is_refused(
    work: Path, stages: list[str], trials: int, code: int, says: str
) -> None:
    with pytest.raises(JobError, match=says) as e:
        tune_ensemble(
            work / "run" / "scored", work / "dev.parquet", stages, replace(BY_TENTHS, trials=trials)
        )
    assert e.value.code == code


@pytest.mark.parametrize(
    ("by", "says"), [("x * h1 + h2", "'x' is no number"), ("h1 + 2 * h1", "named twice")]
)
def test_an_ensemble_that_is_written_wrongly_is_refused(work: Path, by: str, says: str) -> None:
    with pytest.raises(JobError, match=says):
        read_scores(work / "run" / "scored", by)


def test_labels_of_other_questions_are_refused(work: Path, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("other 0 c1 1\n")
    with pytest.raises(JobError, match="has a score of all of h1, h2") as e:
        tune_ensemble(work / "run" / "scored", tmp_path / "qrels", ["h1", "h2"], BY_TENTHS)
    assert e.value.code == BAD_DATA


def test_without_optuna_trials_say_what_to_install(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(JobError, match=r"pip install 'answermill\[ensemble\]'") as e:
        tune_ensemble(
            work / "run" / "scored", work / "dev.parquet", ["h1", "h2"], replace(BY_TENTHS, trials=5)
        )
    assert e.value.code == UNAVAILABLE


def test_trials_of_optuna_find_weights_at_least_as_good_as_even_ones_and_the_same_again(work: Path) -> None:
    arguments = (
        work / "run" / "scored",
        work / "dev.parquet",
        ["h1", "h2", "overlap"],
        replace(BY_TENTHS, trials=15),
    )
    tuned = tune_ensemble(*arguments)
    assert tuned.value >= tuned.even - 1e-9 and tuned == tune_ensemble(*arguments)


@pytest.mark.parametrize(("trials", "total"), [(0, 66), (15, 15)])
def test_the_search_tells_how_many_weights_it_has_tried(
    work: Path, monkeypatch: pytest.MonkeyPatch, trials: int, total: int
) -> None:
    calls = []

    @contextmanager
    def record(label: str, units: int, done: Callable[[], int]) -> Iterator[None]:
        calls.append((label, units, done()))
        yield
        calls.append((label, units, done()))

    monkeypatch.setattr("answermill.pipelines.learn.evaluate.ensemble.progress", record)
    tune_ensemble(
        work / "run" / "scored",
        work / "dev.parquet",
        ["h1", "h2", "overlap"],
        replace(BY_TENTHS, trials=trials),
    )
    assert calls == [("ensemble", total, 0), ("ensemble", total, total)]


def test_heads_of_what_is_no_student_and_a_place_that_is_taken_are_refused(work: Path) -> None:
    with pytest.raises(JobError, match="is no checkpoint of multihead") as e:
        write_heads(work / "run", work / "new")
    assert e.value.code == SETTINGS
    with pytest.raises(JobError, match="has files") as e:
        write_heads(work / "student", work / "heads")
    assert e.value.code == OUTPUT_EXISTS
