"""Common parts of all model folders: `config.json` with a format and the model's name, `model.safetensors`,
and their digests (`files/model_files.py`). Never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answermill.files.model_files import check_weights

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"


def kind_of(folder: Path) -> str:
    """Checkpoint format of a model folder, as `Entry.checkpoint` names it. Raises ValueError if the folder
    names none."""
    try:
        kind: str = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["model"]
    except (KeyError, TypeError, ValueError) as e:
        raise ValueError(
            f"{folder}: config.json names no model; give another checkpoint, or train it again"
        ) from e
    return kind


def check_format(config: Mapping[str, Any], name: str) -> None:
    """Refuse a config.json of another format or model. Raises ValueError, and KeyError if it does not name
    them."""
    if (config["format"], config["model"]) != (FORMAT, name):
        raise ValueError(
            f"it holds {config['model']!r} in format {config['format']}, not {name!r} in format {FORMAT}; "
            "train it again with this version, or give another checkpoint"
        )


def load_weights(file: Path) -> dict[str, Tensor]:
    """Tensors of a safetensors file, as they are stored. Raises ModelDamaged if one holds NaN or infinity,
    and the errors of safetensors and the file system."""
    from safetensors.torch import load_file

    weights = load_file(file)
    check_weights(weights, file)
    return weights
