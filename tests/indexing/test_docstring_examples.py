"""The examples in the docstrings of indexing and of word vectors, run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    path.relative_to(ROOT)
    for folder in ("indexing", "ranking/word_vectors")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_examples_give_what_they_say(file: Path) -> None:
    module = importlib.import_module(".".join(("answermill", *file.with_suffix("").parts)))
    results = doctest.testmod(module)
    assert results.attempted and not results.failed
