"""What all model folders share: `config.json` with a format and the model's name, and `model.safetensors`. Never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORMAT = 1


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
