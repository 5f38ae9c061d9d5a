"""Words that the code does without: phrases that only their author understands, and names that name
nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for folder in (
        *("schemas", "files", "indexing", "ranking", "pipelines", "answermill"),
        *("benchmarks", "experiments", "testing", "tests", "tools"),
    )
    for path in sorted((ROOT / folder).rglob("*.py"))
}
PHRASES = re.compile(
    r"\b(is told|what stands|cannot be meant|of no use|at hand|so many|where there is none|whoever|there is "
    r"to"
    r"|an? [\w-]+ of (its|their|our|one's) own)\b",
    re.IGNORECASE,
)
THIS_FILE = "tests/test_plain_english.py"
"""Which has the phrases as data."""
NAMES = frozenset({"made", "found", "told", "given", "of", "at"})
"""Participles and prepositions. A noun of the domain says what the value is; `result` will do otherwise."""
MAY_BE_NAMED = re.compile(rf"\b(?:{'|'.join(sorted(NAMES))})\b\s*(?:[=:,)\]]|in\b)")
"""Found in each file that has such a name; files without it need not be parsed."""
PUBLIC_NAMES = {("schemas/labels.py", "given")}
"""Columns of Parquet files, which stay as people know them."""


def phrases(text: str) -> list[str]:
    """The banned phrases in a file's text, comments and strings included, whatever the line breaks."""
    return [match[0] for match in PHRASES.finditer(re.sub(r"\s*\n\s*#?\s*", " ", text))]


def names(text: str) -> Iterator[str]:
    """The banned names that a file assigns to, or takes as an argument."""
    for node in ast.walk(ast.parse(text)) if MAY_BE_NAMED.search(text) else ():
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in NAMES:
                yield name


def test_no_file_has_a_banned_phrase_or_name() -> None:
    wrong = []
    for file, text in FILES.items():
        if file != THIS_FILE:
            wrong += [f"{file}: {phrase}" for phrase in phrases(text)]
        wrong += [f"{file}: {name}" for name in names(text) if (file, name) not in PUBLIC_NAMES]
    assert wrong == []


def test_the_rules_find_what_they_are_for() -> None:
    assert phrases("# takes a name\n# of its own, as whoever asks is told") == [
        "a name of its own",
        "whoever",
        "is told",
    ]
    assert phrases("it is\n  told so") == ["is told"] and phrases("a name; its own") == []
    assigned = "def f(at):\n    made = of = 1\n    for found in x: pass\n    (given := 2)"
    assert sorted(names(assigned)) == ["at", "found", "given", "made", "of"]
