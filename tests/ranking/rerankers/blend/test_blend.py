"""`blend` in a job: what it orders by, and what is refused before any step runs."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answermill.files.sealed_json import sealed
from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import JobError
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.steps.job_plan import CheckedPlan, check_stages, load_plan
from answermill.pipelines.steps.models import model_inputs
from answermill.ranking.rerankers.blend.blend import Blend
from answermill.ranking.rerankers.blend.weights import WeightsFile
from answermill.ranking.rerankers.cascade.prior import Prior
from answermill.ranking.rerankers.registry import load_reranker
from testing.command import call
from testing.tiny import checkpoint

OVERLAP = 'reranker = "overlap"\nname = "words"'
RETRIEVE = '[retrieve]\nquestions = "questions.jsonl"\nsources = ["bm25"]\n'


def job_file(folder: Path, *stages: str, more: str = "") -> Path:
    path = folder / "job.toml"
    path.write_text(more + "".join(f"[[rerank.stages]]\n{stage}\n" for stage in stages))
    return path


def blend(weights: str, more: str = "") -> str:
    return f'reranker = "blend"\nweights = {{{weights}}}\n{more}'


def refused(folder: Path, *stages: str, more: str = "", code: int = 78) -> str:
    with pytest.raises(JobError) as e:
        check_stages(load(job_file(folder, *stages, more=more)))
    assert e.value.code == code
    return str(e.value)


def weights_file(folder: Path, stages: dict[str, Any], weights: dict[str, float], **more: Any) -> str:
    """A file as `answermill weights` writes it; returns the line of a stage that names it."""
    figure = {"value": 0.5, "low": 0.4, "high": 0.6}
    fit = {
        "weights": weights,
        "questions": 10,
        "without_answer": 0,
        "candidates": 100,
        "penalty": 0.005,
        "folds": 5,
    }

    fit |= {
        "alone": {"words": {"MRR": figure}},
        "blend": {"MRR": figure},
        "best": "words",
        "gain": {"MRR": figure},
    }
    content = {"format": 1, "stages": stages, "fits": [fit], "revision": "0"} | more
    (folder / "weights.json").write_text(json.dumps(content))

    return 'reranker = "blend"\nweights_file = "weights.json"'


WORDS = {"words": {"reranker": "overlap", "model": None}}


def test_a_run_is_ordered_by_the_weighted_sum_of_what_its_rows_say(small_run, tmp_path) -> None:
    run = tmp_path / "run"
    for name in ("documents", "questions", "retrieved"):
        shutil.copytree(small_run / name, run / name)
    job = job_file(
        tmp_path,
        'reranker = "blend_passages"\nname = "first"\nweights = {bm25 = 1, dense = 0.5, fused = 0.1}\nkeep '
        "= 9",
        OVERLAP + "\nkeep = 12",
        blend("words = 1.0, bm25 = 0.25, log_rank = 0.5, first = 0.125"),
    )
    assert call("rerank", job, "--out", run) == 0

    lists = defaultdict(list)
    for row in SCORED.open(run).read():
        if row.fate == "kept":
            lists[row.question_id].append(row)

    assert len(lists) > 10 and max(map(len, lists.values())) == 12
    for rows in lists.values():
        lowest = min((row.bm25_score for row in rows if row.bm25_score is not None), default=0.0)
        expected = np.zeros(len(rows))
        for weight, values in (
            (1.0, [next(s.score for s in row.stages if s.stage == "words") for row in rows]),
            (0.25, [lowest if row.bm25_score is None else row.bm25_score for row in rows]),
            (0.5, [-np.log(row.retrieved_rank) for row in rows]),
            (0.125, [row.stages[0].score for row in rows]),
        ):
            deviation = np.std(values)
            expected += weight * (np.array(values) - np.mean(values)) / deviation if deviation > 1e-9 else 0.0
        assert [row.stages[-1].stage for row in rows] == ["blend"] * len(rows)
        np.testing.assert_allclose([row.stages[-1].score for row in rows], expected, rtol=0, atol=1e-5)

    assert len({row.stages[-1].score for rows in lists.values() for row in rows}) > 50


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        (
            (OVERLAP, blend("wrods = 1.0")),
            "stages.1: weights: no stage before this one gives the score 'wrods'; known here: words,",
        ),
        (
            (blend("words = 1.0"), OVERLAP),
            "stages.0: weights: no stage before this one gives the score 'words'; known here: bm25",
        ),
        ((OVERLAP, blend("exit = 1.0")), "gives the score 'exit'"),
        (
            (blend("dense = 1.0"),),
            "stages.0: weights: dense: the job does not search this index (retrieve.sources)",
        ),
        ((blend("bm25 = nan"),), "stages.0.weights.bm25: Input should be a finite number"),
        ((blend("bm25 = inf"),), "stages.0.weights.bm25: Input should be a finite number"),
        ((blend(""),), "stages.0.weights: Dictionary should have at least 1 item"),
        ((blend("bm25 = 0.0"),), "stages.0: every weight is 0, which orders nothing"),
        (
            ('reranker = "blend"',),
            "stages.0: blend needs `weights`, such as {cosinet = 1.0, bm25 = 1.0}, or `weights_file`",
        ),
        (
            (blend("bm25 = 1", 'weights_file = "x.json"'),),
            "stages.0: `weights` and `weights_file` are both given",
        ),
        (
            ('reranker = "overlap"\nname = "bm25"', blend("bm25 = 1")),
            "stages.1: a stage before this one is named 'bm25'",
        ),
    ],
)
def test_weights_that_do_not_fit_the_plan_are_refused_with_their_place(tmp_path, stages, says) -> None:
    assert f"{says}" in refused(tmp_path, *stages, more=RETRIEVE)


def test_an_index_that_the_run_s_passages_were_not_searched_in_is_refused(small_run, tmp_path) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_run / "retrieved", run / "retrieved")
    job = load(job_file(tmp_path, blend("dense = 1.0")))
    check_stages(job, run)
    manifest = json.loads((run / "retrieved" / "_manifest.json").read_text())
    del manifest["sha256"]
    manifest["settings"]["sources"] = ["bm25"]
    (run / "retrieved" / "_manifest.json").write_text(sealed(manifest))
    with pytest.raises(JobError, match="dense: the job does not search this index"):
        check_stages(job, run)


def test_weights_of_a_file_are_those_of_a_table(tmp_path) -> None:
    weighed = weights_file(tmp_path, WORDS, {"words": 0.5, "bm25": 1.5})
    plan = load_plan(load(job_file(tmp_path, OVERLAP, weighed)))
    assert vars(plan[1].reranker) == vars(Blend({"bm25": 1.5, "words": 0.5}))
    first = plan[1].reranker
    weights_file(tmp_path, WORDS, {"words": 0.5, "bm25": 2.5})
    # Another content is another reranker.
    assert load_plan(load(tmp_path / "job.toml"))[1].reranker is not first


@pytest.mark.parametrize(
    ("stages", "weights", "more", "says"),
    [
        ({"words": {"reranker": "similarity", "model": None}}, {"words": 1.0}, {}, "words was a stage of "
                                                                                   "similarity, and is"),
        ({}, {"words": 1.0}, {}, "does not say for which stage 'words' its weights were fitted"),
        (WORDS, {"words": 1.0, "lost": 1.0}, {}, "no stage before this one gives the score 'lost'"),
        (WORDS, {}, {}, "is no file of weights: fits.0.weights: Dictionary should have at least 1 item"),
        (WORDS, {"words": float("nan")}, {}, "is no file of weights: fits.0.weights.words: Input should be "
                                             "a finite number"),
        (WORDS, {"words": 1.0}, {"format": 2}, "is no file of weights: format"),
        (WORDS, {"words": 1.0}, {"fits": []}, "is no file of weights: fits: List should have at least 1 item"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_the_plan_is_refused(tmp_path, stages, weights, more, says) -> None:
    error = refused(tmp_path, OVERLAP, weights_file(tmp_path, stages, weights, **more))
    assert error.startswith("rerank.stages.1: ") and "weights.json" in error and says in error


def test_weights_of_another_checkpoint_or_encoder_are_refused(tmp_path) -> None:
    checkpoint("pointwise", tmp_path / "pointwise")
    stages = ('reranker = "similarity"', 'reranker = "pointwise"\ncheckpoint = "pointwise"')
    job = load(job_file(tmp_path, *stages))
    models = CheckedPlan.of(job).model_of_stage
    assert None not in models.values() and len(set(models.values())) == 2
    fitted = {key: {"reranker": key, "model": model} for key, model in models.items()}
    check_stages(
        load(
            job_file(tmp_path, *stages, weights_file(tmp_path, fitted, {"similarity": 1.0, "pointwise": 1.0}))
        )
    )

    for key in models:
        other = fitted | {key: {"reranker": key, "model": "0" * 32}}
        error = refused(
            tmp_path, *stages, weights_file(tmp_path, other, {"similarity": 1.0, "pointwise": 1.0})
        )
        assert (
            f"rerank.stages.2: weights_file {tmp_path}/weights.json was fitted for another plan: {key} had "
            "another model (its checkpoint's or index.encoder's digest was 000" in error
        )


def exits_file(folder: Path, cascade: str, *tables: dict[str, float]) -> None:
    weights_file(folder, {"exit": {"reranker": "cascade", "model": cascade}, **WORDS}, tables[0])
    content = json.loads((folder / "weights.json").read_text())
    content["fits"] = [content["fits"][0] | {"weights": table} for table in tables]
    (folder / "weights.json").write_text(json.dumps(content))


def test_a_cascade_s_exits_take_weights_and_refuse_those_of_another_plan(tmp_path) -> None:
    checkpoint("cascade", tmp_path / "cascade")
    stage = 'reranker = "cascade"\ncheckpoint = "cascade"\n'
    weights = "weights = {exit = 1.0, words = 0.5, bm25 = 1.0}"
    (_, loaded) = load_plan(load(job_file(tmp_path, OVERLAP, f"{stage}drop = [0.5]\n{weights}")))
    assert vars(loaded.reranker)["prior"] == Prior.of([{"exit": 1.0, "words": 0.5, "bm25": 1.0}], 1)

    for wrong, says in (
        (
            "{exit = 1.0, wrods = 1.0}",
            "no stage before this one gives the score 'wrods'; known here: exit, words, bm25",
        ),
        ("{words = 1.0}", "the exits' scores have no weight; name it too: exit = 1.0"),
        ("{exit = nan}", "weights.exit: Input should be a finite number"),
        ("{}", "weights: Dictionary should have at least 1 item"),
    ):
        assert says in refused(tmp_path, OVERLAP, f"{stage}drop = [0.5]\nweights = {wrong}")

    named = (OVERLAP, f'{stage}drop = [0.5]\nweights_file = "weights.json"')
    job = load(job_file(tmp_path, *named))
    digest = model_inputs(job, job.rerank.stages)["checkpoint of cascade"]
    exits_file(tmp_path, digest, {"exit": 1.0, "words": 0.5})
    written = WeightsFile.read(tmp_path / "weights.json")
    plan = {"words": "overlap", "cascade": "cascade"}, {"words": None, "cascade": digest}
    assert WeightsFile.of(written.fits, *plan, "0", exit_of="cascade") == written
    (_, loaded) = load_plan(load(job_file(tmp_path, *named)))
    assert vars(loaded.reranker)["prior"] == Prior.of([{"exit": 1.0, "words": 0.5}], 1)

    exits_file(tmp_path, digest, *[{"exit": 1.0}] * 3)
    assert "weights for 3 exits" in refused(tmp_path, *named)
    exits_file(tmp_path, "0" * 32, {"exit": 1.0})
    says = refused(tmp_path, *named)
    assert "was fitted for another plan: exit had another model (its checkpoint's or index.encoder's" in says
    assert f"digest was {'0' * 32}, and is {digest}); " in says and "`answermill weights` fits" in says
    blended = (OVERLAP, 'reranker = "blend"\nweights_file = "weights.json"')
    exits_file(tmp_path, digest, *[{"words": 1.0}] * 2)
    assert "has weights for 2 exits; blend takes one table" in refused(tmp_path, *blended)


def test_a_file_that_is_missing_or_no_json_is_refused_and_its_content_is_in_the_step_s_inputs(
    small_run, tmp_path, capsys
) -> None:
    run = tmp_path / "run"
    for name in ("documents", "questions", "retrieved"):
        shutil.copytree(small_run / name, run / name)
    weighed = weights_file(tmp_path, WORDS, {"words": 1.0, "bm25": 1.0})
    job = job_file(tmp_path, OVERLAP, weighed)
    (tmp_path / "weights.json").rename(tmp_path / "away.json")
    assert call("rerank", job, "--out", run) == 66
    assert "rerank.stages.1.weights_file: " in capsys.readouterr().err
    assert "weights.json: no such file; give one that `answermill weights` wrote" in refused(
        tmp_path, OVERLAP, weighed, code=66
    )

    (tmp_path / "weights.json").write_text("{")
    assert call("rerank", job, "--out", run) == 78
    assert "weights.json is no file of weights" in capsys.readouterr().err and not (run / "scored").exists()
    weights_file(tmp_path, WORDS, {"words": 1.0, "bm25": 1.0})
    assert call("rerank", job, "--out", run) == 0
    assert "weights_file of blend" in SCORED.open(run).manifest.inputs
    weights_file(tmp_path, WORDS, {"words": 1.0, "bm25": 2.0})
    assert call("rerank", job, "--out", run) == 73  # other weights are another job


def test_a_reranker_by_itself_knows_no_stage(tmp_path) -> None:
    with pytest.raises(
        ValueError, match="no stage before this one gives the score 'cosinet'; known here: bm25, dense"
    ):
        load_reranker("blend", weights={"cosinet": 1.0})
    assert load_reranker("blend", weights={"log_rank": 1.0}).rerank([]) == []
