"""The examples in docstrings: each gives what it says."""

from __future__ import annotations

import doctest
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from testing.tiny import tokeniser

ROOT = Path(__file__).parents[1]
INSTALLED = ("schemas", "files", "indexing", "ranking", "pipelines")
EXAMPLES = [
    path.relative_to(ROOT)
    for folder in (*INSTALLED, "answermill", "benchmarks", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]

NAMES = {"np": np, "torch": torch, "tokeniser": tokeniser()}
"""Known to every example; `tokeniser` is that of an uncased BERT."""


@pytest.mark.parametrize("path", EXAMPLES, ids=str)
def test_an_example_gives_what_it_says(path: Path) -> None:
    names = path.with_suffix("").parts
    module = import_module(".".join(("answermill", *names) if names[0] in INSTALLED else names))

    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=NAMES):
        runner.run(test)
    assert runner.tries == (ROOT / path).read_text(encoding="utf-8").count(">>> ") and runner.failures == 0


def test_every_folder_that_has_examples_is_tried() -> None:
    files = Counter(path.parts[0] for path in EXAMPLES)
    assert min(files[folder] for folder in ("indexing", "ranking", "pipelines")) >= 9


def test_the_functions_over_packed_texts_have_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {"packing", "slots", "span", "extractor", "groups", "ties"}
