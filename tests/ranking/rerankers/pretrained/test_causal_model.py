"""Language models that answer yes or no give the scores of sentence-transformers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers
import torch
import transformers

from answermill.files.model_files import load_pretrained
from answermill.indexing.shards.dense import find_model
from answermill.ranking.reranker import rounded
from answermill.ranking.rerankers.pretrained import CrossEncoderStage
from answermill.ranking.rerankers.pretrained.pair_scorers import Logits, Wording, load_scorer
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier
from testing.family_models import CHAT, change_json, write_causal, write_classifier, write_yes_no

QUESTIONS = ["When was the dam at Aswan finished?", "Who wrote the letters?"]
SENTENCES = [
    "The Aswan High Dam is 111 metres high.",
    "The yearly flood ended when the dam was completed in 1970.",
    "",
    "Lake Nasser lies behind it, and the letters of those who wrote about it are kept in Cairo. " * 4,
    "Naïve 😀 text in {no} language",
]
PAIRS = [(question, sentence) for question in QUESTIONS for sentence in SENTENCES]
NO_WORDING = Wording()
TEXTS = [*QUESTIONS, *SENTENCES]


def scored(folder: Path, wording: Wording = NO_WORDING, precision: Any = "fp32") -> Logits:
    classifier = PublishedClassifier.read(folder)
    return load_scorer(classifier, classifier.limit, "cpu", precision, wording).score(PAIRS)


def predicted(folder: Path) -> np.ndarray:
    """Logits of sentence-transformers, a pair at a time."""
    model = sentence_transformers.CrossEncoder(str(folder), device="cpu", activation_fn=torch.nn.Identity())
    return np.array([model.predict([pair])[0] for pair in PAIRS])


@pytest.mark.parametrize(
    ("kind", "no"),
    [
        ("Qwen3", True),
        ("Qwen3", False),
        ("Qwen2", True),
        ("Gemma2", True),
        ("Llama", True),
        *(pytest.param(kind, False, marks=pytest.mark.nightly) for kind in ("Qwen2", "Gemma2", "Llama")),
    ],
)
def test_a_score_is_the_one_of_sentence_transformers(kind: str, no: bool, tmp_path: Path) -> None:
    folder = write_yes_no(tmp_path, kind, TEXTS, no)
    result = scored(folder)
    assert result.logits == pytest.approx(predicted(folder), abs=1e-4)
    assert len(np.unique(result.logits.round(5))) > len(PAIRS) / 2 and np.ptp(result.logits) > 0.02

    # A pair that is too long keeps the end of its prompt.
    assert result.cut.any() and result.tokens.max() == 96


def test_a_prompt_of_the_folder_is_the_system_s_message(tmp_path: Path) -> None:
    folder = write_yes_no(tmp_path, "Qwen3", TEXTS)
    plain = scored(folder).logits
    prompts = {"prompts": {"dams": "Is it about dams?"}, "default_prompt_name": "dams"}
    change_json(folder / "config_sentence_transformers.json", **prompts)
    logits = scored(folder).logits
    assert logits == pytest.approx(predicted(folder), abs=1e-4) and np.abs(logits - plain).min() > 1e-4


def test_a_default_prompt_that_is_not_there_is_refused(tmp_path: Path) -> None:
    folder = write_yes_no(tmp_path, "Qwen3", TEXTS)
    change_json(folder / "config_sentence_transformers.json", prompts={}, default_prompt_name="dams")
    with pytest.raises(
        ValueError, match=f"{re.escape(str(folder))}: its default prompt 'dams' is none of those"
    ):
        PublishedClassifier.read(folder)


def test_a_template_that_takes_parts_is_given_parts(tmp_path: Path) -> None:
    template = "{% for m in messages %}<s>{{ m.role }} {{ m.content[0].text }}</s>{% endfor %}"
    folder = write_yes_no(tmp_path, "Qwen3", TEXTS, chat=template)
    assert scored(folder).logits == pytest.approx(predicted(folder), abs=1e-4)


def test_a_template_that_writes_texts_and_parts_in_two_ways_is_refused(tmp_path: Path) -> None:
    part = "{% if m.content is string %}{{ m.content }}{% else %}part {{ m.content[0].text }}{% endif %}"
    template = f"{{% for m in messages %}}<s>{{{{ m.role }}}} {part}</s>{{% endfor %}}"
    folder = write_causal(tmp_path, "Qwen3", TEXTS, chat=template)
    with pytest.raises(
        ValueError, match=r"writes a text in another way than a list of parts, .* set template"
    ):
        scored(folder, Wording("yes", "no"))
    same = template.replace("part {{", "{{")
    assert np.isfinite(
        scored(write_causal(tmp_path, "Qwen3", TEXTS, chat=same), Wording("yes", "no")).logits
    ).all()


def test_without_a_chat_template_both_texts_follow_each_other(tmp_path: Path) -> None:
    folder = write_yes_no(tmp_path, "Qwen3", TEXTS, chat=None)
    assert scored(folder).logits == pytest.approx(predicted(folder), abs=1e-4)


def test_a_score_depends_on_its_pair_alone(tmp_path: Path) -> None:
    classifier = PublishedClassifier.read(write_yes_no(tmp_path, "Qwen3", TEXTS))
    scorer = load_scorer(classifier, 96, "cpu", "fp32")
    alone = np.concatenate([scorer.score([pair]).logits for pair in PAIRS])
    assert np.array_equal(rounded(scorer.score(PAIRS).logits), rounded(alone))


def test_in_bf16_the_two_logits_are_fp32(tmp_path: Path) -> None:
    folder = write_yes_no(tmp_path, "Qwen3", TEXTS)
    exact, fast = scored(folder).logits, scored(folder, precision="bf16").logits
    assert np.corrcoef(exact, fast)[0, 1] > 0.9
    assert np.count_nonzero(torch.from_numpy(fast).bfloat16().double().numpy() != fast) > len(PAIRS) / 2


WORDING = Wording("yes", "no", "<s>Asked: {question} Read: {candidate} {brace}</s><s>So")


def test_a_stage_names_tokens_and_template_of_a_bare_model(tmp_path: Path) -> None:
    folder = write_causal(tmp_path, "Qwen3", TEXTS)
    result = scored(folder, WORDING)

    tokenizer = load_pretrained("AutoTokenizer", folder)
    model = load_pretrained("AutoModelForCausalLM", folder).eval()
    yes, no = (tokenizer.convert_tokens_to_ids(word) for word in ("yes", "no"))
    for pair, logit, cut in zip(PAIRS, result.logits, result.cut, strict=True):
        prompt = f"<s>Asked: {pair[0]} Read: {pair[1]} {{brace}}</s><s>So"
        ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
        ending = tokenizer(" {brace}</s><s>So", add_special_tokens=False)["input_ids"]
        if ids.shape[1] > 96:
            ids = torch.cat([ids[:, : 96 - len(ending)], torch.tensor([ending])], 1)
        with torch.inference_mode():
            last = model(input_ids=ids).logits[0, -1]
        assert logit == pytest.approx(float(last[yes] - last[no]), abs=1e-4)
        assert cut == max(0, len(tokenizer(prompt, add_special_tokens=False)["input_ids"]) - 96)


def test_an_empty_no_is_the_logit_of_yes_alone(tmp_path: Path) -> None:
    folder = write_yes_no(tmp_path, "Qwen3", TEXTS, no=False)
    named = scored(folder, Wording("yes", "")).logits
    assert named == pytest.approx(scored(folder).logits, abs=1e-6)


@pytest.mark.parametrize(
    ("wording", "says"),
    [
        (
            Wording(),
            "a language model that does not name the two tokens of its score; set yes_token and no_token",
        ),
        (Wording("yes"), "a language model that does not name the two tokens of its score"),
        (Wording("yes", "never seen"), r"no_token = 'never seen' is \d+ tokens; give the text of one"),
        (Wording("yes", "yes"), "yes_token = 'yes' and no_token = 'yes'; give two that differ"),
    ],
)
def test_a_language_model_without_its_two_tokens_is_refused(
    wording: Wording, says: str, tmp_path: Path
) -> None:
    write_causal(tmp_path, "Qwen3", TEXTS)
    with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path))}: {says}"):
        scored(tmp_path, wording)


@pytest.mark.parametrize(
    ("number", "says"), [(True, "names no two tokens"), (-1_000_000, "have no row for the token -1000000")]
)
def test_a_number_that_is_no_token_is_refused(number: int, says: str, tmp_path: Path) -> None:
    folder = write_yes_no(tmp_path, "Qwen3", TEXTS)
    change_json(folder / "1_LogitScore/config.json", true_token_id=number)
    with pytest.raises(ValueError, match=f"{re.escape(str(folder))}.*{says}"):
        scored(folder)


def test_a_chat_template_without_a_place_for_the_pair_is_refused(tmp_path: Path) -> None:
    template = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    write_causal(tmp_path, "Qwen3", TEXTS, chat=template)
    with pytest.raises(ValueError, match="its chat template does not write question and candidate"):
        scored(tmp_path, Wording("yes", "no"))
    assert np.isfinite(scored(tmp_path, WORDING).logits).all()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"true_token_id": None}, "its config.json names no two tokens"),
        ({"true_token_id": 5, "false_token_id": 5}, "its config.json names no two tokens"),
        ({"true_token_id": 10_000}, "its weights have no row for the token 10000"),
        ({"module_input_name": "hidden"}, "it reads other logits"),
    ],
)
def test_a_damaged_logit_score_is_refused(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    folder = write_yes_no(tmp_path, "Qwen3", TEXTS)
    change_json(folder / "1_LogitScore" / "config.json", **changes)
    with pytest.raises(ValueError, match=f"{re.escape(str(folder))}.*{says}"):
        scored(folder)


def test_a_classifier_takes_no_wording(tmp_path: Path) -> None:
    write_classifier(tmp_path, "bert", TEXTS)
    with pytest.raises(ValueError, match=r"are for language models, which this is not; remove them"):
        scored(tmp_path, Wording("yes", "no"))


def write_chatting_classifier(folder: Path, chat: str | None = CHAT) -> Path:
    write_causal(folder, "Qwen3", TEXTS, chat=chat)
    config = transformers.AutoConfig.from_pretrained(folder, num_labels=1)
    torch.manual_seed(0)
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    return folder


def test_a_classifier_with_a_chat_template_reads_what_it_writes(tmp_path: Path) -> None:
    folder = write_chatting_classifier(tmp_path)
    assert scored(folder).logits == pytest.approx(predicted(folder), abs=1e-4)


def test_a_classifier_may_read_the_stage_s_template(tmp_path: Path) -> None:
    template = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    folder = write_chatting_classifier(tmp_path, template)
    with pytest.raises(ValueError, match="its chat template does not write question and candidate"):
        scored(folder)
    logits = scored(folder, Wording(template="Asked: {question} Read: {candidate} So")).logits

    tokenizer = load_pretrained("AutoTokenizer", folder)
    model = load_pretrained("AutoModelForSequenceClassification", folder).eval()
    for pair, logit in list(zip(PAIRS, logits, strict=True))[:3]:
        prompt = f"Asked: {pair[0]} Read: {pair[1]} So"
        ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            assert logit == pytest.approx(float(model(input_ids=ids).logits[0, 0]), abs=1e-4)


def test_a_stage_s_settings_reach_the_model(tmp_path: Path) -> None:
    write_causal(tmp_path, "Qwen3", TEXTS, chat=None)
    with pytest.raises(ValueError, match="does not name the two tokens"):
        load_reranker("cross_encoder", tmp_path, model=find_model)
    settings = {"yes_token": "yes", "no_token": "no", "template": "{question} {candidate}"}
    assert load_reranker("cross_encoder", tmp_path, model=find_model, **settings).name == "cross_encoder"
    with pytest.raises(ValueError, match=r"template: \{candidate\} is not in it"):
        CrossEncoderStage(reranker="cross_encoder", template="{question}")
