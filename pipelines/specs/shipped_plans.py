"""Plans that ship with their models and fitted files: by name in a job, in `answermill sample` and in Python.

A plan is the stages of one of the sample's job files, so that each is written once.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

PlanName: TypeAlias = Literal["default", "fast", "full", "base", "sure", "sure-base"]
PLANS: Mapping[str, str] = {
    "default": "job.toml",
    "fast": "fast.toml",
    "full": "full.toml",
    "base": "base.toml",
    "sure": "sure.toml",
    "sure-base": "sure_base.toml",
}
"""Name of a plan that ships → the sample's job file that has its stages. The fast one is the default one with
fewer sentences for its cascade; the full one has PEASI's two stages too, the base one models of the papers'
size; the sure ones are the default and the base one with probabilities."""
SHIPPED = "shipped:"
"""Beginning of the name of a fitted file that ships, such as 'shipped:first'."""
_SAMPLE = Path(__file__).parents[1] / "data" / "sample"
_FITTED = ("weights_file", "calibration_file")


def shipped_stages(plan: str) -> list[dict[str, Any]]:
    """The tables of `rerank.stages` of a plan that ships, whose fitted files have the names that
    `shipped_file` knows. Raises ValueError with the known names if there is no such plan."""
    if plan not in get_args(PlanName):
        near = difflib.get_close_matches(str(plan), get_args(PlanName), n=1)
        meant = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"no plan {plan!r} ships{meant} There are {', '.join(get_args(PlanName))}")

    content = (_SAMPLE / PLANS[plan]).read_text(encoding="utf-8")
    stages: list[dict[str, Any]] = tomllib.loads(content)["rerank"]["stages"]
    return [
        {key: f"{SHIPPED}{Path(value).stem}" if key in _FITTED else value for key, value in stage.items()}
        for stage in stages
    ]


def shipped_file(written: str) -> Path:
    """The file that a name such as 'shipped:first' stands for. Raises ValueError with the known names if none
    has it."""
    file = _SAMPLE / "weights" / f"{written.removeprefix(SHIPPED)}.json"
    if not file.is_file():
        known = ", ".join(f"{SHIPPED}{path.stem}" for path in sorted(file.parent.glob("*.json")))
        raise ValueError(f"no fitted file {written!r} ships; there are {known}")
    return file
