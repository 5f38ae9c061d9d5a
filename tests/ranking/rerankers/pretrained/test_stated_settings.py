"""A setting in a model's folder is obeyed as sentence-transformers obeys it, or the model is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers
import torch
import transformers

from answermill.files.model_files import position_count, token_limit
from answermill.ranking.rerankers.pretrained.pair_scorers import load_scorer
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier
from testing.family_models import change_json, write_classifier, write_modular, write_yes_no

QUESTION = "When was the dam at Aswan finished?"
TEXTS = [
    "The Aswan High Dam is 111 metres high.",
    "Completed in </s> 1970, they wrote.",
    "</s></s> It is",
    "",
]
PAIRS = [(QUESTION, text) for text in TEXTS]
SETTINGS = "sentence_bert_config.json"


def logits(folder: Path, pairs: Sequence[tuple[str, str]] = PAIRS) -> np.ndarray:
    classifier = PublishedClassifier.read(folder)
    return load_scorer(classifier, classifier.limit, "cpu", "fp32").score(pairs).logits


def predicted(folder: Path, pairs: Sequence[tuple[str, str]] = PAIRS) -> np.ndarray:
    """Logits of sentence-transformers, a pair at a time."""
    model = sentence_transformers.CrossEncoder(str(folder), device="cpu", activation_fn=torch.nn.Identity())
    return np.array([model.predict([pair])[0] for pair in pairs])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"config_kwargs": {"num_hidden_layers": 1}}, "config_kwargs.num_hidden_layers"),
        ({"config_args": {"hidden_act": "relu"}}, "config_kwargs.hidden_act"),
        ({"model_kwargs": {"subfolder": "onnx"}}, "model_kwargs.subfolder"),
        ({"tokenizer_name_or_path": "other"}, "tokenizer_name_or_path"),
        (
            {"modality_config": {"text": {"method": "forward", "method_output_name": ["hidden_states", -2]}}},
            "modality_config.text",
        ),
        (
            {"processing_kwargs": {"text": {"truncation": "only_second"}}},
            "processing_kwargs.text.truncation",
        ),
        (
            {"processing_kwargs": {"common": {"add_special_tokens": False}}},
            "processing_kwargs.common.add_special_tokens",
        ),
        (
            {"processing_kwargs": {"chat_template": {"restore_suffix": False}}},
            "processing_kwargs.chat_template.restore_suffix",
        ),
    ],
)
def test_a_setting_that_would_change_the_scores_is_refused(
    settings: dict[str, Any], says: str, tmp_path: Path
) -> None:
    folder = write_modular(tmp_path, "bert", TEXTS)
    change_json(folder / SETTINGS, **settings)
    message = f"{re.escape(str(folder / SETTINGS))}: its {re.escape(says)} is not computed here"
    with pytest.raises(ValueError, match=message):
        PublishedClassifier.read(folder)


def test_settings_that_change_no_score_are_no_hindrance(tmp_path: Path) -> None:
    folder = write_modular(tmp_path, "bert", TEXTS)
    usual = {"padding": True, "truncation": "longest_first", "max_length": 24}
    change_json(
        folder / SETTINGS,
        model_kwargs={"attn_implementation": "eager", "dtype": "float32"},
        processing_kwargs={"text": usual},
    )
    assert logits(folder) == pytest.approx(predicted(folder), abs=1e-4)


def test_modules_of_another_kind_of_model_are_refused(tmp_path: Path) -> None:
    """sentence-transformers then ignores the length that the folder states."""
    folder = write_classifier(tmp_path, "bert", TEXTS)
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.Transformer"}
    (folder / "modules.json").write_text(json.dumps([module]))
    change_json(folder / SETTINGS, max_seq_length=12)
    with pytest.raises(ValueError, match=r"its modules.json is not a CrossEncoder's .*, or remove modules"):
        PublishedClassifier.read(folder)
    change_json(folder / "config_sentence_transformers.json", model_type="CrossEncoder")
    assert PublishedClassifier.read(folder).limit == 12


IDENTITY = "torch.nn.modules.linear.Identity"


@pytest.mark.parametrize(
    ("file", "settings", "output"),
    [
        ("config.json", {"sbert_ce_default_activation_function": IDENTITY}, "logit"),
        (
            "config.json",
            {"sbert_ce_default_activation_function": IDENTITY, "sentence_transformers": {"version": "5"}},
            "logit",
        ),
        ("config_sentence_transformers.json", {"activation_fn": IDENTITY}, "probability"),
    ],
)
def test_the_function_of_a_score_is_read_where_sentence_transformers_reads_it(
    file: str, settings: dict[str, Any], output: str, tmp_path: Path
) -> None:
    folder = write_classifier(tmp_path, "bert", TEXTS)
    change_json(folder / file, **settings)
    assert PublishedClassifier.read(folder).output == output


def test_a_prompt_counts_beside_modules_alone(tmp_path: Path) -> None:
    folder = write_yes_no(tmp_path, "Qwen3", TEXTS)
    own = {"prompts": {"dams": "Is it about dams?"}, "default_prompt_name": "dams"}
    change_json(folder / "config_sentence_transformers.json", **own)
    assert PublishedClassifier.read(folder).prompt == "Is it about dams?"
    (folder / "modules.json").unlink()
    assert PublishedClassifier.read(folder).prompt == ""

    classifier = write_classifier(tmp_path / "bert", "bert", TEXTS)
    change_json(classifier / "config_sentence_transformers.json", **own)
    assert PublishedClassifier.read(classifier).prompt == ""


def test_a_prompt_before_pairs_is_refused(tmp_path: Path) -> None:
    folder = write_modular(tmp_path, "bert", TEXTS)
    change_json(folder / "config_sentence_transformers.json", default_prompt_name="q")
    with pytest.raises(
        ValueError, match=r"it wants a prompt before each pair \('q'\), which is not supported"
    ):
        PublishedClassifier.read(folder)


@pytest.mark.parametrize(
    ("config", "positions"),
    [
        ({"model_type": "modernbert"}, 8_192),
        ({"model_type": "roberta"}, 512 - 2),
        ({"model_type": "bert"}, 512),
        ({"model_type": "t5"}, 1_000_000),
        ({"model_type": "t5", "n_positions": 512}, 1_000_000),
        ({"model_type": "mpnet", "max_position_embeddings": 514, "pad_token_id": 0}, 512),
        ({"model_type": "bloom"}, 1_000_000),
        ({"model_type": "xlnet"}, 1_000_000),
        ({"model_type": "no such"}, 512),
        ({"model_type": "bert", "max_position_embeddings": 64}, 64),
    ],
)
def test_positions_that_a_config_leaves_out_are_the_family_s(config: dict[str, Any], positions: int) -> None:
    assert position_count(config) == positions


def test_an_older_name_of_the_limit_is_read(tmp_path: Path) -> None:
    change_json(tmp_path / "tokenizer_config.json", max_len=20)
    assert token_limit(tmp_path, {"model_type": "bert"}) == 20


@pytest.mark.parametrize("family", ["bart", "bert"])
def test_the_model_s_own_end_may_stand_in_a_text(family: str, tmp_path: Path) -> None:
    """Texts of a web page hold '</s>'; BART wants as many ends in each text of a batch."""
    folder = write_classifier(tmp_path, family, [QUESTION, TEXTS[0], "Completed in 1970, they wrote."])
    assert logits(folder) == pytest.approx(predicted(folder), abs=1e-4)


@pytest.mark.parametrize("family", ["roberta", "mpnet", "xlm-roberta", "bert"])
def test_a_padding_token_may_stand_in_a_text(family: str, tmp_path: Path) -> None:
    """RoBERTa and MPNet do not count it as a position."""
    pairs = [("When <pad> was it?", "<pad>In 1970 <pad><pad> it was."), ("[PAD] who", "they wrote [PAD]")]
    folder = write_classifier(tmp_path, family, [QUESTION, *TEXTS])
    assert logits(folder, pairs) == pytest.approx(predicted(folder, pairs), abs=1e-4)


def test_a_first_token_that_is_the_padding_too_is_placed_as_transformers_places_it(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path, "roberta", [QUESTION, *TEXTS])
    change_json(folder / "config.json", pad_token_id=0)
    assert logits(folder) == pytest.approx(predicted(folder), abs=1e-4)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("distilbert", {"layer_norm_eps": 1e-2}),
        ("roberta", {"embedding_size": 16}),
        ("bert", {"classifier_pooling": "mean"}),
    ],
)
def test_a_setting_that_the_family_does_not_read_decides_nothing(
    family: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_classifier(tmp_path, family, [QUESTION, *TEXTS])
    usual = logits(folder)
    change_json(folder / "config.json", **changes)
    assert logits(folder) == pytest.approx(usual, abs=1e-5)
    assert usual == pytest.approx(predicted(folder), abs=1e-4)


def test_an_electra_s_narrow_embeddings_have_a_usual_width() -> None:
    config = transformers.ElectraConfig(hidden_size=256).to_dict()
    assert Shape.of(config).embedded == Shape.of(config | {"embedding_size": 128}).embedded == 128
    del config["embedding_size"]
    assert Shape.of(config).embedded == 128


@pytest.mark.parametrize("family", ["bert", "deberta-v2"])
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_attention_heads": 3}, "3"),
        ({"vocab_size": 7}, "have other sizes than config.json says"),
    ],
)
def test_what_transformers_cannot_load_is_refused_in_a_sentence(
    family: str, changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    folder = write_classifier(tmp_path, family, TEXTS)
    change_json(folder / "config.json", **changes)
    with pytest.raises(ValueError, match=f"{re.escape(str(folder))}.*{says}") as e:
        logits(folder)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("labels", "classes"), [({"0": "no"}, 2), ({"0": "no", "1": "yes"}, 1), ({"0": "no", "1": "yes"}, 2)]
)
def test_the_stated_number_of_classes_counts_before_their_names(
    labels: dict[str, str], classes: int, tmp_path: Path
) -> None:
    folder = write_classifier(tmp_path, "bert", TEXTS, classes=classes)
    change_json(folder / "config.json", num_labels=classes, id2label=labels)
    assert PublishedClassifier.read(folder).classes == classes
    assert np.isfinite(logits(folder)).all()


def test_a_model_without_a_table_of_tokens_is_scored(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "bert", "bert", TEXTS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.CanineConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=128,
        num_hash_buckets=64,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    canine = tmp_path / "canine"
    transformers.CanineForSequenceClassification(config).save_pretrained(canine)
    tokenizer.save_pretrained(canine)
    try:
        scores = logits(canine)
    except ValueError as e:
        assert "padding changes" in str(e)
    else:
        assert scores == pytest.approx(predicted(canine), abs=1e-4)
