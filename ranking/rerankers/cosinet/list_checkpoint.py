"""Model folders of the models over static word vectors: `config.json`, `model.safetensors`, and the word
vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors.torch import save_file
from torch import Tensor

from answermill.files.atomic_files import replacing, write_text
from answermill.files.model_files import check_sums, write_sums
from answermill.ranking.checkpoint import CONFIG, FORMAT, WEIGHTS, config_of, load_weights
from answermill.ranking.rerankers.cosinet.heads import Form
from answermill.ranking.rerankers.cosinet.list_features import known_features
from answermill.ranking.rerankers.cosinet.list_settings import Feature
from answermill.ranking.word_vectors.embeddings import Embeddings, Store


class ListModel(Protocol):
    """A model over static word vectors, with the parts needed to save it and build it again."""

    name: ClassVar[str]
    form: Form
    filters: int
    features: tuple[Feature, ...]

    def __init__(self, vectors: npt.NDArray[np.float32], form: Form, filters: int = 300) -> None: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> object: ...

    def eval(self) -> Self: ...


Model = TypeVar("Model", bound=ListModel)


def save_list_model(
    folder: Path,
    model: ListModel,
    embeddings: Embeddings,
    store: Literal["fp32", "fp16"] = "fp32",
    vectors: Store = "fp32",
) -> None:
    """Write the model folder: the embeddings as they save themselves, the trained weights, `config.json`, and
    the digests."""
    names = embeddings.save(folder, vectors)
    kept = {name: weight.detach().cpu().contiguous() for name, weight in model.state_dict().items()}
    if store == "fp16":
        kept = {name: weight.half() for name, weight in kept.items()}
    with replacing(folder / WEIGHTS) as path:
        save_file(kept, path)
    config: dict[str, Any] = {
        "format": FORMAT,
        "model": model.name,
        "form": model.form,
        "filters": model.filters,
    }
    if model.features:
        config["features"] = list(model.features)

    write_text(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    write_sums(folder, [*names, WEIGHTS, CONFIG])


def load_list_model(
    folder: Path, model: type[Model], source: Callable[[str], Path] = Path
) -> tuple[Model, Embeddings]:
    """Model that `save_list_model` wrote, in fp32 whatever the stored form. `source` maps a transformer's
    name to its folder.

    Raises ValueError if the folder is incomplete, broken, or of another format or model; ModelMissing if its
    word vectors' transformer is not available; ModelDamaged if a file is not the one that was written, or
    holds no numbers.
    """
    check_sums(folder)
    with config_of(folder, model.name) as config:
        weights = {name: weight.float() for name, weight in load_weights(folder / WEIGHTS).items()}
        embeddings = Embeddings.load(folder, source)
        extra: dict[str, Any] = (
            {"features": known_features(config["features"])} if "features" in config else {}
        )
        if (filters := int(config["filters"])) < 1:
            raise ValueError(f"filters is {filters}; at least one is needed")
        loaded = model(embeddings.vectors, config["form"], filters, **extra)

    try:
        loaded.load_state_dict(weights)
    except RuntimeError as e:
        raise ValueError(f"{folder}: model.safetensors does not fit config.json: {e}") from e

    return loaded.eval(), embeddings
