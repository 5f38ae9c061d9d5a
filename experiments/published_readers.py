"""Studies that read a data set, found in their source: what `main` calls, in its module and in those that it
imports, names the set's files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from experiments.published_sets import SETS
from testing.listing import commands

ROOT = Path(__file__).parents[1]
PACKAGES = ("experiments", "benchmarks")
FOLDERS = ("warc", "web-html", "corpus-wiki")
"""Sets that modules name by their folder alone."""


@dataclass(frozen=True)
class Module:
    """Names that are defined at the top of a module, and those that it imports from our packages."""

    defined: dict[str, ast.stmt]
    imported: dict[str, tuple[str, str]]
    """Name here → (module, name there)."""


@cache
def readers() -> dict[str, list[str]]:
    """Set → studies that read it."""
    read: dict[str, list[str]] = {name: [] for name in SETS}
    for study in commands(Path(__file__).parent):
        texts = set(_texts(f"experiments.{study.name}"))
        for name, data_set in SETS.items():
            named = any(_names(text, file.path) for file in data_set.files for text in texts)
            if named or name in texts & {*FOLDERS}:
                read[name].append(study.name)
    return read


def _names(text: str, path: str) -> bool:
    """True if a text of the source is a path, or the beginning of one before a name that is filled in.

    >>> _names("squad/squad-{}.gz", "squad/squad-dev.gz"), _names("squad", "squad/squad-dev.gz")
    (True, False)
    """
    start = text.partition("{")[0]
    return "/" in start and path.startswith(start)


def _texts(module: str) -> Iterator[str]:
    """Texts in `main` and in all that it uses, directly or not."""
    reached, todo = set[tuple[str, str]](), [(module, "main")]
    while todo:
        place = todo.pop()
        definition = _module(place[0]).defined.get(place[1])
        if place in reached or definition is None:
            continue

        reached.add(place)
        for node in ast.walk(definition):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            todo += _used(place[0], node)


def _used(module: str, node: ast.AST) -> Iterator[tuple[str, str]]:
    """(module, name) of what a name, or an attribute of an imported module, stands for."""
    here = _module(module)
    match node:
        case ast.Name(id=name):
            yield here.imported.get(name, (module, name))
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in here.imported:
            yield ".".join(here.imported[name]), attribute


@cache
def _module(name: str) -> Module:
    path = ROOT / f"{name.replace('.', '/')}.py"
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    module: Module = Module({}, {})

    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            module.defined[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
            module.defined.update(dict.fromkeys(names, node))
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in PACKAGES:
            place = str(node.module)
            module.imported.update({alias.asname or alias.name: (place, alias.name) for alias in node.names})

    return module
