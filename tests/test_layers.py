"""Which folder may import which, and how big folders and files may be: the plan of the code, held by its syntax trees."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP = ("schemas", "indexing", "ranking", "pipelines", "answermill")
GROUND = "schemas pipelines.errors pipelines.revision pipelines.execution"
"""What every package of `pipelines` may import."""
MAY_IMPORT = {
    "schemas": "",
    # Documents, passages, labels and shards. No package of a step knows the packages of later steps.
    "indexing": "",
    "indexing.crawl": "schemas",
    "indexing.passages": "schemas",
    "indexing.documents": "schemas indexing.crawl indexing.passages",
    "indexing.labels": "schemas indexing.passages",
    "indexing.annotation": "schemas",
    "indexing.shards": "schemas",
    # Methods: each knows the common ground, `ranking`, and what it is built on; only `training` knows them all.
    "ranking": "schemas",
    "ranking.evaluation": "schemas",
    "ranking.word_vectors": "schemas",
    "ranking.baselines": "schemas ranking",
    "ranking.fusion": "schemas ranking ranking.evaluation",
    "ranking.transformer": "schemas ranking",
    "ranking.cosinet": "schemas ranking ranking.word_vectors ranking.fusion",
    "ranking.cascade": "schemas ranking ranking.transformer ranking.evaluation ranking.fusion",
    "ranking.multihead": "schemas ranking ranking.transformer ranking.cascade",
    "ranking.hashing": "schemas ranking ranking.transformer",
    "ranking.peasi": "schemas ranking ranking.transformer ranking.evaluation",
    "ranking.pretrained": "schemas ranking ranking.baselines ranking.transformer",
    "ranking.training": "schemas ranking ranking.evaluation ranking.word_vectors ranking.transformer ranking.cosinet "
    "ranking.cascade ranking.multihead ranking.hashing ranking.peasi",
    # Commands: the ground, then what files hold, then steps, then what is made of their output, then the command line.
    "pipelines": "",
    "pipelines.errors": "",
    "pipelines.revision": "",
    "pipelines.execution": "schemas pipelines.errors pipelines.revision",
    "pipelines.doctor": "indexing.shards pipelines.revision",
    "pipelines.annotation_tools": "schemas",
    "pipelines.config": f"{GROUND} ranking pipelines.annotation_tools",
    "pipelines.datasets": f"{GROUND} indexing.passages pipelines.inputs",
    "pipelines.inputs": f"{GROUND} indexing.annotation indexing.labels indexing.passages pipelines.config",
    "pipelines.annotate": f"{GROUND} indexing.annotation indexing.labels indexing.passages ranking pipelines.annotation_tools "
    "pipelines.config pipelines.inputs",
    "pipelines.propagate": f"{GROUND} indexing.labels indexing.passages pipelines.config pipelines.inputs",
    "pipelines.ingest": f"{GROUND} indexing.crawl indexing.documents indexing.passages pipelines.config pipelines.inputs",
    "pipelines.earlier": f"{GROUND} indexing.shards ranking pipelines.config",
    "pipelines.steps": f"{GROUND} indexing.shards ranking ranking.transformer pipelines.config pipelines.earlier",
    "pipelines.retrieve": f"{GROUND} indexing.shards pipelines.config pipelines.inputs pipelines.steps",
    "pipelines.evaluate": f"{GROUND} indexing.shards ranking ranking.baselines ranking.cascade ranking.evaluation "
    "ranking.fusion pipelines.datasets pipelines.inputs pipelines.steps",
    "pipelines.train": f"{GROUND} indexing.passages indexing.shards ranking ranking.cascade ranking.multihead "
    "ranking.transformer ranking.training pipelines.config pipelines.datasets pipelines.inputs pipelines.steps "
    "pipelines.evaluate",
    "pipelines.convert": f"{GROUND} ranking pipelines.datasets",
    "pipelines.publish": f"{GROUND} indexing.annotation indexing.labels indexing.passages ranking ranking.fusion "
    "pipelines.config pipelines.inputs",
    "pipelines.ask": f"{GROUND} indexing.passages indexing.shards ranking pipelines.config pipelines.retrieve pipelines.steps",
    "pipelines.explain": f"{GROUND} indexing.passages ranking",
    "pipelines.planning": f"{GROUND} indexing.crawl indexing.shards pipelines.ask pipelines.config pipelines.ingest "
    "pipelines.retrieve pipelines.steps",
    "pipelines.report": f"{GROUND} ranking.evaluation pipelines.config pipelines.evaluate pipelines.planning pipelines.verify",
    "pipelines.jobs": GROUND,
    "pipelines.verify": f"{GROUND} indexing.labels pipelines.config",
    "pipelines.sample": f"{GROUND} pipelines.steps",
    "pipelines.cli": f"{GROUND} ranking pipelines.doctor pipelines.config pipelines.annotate pipelines.ask "
    "pipelines.convert pipelines.evaluate pipelines.explain pipelines.jobs pipelines.planning pipelines.publish "
    "pipelines.report pipelines.sample pipelines.steps pipelines.train pipelines.verify",
    "pipelines.__main__": "pipelines.cli",
    "answermill": f"{GROUND} indexing.passages ranking pipelines.config pipelines.datasets pipelines.evaluate pipelines.steps "
    "pipelines.train",
}
"""Package → the packages that it may import, with spaces. A module directly in `pipelines` counts as a package."""
FILES = [path for folder in TOP for path in sorted((ROOT / folder).rglob("*.py"))]
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}


def package_of(path: Path) -> str:
    """The package that a file belongs to, as MAY_IMPORT names it."""
    top, second, *deeper = path.relative_to(ROOT).with_suffix("").parts
    single = top in ("schemas", "answermill") or second == "__init__" or (top != "pipelines" and not deeper)
    return top if single else f"{top}.{second}"


def imports(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it; `from package import module` is an import of the module."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            modules |= {name if name in MODULES else str(node.module) for name in names}
    return modules


def packages_imported(path: Path) -> set[str]:
    """Our other packages that a file imports."""
    return {package_of(MODULES[name]) for name in imports(path) if name in MODULES} - {package_of(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_what_its_package_may(path: Path) -> None:
    assert packages_imported(path) <= set(MAY_IMPORT[package_of(path)].split())
    assert path.relative_to(ROOT).parts[0] == "pipelines" or not any(name.startswith("apache_beam") for name in imports(path))


def test_what_a_package_may_import_is_what_it_does_import() -> None:
    used: dict[str, set[str]] = {name: set() for name in MAY_IMPORT}
    for path in FILES:
        used[package_of(path)] |= packages_imported(path)
    allowed = {name: set(packages.split()) - set(GROUND.split()) for name, packages in MAY_IMPORT.items()}
    assert {name: packages - used[name] for name, packages in allowed.items() if packages - used[name]} == {}


def test_no_package_imports_itself_by_way_of_another() -> None:
    list(TopologicalSorter({name: set(packages.split()) for name, packages in MAY_IMPORT.items()}).static_order())


def test_every_package_has_its_line() -> None:
    assert {package_of(path) for path in FILES} == set(MAY_IMPORT)
    assert len(FILES) > 100 and any("apache_beam" in imports(path) for path in FILES)


@pytest.mark.parametrize("folder", TOP)
def test_no_name_of_a_module_is_twice_in_a_top_folder(folder: str) -> None:
    names = Counter(path.stem for path in (ROOT / folder).rglob("*.py") if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_no_folder_has_more_than_twelve_files() -> None:
    folders = {path.parent for path in FILES}
    sizes = {str(folder.relative_to(ROOT)): sum(path.is_file() for path in folder.iterdir()) for folder in folders}
    assert {folder: size for folder, size in sizes.items() if size > 12} == {}


def test_no_file_has_more_than_300_lines() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: count for name, count in lines.items() if count > 300} == {}


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("ranking.registry", "torch transformers spacy"),
        ("pipelines.config.job_file", "torch transformers spacy apache_beam faiss"),
        ("pipelines.config.training_file", "torch transformers spacy apache_beam faiss"),
        ("pipelines.cli.command_line", "torch transformers spacy apache_beam faiss pyarrow"),
        ("schemas.section", "pyarrow torch"),
    ],
)
def test_what_is_read_to_check_a_file_of_settings_is_light(module: str, heavy: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    assert module in loaded
    assert set(heavy.split()) & set(loaded) == set()
