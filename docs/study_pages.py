"""Pages on the studies in experiments/: each one's question, command, result, and what was decided by it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from answermill.pipelines.errors import counted
from experiments.published_readers import readers
from testing.listing import Listed, commands

ROOT = Path(__file__).parents[1]
NO_TIME = "not recorded"
KEYS: Mapping[str, Mapping[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("templates").joinpath("study_keys.toml").read_text(encoding="utf-8")
)
"""Study → its saved results → the keys that are shown."""
_TIME = re.compile(r"[^,;]*(?:minute|hour)[^,;]*")
Saved = Callable[[str], Mapping[str, Any]]
"""Name → the saved result."""


def pages(saved: Saved, source: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """(name, text) of docs/studies/. `source` says of a saved result by what it was measured."""
    studies = list(commands(ROOT / "experiments"))
    yield "index", overview(studies)
    for study in studies:
        yield study.name, page(study, saved, source)


def overview(studies: list[Listed]) -> str:
    lines = ["# Studies", "", "**For** readers who ask why something is as it is.", ""]
    lines += ["| study | question | what it decided |", "|---|---|---|"]
    for study in studies:
        cells = f"[{study.name}]({study.name}.md)", study.about, decided(study.name)
        lines += [f"| {' | '.join(text.replace('|', '&#124;') for text in cells)} |"]
    return "\n".join([*lines, "", "**Next:** [reproduce](../reproduce.md).", ""])


def page(study: Listed, saved: Saved, source: Callable[[str], str]) -> str:
    data = ", ".join(f"[{name}](../reproduce.md#{name})" for name in data_of(study.name)) or "none"
    lines = [f"# {study.name}", "", "**For** readers who ask what was studied, and what came of it.", ""]
    lines += [f"**Question.** {study.about}", ""]
    lines += [f"**Command.** `python -m experiments.{study.name}`; time on two cores: {duration(study)}.", ""]
    lines += [f"**Data.** {data}.", "", "## Result", ""]

    lines += [] if KEYS[study.name] else ["No result is saved.", ""]
    for name, keys in KEYS[study.name].items():
        lines += [f"*From {source(name)}.*", "", "| key | |", "|---|---|"]
        lines += [f"| `{key}` | {value(saved(name), key)} |" for key in keys]
        lines += [""]

    if KEYS[study.name]:
        code = f"experiments/{study.name}.py"
        lines += [f"The first lines of `{code}` explain the keys; ± is the deviation over seeds.", ""]

    lines += ["## What it decided", "", decided(study.name), ""]
    return "\n".join([*lines, "**Next:** [all studies](index.md), [reproduce](../reproduce.md).", ""])


def value(result: Mapping[str, Any], key: str) -> str:
    """A figure, with its deviation, or with its interval and p, where the result has them."""
    text = number(result[key])
    stem = key.removesuffix("_difference")
    if f"{key}_deviation" in result:
        text += f" ± {result[f'{key}_deviation']:.2f}"
    if f"{stem}_low" in result:
        p = f", p = {result[f'{stem}_p']:.4f}" if f"{stem}_p" in result else ""
        text += f" ({number(result[f'{stem}_low'])} to {number(result[f'{stem}_high'])}{p})"
    return text


def number(figure: float | str) -> str:
    """
    >>> number(1019), number(2.81234), number(14436.0), number(0.00055), number("all")
    ('1,019', '2.81', '14,436.0', '0.00055', 'all')
    """
    if isinstance(figure, str | int):
        return figure if isinstance(figure, str) else f"{figure:,}"
    if figure and abs(figure) < 1:
        return f"{figure:.4g}"
    return f"{figure:,.1f}" if abs(figure) >= 1_000 else f"{figure:.2f}"


def duration(study: Listed) -> str:
    """How long a study takes from nothing, by its module's TAKES, and took when its result was saved: that
    run may have gone on with what an earlier one had kept."""
    named = _TIME.search(study.takes)
    takes = [named[0].strip()] if named else []
    if study.seconds is not None:
        minutes = max(1, round(study.seconds / 60))
        saved = f"{minutes / 60:.1f} hours" if minutes >= 60 else counted(minutes, "minute")
        takes.append(f"the saved run took {saved}" if takes else saved)
    return "; ".join(takes) or NO_TIME


@cache
def decided(name: str) -> str:
    """The text of a study's constant DECIDED."""
    tree = ast.parse((ROOT / f"experiments/{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DECIDED":
            return str(ast.literal_eval(node.value))
    raise ValueError(f"experiments/{name}.py has no DECIDED; say in a sentence what was decided by it")


def data_of(name: str) -> list[str]:
    """The data sets that a study reads."""
    return [each for each, studies in readers().items() if name in studies]
