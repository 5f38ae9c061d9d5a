"""Model folders of transformers: a body, the layers that a method puts on it, and the tokenizer.

A model whose word embeddings are still those of the transformer that it began with names their source in
place of a copy. One that is stored as differences (`differences.py`) names the body that it began as.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from answermill.files.atomic_files import replacing, sha256, write_text
from answermill.files.model_files import check_sums, write_sums
from answermill.ranking.checkpoint import CONFIG, FORMAT, WEIGHTS, config_of, load_weights
from answermill.ranking.transformer.differences import merged, public_names
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Tokeniser


@dataclass(frozen=True, slots=True)
class BodySource:
    """A public transformer of which a model has kept the word embeddings, or began as the whole body."""

    model: str
    sha256: str  # of its model.safetensors

    @classmethod
    def read(cls, name: str, folder: Path) -> Self:
        return cls(name, sha256(folder / "model.safetensors"))


@dataclass(frozen=True, slots=True)
class StoredForm:
    """Form in which a model folder stores the weights."""

    store: Literal["fp32", "fp16"] = "fp32"
    words: BodySource | None = None
    """Source of the word embeddings, which are then left out, with the tokenizer."""


FULL = StoredForm()
LEAST_LIMIT = 8
"""Fewest tokens to which a text may be cut."""


class TransformerModel(Protocol):
    """A model over a `LayeredEncoder`, which is its attribute `encoder`."""

    encoder: LayeredEncoder

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state_dict: Mapping[str, Tensor], *, assign: bool = False) -> object: ...

    def eval(self) -> Self: ...


Transformer = TypeVar("Transformer", bound=TransformerModel)


_WORDS = "encoder.words.weight"  # end of the names of such tables


def save_transformer(
    folder: Path,
    name: str,
    details: Mapping[str, object],
    model: TransformerModel,
    tokeniser: Tokeniser,
    *,
    stored: StoredForm = FULL,
) -> None:
    """Write the model folder: `tokenizer.json`, the weights, `config.json`, and the digests of all."""
    names = [WEIGHTS, CONFIG]
    kept = {key: weight.detach().cpu().contiguous() for key, weight in model.state_dict().items()}
    if stored.words is not None:
        kept = {key: weight for key, weight in kept.items() if not key.endswith(_WORDS)}
    else:
        names.append("tokenizer.json")
        with replacing(folder / "tokenizer.json") as path:
            shutil.copyfile(tokeniser.path, path)

    if stored.store == "fp16":
        kept = {key: weight.half() for key, weight in kept.items()}
    with replacing(folder / WEIGHTS) as path:
        save_file(kept, path)

    config = {
        "format": FORMAT,
        "model": name,
        **details,
        "limit": tokeniser.limit,
        "shape": asdict(model.encoder.shape),
    }
    config["words"] = None if stored.words is None else asdict(stored.words)
    write_text(folder / CONFIG, json.dumps(config, indent=2) + "\n")

    write_sums(folder, names)


def load_transformer(
    folder: Path,
    name: str,
    build: Callable[[Mapping[str, Any], LayeredEncoder], Transformer],
    source: Callable[[str], Path] = Path,
) -> tuple[Transformer, Tokeniser]:
    """Model and tokeniser that `save_transformer` wrote, in fp32 whatever the stored form.

    `build` makes the model from config.json and its encoder; `source` maps a transformer's name to its
    folder, if there is none of this name beside the checkpoint.

    Raises ValueError if the folder is incomplete, broken, or of another format or model; ModelMissing if the
    transformer that has its words, or that it began as, is not available; ModelDamaged if a file is not the
    one that was written, or a weight is no number.
    """
    check_sums(folder)
    with config_of(folder, name) as config:
        stored = load_weights(folder / WEIGHTS)
        body = _origin(config.get("body"), folder, source)
        words = _origin(config["words"], folder, source) if body is None else body

        shape, limit = Shape(**config["shape"]), int(config["limit"])
        if not LEAST_LIMIT <= limit <= shape.positions:
            raise ValueError(
                f"limit is {limit}; it must be from {LEAST_LIMIT} to the body's {shape.positions} positions"
            )
        tokeniser = Tokeniser(words if words and config["words"] else folder, limit)
        with torch.device("meta"):
            model = build(config, LayeredEncoder(shape))
        if body is not None:
            shapes = {key: weight.shape for key, weight in model.state_dict().items()}
            weights = merged(stored, public_weights(model, body), shapes)
        else:
            weights = {key: weight.float() for key, weight in stored.items()}
            if words is not None:
                shared = LayeredEncoder.load(words, 1).words.weight
                weights |= {key: shared.clone() for key in model.state_dict() if key.endswith(_WORDS)}

    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as e:
        raise ValueError(f"{folder}: model.safetensors does not fit config.json: {e}") from e

    return model.eval(), tokeniser


def _origin(named: Mapping[str, str] | None, checkpoint: Path, source: Callable[[str], Path]) -> Path | None:
    """Folder of the transformer that config.json names, if it names one: beside the checkpoint, or else the
    source's. Raises ValueError if it is another revision of it."""
    if named is None:
        return None
    transformer = BodySource(**named)
    beside = checkpoint.parent / transformer.model
    origin = beside if beside.is_dir() else source(transformer.model)
    if sha256(origin / "model.safetensors") != transformer.sha256:
        raise ValueError(
            f"it needs the {transformer.model} of SHA-256 {transformer.sha256[:16]}…, and {origin} is another"
        )
    return origin


def public_weights(model: TransformerModel, body: Path) -> dict[str, Tensor]:
    """Name of a model's weight → the weight of the public body in this folder that it began as.

    Raises ValueError if the folder holds no transformer that can be loaded.
    """
    public = LayeredEncoder.load(body).state_dict()
    names = public_names(cast(nn.Module, model))
    return {name: public[began] for name, began in names.items() if began in public}


def write_differences(checkpoint: Path, out: Path, body: BodySource, stored: Mapping[str, Tensor]) -> None:
    """Write a folder of `save_transformer` anew, its weights as these differences to the `body`."""
    config = json.loads((checkpoint / CONFIG).read_text(encoding="utf-8"))
    names = [WEIGHTS, CONFIG]
    if config["words"] is None:
        names.append("tokenizer.json")
        with replacing(out / "tokenizer.json") as path:
            shutil.copyfile(checkpoint / "tokenizer.json", path)

    with replacing(out / WEIGHTS) as path:
        save_file({name: tensor.contiguous() for name, tensor in stored.items()}, path)
    write_text(out / CONFIG, json.dumps(config | {"body": asdict(body)}, indent=2) + "\n")
    write_sums(out, names)


def word_source(folder: Path) -> BodySource | None:
    """Transformer from which a folder of `save_transformer` takes its word embeddings; None if it has its
    own."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["words"]
    return None if config is None else BodySource(**config)
