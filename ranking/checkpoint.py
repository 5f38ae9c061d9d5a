"""What all model folders share: `config.json` with a format and the model's name, and `model.safetensors`. Never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORMAT = 1


def kind_of(folder: Path) -> str:
    """The checkpoint format that a model folder is of, as `Entry.checkpoint` names it. Raises ValueError if it names none."""
    try:
        kind: str = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]
    except (KeyError, TypeError, ValueError) as e:
        raise ValueError(f"{folder}: config.json names no model; give another checkpoint, or train it again") from e
    return kind


def check_format(config: Mapping[str, Any], name: str) -> None:
    """Refuse a config.json of another format or model. Raises ValueError, and KeyError if it does not name them."""
    if (config["format"], config["model"]) != (FORMAT, name):
        raise ValueError(
            f"it holds {config['model']!r} in format {config['format']}, not {name!r} in format {FORMAT}; "
            "train it again with this version, or give another checkpoint"
        )
