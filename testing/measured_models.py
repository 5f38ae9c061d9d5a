"""Models in saved results: the checkpoints that ship and were measured, each with the first digits of its
weights' SHA-256, and the former ones among them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from answermill.files.model_files import SUMS
from answermill.ranking.checkpoint import WEIGHTS
from answermill.ranking.entry import SHIPPED

KEY, DIGITS = "models", 12
"""Key of the models in a saved result; digits of a SHA-256 that it keeps."""


def shipped_digest(name: str) -> str:
    """First digits of the SHA-256 of a shipped checkpoint's weights, from its `sha256.json`."""
    sums = json.loads((SHIPPED / name / SUMS).read_text(encoding="utf-8"))
    return str(sums["sha256"][WEIGHTS])[:DIGITS]


def models_text(names: Iterable[str]) -> str:
    """Text of these shipped checkpoints for a saved result: 'cascade 46627751c03f, cosinet ecd7534402ca'."""
    return ", ".join(f"{name} {shipped_digest(name)}" for name in sorted(names))


def models_of(result: Mapping[str, Any]) -> dict[str, str]:
    """Checkpoint → digits, of a saved result.

    >>> models_of({"map": 0.7, "models": "cascade 46627751c03f, cosinet ecd7534402ca"})
    {'cascade': '46627751c03f', 'cosinet': 'ecd7534402ca'}
    >>> models_of({"map": 0.7})
    {}
    """
    return dict(model.split() for model in result.get(KEY, "").split(", ") if model)


def former_models(result: Mapping[str, Any]) -> list[str]:
    """Checkpoints of a saved result with other weights than those that ship now."""
    return [
        name
        for name, digits in models_of(result).items()
        if not (SHIPPED / name / SUMS).is_file() or shipped_digest(name) != digits
    ]
