"""Published models are given the tokens that their own libraries give them, whichever file says so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers
import transformers
from tokenizers import Tokenizer, processors

from answermill.files.model_files import position_count, token_limit
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.rerankers.pretrained.pair_scorers import PackedScorer, load_scorer
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier
from answermill.ranking.transformer.published.published_tokenizer import published_tokeniser
from testing.family_models import change_json, write_classifier

QUESTION = "When was the dam at Aswan finished?"
TEXTS = [
    "the Aswan High Dam is 111 metres high",
    "Über naïve café, completed in 1970.",
    "大坝高 dam 水",
    "Lake Nasser lies behind it, and the letters of those who wrote about it are kept in Cairo. " * 4,
    "",
]
PAIRS = [(QUESTION, text) for text in TEXTS]


def write(folder: Path, family: str, **tokenizer_config: Any) -> Path:
    write_classifier(folder, family, [QUESTION, *TEXTS])
    change_json(folder / "tokenizer_config.json", **tokenizer_config)
    return folder


def scored(folder: Path, limit: int = 64) -> tuple[np.ndarray, bool]:
    """Logits of the pairs, and true if they are packed."""
    scorer = load_scorer(PublishedClassifier.read(folder), limit, "cpu", "fp32")
    return scorer.score(PAIRS).logits, isinstance(scorer, PackedScorer)


def predicted(folder: Path) -> np.ndarray:
    """Logits of sentence-transformers, a pair at a time."""
    theirs = sentence_transformers.CrossEncoder(str(folder), device="cpu", activation_fn=None)
    probabilities = np.array([theirs.predict([pair])[0] for pair in PAIRS], np.float64)
    return np.log(probabilities / (1 - probabilities))


BERT = {"tokenizer_class": "BertTokenizer", "model_input_names": None}
ROBERTA = {"tokenizer_class": "RobertaTokenizer", "model_input_names": None}


@pytest.mark.parametrize(
    ("family", "changes", "packed"),
    [
        ("bert", {"do_lower_case": False}, True),
        ("bert", {"strip_accents": False}, True),
        ("bert", {"tokenize_chinese_chars": False}, True),
        ("bert", {"model_input_names": ["input_ids", "attention_mask"]}, True),
        ("bert", {"truncation_side": "left"}, False),
        ("roberta", {"add_prefix_space": True}, True),
        ("roberta", {"truncation_side": "left"}, False),
        ("distilbert", {"do_lower_case": False}, True),
        ("deberta-v2", {"truncation_side": "left"}, False),
    ],
)
def test_tokenizer_config_decides_where_transformers_obeys_it(
    family: str, changes: dict[str, Any], packed: bool, tmp_path: Path
) -> None:
    kind = {"bert": BERT, "distilbert": BERT, "roberta": ROBERTA}.get(family, {})
    plain, _ = scored(write(tmp_path / "plain", family, **kind))
    folder = write(tmp_path / "changed", family, **kind | changes)
    changed, is_packed = scored(folder)
    assert changed == pytest.approx(predicted(folder), abs=1e-4) and is_packed == packed
    assert np.abs(changed - plain).max() > 1e-3


def test_without_token_types_in_its_inputs_a_bert_reads_both_texts_as_the_first(tmp_path: Path) -> None:
    folder = write(tmp_path, "bert", model_input_names=None)
    logits, packed = scored(folder)
    assert packed and logits == pytest.approx(predicted(folder), abs=1e-4)


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("tokenizer_config.json", {"extra_special_tokens": ["high"]}),
        ("tokenizer_config.json", {"extra_special_tokens": {"image_token": "high"}}),
        (
            "tokenizer_config.json",
            {"additional_special_tokens": [{"__type": "AddedToken", "content": "high"}]},
        ),
        ("tokenizer_config.json", {"image_token": "high"}),
        ("special_tokens_map.json", {"bos_token": "high"}),
    ],
)
@pytest.mark.parametrize("kind", [BERT, {"tokenizer_class": "PreTrainedTokenizerFast"}])
def test_a_special_token_that_tokenizer_json_does_not_add_is_one(
    kind: dict[str, Any], file: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    """transformers adds it: 'higher' is then 'high' and 'er', and a text's '[MASK]' is the special token."""
    folder = write(tmp_path, "bert", **kind)
    pair = ("higher, highest", "the [MASK] is high[SEP]")
    usual = published_tokeniser(folder, 64).pairs([pair]).pack().ids.tolist()
    change_json(folder / file, **changes)

    change_json(folder / "tokenizer.json", added_tokens=[])
    ids = published_tokeniser(folder, 64).pairs([pair]).pack().ids.tolist()
    assert ids == transformers.AutoTokenizer.from_pretrained(folder)(*pair)["input_ids"] != usual


def test_a_token_that_a_bert_s_list_of_added_tokens_lacks_is_none(tmp_path: Path) -> None:
    """BertTokenizer is made anew, with the tokens of the list."""
    folder = write(tmp_path, "bert", **BERT)
    saved = json.loads((folder / "tokenizer.json").read_text())
    special = {str(token.pop("id")): token for token in json.loads(json.dumps(saved["added_tokens"]))}
    new = saved["added_tokens"][0] | {"id": len(saved["model"]["vocab"]), "content": "<dam>"}
    change_json(folder / "tokenizer.json", added_tokens=[*saved["added_tokens"], new])
    change_json(folder / "tokenizer_config.json", added_tokens_decoder=special)

    pair = ("the <dam>", "it is <dam>")
    ids = published_tokeniser(folder, 64).pairs([pair]).pack().ids.tolist()
    assert ids == transformers.AutoTokenizer.from_pretrained(folder)(*pair)["input_ids"]
    assert new["id"] not in ids


@pytest.mark.parametrize(
    ("single", "pair"),
    [
        ("[CLS] $A [SEP]", "[CLS]:0 $A:0 [SEP]:1 $B:1 [SEP]:1"),
        ("[CLS] $A", "[CLS] $A [SEP] $B:1 [SEP]:1"),
        ("[CLS] $A [SEP]", "[CLS] $B [SEP] $A:1 [SEP]:1"),
    ],
)
def test_special_tokens_that_are_not_placed_as_a_packed_pair_has_them_are_padded(
    single: str, pair: str, tmp_path: Path
) -> None:
    folder = write(tmp_path, "bert")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("[CLS]", "[SEP]")]
    )
    tokenizer.save(str(folder / "tokenizer.json"))

    logits, packed = scored(folder)
    assert not packed and logits == pytest.approx(predicted(folder), abs=1e-4)


def test_a_model_whose_config_has_no_padding_token_takes_the_tokenizer_s(tmp_path: Path) -> None:
    folder = write(tmp_path, "gpt2")
    expected = predicted(folder)
    change_json(folder / "config.json", pad_token_id=None)
    assert scored(folder)[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_a_token_without_a_row_is_refused(family: str, tmp_path: Path) -> None:
    folder = write(tmp_path, family)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    new = max(tokenizer["model"]["vocab"].values()) + 1
    change_json(
        folder / "tokenizer.json",
        model=tokenizer["model"] | {"vocab": tokenizer["model"]["vocab"] | {"dam!": new}},
    )
    says = f"its tokenizer has {new + 1:,} tokens, its weights {new:,}; copy both from one model"
    with pytest.raises(ValueError, match=f"{re.escape(str(folder))}: {says}"):
        scored(folder)


@pytest.mark.parametrize(
    ("family", "change"), [("bert", {"unk_token": "[none]"}), ("xlm-roberta", {"unk_id": None})]
)
def test_a_tokenizer_that_fails_on_unknown_characters_is_refused_when_it_is_loaded(
    family: str, change: dict[str, Any], tmp_path: Path
) -> None:
    """Otherwise the first text with such a character would end a run."""
    folder = write(tmp_path, family)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    change_json(folder / "tokenizer.json", model=tokenizer["model"] | change)
    with pytest.raises(ValueError, match=f"{re.escape(str(folder))}: its tokenizer fails on the character"):
        scored(folder)


def test_a_model_that_cannot_compute_a_pair_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    folder = write(tmp_path, "bart")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    change_json(folder / "tokenizer.json", post_processor=None, version=tokenizer["version"])
    with pytest.raises(ValueError, match=f"{re.escape(str(folder))}: the model computes no text"):
        scored(folder)


@pytest.mark.parametrize("family", ["roberta", "longformer", "mpnet"])
def test_positions_that_count_from_the_padding_token_leave_fewer(family: str, tmp_path: Path) -> None:
    folder = write(tmp_path, family, model_max_length=None)
    assert PublishedClassifier.read(folder).limit == 64
    assert np.isfinite(scored(folder)[0]).all()


def test_a_limit_is_read_where_sentence_transformers_keeps_it(tmp_path: Path) -> None:
    config = {"model_type": "bert", "max_position_embeddings": 512}
    assert token_limit(tmp_path, config) == 512
    change_json(tmp_path / "tokenizer_config.json", model_max_length=int(1e30))
    assert token_limit(tmp_path, config) == 512
    change_json(tmp_path / "tokenizer_config.json", model_max_length=384)
    assert token_limit(tmp_path, config) == 384

    # Its own file counts beside modules.json alone.
    change_json(tmp_path / "sentence_bert_config.json", max_seq_length=256)
    assert token_limit(tmp_path, config) == 384
    (tmp_path / "modules.json").write_text("[]")
    assert token_limit(tmp_path, config) == 256
    change_json(tmp_path / "sentence_bert_config.json", processor_kwargs={"model_max_length": 128})
    assert token_limit(tmp_path, config) == 128
    change_json(tmp_path / "sentence_bert_config.json", processing_kwargs={"text": {"max_length": 96}})
    assert token_limit(tmp_path, config) == 96
    assert position_count({"model_type": "xlnet"}) > 100_000


def test_the_default_encoder_s_tokenizer_needs_no_transformers() -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from answermill.ranking.transformer.text_vectors import packed_tokeniser\n"
        "print(type(packed_tokeniser(Path(sys.argv[1]), 512)).__name__, 'transformers' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(find_model(DEFAULT))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == [
        "Tokeniser",
        "False",
    ]
