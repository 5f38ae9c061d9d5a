"""Cross-encoders published in Hugging Face's format, sequence classifiers or modules: a folder's statements
about its score and, for the families that the packed encoder computes, its transformer and its head.

A score needs one number: a head of one class, or of two, the second of which is "answers the question"."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from answermill.files.model_files import check_weights, position_count, read_table, token_limit
from answermill.ranking.transformer.classifier import PublishedHead
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface.families import NAMES
from answermill.ranking.transformer.published.causal_model import AnswerTokens
from answermill.ranking.transformer.published.modular_head import HeadPlan, Pooled, modules_of
from answermill.ranking.transformer.published.prompts import chats

Output = Literal["logit", "probability"]

_OWN = "config_sentence_transformers.json"
_ACTIVATIONS: dict[str, Output] = {"Identity": "logit", "Sigmoid": "probability"}


@dataclass(frozen=True, slots=True)
class PublishedClassifier:
    """Facts in the files of a folder, before any weight is read."""

    folder: Path
    family: str
    classes: int
    """Classes of the head: 1 or 2."""
    output: Output | None
    """Output of sentence-transformers' `CrossEncoder.predict`: the logit or its sigmoid; None if it is
    another function."""
    limit: int
    """Most tokens of question and candidate together."""
    positions: int
    """Most tokens that the model can take."""
    pooling: Pooled = "first"
    """Encoding that the head reads."""
    head: HeadPlan | None = None
    """Head of modules; None if it is the family's own."""
    causal: bool = False
    """True for a language model, whose next token is the score."""
    answers: AnswerTokens | None = None
    """Tokens of a language model's score; None if the folder names none."""
    prompt: str = ""
    """Text that a language model reads before question and candidate."""
    chats: bool = False
    """True if the pair is written by the folder's chat template."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises ValueError if the folder holds no sequence classifier of one or two classes, modules that
        give scores, or causal language model."""
        config, modules = read_table(folder / "config.json"), modules_of(folder)
        scoring = modules[-1] if len(modules) > 1 and modules[-1].kind == "LogitScore" else None
        head = HeadPlan.of(folder, modules) if len(modules) > 1 and scoring is None else None
        kind = str((config.get("architectures") or ["model without `architectures`"])[0])
        causal = head is None and kind.endswith("ForCausalLM")
        if head is None and not causal and not kind.endswith("ForSequenceClassification"):
            raise ValueError(
                f"{folder}: it holds a {kind}, which has no head that scores a pair; give a CrossEncoder, "
                "or another model whose architecture ends in ForSequenceClassification or ForCausalLM"
            )

        if head is not None or causal:
            classes = 1 if head is None else head.classes
        else:
            labels = config.get("id2label")
            classes = int(config.get("num_labels") or len(labels or ()) or 2)
        if classes not in (1, 2):
            raise ValueError(
                f"{folder}: its head has {classes} classes; give one of a single class, or of two with the "
                "answers second"
            )
        prompts = read_table(folder / _OWN) if modules else {}  # read beside modules.json alone
        if modules and prompts.get("model_type") != "CrossEncoder":
            raise ValueError(
                f"{folder}: its modules.json is not a CrossEncoder's (model_type in {_OWN}), so "
                "sentence-transformers takes other settings than its files state; write the model with "
                "CrossEncoder.save_pretrained(folder), or remove modules.json"
            )
        name = prompts.get("default_prompt_name")
        if name and not causal:
            raise ValueError(
                f"{folder}: it wants a prompt before each pair ({name!r}), which is not supported; give "
                "another model"
            )
        if name and name not in (prompts.get("prompts") or {}):
            raise ValueError(
                f"{folder}: its default prompt {name!r} is none of those in {_OWN}; copy the model's folder "
                "again"
            )

        limit, positions = token_limit(folder, config), position_count(config)
        family = str(config.get("model_type"))
        is_mean = family == "modernbert" and config.get("classifier_pooling") == "mean"
        pooling: Pooled = "mean" if is_mean else "first"
        return cls(
            folder,
            family,
            classes,
            _output(folder, config, classes),
            limit,
            positions,
            pooling if head is None else head.pooling,
            head,
            causal,
            AnswerTokens.of_module(scoring) if scoring is not None else None,
            str((prompts.get("prompts") or {}).get(name) or "") if name else "",
            chats(folder),
        )

    def longest(self, limit: int | None) -> int:
        """Number of tokens after which a pair is cut: `limit`, or the model's own. Raises ValueError if the
        model takes fewer."""
        if limit is not None and limit > self.positions:
            raise ValueError(
                f"limit = {limit}, but {self.folder} has {self.positions} positions; give at most "
                f"{self.positions}"
            )
        return self.limit if limit is None else limit


def load_published(classifier: PublishedClassifier) -> tuple[LayeredEncoder, PublishedHead]:
    """The transformer and its family's own head, which turns pooled encodings into logits.

    Raises ValueError, with the folder, if the packed encoder does not compute it, or if the head is missing;
    ModelDamaged if a weight is no number.
    """
    folder, encoder = classifier.folder, LayeredEncoder.load(classifier.folder)
    shape, weights = encoder.shape, dict[str, Tensor]()
    names = NAMES[shape.family].head
    modules = {"first": names.first, "score": names.score} | ({"norm": names.norm} if names.norm else {})
    try:
        with safe_open(folder / "model.safetensors", "pt") as file:
            stored = set(file.keys())
            for own_name, name in modules.items():
                weights[f"{own_name}.weight"] = weight = file.get_tensor(f"{name}.weight").float()
                if own_name == "score" or shape.biased or f"{name}.bias" in stored:
                    weights[f"{own_name}.bias"] = file.get_tensor(f"{name}.bias").float()
                else:
                    weights[f"{own_name}.bias"] = weight.new_zeros(len(weight))
    except SafetensorError as e:
        raise ValueError(
            f"{folder}: its weights lack the head that config.json names ({e}); give another model"
        ) from e

    check_weights(weights, folder / "model.safetensors")
    if classifier.classes == 2:
        weights |= {f"score.{name}": weights[f"score.{name}"].diff(dim=0) for name in ("weight", "bias")}

    with torch.device("meta"):
        head = PublishedHead(
            shape.width,
            shape.dropout,
            names.activation,
            names.norm is not None,
            "mean" if classifier.pooling == "mean" else "first",
        )
    try:
        head.load_state_dict(weights, assign=True)
    except RuntimeError as e:
        raise ValueError(
            f"{folder}: its head does not fit config.json ({' '.join(str(e).split())}); copy the model's "
            "folder again"
        ) from e

    return encoder, head


def load_with_head(folder: Path, layers: int | None = None) -> tuple[LayeredEncoder, PublishedHead | None]:
    """Transformer and head of a folder; no head if it has none that gives a score, or one of modules, or if
    only the first `layers` are loaded. Raises the errors of `load_published`."""
    try:
        classifier = PublishedClassifier.read(folder) if layers is None else None
    except ValueError:
        classifier = None
    if classifier is None or classifier.head is not None or classifier.causal:
        return LayeredEncoder.load(folder, layers), None
    return load_published(classifier)


def _output(folder: Path, config: dict[str, Any], classes: int) -> Output | None:
    """Form in which the folder gives a logit. A function that is no module of torch is ignored, as
    sentence-transformers ignores it."""
    # The file is read beside modules.json alone.
    name = read_table(folder / _OWN).get("activation_fn") if (folder / "modules.json").is_file() else None
    if not isinstance(name, str) or not name.startswith("torch."):
        nested, older = (
            config.get("sentence_transformers"),
            config.get("sbert_ce_default_activation_function"),
        )
        name = nested["activation_fn"] if isinstance(nested, dict) and "activation_fn" in nested else older
    if not isinstance(name, str) or not name.startswith("torch."):
        return "probability" if classes == 1 else "logit"
    return _ACTIVATIONS.get(name.rpartition(".")[2])
