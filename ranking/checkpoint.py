"""Model folders: `config.json`, `model.safetensors`, and the word vectors of the models that have some. Never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ranking.embeddings import Embeddings, Store
from ranking.listwise import Form
from ranking.reranker import Resources

FORMAT = 1
SHIPPED = Path(__file__).with_name("checkpoints")
"""Folders of the checkpoints that come with the package, by the reranker's name."""


@dataclass(frozen=True, slots=True)
class Config:
    """What a model folder says of its model."""

    model: str
    form: Form
    filters: int


def checkpoint_of(resources: Resources, name: str) -> Path:
    """The stage's checkpoint, or the one that is shipped. Raises ValueError where there is neither."""
    if resources.checkpoint is not None:
        return Path(resources.checkpoint)
    if (SHIPPED / name / "config.json").is_file():
        return SHIPPED / name
    raise ValueError(f"{name} needs a checkpoint: the folder that `answermill train` wrote")


def write_folder(
    folder: Path,
    config: Config,
    weights: Mapping[str, Tensor],
    embeddings: Embeddings,
    store: Literal["fp32", "fp16"] = "fp32",
    vectors: Store = "fp32",
) -> None:
    """`config.json`, `model.safetensors`, and the embeddings as they save themselves."""
    folder.mkdir(parents=True, exist_ok=True)
    embeddings.save(folder, vectors)
    kept = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
    if store == "fp16":
        kept = {name: weight.half() for name, weight in kept.items()}
    save_file(kept, folder / "model.safetensors")
    text = json.dumps({"format": FORMAT, **asdict(config)}, indent=2)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def read_folder(folder: Path, model: str, resources: Resources | None = None) -> tuple[Config, dict[str, Tensor], Embeddings]:
    """Weights come in fp32, however they are stored. Raises ValueError where the folder is incomplete, broken, or of another
    format or model; ModelMissing where its word vectors' transformer cannot be had."""
    try:
        told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if (told["format"], told["model"]) != (FORMAT, model):
            raise ValueError(
                f"it holds {told['model']!r} in format {told['format']}, not {model!r} in format {FORMAT}; "
                "train it again with this version, or give another checkpoint"
            )
        config = Config(model, told["form"], int(told["filters"]))
        weights = {name: weight.float() for name, weight in load_file(folder / "model.safetensors").items()}
        embeddings = Embeddings.load(folder, resources.model) if resources else Embeddings.load(folder)
        return config, weights, embeddings
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as e:
        raise ValueError(f"{folder} is no checkpoint of {model}: {e}") from e


def fill(module: nn.Module, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Raises ValueError where the weights are not the module's."""
    try:
        module.load_state_dict(dict(weights))
    except RuntimeError as e:
        raise ValueError(f"{folder}: model.safetensors does not fit config.json: {e}") from e
