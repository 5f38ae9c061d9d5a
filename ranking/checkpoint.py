"""Model folders: `config.json`, `model.safetensors`, and the word vectors of the models that have some. Never a pickle."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ranking.cosinet.heads import Form
from ranking.transformer.encoder import LayeredEncoder
from ranking.transformer.huggingface import Shape
from ranking.transformer.packing import Tokeniser
from ranking.word_vectors.embeddings import Embeddings, Store

FORMAT = 1


class ListModel(Protocol):
    """A model over static word vectors, as it is saved and built again."""

    name: ClassVar[str]
    form: Form
    filters: int

    def __init__(self, vectors: npt.NDArray[np.float32], form: Form, filters: int = 300) -> None: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> object: ...

    def eval(self) -> Self: ...


Model = TypeVar("Model", bound=ListModel)


def save(
    folder: Path,
    model: ListModel,
    embeddings: Embeddings,
    store: Literal["fp32", "fp16"] = "fp32",
    vectors: Store = "fp32",
) -> None:
    """Write the model folder: `config.json`, the trained weights, and the embeddings as they save themselves."""
    folder.mkdir(parents=True, exist_ok=True)
    embeddings.save(folder, vectors)
    kept = {name: weight.detach().cpu().contiguous() for name, weight in model.state_dict().items()}
    if store == "fp16":
        kept = {name: weight.half() for name, weight in kept.items()}
    save_file(kept, folder / "model.safetensors")
    told = {"format": FORMAT, "model": model.name, "form": model.form, "filters": model.filters}
    (folder / "config.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def load(folder: Path, model: type[Model], source: Callable[[str], Path] = Path) -> tuple[Model, Embeddings]:
    """What `save` wrote, in fp32 however it is stored. `source`: a transformer's name to its folder.

    Raises ValueError where the folder is incomplete, broken, or of another format or model; ModelMissing where its word
    vectors' transformer cannot be had.
    """
    try:
        told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        check_format(told, model.name)
        weights = {name: weight.float() for name, weight in load_file(folder / "model.safetensors").items()}
        embeddings = Embeddings.load(folder, source)
        made = model(embeddings.vectors, told["form"], int(told["filters"]))
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as e:
        raise ValueError(f"{folder} is no checkpoint of {model.name}: {e}") from e
    try:
        made.load_state_dict(weights)
    except RuntimeError as e:
        raise ValueError(f"{folder}: model.safetensors does not fit config.json: {e}") from e
    return made.eval(), embeddings


# Transformers: a body, what stands on it, and a tokenizer. `told` is what the model's own file says of it.


@dataclass(frozen=True, slots=True)
class WordsOf:
    """A transformer whose word embeddings a model has kept as they were."""

    model: str
    sha256: str  # of its model.safetensors

    @classmethod
    def of(cls, name: str, folder: Path) -> Self:
        return cls(name, _sha256(folder / "model.safetensors"))


class TransformerModel(Protocol):
    """A model over a `LayeredEncoder`, which is its attribute `encoder`."""

    encoder: LayeredEncoder

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state_dict: Mapping[str, Tensor], *, assign: bool = False) -> object: ...

    def eval(self) -> Self: ...


Transformer = TypeVar("Transformer", bound=TransformerModel)
_WORDS = "encoder.words.weight"  # how the names of such tables end


def save_transformer(
    folder: Path,
    name: str,
    told: Mapping[str, object],
    model: TransformerModel,
    tokeniser: Tokeniser,
    store: Literal["fp32", "fp16"] = "fp32",
    words: WordsOf | None = None,
) -> None:
    """Write the model folder: `config.json`, the weights, `tokenizer.json`.

    Where the word embeddings are still those of `words`, neither they nor the tokenizer are written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = {key: weight.detach().cpu().contiguous() for key, weight in model.state_dict().items()}
    if words is not None:
        kept = {key: weight for key, weight in kept.items() if not key.endswith(_WORDS)}
    else:
        shutil.copyfile(tokeniser.path, folder / "tokenizer.json")
    if store == "fp16":
        kept = {key: weight.half() for key, weight in kept.items()}
    save_file(kept, folder / "model.safetensors")
    config = {"format": FORMAT, "model": name, **told, "limit": tokeniser.limit, "shape": asdict(model.encoder.shape)}
    config["words"] = None if words is None else asdict(words)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_transformer(
    folder: Path,
    name: str,
    build: Callable[[Mapping[str, Any], LayeredEncoder], Transformer],
    source: Callable[[str], Path] = Path,
) -> tuple[Transformer, Tokeniser]:
    """What `save_transformer` wrote, in fp32 however it is stored.

    `build` makes the model from config.json and its encoder; `source` maps a transformer's name to its folder.

    Raises ValueError where the folder is incomplete, broken, or of another format or model; ModelMissing where the
    transformer that has its words cannot be had.
    """
    try:
        told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        check_format(told, name)
        weights = {key: weight.float() for key, weight in load_file(folder / "model.safetensors").items()}
        origin = folder
        if told["words"] is not None:
            words = WordsOf(**told["words"])
            origin = source(words.model)
            if _sha256(origin / "model.safetensors") != words.sha256:
                raise ValueError(f"its word embeddings are of another {words.model} (SHA-256 {words.sha256[:16]}…)")
        tokeniser = Tokeniser(origin, int(told["limit"]))
        with torch.device("meta"):
            model = build(told, LayeredEncoder(Shape(**told["shape"])))
        if told["words"] is not None:
            taken = LayeredEncoder.load(origin, 1).words.weight
            weights |= {key: taken.clone() for key in model.state_dict() if key.endswith(_WORDS)}
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as e:
        raise ValueError(f"{folder} is no checkpoint of {name}: {e}") from e
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as e:
        raise ValueError(f"{folder}: model.safetensors does not fit config.json: {e}") from e
    return model.eval(), tokeniser


def words_of(folder: Path) -> WordsOf | None:
    """The transformer that a folder of `save_transformer` takes its word embeddings from; None where it has its own."""
    told = json.loads((folder / "config.json").read_text(encoding="utf-8"))["words"]
    return None if told is None else WordsOf(**told)


def kind_of(folder: Path) -> str:
    """The reranker that a model folder is a checkpoint of. Raises ValueError where it does not say."""
    try:
        kind: str = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]
    except (KeyError, TypeError, ValueError) as e:
        raise ValueError(f"{folder}: config.json names no model; give another checkpoint, or train it again") from e
    return kind


def check_format(told: Mapping[str, Any], name: str) -> None:
    """Refuse what config.json tells of another format or model. Raises ValueError, and KeyError where it tells nothing."""
    if (told["format"], told["model"]) != (FORMAT, name):
        raise ValueError(
            f"it holds {told['model']!r} in format {told['format']}, not {name!r} in format {FORMAT}; "
            "train it again with this version, or give another checkpoint"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
