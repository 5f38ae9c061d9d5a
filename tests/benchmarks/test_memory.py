"""A plan that looks up what its models have said gives the plan's own rows, and computes nothing twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.steps.job_plan import load_plan
from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import Stage, run_stages
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.support.support_pairs import SupportPairs
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import RankedList, ScoredCandidate
from experiments.question_sets.memory import Memory, RememberedEncoder, remember
from testing.tiny import checkpoint

TEXTS = [
    "the answer",
    "the sentence is longer",
    "an answer to the sentence",
    "sentence",
    "the the the answer",
    "answer sentence",
]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> list[Stage]:
    folder = tmp_path_factory.mktemp("model") / "cascade"
    stage = {"reranker": "cascade", "checkpoint": checkpoint("cascade", folder), "drop": [0.3]}
    return load_plan(Job.model_validate({"rerank": {"stages": [stage]}}))


def lists(texts: list[str]) -> list[RankedList]:
    return [
        ranked_list(
            [
                LabelledCandidate(q, f"the {q}", f"{q}-{n}", "d", "", n, text, 0)
                for n, text in enumerate(texts)
            ]
        )
        for q in ("question", "other")
    ]


def test_the_rows_are_the_plans_own(plan: list[Stage], tmp_path: Path) -> None:
    own = [outcome.rows() for outcome in run_stages(lists(TEXTS), plan, "sentence")]
    first = remember(plan, tmp_path)
    run_stages(lists(TEXTS[:2]), first, "sentence")
    for remembered in (first, remember(plan, tmp_path)):
        assert [outcome.rows() for outcome in run_stages(lists(TEXTS), remembered, "sentence")] == own
    assert {row.fate for rows in own for row in rows} == {"kept", "dropped"}


def test_nothing_is_computed_twice(
    plan: list[Stage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = run_stages(lists(TEXTS), remember(plan, tmp_path), "sentence")
    again = remember(plan, tmp_path)
    cascade = again[0].reranker
    assert isinstance(cascade, Cascade) and cascade is not plan[0].reranker
    monkeypatch.setattr(cascade._model, "_scores", None)
    assert run_stages(lists(TEXTS), again, "sentence") == outcomes
    with pytest.raises(TypeError):
        run_stages(lists(["a new text"]), again, "sentence")


def test_scores_of_another_precision_are_not_taken(plan: list[Stage], tmp_path: Path) -> None:
    def rows(precision: str, work: Path | None) -> list[list[ScoredCandidate]]:
        stage = {"reranker": "cascade", "checkpoint": str(plan[0].checkpoint), "precision": precision}
        stages = load_plan(Job.model_validate({"rerank": {"stages": [stage]}}))
        stages = stages if work is None else remember(stages, work)
        return [outcome.rows() for outcome in run_stages(lists(TEXTS), stages, "sentence")]

    for precision in ("fp32", "bf16", "fp32"):
        assert rows(precision, tmp_path) == rows(precision, None)
    assert len(list(tmp_path.iterdir())) == 2


def test_scores_of_pairs_of_candidates_are_kept_too(
    plan: list[Stage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = {"reranker": "support_pairs", "checkpoint": str(plan[0].checkpoint), "others": 2}
    own = load_plan(Job.model_validate({"rerank": {"stages": [pairs]}}))
    outcomes = run_stages(lists(TEXTS), own, "sentence")
    assert run_stages(lists(TEXTS), remember(own, tmp_path), "sentence") == outcomes
    again = remember(own, tmp_path)
    reranker = again[0].reranker
    assert isinstance(reranker, SupportPairs) and reranker is not own[0].reranker
    monkeypatch.setattr(reranker._ranker._model, "_scores", None)
    assert run_stages(lists(TEXTS), again, "sentence") == outcomes


def test_the_work_is_counted_as_if_it_were_done(plan: list[Stage], tmp_path: Path) -> None:
    remembered = remember(plan, tmp_path)
    spent = []
    for stages in (plan, remembered, remembered):
        cascade = stages[0].reranker
        assert isinstance(cascade, Cascade)
        cascade.costs()
        run_stages(lists(TEXTS), stages, "sentence")
        spent.append({key: n for key, n in cascade.costs().items() if key != "milliseconds"})
    assert spent[0] == spent[1] == spent[2] and spent[0]["layer_tokens"] < spent[0]["full_layer_tokens"]


def test_a_memory_is_of_all_who_added_to_it(tmp_path: Path) -> None:
    one, two = Memory(tmp_path, 2), Memory(tmp_path, 2)
    one.add(np.array([5, 3], np.uint64), np.array([[5.0, 50.0], [3.0, 30.0]]))
    two.add(np.array([4, 3], np.uint64), np.array([[4.0, 40.0], [3.0, 30.0]]))
    known, rows = Memory(tmp_path, 2).look_up(np.array([4, 9, 3, 5], np.uint64))
    assert known.tolist() == [True, False, True, True] and rows.tolist() == [[4, 40], [3, 30], [5, 50]]
    assert Memory(tmp_path / "none", 2).look_up(np.array([4], np.uint64))[0].tolist() == [False]


def test_many_files_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.question_sets.memory.MANY", 2)
    writer = Memory(tmp_path, 1)
    for key in range(3):
        writer.add(np.array([key], np.uint64), np.array([[10.0 * key]]))
    assert len(list(tmp_path.iterdir())) == 3
    for _ in range(2):
        assert Memory(tmp_path, 1).look_up(np.arange(4, dtype=np.uint64))[1].tolist() == [[0], [10], [20]]
    assert len(list(tmp_path.iterdir())) == 1


class Encoder:
    """Counts what it is asked."""

    fingerprint, precision, dimension = "0", "fp32", 1

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode_sentences(self, texts: list[str]) -> np.ndarray:
        self.asked += texts
        return np.array([[len(text)] for text in texts], np.float32)

    encode_questions = encode_sentences


def test_a_text_is_encoded_once(tmp_path: Path) -> None:
    encoder = Encoder()
    for _ in range(2):
        remembered = RememberedEncoder(encoder, tmp_path)  # type: ignore[arg-type]
        assert remembered.encode_sentences(["abc", "a", "abc"]).tolist() == [[3], [1], [3]]
    assert encoder.asked == ["abc", "a"]
    assert remembered.encode_questions(["abc"]).tolist() == [[3]] and len(encoder.asked) == 3
