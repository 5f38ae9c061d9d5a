"""Hugging Face's `config.json` and weights, read and written for the families that `LayeredEncoder` computes.
`families.py` has their names; ours are those of the encoder's modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from answermill.ranking.transformer.huggingface.families import FAMILIES, NAMES, Family

_TABLES = ("words", "positions", "types", "relative")


@dataclass(frozen=True, slots=True)
class Rotary:
    """Positions of ModernBERT, by which queries and keys are turned, and the reach of its layers."""

    theta: float
    """Base of the angles in layers that attend to the whole text."""
    local_theta: float
    """Base of the angles in layers that attend to near tokens."""
    window: int
    """Largest distance of two tokens of which one attends to the other in the latter."""
    every: int
    """Layers 0, `every`, 2 × `every`, … attend to the whole text."""

    @classmethod
    def of(cls, config: dict[str, Any]) -> Self:
        """Settings in config.json, of transformers before 5 or since. Raises ValueError on others than
        ModernBERT's."""
        bases, parameters = list[float](), config.get("rope_parameters") or {}
        for kind, older, default in (
            ("full_attention", "global_rope_theta", 160_000.0),
            ("sliding_attention", "local_rope_theta", 10_000.0),
        ):
            rope = parameters.get(kind) or {}
            if rope.get("rope_type", "default") != "default" or config.get("rope_scaling"):
                raise ValueError(
                    "it scales its positions (rope_type), which is not computed here; give another model"
                )
            bases.append(float(rope.get("rope_theta", config.get(older, default))))

        types = config.get("layer_types")
        every = int(config.get("global_attn_every_n_layers", 3))
        if types is not None:
            whole = [n for n, kind in enumerate(types) if kind == "full_attention"]
            every = whole[1] if len(whole) > 1 else len(types)
            if whole != list(range(0, len(types), every)):
                raise ValueError(
                    f"its layers {whole} attend to the whole text (layer_types); only every nth from the "
                    "first is computed here, give another model"
                )

        return cls(bases[0], bases[1], int(config.get("local_attention", 128)) // 2, every)

    def config(self) -> dict[str, Any]:
        """Entries of config.json that every transformers with ModernBERT reads: the inverse of `of`."""
        return {
            "global_rope_theta": self.theta,
            "local_rope_theta": self.local_theta,
            "local_attention": 2 * self.window,
            "global_attn_every_n_layers": self.every,
        }

    def is_local(self, layer: int) -> bool:
        """True if a layer, counted from 0, attends to near tokens alone."""
        return layer % self.every != 0


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
    """Kinds of tokens that have an embedding; 0 if they have none."""
    embedded: int | None = None
    """Numbers per token before they are projected to `width` (small ELECTRA); None = `width`, without
    projection."""
    epsilon: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1
    buckets: int | None = None
    """Classes of distances that have a bias in attention (MPNet); None = no bias."""
    rotary: Rotary | None = None
    """Positions and layers of a ModernBERT; None for other families."""

    def __post_init__(self) -> None:
        if isinstance(self.rotary, dict):  # as read from a checkpoint
            object.__setattr__(self, "rotary", Rotary(**self.rotary))
        if self.family not in FAMILIES:
            raise ValueError(f"unknown family {self.family!r}; known: {', '.join(FAMILIES)}")
        sizes = {"layers": 0, "width": 1, "heads": 1, "inner": 1, "vocabulary": 1, "positions": 1}
        for name, least in sizes.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}; a whole number of at least {least} is needed")
        for name, most in {"epsilon": 1.0, "dropout": 1.0, "attention_dropout": 1.0}.items():
            if not 0 <= getattr(self, name) < most:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be from 0 to below 1")
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

        if config.get("quantization_config"):
            raise ValueError("its weights are quantized (quantization_config); give those that are not")

        family = config.get("model_type")
        if family == "dpr":  # a BERT under another name
            family = "bert"
        if family == "albert":
            raise ValueError(
                "it holds an ALBERT, whose layers are one and the same: there are no last ones to split off "
                "as heads or to "
                f"train for an exit; give one of {', '.join(FAMILIES)}. It can still teach: [distil] reads "
                "scores from a table"
            )

        if family not in FAMILIES:
            raise ValueError(f"it holds a model of type {family!r}; give one of {', '.join(FAMILIES)}")

        # Other values would change the numbers without an error.
        names = NAMES[family]
        for key, value in names.computed.items():
            if config.get(key, value) != value:
                raise ValueError(
                    f"{key} is {config[key]!r}; only {value!r} is computed here, give another model"
                )

        def setting(name: str, default: Any = None) -> Any:
            key = names.key(name)
            return config[key] if default is None else config.get(key, default)

        def whole(value: Any) -> int:
            if int(value) != value:
                raise ValueError(f"its config.json has {value!r} for a whole number")
            return int(value)

        offset = int(config.get("pad_token_id", 1)) + 1 if names.offset is None else names.offset
        width = whole(setting("hidden_size"))
        embedded = int(config.get("embedding_size", 128)) if family == "electra" else width
        return cls(
            layers=whole(setting("num_hidden_layers")),
            width=width,
            heads=whole(setting("num_attention_heads")),
            inner=whole(setting("intermediate_size")),
            vocabulary=whole(config["vocab_size"]),
            family=family,
            positions=whole(config["max_position_embeddings"]) - offset,
            offset=offset,
            types=int(config["type_vocab_size"]) if names.types else 0,
            embedded=embedded if embedded != width else None,
            epsilon=float(setting("layer_norm_eps", 1e-5 if family == "modernbert" else 1e-12)),
            dropout=float(setting("hidden_dropout_prob", 0.0 if family == "modernbert" else 0.1)),
            attention_dropout=float(
                setting("attention_probs_dropout_prob", 0.0 if family == "modernbert" else 0.1)
            ),
            buckets=int(config.get("relative_attention_num_buckets", 32)) if names.relative else None,
            rotary=Rotary.of(config) if names.positions is None else None,
        )

    @property
    def biased(self) -> bool:
        """True if linear layers and normalisations add a bias."""
        return self.rotary is None

    def config(self) -> dict[str, Any]:
        """Entries of Hugging Face's config.json: the inverse of `of`."""
        names = NAMES[self.family]
        config: dict[str, Any] = {
            "model_type": self.family,
            names.key("num_hidden_layers"): self.layers,
            names.key("hidden_size"): self.width,
            names.key("num_attention_heads"): self.heads,
            names.key("intermediate_size"): self.inner,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.positions + self.offset,
            names.key("layer_norm_eps"): self.epsilon,
            names.key("hidden_dropout_prob"): self.dropout,
            names.key("attention_probs_dropout_prob"): self.attention_dropout,
            "pad_token_id": max(self.offset - 1, 0),
            **names.computed,
        }

        if self.types:
            config["type_vocab_size"] = self.types
        if self.family == "electra":
            config["embedding_size"] = self.embedded or self.width
        if self.buckets:
            config["relative_attention_num_buckets"] = self.buckets
        return config | (self.rotary.config() if self.rotary else {})


def translated(weights: dict[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """Weights under our names, in fp32, from Hugging Face's. Raises KeyError on a weight that is missing."""
    names = NAMES[shape.family]
    words = f"{names.words}.weight"
    prefix = next((name.removesuffix(words) for name in weights if name.endswith(words)), f"{names.prefix}.")

    def both(module: str) -> dict[str, Tensor]:
        """Weight and bias, if the module has one; normalisation has older names for them."""
        values = {}
        for name, older in (("weight", "gamma"), ("bias", "beta")):
            tensor = weights.get(f"{prefix}{module}.{name}", weights.get(f"{prefix}{module}.{older}"))
            if tensor is not None:
                values[name] = tensor.float()
            elif name == "weight" or shape.biased:
                raise KeyError(f"{prefix}{module}.{name}")
        return values

    translation = {own: weights[f"{prefix}{name}.weight"].float() for own, name in _tables(shape).items()}
    for own_name, hf_name in _modules(shape).items():
        translation |= {f"{own_name}.{name}": values for name, values in both(hf_name).items()}
    for n in range(shape.layers):
        parts = [both(f"{names.layer}.{n}.{part}") for part in names.attention]
        for name in parts[0]:
            translation[f"layers.{n}.attention.{name}"] = torch.cat([part[name] for part in parts])

    return translation


def translated_back(weights: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """Weights under Hugging Face's names, in fp32, from ours, without layers beyond those of the
    shape."""
    names = NAMES[shape.family]
    translation = {f"{hf_name}.weight": weights[own_name] for own_name, hf_name in _tables(shape).items()}

    for name in ("weight", "bias") if shape.biased else ("weight",):
        translation |= {
            f"{hf_name}.{name}": weights[f"{own_name}.{name}"]
            for own_name, hf_name in _modules(shape).items()
        }
        for n in range(shape.layers):
            joined = weights[f"layers.{n}.attention.{name}"]
            parts = zip(names.attention, joined.chunk(len(names.attention)), strict=True)
            translation |= {f"{names.layer}.{n}.{part}.{name}": values.clone() for part, values in parts}

    if names.pooler:  # no result depends on it, but from_pretrained of the whole class needs it
        translation["pooler.dense.weight"] = torch.zeros(shape.width, shape.width)
        translation["pooler.dense.bias"] = torch.zeros(shape.width)

    return {name: values.detach().float().cpu().contiguous() for name, values in translation.items()}


def _tables(shape: Shape) -> dict[str, str]:
    """Our names of tables → Hugging Face's, without `.weight`."""
    names = NAMES[shape.family]
    tables = {table: getattr(names, table) for table in _TABLES}
    return {
        table if table == "relative" else f"{table}.weight": name for table, name in tables.items() if name
    }


def _modules(shape: Shape) -> dict[str, str]:
    """Our names → Hugging Face's for modules with a weight and perhaps a bias, without attention's."""
    names = NAMES[shape.family]
    modules = {"norm": names.norm} | ({"project": "embeddings_project"} if shape.embedded else {})
    if names.final:
        modules["final"] = names.final

    for n in range(shape.layers):
        modules |= {f"layers.{n}.{own}": f"{names.layer}.{n}.{hf}" for own, hf in names.modules.items()}
    if shape.rotary:  # its first layer reads the embeddings, which are normalised already
        del modules["layers.0.norm"]
    return modules
