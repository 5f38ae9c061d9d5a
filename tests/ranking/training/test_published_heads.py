"""A training begins with a published sequence classifier as it is, body and head: TANDA's two-class RoBERTa
above all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from answermill.indexing.shards.dense import find_model
from answermill.ranking.lists import ranked_list, ranked_passages
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import load_cascade, load_pointwise
from answermill.ranking.rerankers.cascade.pair_settings import CascadeSettings, PointwiseSettings
from answermill.ranking.rerankers.multihead import multihead
from answermill.ranking.rerankers.multihead.multihead import MultiHead
from answermill.ranking.rerankers.multihead.student_settings import StudentSettings
from answermill.ranking.rerankers.peasi.passage_settings import PassageSettings
from answermill.ranking.rerankers.peasi.peasi import PassageReranker
from answermill.ranking.rerankers.pretrained.pair_scorers import load_scorer
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training.cross_encoders import PairTask
from answermill.ranking.training.inputs import Built, TrainingInputs
from answermill.ranking.training.loop import Recipe
from answermill.ranking.training.pair_builders import build_cascade, build_multihead, build_pointwise
from answermill.ranking.training.passages.passage_start import build
from answermill.ranking.transformer.packing import Tokeniser
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier
from answermill.schemas.labels import LabelledCandidate, LabelledPassage, LabelledSentence
from answermill.schemas.ranked import RankedList
from testing.family_models import write_classifier

SENTENCES = (
    "The comet came in 1910.",
    "The river is of ice.",
    "A violin and a lantern were found.",
    "The harvest.",
)
QUESTIONS = ("When did the comet come?", "Which river is of ice?")


def rows(n: int) -> list[LabelledCandidate]:
    return [
        LabelledCandidate(f"q{n}", QUESTIONS[n], f"q{n}-{i}", f"d{i}", "", i, text, int(i == n))
        for i, text in enumerate(SENTENCES)
    ]


def passages(n: int) -> list[LabelledPassage]:
    return [
        LabelledPassage(
            r.question_id, r.question, r.candidate_id, "d", "", r.text, r.label, "window", (sentence,)
        )
        for r in rows(n)
        for sentence in [LabelledSentence(f"{r.candidate_id}@0", r.text, r.label)]
    ]


LISTS = [ranked_list(rows(n)) for n in range(2)]


@pytest.fixture(
    scope="module",
    params=[("roberta", 2), ("bert", 1), ("electra", 2), ("distilbert", 2), ("mpnet", 1), ("modernbert", 1)],
    ids=["tanda", "bert", "electra", "distilbert", "mpnet", "modernbert"],
)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    family, classes = request.param
    return write_classifier(
        tmp_path_factory.mktemp(family), family, [*SENTENCES, *QUESTIONS], classes=classes
    )


def published(folder: Path, precision: Literal["auto", "fp32"] = "auto") -> list[float]:
    scorer = load_scorer(PublishedClassifier.read(folder), 64, "cpu", precision)
    return scorer.score([(question, text) for question in QUESTIONS for text in SENTENCES]).logits.tolist()


def scores(reranker: Reranker, lists: Sequence[RankedList] = LISTS) -> list[float]:
    """In the order of the lists."""
    scored = [
        {c.hit.passage.text: s.score for c in (*ranked.candidates, *ranked.left) for s in c.stages[-1:]}
        for ranked in reranker.rerank(lists)
    ]
    return [of_list[text] for of_list in scored for text in SENTENCES]


def inputs(settings: object, of_question=rows) -> TrainingInputs:
    data = [of_question(n) for n in range(2)]
    return TrainingInputs(settings, Recipe(), data, data, model=find_model)  # type: ignore[arg-type]


def saved(begun: Built, folder: Path) -> Path:
    begun.task.save(folder)
    return folder


def test_a_pointwise_model_has_its_scores_before_the_first_step_once_saved_and_once_exported(
    folder: Path, tmp_path: Path
) -> None:
    begun = build_pointwise(inputs(PointwiseSettings(reranker="pointwise", encoder=str(folder), limit=64)))
    expected = pytest.approx(published(folder), abs=1e-5)
    assert ", and its head" in begun.description
    assert scores(begun.task.reranker()) == expected
    assert scores(load_reranker("pointwise", saved(begun, tmp_path / "p"))) == expected
    model, _ = load_pointwise(tmp_path / "p")
    assert model.reading.pooling == "first" and np.ptp(published(folder)) > 0.1

    import sentence_transformers  # takes seconds, so not at the top

    from answermill.ranking.rerankers.cascade.cross_encoder import export

    export(tmp_path / "p", tmp_path / "exported")
    theirs = sentence_transformers.CrossEncoder(
        str(tmp_path / "exported"), device="cpu", activation_fn=nn.Identity()
    )

    pairs = [(question, text) for question in QUESTIONS for text in SENTENCES]
    assert theirs.predict(pairs) == pytest.approx(published(folder, "fp32"), abs=1e-4)


def test_a_cascade_ends_with_it_and_its_other_exits_are_new(folder: Path, tmp_path: Path) -> None:
    settings = CascadeSettings(reranker="cascade", encoder=str(folder), limit=64, exits=[1, 2])
    begun = saved(build_cascade(inputs(settings)), tmp_path)
    model, tokeniser = load_cascade(begun)
    assert model.exits == (1, 2) and model.reading.pooling == "first"
    assert scores(Cascade(model, tokeniser)) == pytest.approx(published(folder), abs=1e-5)


def test_a_student_s_heads_begin_with_it(folder: Path, tmp_path: Path) -> None:
    settings = StudentSettings(reranker="multihead", encoder=str(folder), limit=64, heads=2)
    model, tokeniser = multihead.load(saved(build_multihead(inputs(settings)), tmp_path))
    assert scores(MultiHead(model, tokeniser)) == pytest.approx(published(folder), abs=1e-5)


@pytest.mark.parametrize("variant", ["pr", "joint"])
def test_peasi_s_passage_reranker_begins_with_it(folder: Path, variant: str, tmp_path: Path) -> None:
    begun = build(inputs(PassageSettings(variant=variant, encoder=str(folder), limit=64), passages))  # type: ignore[arg-type]
    assert "and its head, PR with its classifier" in begun.description
    lists = [ranked_passages(passages(n)) for n in range(2)]
    ours = PassageReranker(begun.task.model, Tokeniser(folder, 64))  # type: ignore[attr-defined]
    assert scores(ours, lists) == pytest.approx(published(folder), abs=1e-5)
    again = load_reranker("peasi.pr", saved(begun, tmp_path))
    assert scores(again, lists) == scores(ours, lists)


def test_fewer_layers_or_a_head_of_three_classes_leave_the_body_alone(folder: Path, tmp_path: Path) -> None:
    cut = build_pointwise(
        inputs(PointwiseSettings(reranker="pointwise", encoder=str(folder), limit=64, layers=1))
    )
    assert "1 layers of 32" in cut.description and ", and its head" not in cut.description
    three = write_classifier(tmp_path, "bert", [*SENTENCES, *QUESTIONS], classes=3)
    begun = build_pointwise(inputs(PointwiseSettings(reranker="pointwise", encoder=str(three), limit=64)))
    assert ", and its head" not in begun.description


@pytest.mark.parametrize("kind", ["pointwise", "cascade"])
def test_its_head_is_not_given_another_pooling(folder: Path, kind: str) -> None:
    settings, build_it = {
        "pointwise": (
            PointwiseSettings(reranker="pointwise", encoder=str(folder), limit=64, pooling="mean"),
            build_pointwise,
        ),
        "cascade": (
            CascadeSettings(reranker="cascade", encoder=str(folder), limit=64, exits=[1, 2], pooling="mean"),
            build_cascade,
        ),
    }[kind]

    with pytest.raises(
        ValueError, match=r"pooling = 'mean': the head of a published classifier reads the first token"
    ):
        build_it(inputs(settings))


def test_its_first_loss_is_that_of_the_published_scores_and_reaches_body_and_head(folder: Path) -> None:
    task = build_pointwise(
        inputs(PointwiseSettings(reranker="pointwise", encoder=str(folder), limit=64))
    ).task
    assert isinstance(task, PairTask)
    task.model.eval()  # without dropout
    (batch,) = task.batches(0)
    loss = task.loss(batch)
    labels = torch.tensor([float(row.label) for n in range(2) for row in rows(n)])
    logits = torch.tensor(published(folder, "fp32"))
    assert loss.item() == pytest.approx(F.binary_cross_entropy_with_logits(logits, labels).item(), abs=1e-4)

    loss.backward()
    (head,) = task.model.classifiers
    for weight in (head.first.weight, head.score.weight, task.model.encoder.layers[0].attention.weight):
        assert weight.grad is not None and weight.grad.abs().max() > 0
