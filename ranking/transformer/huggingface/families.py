"""Hugging Face's names for the families that `LayeredEncoder` computes: one entry a family, for its settings
in config.json, its modules, and the head of its sequence classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

Family = Literal[
    "bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert", "mpnet", "modernbert"
]
FAMILIES: tuple[Family, ...] = get_args(Family)
Activation = Literal["tanh", "gelu", "relu"]


@dataclass(frozen=True, slots=True)
class HeadNames:
    """Head of a family's sequence classifiers: a linear layer, a function, perhaps a normalisation, and the
    score."""

    first: str
    score: str
    activation: Activation = "tanh"
    norm: str | None = None


@dataclass(frozen=True, slots=True)
class FamilyNames:
    """Names of one family. The defaults are BERT's."""

    prefix: str
    """Prefix of the names of a whole model's weights."""
    words: str = "embeddings.word_embeddings"
    positions: str | None = "embeddings.position_embeddings"
    """Table of positions; None if tokens are turned by their positions in each layer."""
    types: str | None = "embeddings.token_type_embeddings"
    norm: str = "embeddings.LayerNorm"
    final: str | None = None
    """Normalisation after the last layer; None if each layer ends with one."""
    relative: str | None = None
    """Table of the bias by distance that all layers add to attention's scores."""
    layer: str = "encoder.layer"
    attention: tuple[str, ...] = ("attention.self.query", "attention.self.key", "attention.self.value")
    """Linear layers that are one here: three, or one."""
    modules: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType(
            {
                "output": "attention.output.dense",
                "norm": "attention.output.LayerNorm",
                "widen": "intermediate.dense",
                "narrow": "output.dense",
                "final_norm": "output.LayerNorm",
            }
        )
    )
    """Our names → Hugging Face's for the other modules of a layer."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of config.json that differ from BERT's."""
    computed: Mapping[str, Any] = field(
        default_factory=lambda: {
            "hidden_act": "gelu",
            "position_embedding_type": "absolute",
            "is_decoder": False,
        }
    )
    """Values of config.json that change the numbers, and of which no others are computed here."""
    offset: int | None = 0
    """Rows of the table of positions before a text's first; None = the padding token's number + 1."""
    pooler: bool = True
    """True if from_pretrained of the body needs a pooler, on which no result depends."""
    head: HeadNames = HeadNames("classifier.dense", "classifier.out_proj")

    def key(self, name: str) -> str:
        """Key of config.json for one of BERT's."""
        return self.keys.get(name, name)


_ROBERTA = FamilyNames("roberta", offset=None)
NAMES: Mapping[Family, FamilyNames] = {
    "bert": FamilyNames("bert", head=HeadNames("bert.pooler.dense", "classifier")),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "electra": FamilyNames(
        "electra", pooler=False, head=HeadNames("classifier.dense", "classifier.out_proj", "gelu")
    ),
    "distilbert": FamilyNames(
        "distilbert",
        types=None,
        layer="transformer.layer",
        attention=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        modules={
            "output": "attention.out_lin",
            "norm": "sa_layer_norm",
            "widen": "ffn.lin1",
            "narrow": "ffn.lin2",
            "final_norm": "output_layer_norm",
        },
        keys={
            "num_hidden_layers": "n_layers",
            "hidden_size": "dim",
            "num_attention_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "hidden_dropout_prob": "dropout",
            "attention_probs_dropout_prob": "attention_dropout",
        },
        computed={"activation": "gelu", "layer_norm_eps": 1e-12},
        pooler=False,
        head=HeadNames("pre_classifier", "classifier", "relu"),
    ),
    "mpnet": FamilyNames(
        "mpnet",
        types=None,
        relative="encoder.relative_attention_bias",
        attention=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        modules={
            "output": "attention.attn.o",
            "norm": "attention.LayerNorm",
            "widen": "intermediate.dense",
            "narrow": "output.dense",
            "final_norm": "output.LayerNorm",
        },
        computed={"hidden_act": "gelu"},
        offset=2,
    ),
    "modernbert": FamilyNames(
        "model",
        words="embeddings.tok_embeddings",
        positions=None,
        types=None,
        norm="embeddings.norm",
        final="final_norm",
        layer="layers",
        attention=("attn.Wqkv",),
        modules={
            "output": "attn.Wo",
            "norm": "attn_norm",
            "widen": "mlp.Wi",
            "narrow": "mlp.Wo",
            "final_norm": "mlp_norm",
        },
        keys={
            "layer_norm_eps": "norm_eps",
            "hidden_dropout_prob": "mlp_dropout",
            "attention_probs_dropout_prob": "attention_dropout",
        },
        computed={
            "hidden_activation": "gelu",
            "norm_eps": 1e-5,
            "attention_bias": False,
            "mlp_bias": False,
            "norm_bias": False,
            "classifier_activation": "gelu",
        },
        pooler=False,
        head=HeadNames("head.dense", "classifier", "gelu", "head.norm"),
    ),
}
