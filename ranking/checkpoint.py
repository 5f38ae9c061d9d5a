"""Model folders: `config.json`, `model.safetensors`, and the word vectors of the models that have some. Never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ranking.embeddings import Embeddings, Store
from ranking.listwise import Form
from ranking.reranker import Resources

FORMAT = 1
SHIPPED = Path(__file__).with_name("checkpoints")
"""Folders of the checkpoints that come with the package, by the reranker's name."""


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


def checkpoint_of(resources: Resources, name: str) -> Path:
    """The stage's checkpoint, or the one that is shipped. Raises ValueError where there is neither."""
    if resources.checkpoint is not None:
        return Path(resources.checkpoint)
    if (SHIPPED / name / "config.json").is_file():
        return SHIPPED / name
    raise ValueError(f"{name} needs a checkpoint: the folder that `answermill train` wrote")


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


def load(folder: Path, model: type[Model], resources: Resources | None = None) -> tuple[Model, Embeddings]:
    """What `save` wrote, in fp32 however it is stored.

    Raises ValueError where the folder is incomplete, broken, or of another format or model; ModelMissing where its word
    vectors' transformer cannot be had.
    """
    try:
        told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if (told["format"], told["model"]) != (FORMAT, model.name):
            raise ValueError(
                f"it holds {told['model']!r} in format {told['format']}, not {model.name!r} in format {FORMAT}; "
                "train it again with this version, or give another checkpoint"
            )
        weights = {name: weight.float() for name, weight in load_file(folder / "model.safetensors").items()}
        embeddings = Embeddings.load(folder, resources.model) if resources else Embeddings.load(folder)
        made = model(embeddings.vectors, told["form"], int(told["filters"]))
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as e:
        raise ValueError(f"{folder} is no checkpoint of {model.name}: {e}") from e
    try:
        made.load_state_dict(weights)
    except RuntimeError as e:
        raise ValueError(f"{folder}: model.safetensors does not fit config.json: {e}") from e
    return made.eval(), embeddings
