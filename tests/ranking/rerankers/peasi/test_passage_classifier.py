"""PR with a cross-encoder's classifier in place of W: it begins as that ranks sentences, and goes on as any
PR."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from answermill.indexing.shards.dense import find_model
from answermill.ranking.context import Pooling, Reading
from answermill.ranking.lists import ranked_passages
from answermill.ranking.plan import to_sentences
from answermill.ranking.rerankers.cascade import cascade_model
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.passage_ranker import ClassifierRanker
from answermill.ranking.rerankers.peasi.passage_settings import PassageSettings
from answermill.ranking.rerankers.peasi.peasi import PassageReranker
from answermill.ranking.rerankers.peasi.peasi_model import PASSAGE, PeasiModel, Variant
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training.inputs import Built, TrainingInputs
from answermill.ranking.training.loop import Recipe
from answermill.ranking.training.passages.passage_start import build
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.schemas.labels import LabelledPassage, LabelledSentence
from answermill.schemas.ranked import RankedList
from testing.tiny import SHAPE, enlarged, tokeniser

NOUNS = ("comet", "river of ice", "violin", "old senate", "lantern", "harvest")


def rows(question: int) -> Iterator[LabelledPassage]:
    """Passages of one sentence, the first of which is right."""
    for n, noun in enumerate(NOUNS):
        text, name = f"The {noun} is here.", f"q{question}-{n}"
        sentence = LabelledSentence(f"{name}@0", text, int(n == 0))
        yield LabelledPassage(
            f"q{question}",
            f"Which comet {question}?",
            name,
            "d",
            "",
            text,
            sentence.label,
            "window",
            (sentence,),
        )


QUESTIONS = [list(rows(n)) for n in range(3)]


def as2(folder: Path, name: str = "pointwise", pooling: Pooling = "mean") -> str:
    torch.manual_seed(0)
    model = enlarged(CascadeModel(LayeredEncoder(SHAPE), (2,) if name == "pointwise" else (1, 2)))
    model.reading = Reading(pooling=pooling)
    cascade_model.save(folder, name, model, tokeniser())
    return str(folder)


def built(encoder: str, variant: Variant = "pr", pooling: Pooling | None = "mean", easi: str = "") -> Built:
    settings = PassageSettings(
        variant=variant, encoder=encoder, easi=easi, pooling=pooling, limit=64, slots=3
    )
    return build(TrainingInputs(settings, Recipe(), QUESTIONS, QUESTIONS, model=find_model))


def peasi(task: Built) -> PeasiModel:
    assert isinstance(task.task.model, PeasiModel)
    return task.task.model


def passages() -> list[RankedList]:
    return [ranked_passages(of_question) for of_question in QUESTIONS]


def scores(ranked: RankedList) -> dict[str, float]:
    return {c.hit.passage.passage_id: c.score for c in ranked.candidates}


@pytest.mark.parametrize("name", ["pointwise", "cascade"])
@pytest.mark.parametrize("variant", ["pr", "mtl0", "mtl1", "joint"])
def test_before_the_first_step_pr_scores_a_passage_as_the_cross_encoder_scores_its_text(
    name: str, variant: Variant, tmp_path: Path
) -> None:
    begun = built(as2(tmp_path / "as2", name), variant)
    assert "begun with as2, PR with its classifier" in begun.description
    sentences = load_reranker(name, tmp_path / "as2").rerank([to_sentences(ranked) for ranked in passages()])
    by_pr = PassageReranker(peasi(begun), tokeniser()).rerank(passages())
    assert [scores(ranked) for ranked in by_pr] == [scores(ranked) for ranked in sentences]
    assert len(set(scores(by_pr[0]).values())) == len(NOUNS)


@pytest.mark.parametrize(
    ("known", "named", "head", "reads"),
    [
        ("mean", None, "linear", "first"),
        ("mean", "first", "linear", "first"),
        ("first", "mean", "linear", "mean"),
        ("candidate", "candidate", "classifier", "candidate"),
        ("first", "first", "classifier", "first"),
    ],
)
def test_the_classifier_is_taken_over_only_where_the_pooling_is_named_and_the_same(
    known: Pooling, named: Pooling | None, head: str, reads: Pooling, tmp_path: Path
) -> None:
    begun = built(as2(tmp_path, "pointwise", known), pooling=named)
    assert (peasi(begun).head, peasi(begun).reading.pooling) == (head, reads)
    assert ("its classifier" in begun.description) == (head == "classifier")


@pytest.mark.parametrize("variant", ["pr", "mtl0", "mtl1", "joint"])
def test_a_checkpoint_with_a_classifier_comes_back_and_a_joint_model_begins_with_it(
    variant: Variant, tmp_path: Path
) -> None:
    begun = built(as2(tmp_path / "as2"), variant)
    begun.task.save(tmp_path / "pr")
    config = json.loads((tmp_path / "pr" / "config.json").read_text())
    assert (config["head"], config["pooling"]) == ("classifier", "mean")
    expected = PassageReranker(peasi(begun), tokeniser()).rerank(passages())
    assert load_reranker("peasi.pr", tmp_path / "pr").rerank(passages()) == expected
    joint = peasi(built(str(tmp_path / "pr"), "joint", None))
    assert joint.reading == Reading(("passage",), "mean")
    assert PassageReranker(joint, tokeniser()).rerank(passages()) == expected

    beside = joint.state_dict()["beside.weight"]
    assert not beside.any()
    beside += 0.5
    assert PassageReranker(joint, tokeniser()).rerank(passages()) != expected
    joint_again = PeasiModel(LayeredEncoder(SHAPE), "joint", 3, "classifier")
    joint_again.take_passage_head(joint)
    assert torch.equal(joint_again.state_dict()["beside.weight"], beside)


def test_all_of_it_learns_and_the_classifier_at_its_own_rate(tmp_path: Path) -> None:
    begun = built(as2(tmp_path / "as2"), "joint")
    model = peasi(begun)
    begun.task.loss(next(begun.task.batches(0))).backward()
    (_, body), (_, heads) = begun.task.rates
    assert {id(p) for p in (*body, *heads)} == {id(p) for p in model.parameters()}
    assert isinstance(model.pr, ClassifierRanker) and model.pr.beside is not None
    for head in (model.pr.classifier, model.pr.beside):
        assert all(p.grad is not None and p.grad.any() for p in head.parameters())
        assert {id(p) for p in head.parameters()} <= {id(p) for p in heads}


def test_a_checkpoint_says_nothing_of_the_head_of_the_paper_and_an_unknown_one_is_refused(
    tmp_path: Path,
) -> None:
    peasi_model.save(tmp_path, PeasiModel(LayeredEncoder(SHAPE), "pr", 3), tokeniser())
    config = json.loads((tmp_path / "config.json").read_text())
    assert not {"head", "extractor"} & config.keys() and peasi_model.load(tmp_path)[0].reading == PASSAGE
    (tmp_path / "config.json").write_text(json.dumps(config | {"head": "deep"}))
    (tmp_path / "sha256.json").unlink()
    with pytest.raises(ValueError, match="head = 'deep': unknown; known: linear, classifier"):
        peasi_model.load(tmp_path)
