"""Each reranker of the registry works wherever a plan does: from Python, in PyTerrier, after `candidates`,
and by name in `evaluate`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import answermill as am
from answermill.pipelines.data.convert.as_run import write_candidates
from answermill.ranking.entry import StageSettings
from answermill.ranking.rerankers.registry import RERANKERS
from testing.tiny import SETTINGS, checkpoint, stage_settings, write_dense

QUESTION = "Which city is the capital of France?"
TEXTS = ["Rome is old.", "Paris is the capital of France.", "It lies on the Tiber."]
READS_SCORES = {*SETTINGS, "probability", "probability_passages"}
ID = "q1"  # which the table of `scores` knows


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_dense(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that `candidates` writes of a data set; the set is beside it, as `set.tsv`."""
    folder = tmp_path_factory.mktemp("candidates")
    rows = [("question_id", "question", "sentence", "label")]
    rows += [(ID, QUESTION, text, str(int("capital" in text))) for text in TEXTS]
    (folder / "set.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    write_candidates([folder / "set.tsv"], folder / "run")
    return folder


@pytest.fixture(scope="module", params=sorted(RERANKERS))
def stages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[StageSettings]:
    """The reranker with a random checkpoint, after a stage whose scores a blend weighs."""
    name, folder = request.param, tmp_path_factory.mktemp("model")
    written = checkpoint(name, folder / "checkpoint")
    model = {} if written is None else {"checkpoint": written}
    before = [am.stage("overlap")] if name in READS_SCORES else []
    return [*before, am.stage(name, **model, **stage_settings(name, folder / "settings"))]


def test_it_works_everywhere_and_gives_the_same_scores(
    stages: list[StageSettings], encoder: str, candidates: Path, tmp_path: Path
) -> None:
    why = "pyterrier is not installed: pip install 'answermill[pyterrier]'"
    pandas = pytest.importorskip("pandas", reason=why)
    pytest.importorskip("pyterrier", reason=why)
    plan = am.Plan(stages, device="cpu", encoder=encoder)
    (answers,) = plan.rerank_all([(QUESTION, TEXTS)], ids=[ID])
    scores = {answer.text: answer.score for answer in answers}
    assert scores.keys() == set(TEXTS)

    frame = pandas.DataFrame({"qid": ID, "query": QUESTION, "docno": ["a", "b", "c"], "text": TEXTS})
    ranked = am.PyTerrierReranker(plan)(frame)
    assert dict(zip(ranked["text"], ranked["score"], strict=True)) == scores

    run = shutil.copytree(candidates / "run", tmp_path / "run")
    am.run(write_job(tmp_path, stages, encoder), run, steps=["rerank"])
    last = [(row.text, row.stages[-1]) for row in am.open_run(run)["scored"]]
    scored = {text: score.score for text, score in last if score.stage == stages[-1].key}
    assert scored == pytest.approx(scores, abs=1e-6)


def test_it_is_evaluated_by_name(stages: list[StageSettings], candidates: Path) -> None:
    stage = stages[-1]
    own = stage.model_dump(exclude_unset=True, exclude={"reranker", "checkpoint"})
    settings = [f"{key}={inline(value)}" for key, value in own.items()]
    options: dict[str, Any] = {"checkpoint": stage.checkpoint, "settings": settings}
    if stage.reranker in READS_SCORES:  # of other stages, and here are none
        with pytest.raises(
            am.JobError, match=r"no stage before this one gives the score|here are none before"
        ):
            am.evaluate(stage.reranker, candidates / "set.tsv", **options)
    else:
        assert 0 <= am.evaluate(stage.reranker, candidates / "set.tsv", **options).summary()["P@1"] <= 1


def inline(value: object) -> str:
    """The value as TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {inline(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


def write_job(folder: Path, stages: list[StageSettings], encoder: str) -> Path:
    tables = (
        "\n".join(f"{key} = {inline(value)}" for key, value in stage.model_dump(exclude_unset=True).items())
        for stage in stages
    )
    job = folder / "job.toml"
    text = f"[index]\nencoder = {json.dumps(encoder)}\n"
    job.write_text(text + "".join(f"[[rerank.stages]]\n{table}\n" for table in tables), encoding="utf-8")
    return job
