"""Which folder may import which: the plan of the code, held by its syntax trees."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "schemas": set(),
    "indexing": {"schemas"},
    "ranking": {"schemas"},
    "pipelines": {"schemas", "indexing", "ranking"},
}
FILES = [path for folder in MAY_IMPORT for path in sorted((ROOT / folder).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """The top-level packages that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_what_lies_below_it(path: Path) -> None:
    folder = path.relative_to(ROOT).parts[0]
    ours = imported(path) & MAY_IMPORT.keys()
    assert ours <= MAY_IMPORT[folder] | {folder}
    assert folder == "pipelines" or "apache_beam" not in imported(path)


def test_the_rules_are_not_held_over_an_empty_tree() -> None:
    assert len(FILES) > 20
    assert any("apache_beam" in imported(path) for path in FILES)
