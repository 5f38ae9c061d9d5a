"""What is installed: every file of the one package, and no other. `tests/engines/test_wheel.py` installs
it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hatchling.builders.plugin.interface import BuilderInterface
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "answermill"
ROOMS = sorted(path for path in PACKAGE.iterdir() if path.is_symlink())
"""The links to the repository's folders."""


def files_of(builder: type[BuilderInterface]) -> set[str]:
    return {file.distribution_path for file in builder(str(ROOT)).recurse_included_files()}


def package_files() -> set[str]:
    """Every file below the package's one name, but what Python leaves behind."""
    paths = [path for room in ROOMS for path in room.resolve().rglob("*")]
    names = [f"answermill/{path.relative_to(ROOT)}" for path in paths if path.is_file()]
    own = [f"answermill/{path.name}" for path in PACKAGE.iterdir() if path.is_file()]
    return {name for name in own + names if "__pycache__" not in name}


def test_a_wheel_holds_every_file_of_the_package_and_no_other() -> None:
    assert files_of(WheelBuilder) == package_files()


@pytest.mark.parametrize(
    "file",
    [
        "ranking/checkpoints/cascade/model.safetensors",
        "pipelines/data/sample/web.warc.gz",
        "pipelines/data/recipes/wqa.toml",
        "pipelines/look/report/pages/style.css",
        "pipelines/steps/annotate/guidelines.md",
        "indexing/shards/lucene/answermill/GlobalSearcher.class",
        "indexing/shards/lucene/answermill/LiveReader.class",
        "indexing/shards/lucene/answermill/LiveReader$Segment.class",
        "indexing/shards/lucene/answermill/LiveReader$Wrapper.class",
        "indexing/shards/lucene/answermill/Questions.class",
        "indexing/shards/lucene/answermill/Questions$Hit.class",
        "py.typed",
    ],
)
def test_files_that_are_no_code_are_of_the_package(file: str) -> None:
    assert f"answermill/{file}" in package_files()


def test_a_source_archive_holds_what_a_wheel_is_built_of() -> None:
    assert files_of(SdistBuilder) == package_files() | {"constraints.txt"}
