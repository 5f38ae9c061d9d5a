"""Parts of the page on reproduction that are written by code: times, the data that a study reads, whether the
model that it measured ships, and the table of all data sets."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from docs.study_pages import data_of, duration
from experiments.published_sets import SETS, PublishedSet
from testing.harness import RESULTS
from testing.listing import commands
from testing.measured_models import former_models

ROOT = Path(__file__).parents[1]
_PLACE = re.compile(r"\{\{(\w+)(?: (\w+)\.(\w+))?\}\}")


def filled(template: str) -> str:
    """A template with `{{time package.name}}`, `{{data experiments.name}}`, `{{ships package.name}}` and
    `{{sets}}` filled in."""
    return _PLACE.sub(_filled, template)


def _filled(match: re.Match[str]) -> str:
    what, package, name = match.groups()
    if what == "sets":
        return table()
    if what == "data":
        return ", ".join(f"[{each}](#{each})" for each in data_of(name)) or "none"
    if what == "ships":
        result = json.loads((ROOT / package / RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        return "no: one that shipped before" if former_models(result) else "yes"
    if what == "time":
        if name not in (durations := times(package)):
            raise ValueError(f"no module {package}/{name}.py has a function main")
        return durations[name]
    known = "{{time package.name}}, {{data package.name}}, {{ships package.name}} or {{sets}}"
    raise ValueError(f"a placeholder is not understood: {match[0]}; write {known}")


@cache
def times(package: str) -> dict[str, str]:
    """Name of each command of a package → how long it takes."""
    return {each.name: duration(each) for each in commands(ROOT / package)}


def table() -> str:
    """A row for each data set, which links lead to."""
    head = "| name | what | licence | from | becomes |\n|---|---|---|---|---|\n"
    return head + "\n".join(map(_row, SETS.values()))


def _row(each: PublishedSet) -> str:
    names = ", ".join(f"`{file.path}`" for file in each.files[:4])
    more = f" and {len(each.files) - 4} more" if len(each.files) > 4 else ""
    size = f", {each.size / 1e6:,.1f} MB" if each.size else ""
    cells = [f'<a id="{each.name}"></a>`{each.name}`', f"{each.about}. {each.note}".strip(), each.licence]
    return f"| {' | '.join([*cells, _source(each), f'{names}{more}{size}'])} |"


def _source(each: PublishedSet) -> str:
    if each.built_from:
        return f"the sets {', '.join(f'`{name}`' for name in each.built_from)}"
    if not each.sources:
        return f"{each.page or 'the other sets'}; by hand"
    recorded = sum(source.sha256 is not None for source in each.sources)
    return f"{each.page}; SHA-256 of {recorded} of {len(each.sources)} files recorded"
