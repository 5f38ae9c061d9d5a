"""The error of a model that is damaged."""

from __future__ import annotations


class ModelDamaged(RuntimeError):
    """A model gives no numbers; the message names its folder."""

    exit_code = 65
