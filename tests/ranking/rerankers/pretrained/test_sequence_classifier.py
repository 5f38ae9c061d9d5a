"""Published cross-encoders give the scores of their own libraries, whatever the family and whatever else is
scored."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from answermill.files.model_files import ModelDamaged
from answermill.indexing.shards.dense import ModelMissing, find_model
from answermill.ranking.reranker import Reranker, rounded
from answermill.ranking.rerankers.pretrained import pair_scorers
from answermill.ranking.rerankers.pretrained.pair_scorers import PackedScorer, load_scorer
from answermill.ranking.rerankers.pretrained.sequence_classifier import CrossEncoder
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.transformer.huggingface.families import NAMES
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier
from testing.family_models import FAMILIES, change_json, write_classifier

QUESTIONS = ["When was the dam at Aswan finished?", "Who wrote the letters?", "wind"]
SENTENCES = [
    "The Aswan High Dam is 111 metres high.",
    "The yearly flood ended when the dam was completed in 1970.",
    "",
    "Lake Nasser lies behind it, and the letters of those who wrote about it are kept in Cairo. " * 4,
    "Naïve 😀 text in no language",
    "It was finished.",
]
PAIRS = [(question, sentence) for question in QUESTIONS for sentence in SENTENCES]


def write(folder: Path, family: str = "bert", **settings: int) -> Path:
    return write_classifier(folder, family, [*QUESTIONS, *SENTENCES], **settings)


def load(folder: Path, **settings: object) -> Reranker:
    return load_reranker("cross_encoder", folder, model=find_model, **{"precision": "fp32"} | settings)


def predicted(folder: Path) -> np.ndarray:
    """What sentence-transformers gives, [pairs] or [pairs, 2]."""
    import sentence_transformers  # takes seconds, so not at the top

    return np.asarray(sentence_transformers.CrossEncoder(str(folder), device="cpu").predict(PAIRS))


def scores(folder: Path, output: str = "model") -> np.ndarray:
    loaded = load(folder, output=output)
    assert isinstance(loaded, CrossEncoder)
    return loaded._scores(loaded._scorer.score(PAIRS).logits)


# transformers writes no number of classes for a BART of two, and reads three.
@pytest.mark.parametrize(
    ("family", "classes"),
    [
        pytest.param(
            family,
            classes,
            # Two classes differ in what is made of the logits, which no family does in its own way.
            marks=[pytest.mark.nightly] if classes == 2 and family not in ("bert", "deberta-v2") else [],
        )
        for family in FAMILIES
        for classes in (1, 2)
        if (family, classes) != ("bart", 2)
    ],
)
def test_a_score_is_the_one_of_sentence_transformers(family: str, classes: int, tmp_path: Path) -> None:
    folder = write(tmp_path, family, classes=classes)
    theirs, ours = predicted(folder), scores(folder)
    assert isinstance(load_scorer(PublishedClassifier.read(folder), 64, "cpu"), PackedScorer) == (
        family in NAMES
    )
    assert ours == pytest.approx(theirs if classes == 1 else theirs[:, 1] - theirs[:, 0], abs=1e-4)
    assert np.ptp(ours) > 0.2 and len(np.unique(ours.round(4))) > 12


@pytest.mark.parametrize("family", ["roberta", "deberta-v2", "modernbert", "mpnet"])
def test_a_score_does_not_depend_on_what_else_is_scored(family: str, tmp_path: Path) -> None:
    scorer = load_scorer(PublishedClassifier.read(write(tmp_path, family)), 64, "cpu", "fp32")
    together = scorer.score(PAIRS).logits
    alone = np.concatenate([scorer.score([pair]).logits for pair in PAIRS])
    backwards = scorer.score([*PAIRS[::-1], *PAIRS]).logits[: len(PAIRS)][::-1]
    assert rounded(together).tolist() == rounded(alone).tolist() == rounded(backwards).tolist()


def test_pairs_that_are_tokenised_in_parts_have_the_same_logits_in_their_order(
    tmp_path: Path, monkeypatch
) -> None:
    scorer = load_scorer(PublishedClassifier.read(write(tmp_path)), 16, "cpu", "fp32")
    at_once = scorer.score(PAIRS)
    monkeypatch.setattr(pair_scorers, "TOKENISED", 5)
    in_parts = scorer.score(PAIRS)
    assert len(PAIRS) % 5 and len(PAIRS) > 10 and at_once.cut.any()
    assert np.array_equal(rounded(in_parts.logits), rounded(at_once.logits))
    assert (
        in_parts.tokens.tolist() == at_once.tokens.tolist() and in_parts.cut.tolist() == at_once.cut.tolist()
    )


def test_the_model_s_folder_says_what_its_score_is_and_the_stage_may_say_another(tmp_path: Path) -> None:
    folder = write(tmp_path)
    logits, chances = scores(folder, "logit"), scores(folder, "probability")
    assert chances == pytest.approx(1 / (1 + np.exp(-logits)), abs=1e-12) and not np.allclose(
        logits, chances, atol=0.1
    )
    assert scores(folder).tolist() == chances.tolist()
    change_json(
        folder / "config.json", sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"}
    )

    assert scores(folder).tolist() == logits.tolist() == pytest.approx(predicted(folder), abs=1e-4)
    change_json(
        folder / "config.json", sentence_transformers={"activation_fn": "torch.nn.modules.activation.Tanh"}
    )

    with pytest.raises(
        ValueError,
        match=r"config_sentence_transformers.json .* neither Sigmoid nor Identity; set output = 'logit'",
    ):
        load(folder)

    assert scores(folder, "logit").tolist() == logits.tolist()


def test_a_pair_is_cut_at_the_limit_and_the_tokens_are_counted(tmp_path: Path) -> None:
    folder = write(tmp_path, "distilbert")
    whole = load_scorer(PublishedClassifier.read(folder), 64, "cpu", "fp32").score(PAIRS)
    short = load_scorer(PublishedClassifier.read(folder), 16, "cpu", "fp32").score(PAIRS)
    assert whole.cut.max() > 0 and whole.tokens.max() == 64
    assert (whole.tokens + whole.cut == short.tokens + short.cut).all() and short.tokens.max() == 16


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_no_pair_has_no_score(family: str, tmp_path: Path) -> None:
    assert (
        load_scorer(PublishedClassifier.read(write(tmp_path, family)), 64, "cpu", "fp32")
        .score([])
        .logits.tolist()
        == []
    )


@pytest.mark.parametrize(
    "family",
    [
        "distilbert",
        "deberta-v2",
        *(pytest.param(family, marks=pytest.mark.nightly) for family in ("modernbert", "mpnet", "albert")),
    ],
)
def test_in_bf16_the_head_is_computed_in_fp32(family: str, tmp_path: Path) -> None:
    """Of bf16 logits, neighbours would be equal."""
    classifier = PublishedClassifier.read(write(tmp_path, family))
    exact, fast = (
        load_scorer(classifier, 64, "cpu", precision).score(PAIRS).logits for precision in ("fp32", "bf16")
    )
    assert np.corrcoef(exact, fast)[0, 1] > 0.95
    as_bf16 = torch.from_numpy(fast).to(torch.bfloat16).double().numpy()
    assert np.count_nonzero(as_bf16 != fast) > len(PAIRS) / 2


def test_a_limit_may_be_any_number_of_positions(tmp_path: Path) -> None:
    folder = write(tmp_path, "deberta-v2")
    scorer = load_scorer(PublishedClassifier.read(folder), 63, "cpu", "fp32")
    assert scorer.score(PAIRS).tokens.max() == 63 and scorer._model._longest == 63  # type: ignore[attr-defined]


@pytest.mark.parametrize("family", ["bert", "distilbert"])
@pytest.mark.parametrize(
    ("file", "changes", "says"),
    [
        (
            "config.json",
            {"id2label": {"0": "a", "1": "b", "2": "c"}},
            "its head has 3 classes; give one of a single class, or",
        ),
        (
            "config.json",
            {"architectures": ["XModel"]},
            "it holds a XModel, which has no head that scores a pair",
        ),
    ],
)
def test_a_folder_that_gives_no_score_is_refused(
    family: str, file: str, changes: dict[str, object], says: str, tmp_path: Path
) -> None:
    change_json(write(tmp_path, family) / file, **changes)
    with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path))}.*{says}"):
        load(tmp_path)


@pytest.mark.parametrize("family", ["roberta", "mpnet"])
def test_a_limit_beyond_the_model_s_positions_is_refused(family: str, tmp_path: Path) -> None:
    folder = write(tmp_path, family)
    change_json(folder / "tokenizer_config.json", model_max_length=512)  # more than the model has
    assert PublishedClassifier.read(folder).limit == 64
    with pytest.raises(
        ValueError, match=f"limit = 65, but {re.escape(str(folder))} has 64 positions; give at most 64"
    ):
        load(folder, limit=65)


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_a_head_that_is_not_in_the_weights_is_refused(family: str, tmp_path: Path) -> None:
    file = write(tmp_path, family) / "model.safetensors"
    save_file(
        {name: each for name, each in load_file(file).items() if not name.startswith("classifier")},
        file,
        {"format": "pt"},
    )
    with pytest.raises(ValueError, match=r"its weights lack .*classifier"):
        load(tmp_path)


def test_a_tokenizer_that_cannot_pad_is_refused_where_pairs_are_padded(tmp_path: Path) -> None:
    folder = write(tmp_path, "deberta-v2")
    change_json(folder / "tokenizer_config.json", pad_token=None)
    with pytest.raises(
        ValueError, match=r"its tokenizer has no padding token, .*; set tokenizer.pad_token in transformers"
    ):
        load(folder)


def test_pickled_weights_and_code_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", "distilbert")
    change_json(
        folder / "config.json",
        auto_map={"AutoModel": "modeling.Own"},
        architectures=["OwnForSequenceClassification"],
    )

    with pytest.raises(
        ModelMissing, match=r"names Python code .* code of a model's folder is never run here"
    ):
        load(folder)

    folder = write(tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelMissing, match="no safetensors weights") as e:
        load(folder)
    assert e.value.exit_code == 69


def test_a_weight_that_is_no_number_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path) / "model.safetensors"
    weights = load_file(file)
    weights["classifier.bias"][0] = torch.nan
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ModelDamaged, match=r"hold NaN or infinity"):
        load(tmp_path)


def test_whole_numbers_are_refused_where_pairs_are_padded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is for models of the packed encoder, .*deberta-v2"):
        load(write(tmp_path, "deberta-v2"), precision="int8", int8_loss="any")
