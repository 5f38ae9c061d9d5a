"""Hugging Face's `config.json` and weights, read and written for the families that `LayeredEncoder` computes,
and the head of their sequence classifiers, which is read only. Only this file knows their names; ours are
those of the encoder's modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor

Family = Literal["bert", "roberta", "xlm-roberta", "camembert", "electra"]
_FAMILIES: tuple[Family, ...] = get_args(Family)
_ROBERTAS = ("roberta", "xlm-roberta", "camembert")
"""Families of one architecture, whose positions count from the padding token's number."""

# Our names → Hugging Face's
_TABLES = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
}
_ATTENTION = ("query", "key", "value")  # one linear layer here


@dataclass(frozen=True, slots=True)
class Shape:
    """An encoder without its weights; `dataclasses.asdict` and `Shape(**…)` write it to a checkpoint and read
    it."""

    layers: int
    width: int
    """d: numbers per token."""
    heads: int
    inner: int
    """Numbers per token between the two linear layers that follow attention."""
    vocabulary: int
    family: Family = "bert"
    positions: int = 512
    """Most tokens of a text."""
    offset: int = 0
    """Rows of the position table before a text's first: 2 in RoBERTa."""
    types: int = 2
    embedded: int | None = None
    """Numbers per token before they are projected to `width` (small ELECTRA); None = `width`, without
    projection."""
    epsilon: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1

    def __post_init__(self) -> None:
        if self.family not in _FAMILIES:
            raise ValueError(f"unknown family {self.family!r}; known: {', '.join(_FAMILIES)}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is no multiple of {self.heads} heads")

    @classmethod
    def of(cls, config: dict[str, Any]) -> Self:
        """Shape in Hugging Face's config.json. Raises ValueError on a model that is not supported here."""
        if "auto_map" in config:
            raise ValueError(
                "its config.json names Python code (auto_map), which is never run here; give a model "
                "without auto_map"
            )

        family = config.get("model_type")
        if family == "dpr":  # a BERT under another name
            family = "bert"
        if family == "albert":
            raise ValueError(
                "it holds an ALBERT, whose layers are one and the same: there are no last ones to split off "
                "as heads or to "
                f"train for an exit; give one of {', '.join(_FAMILIES)}. It can still teach: [distil] reads "
                "scores from a table"
            )

        if family not in _FAMILIES:
            raise ValueError(f"it holds a model of type {family!r}; give one of {', '.join(_FAMILIES)}")

        # Other values would change the numbers without an error.
        computed = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
        for key, value in computed.items():
            if config.get(key, value) != value:
                raise ValueError(
                    f"{key} is {config[key]!r}; only {value!r} is computed here, give another model"
                )

        offset = int(config.get("pad_token_id", 1)) + 1 if family in _ROBERTAS else 0
        width = int(config["hidden_size"])
        embedded = int(config.get("embedding_size") or width)
        return cls(
            layers=int(config["num_hidden_layers"]),
            width=width,
            heads=int(config["num_attention_heads"]),
            inner=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            family=family,
            positions=int(config["max_position_embeddings"]) - offset,
            offset=offset,
            types=int(config["type_vocab_size"]),
            embedded=embedded if embedded != width else None,
            epsilon=float(config.get("layer_norm_eps", 1e-12)),
            dropout=float(config.get("hidden_dropout_prob", 0.1)),
            attention_dropout=float(config.get("attention_probs_dropout_prob", 0.1)),
        )

    def config(self) -> dict[str, Any]:
        """Entries of Hugging Face's config.json: the inverse of `of`."""
        config: dict[str, Any] = {
            "model_type": self.family,
            "num_hidden_layers": self.layers,
            "hidden_size": self.width,
            "num_attention_heads": self.heads,
            "intermediate_size": self.inner,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.positions + self.offset,
            "type_vocab_size": self.types,
            "layer_norm_eps": self.epsilon,
            "hidden_dropout_prob": self.dropout,
            "attention_probs_dropout_prob": self.attention_dropout,
            "hidden_act": "gelu",
            "pad_token_id": max(self.offset - 1, 0),
        }

        return config | ({"embedding_size": self.embedded or self.width} if self.family == "electra" else {})


def translated(weights: dict[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """Weights under our names, in fp32, from Hugging Face's. Raises KeyError on a weight that is missing."""
    words = f"{_TABLES['words']}.weight"
    prefix = next(
        (name.removesuffix(words) for name in weights if name.endswith(words)), f"{_prefix(shape.family)}."
    )

    def both(module: str) -> Iterator[tuple[str, Tensor]]:
        """(weight or bias, its values); normalisation has older names for them."""
        for name, older in (("weight", "gamma"), ("bias", "beta")):
            values = weights.get(f"{prefix}{module}.{name}", weights.get(f"{prefix}{module}.{older}"))
            if values is None:
                raise KeyError(f"{prefix}{module}.{name}")
            yield name, values.float()

    translation = {
        f"{own_name}.weight": weights[f"{prefix}{hf_name}.weight"].float()
        for own_name, hf_name in _TABLES.items()
    }
    for own_name, hf_name in _modules(shape).items():
        translation |= {f"{own_name}.{name}": values for name, values in both(hf_name)}
    for n in range(shape.layers):
        parts = [dict(both(f"encoder.layer.{n}.attention.self.{part}")) for part in _ATTENTION]
        for name in ("weight", "bias"):
            translation[f"layers.{n}.attention.{name}"] = torch.cat([part[name] for part in parts])

    return translation


def _prefix(family: Family) -> str:
    """Prefix of the names of a whole model's weights."""
    return "roberta" if family in _ROBERTAS else family


Activation = Literal["tanh", "gelu"]


def head_activation(family: Family) -> Activation:
    """Function between the two layers of a sequence classifier's head."""
    return "gelu" if family == "electra" else "tanh"


def head_names(family: Family) -> dict[str, str]:
    """Our names → Hugging Face's for the two layers of a sequence classifier's head, each with a weight and a
    bias."""
    if family == "bert":
        return {"first": "bert.pooler.dense", "score": "classifier"}
    return {"first": "classifier.dense", "score": "classifier.out_proj"}


def translated_back(weights: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """Weights under Hugging Face's names, in fp32, from ours, without layers beyond those of the
    shape."""
    translation = {
        f"{hf_name}.weight": weights[f"{own_name}.weight"] for own_name, hf_name in _TABLES.items()
    }
    for name in ("weight", "bias"):
        translation |= {
            f"{hf_name}.{name}": weights[f"{own_name}.{name}"]
            for own_name, hf_name in _modules(shape).items()
        }
        for n in range(shape.layers):
            parts = zip(_ATTENTION, weights[f"layers.{n}.attention.{name}"].chunk(3), strict=True)
            translation |= {
                f"encoder.layer.{n}.attention.self.{part}.{name}": values.clone() for part, values in parts
            }

    if shape.family != "electra":  # no result depends on it, but from_pretrained of the whole class needs it
        translation["pooler.dense.weight"] = torch.zeros(shape.width, shape.width)
        translation["pooler.dense.bias"] = torch.zeros(shape.width)

    return {name: values.detach().float().cpu().contiguous() for name, values in translation.items()}


def _modules(shape: Shape) -> dict[str, str]:
    """Our names → Hugging Face's for modules with a weight and a bias, without attention's (`_ATTENTION`)."""
    modules = {"norm": "embeddings.LayerNorm"} | ({"project": "embeddings_project"} if shape.embedded else {})
    for n in range(shape.layers):
        hf_name = f"encoder.layer.{n}"
        modules |= {
            f"layers.{n}.output": f"{hf_name}.attention.output.dense",
            f"layers.{n}.norm": f"{hf_name}.attention.output.LayerNorm",
            f"layers.{n}.widen": f"{hf_name}.intermediate.dense",
            f"layers.{n}.narrow": f"{hf_name}.output.dense",
            f"layers.{n}.final_norm": f"{hf_name}.output.LayerNorm",
        }
    return modules
