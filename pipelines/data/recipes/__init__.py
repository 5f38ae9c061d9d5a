"""Job files with comments, to start one's own from; `answermill recipe` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from answermill.files.atomic_files import write_text
from answermill.pipelines.data.recipes.job_recipe import JobChoices
from answermill.pipelines.errors import OUTPUT_EXISTS, SETTINGS, JobError

FOLDER = Path(__file__).parent
AS_IN_TEMPLATE = JobChoices()
_TAKES = {"job": ("pages", "questions", "labels", "plan"), "wqa": ("pages", "questions")}
"""Recipe → the choices that it takes."""
Body = Literal["default", "base"]
_OF_BODY: Mapping[Body, Mapping[str, str]] = {
    "default": {},
    "base": {
        'encoder = "cascade"     ': 'encoder = "cascade_base"',
        "learning_rate = 3e-5": "learning_rate = 1e-5",
    },
}
"""Body that is adapted → texts of adapt.toml that differ from the default's."""


def copy_to(name: str, folder: Path, body: Body = "default", choices: JobChoices = AS_IN_TEMPLATE) -> Path:
    """Write <name>.toml into a folder; returns its path. `body`: size of the model that `adapt` begins with;
    `choices`: what `job` or `wqa` says, with paths from the current folder.

    Raises JobError: 66 if a file of the choices is missing; 73 if a different file has that name;
    78 if a recipe is given what it does not take.
    """
    if body != "default" and name != "adapt":
        raise JobError(f"--body {body} is for `adapt` alone; leave it out", SETTINGS)
    _check_taken(name, choices)
    template, target = FOLDER / f"{name}.toml", folder / f"{name}.toml"
    content = choices.beside(folder).text(template)
    for text, of_body in _OF_BODY[body].items():
        content = content.replace(text, of_body)
    if not write_text(target, content, replace=False) and target.read_bytes() != content.encode():
        raise JobError(f"{target} exists already, with other content; give another --out", OUTPUT_EXISTS)
    return target


def _check_taken(name: str, choices: JobChoices) -> None:
    """Raise JobError (78) for a choice that the recipe does not take."""
    for option in _TAKES["job"]:
        is_given = getattr(choices, option) != getattr(AS_IN_TEMPLATE, option)
        if is_given and option not in _TAKES.get(name, ()):
            takers = " and ".join(f"`recipe {taker}`" for taker, taken in _TAKES.items() if option in taken)
            raise JobError(f"--{option} is for {takers}; leave it out for {name}", SETTINGS)
