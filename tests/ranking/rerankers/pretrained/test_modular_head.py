"""Cross-encoders of modules give the scores of sentence-transformers, packed where the body's family is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers
import torch
from safetensors.torch import load_file, save_file

from answermill.files.model_files import ModelDamaged
from answermill.indexing.shards.dense import find_model
from answermill.ranking.rerankers.pretrained.pair_scorers import PackedScorer, load_scorer
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier, load_with_head
from testing.family_models import change_json, write_classifier, write_modular

QUESTIONS = ["When was the dam at Aswan finished?", "Who wrote the letters?"]
SENTENCES = [
    "The Aswan High Dam is 111 metres high.",
    "The yearly flood ended when the dam was completed in 1970.",
    "",
    "Lake Nasser lies behind it, and the letters of those who wrote about it are kept in Cairo. " * 4,
    "Naïve 😀 text in no language",
]
PAIRS = [(question, sentence) for question in QUESTIONS for sentence in SENTENCES]
DENSE, NORM, SCORES = "2_Dense", "3_LayerNorm", "4_Dense"


def write(folder: Path, family: str = "bert", **settings: Any) -> Path:
    return write_modular(folder, family, [*QUESTIONS, *SENTENCES], **settings)


@pytest.mark.parametrize(
    ("family", "pooling", "classes", "packed"),
    [
        ("bert", "cls", 1, True),
        ("modernbert", "cls", 1, True),
        ("xlm-roberta", "mean", 1, True),
        ("bert", "mean", 2, True),
        ("bert", "max", 1, False),
        ("electra", "lasttoken", 1, False),
        ("deberta-v2", "cls", 1, False),
        ("xlnet", "lasttoken", 1, False),
        ("albert", "mean", 2, False),
    ],
)
def test_a_score_is_the_one_of_sentence_transformers(
    family: str, pooling: str, classes: int, packed: bool, tmp_path: Path
) -> None:
    folder = write(tmp_path, family, pooling=pooling, classes=classes)
    theirs = sentence_transformers.CrossEncoder(str(folder), device="cpu").predict(PAIRS)
    classifier = PublishedClassifier.read(folder)
    scorer = load_scorer(classifier, classifier.limit, "cpu", "fp32")
    logits = scorer.score(PAIRS).logits
    assert logits == pytest.approx(theirs if classes == 1 else theirs[:, 1] - theirs[:, 0], abs=1e-4)
    assert isinstance(scorer, PackedScorer) == packed and classifier.output == "logit"
    assert len(np.unique(logits.round(5))) > len(PAIRS) / 2 and np.ptp(logits) > 0.02


def test_a_stage_loads_it_by_its_folder(tmp_path: Path) -> None:
    folder = write(tmp_path, "modernbert")
    loaded = load_reranker("cross_encoder", folder, model=find_model, precision="fp32")
    assert loaded.name == "cross_encoder"

    # Training begins with its body alone.
    assert load_with_head(folder)[1] is None


@pytest.mark.parametrize("function", ["torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"])
def test_the_function_of_a_layer_is_the_folder_s(function: str, tmp_path: Path) -> None:
    folder = write(tmp_path)
    change_json(folder / DENSE / "config.json", activation_function=function, use_residual=True)
    weights = load_file(folder / DENSE / "model.safetensors")
    weights["residual.weight"] = torch.randn(64, 32, generator=torch.Generator().manual_seed(1))
    save_file(weights, folder / DENSE / "model.safetensors")
    theirs = sentence_transformers.CrossEncoder(str(folder), device="cpu").predict(PAIRS)
    logits = load_scorer(PublishedClassifier.read(folder), 64, "cpu", "fp32").score(PAIRS).logits
    assert logits == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize(
    ("file", "changes", "says"),
    [
        (
            f"{DENSE}/config.json",
            {"activation_function": "own.Function"},
            "function 'own.Function' is none",
        ),
        (
            f"{DENSE}/config.json",
            {"module_output_name": "other"},
            "'sentence_embedding' into 'other'",
        ),
        (f"{DENSE}/config.json", {"in_features": 16}, "no weights of this layer"),
        (f"{NORM}/config.json", {"dimension": None}, "its config.json lacks 'dimension'"),
        (f"{SCORES}/config.json", {"module_output_name": None}, "its modules give vectors, and no scores"),
        (f"{SCORES}/config.json", {"out_features": 3}, "its head has 3 classes"),
        ("1_Pooling/config.json", {"pooling_mode": "weightedmean"}, "pooling weightedmean is not computed"),
        ("1_Pooling/config.json", {"pooling_mode": ["cls", "mean"]}, "pooling cls, mean is not computed"),
    ],
)
def test_modules_that_give_no_score_are_refused(
    file: str, changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    folder = write(tmp_path)
    change_json(folder / file, **changes)
    with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path))}.*{says}"):
        load_scorer(PublishedClassifier.read(folder), 64, "cpu", "fp32")


def test_an_unknown_module_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    modules[3]["type"] = "sentence_transformers.sentence_transformer.modules.CNN"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="a CNN is not computed here; Dense, LayerNorm"):
        PublishedClassifier.read(folder)


def test_pickled_or_damaged_weights_of_a_module_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path)
    file = folder / SCORES / "model.safetensors"
    weights = load_file(file)
    weights["linear.bias"][0] = torch.nan
    save_file(weights, file)
    with pytest.raises(ModelDamaged, match="hold NaN or infinity"):
        load_scorer(PublishedClassifier.read(folder), 64, "cpu", "fp32")

    file.rename(file.with_name("pytorch_model.bin"))
    with pytest.raises(ValueError, match=r"no weights of this layer .*; pickled ones are not loaded"):
        load_scorer(PublishedClassifier.read(folder), 64, "cpu", "fp32")


def test_a_sequence_classifier_that_modules_json_names_has_its_own_head(tmp_path: Path) -> None:
    body = write_classifier(tmp_path / "body", "bert", [*QUESTIONS, *SENTENCES])
    model = sentence_transformers.CrossEncoder(str(body), device="cpu")
    folder = tmp_path / "model"
    model.save_pretrained(str(folder), create_model_card=False)
    classifier = PublishedClassifier.read(folder)
    assert (folder / "modules.json").is_file() and classifier.head is None
    change_json(folder / "sentence_bert_config.json", do_lower_case=True)
    change_json(folder / "tokenizer.json", normalizer=None)
    expected = sentence_transformers.CrossEncoder(str(folder), device="cpu").predict(PAIRS)
    logits = load_scorer(classifier, 64, "cpu", "fp32").score(PAIRS).logits
    assert 1 / (1 + np.exp(-logits)) == pytest.approx(expected, abs=1e-4)
    assert not np.allclose(
        logits, load_scorer(PublishedClassifier.read(body), 64, "cpu", "fp32").score(PAIRS).logits
    )
