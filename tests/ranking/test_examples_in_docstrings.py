"""The examples in docstrings of ranking/: each gives what it says."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tiny import tokeniser

ROOT = Path(__file__).parents[2]
EXAMPLES = [path for path in sorted((ROOT / "ranking").rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]

NAMES = {"np": np, "torch": torch, "tokeniser": tokeniser()}
"""Known to every example; `tokeniser` is that of an uncased BERT."""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_gives_what_it_says(path: Path) -> None:
    module = import_module(".".join(["answermill", *path.relative_to(ROOT).with_suffix("").parts]))
    tests = doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=NAMES)
    runner = doctest.DocTestRunner()
    for test in tests:
        runner.run(test)
    assert runner.tries > 0 and runner.failures == 0


def test_the_functions_over_packed_texts_have_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {"packing", "slots", "span", "extractor", "groups", "ties"}
