"""Modular cross-encoders of sentence-transformers: a transformer, a pooling, and layers that turn the pooled
encoding into a score. modules.json names them and their folders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from answermill.files.model_files import check_weights, read_table

Pooled = Literal["first", "mean", "last", "max"]
"""Encoding of a text: its first token's, the mean of all, its last token's, or the largest of each number."""
_POOLINGS: Mapping[str, Pooled] = {"cls": "first", "mean": "mean", "lasttoken": "last", "max": "max"}
_LAYERS = ("Dense", "LayerNorm", "Normalize", "Dropout")
_ENCODING, _SCORES = "sentence_embedding", "scores"


class Module(NamedTuple):
    """An entry of modules.json."""

    kind: str
    folder: Path
    settings: dict[str, Any]


def modules_of(folder: Path) -> list[Module]:
    """Modules of a folder of sentence-transformers; none without modules.json. Raises ValueError, with the
    file, if one is damaged."""
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        entries = [
            (str(entry["type"]).rpartition(".")[2], folder / entry["path"])
            for entry in json.loads(path.read_text(encoding="utf-8"))
        ]
    except (KeyError, TypeError, ValueError) as e:
        raise ValueError(f"{path}: no list of modules ({e}); copy the model's folder again") from e

    # The transformer, in the folder itself, has the model's config.json.
    return [
        Module(kind, place, {} if kind == "Transformer" else read_table(place / "config.json"))
        for kind, place in entries
    ]


class HeadPlan(NamedTuple):
    """Head of a modular cross-encoder, before its weights are read."""

    pooling: Pooled
    layers: Sequence[Module]
    """Layers after the pooling, the last of which gives the scores."""

    @property
    def classes(self) -> int:
        """Number of scores of a pair."""
        return int(self.layers[-1].settings.get("out_features", 0))

    @classmethod
    def of(cls, folder: Path, modules: Sequence[Module]) -> HeadPlan:
        """Plan of modules that are a transformer and others. Raises ValueError, with the folder, if they give
        no score, or one is not computed here."""
        if [module.kind for module in modules[:2]] != ["Transformer", "Pooling"]:
            names = ", ".join(module.kind for module in modules)
            raise ValueError(
                f"{folder}: its modules are {names}; a cross-encoder of modules has a Transformer, a Pooling "
                "and layers"
            )
        if modules[0].folder != folder:
            raise ValueError(f"{folder}: its transformer is in {modules[0].folder}; write the model again")

        _, pooling, *layers = modules
        if not layers or layers[-1].settings.get("module_output_name") != _SCORES:
            raise ValueError(
                f"{folder}: its modules give vectors, and no scores of pairs; give a CrossEncoder, or use "
                "reranker = 'bi_encoder'"
            )
        for n, layer in enumerate(layers):
            _check_layer(layer, is_last=n == len(layers) - 1)

        return cls(_pooling(pooling), layers)


def _check_layer(layer: Module, is_last: bool) -> None:
    """Raise ValueError, with the module's folder, if it is not computed here."""
    if layer.kind not in _LAYERS:
        raise ValueError(f"{layer.folder}: a {layer.kind} is not computed here; {', '.join(_LAYERS)} are")

    incoming = layer.settings.get("module_input_name") or _ENCODING
    outgoing = layer.settings.get("module_output_name") or incoming
    if incoming != _ENCODING or outgoing != (_SCORES if is_last else _ENCODING):
        raise ValueError(
            f"{layer.folder}: it turns {incoming!r} into {outgoing!r}; only layers of the pooled encoding "
            "that end in scores are computed here"
        )
    if layer.kind == "Dense":
        _function(layer)


def _pooling(module: Module) -> Pooled:
    settings = module.settings
    modes = settings.get("pooling_mode") or [
        key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, value in settings.items()
        if key.startswith("pooling_mode_") and value is True
    ]
    names = [modes] if isinstance(modes, str) else list(modes) or ["mean"]
    if len(names) != 1 or names[0] not in _POOLINGS:
        raise ValueError(
            f"{module.folder}: pooling {', '.join(map(str, names))} is not computed here; one of "
            f"{', '.join(_POOLINGS)} is"
        )
    return _POOLINGS[names[0]]


def _function(layer: Module) -> nn.Module:
    """Function after a Dense: a class of torch without settings, as sentence-transformers takes it."""
    name = str(layer.settings.get("activation_function", "torch.nn.modules.activation.Tanh"))
    kind = getattr(nn, name.rpartition(".")[2], None) if name.startswith("torch.nn.") else None
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise ValueError(f"{layer.folder}: its function {name!r} is none of torch.nn; give another model")
    function: nn.Module = kind()
    return function


class ModularHead(nn.Module):
    """Logits [texts] from the pooled encodings of texts [texts, d]; of two classes the second's minus the
    first's."""

    def __init__(self, plan: HeadPlan, width: int) -> None:
        """Load the weights; `width`: d. Raises ValueError, with the folder, if some are missing or do not
        fit; ModelDamaged if a weight is no number."""
        super().__init__()
        self.pooling = plan.pooling
        self.layers = nn.ModuleList()
        for module in plan.layers:
            layer = _layer(module)
            if module.kind in ("Dense", "LayerNorm"):
                _load(layer, module.folder)
                needed = int(module.settings.get("in_features") or module.settings.get("dimension") or 0)
                if needed != width:
                    raise ValueError(
                        f"{module.folder}: it takes {needed} numbers, and is given {width}; copy the model's "
                        "folder again"
                    )
                width = int(module.settings.get("out_features") or width)
            self.layers.append(layer)

    def forward(self, pooled: Tensor) -> Tensor:
        for layer in self.layers:
            pooled = layer(pooled)
        return pooled[:, 0] if pooled.shape[1] == 1 else pooled[:, 1] - pooled[:, 0]


class _Dense(nn.Module):
    def __init__(self, module: Module) -> None:
        super().__init__()
        settings = module.settings
        sizes = int(settings["in_features"]), int(settings["out_features"])
        self.linear, self.function = nn.Linear(*sizes, bias=settings.get("bias", True)), _function(module)
        self.adds = bool(settings.get("use_residual"))
        if self.adds and sizes[0] != sizes[1]:
            self.residual = nn.Linear(*sizes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.function(self.linear(x))
        if not self.adds:
            return out
        return out + (self.residual(x) if hasattr(self, "residual") else x)


class _LayerNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        normalised: Tensor = self.norm(x)
        return normalised


class _Normalize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1)


def _layer(module: Module) -> nn.Module:
    """A layer without its weights. Raises ValueError, with its folder, if its settings are incomplete."""
    try:
        if module.kind == "Dense":
            return _Dense(module)
        if module.kind == "LayerNorm":
            return _LayerNorm(int(module.settings["dimension"]))
    except (KeyError, TypeError, ValueError) as e:
        raise ValueError(f"{module.folder}: its config.json lacks {e}; copy the model's folder again") from e
    return _Normalize() if module.kind == "Normalize" else nn.Identity()


def _load(layer: nn.Module, folder: Path) -> None:
    path = folder / "model.safetensors"
    try:
        weights = load_file(path)
        layer.load_state_dict({name: values.float() for name, values in weights.items()})
    except (OSError, RuntimeError, SafetensorError) as e:
        raise ValueError(
            f"{path}: no weights of this layer ({e}); pickled ones are not loaded, so write the model with "
            "save_pretrained(folder)"
        ) from e
    check_weights(weights, path)
