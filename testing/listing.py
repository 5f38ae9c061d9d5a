"""List of the commands of a package, with the subject, the data and the time of each."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testing.harness import RESULTS


@dataclass(frozen=True)
class Listed:
    """A command of a package."""

    name: str
    about: str
    """The first sentence of its docstring."""
    data: tuple[str, ...]
    """Folders of --data that its module names; those that it reads by other modules are not among them."""
    takes: str
    """Its time and further needs: the module's TAKES."""
    seconds: int | None
    """Seconds of the command that saved its result; None if they were not recorded."""
    date: str
    """Date of its saved result; '' if there is none."""


def commands(package: Path) -> Iterator[Listed]:
    """The modules of a folder that have a function `main`, by name."""
    for path in sorted(package.glob("[a-z]*.py")):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        if not any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            continue

        saved = package / RESULTS / f"{path.stem}.json"
        result = json.loads(saved.read_text(encoding="utf-8")) if saved.is_file() else {}
        about = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
        data = tuple(sorted(set(re.findall(r"\bdata / \"([\w-]+)\"", source))))
        yield Listed(path.stem, about, data, _takes(tree), result.get("command_s"), result.get("date", ""))


def _takes(tree: ast.Module) -> str:
    """The text of the module's constant TAKES; '' if it has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TAKES":
            return str(ast.literal_eval(node.value))
    return ""


def show(package: Path) -> None:
    """Print the commands of a package, a paragraph each."""
    print(
        f"python -m {package.name}.NAME [--data FOLDER] [--save] [--smoke]; --smoke tries it on token data\n"
    )
    for command in commands(package):
        duration = f" in {command.seconds / 60:,.1f} minutes" if command.seconds is not None else ""
        result = f"saved {command.date}{duration}" if command.date else ""
        data = f"reads {', '.join(command.data)}" if command.data else ""
        print(
            f"{command.name}: {command.about}\n    {'; '.join(filter(None, (command.takes, data, result)))}"
        )
