"""Which folder may import which, and how big folders and files may be: the plan of the code, held by its
syntax trees."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "answermill"
TOP = ("schemas", "files", "indexing", "ranking", "pipelines", "answermill")
"""The folders that are installed, as `answermill` and below it."""
ROOMS = (
    "cli",
    "nights",
    "look",
    "learn",
    "steps",
    "data",
    "engine",
    "config",
    "specs",
    "runs",
    "errors",
    "revision",
)
"""The rooms of `pipelines/`, from the top: each imports only from rooms below it."""
GROUND = "schemas files"
MAY_IMPORT = {
    "schemas": "",
    "files": "",
    # Documents, passages, labels and shards. No package of a step knows the packages of later steps.
    "indexing": "",
    "indexing.crawl": GROUND,
    "indexing.passages": GROUND,
    "indexing.encodings": GROUND,
    "indexing.documents": f"{GROUND} indexing.crawl indexing.encodings indexing.passages",
    "indexing.labels": f"{GROUND} indexing.passages",
    "indexing.shards": GROUND,
    # Methods: each knows the common ground, `ranking`, and what it is built on; only `training` knows them
    # all.
    "ranking": GROUND,
    "ranking.evaluation": GROUND,
    "ranking.word_vectors": GROUND,
    "ranking.transformer": f"{GROUND} ranking",
    "ranking.rerankers": f"{GROUND} ranking",
    "ranking.rerankers.baselines": f"{GROUND} ranking",
    "ranking.rerankers.blend": f"{GROUND} ranking ranking.evaluation",
    "ranking.rerankers.cosinet": f"{GROUND} ranking ranking.word_vectors ranking.rerankers.blend",
    "ranking.rerankers.cascade": f"{GROUND} ranking ranking.transformer ranking.evaluation "
    "ranking.rerankers.blend",
    "ranking.rerankers.multihead": f"{GROUND} ranking ranking.transformer ranking.rerankers.cascade",
    "ranking.rerankers.hashing": f"{GROUND} ranking ranking.transformer",
    "ranking.rerankers.peasi": f"{GROUND} ranking ranking.evaluation ranking.transformer",
    "ranking.rerankers.pretrained": f"{GROUND} ranking ranking.rerankers.baselines ranking.transformer",
    "ranking.rerankers.probability": f"{GROUND} ranking ranking.evaluation ranking.rerankers.blend",
    "ranking.rerankers.support": f"{GROUND} ranking ranking.rerankers.baselines ranking.rerankers.blend "
    "ranking.rerankers.cascade",
    "ranking.training": f"{GROUND} ranking ranking.rerankers ranking.evaluation ranking.word_vectors "
    "ranking.transformer "
    "ranking.rerankers.cosinet ranking.rerankers.cascade ranking.rerankers.multihead "
    "ranking.rerankers.hashing "
    "ranking.rerankers.peasi",
}
"""Package below the pipelines → the packages that it may import, with spaces."""
EVIDENCE = ("experiments", "benchmarks", "testing")
"""Studies, guards, and what these share with the tests, from the top: each imports only from those below
it."""
FILES = [path for folder in TOP for path in sorted((ROOT / folder).rglob("*.py"))]


def module_of(path: Path) -> str:
    """A file's module, without `answermill.` in front: 'ranking.plan'; 'answermill.runs' of the import name's
    own files."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in FILES}


def package_of(path: Path) -> str:
    """The package that a file belongs to, as MAY_IMPORT names it; of pipelines the folder, or a file directly
    in it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] == "pipelines":
        return ".".join(parts[:2]) if parts[1] != "__init__" else "pipelines"
    return ".".join(
        parts[: 3 if parts[:2] == ("ranking", "rerankers") and len(parts) > 3 else min(2, len(parts) - 1)]
    )


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it, ours as `module_of` has them; `from package import
    module` is an import of the module."""
    modules = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            modules |= {ours(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = (ours(f"{node.module}.{alias.name}") for alias in node.names)
            modules |= {name if name in MODULES else ours(str(node.module)) for name in names}
    return modules


def ours(name: str) -> str:
    """'ranking.plan' of 'answermill.ranking.plan'; another name as it is."""
    inner = name.removeprefix(f"{PACKAGE}.")
    return inner if inner.split(".")[0] in TOP else name


def packages_imported(path: Path) -> set[str]:
    """Our other packages that a file imports."""
    return {package_of(MODULES[name]) for name in imports(path) if name in MODULES} - {package_of(path)}


def test_a_file_imports_only_what_its_package_may() -> None:
    wrong = {}
    for path in FILES:
        package, imported = package_of(path), packages_imported(path)
        if package.startswith("pipelines"):
            room = package.removeprefix("pipelines").removeprefix(".")
            below = ROOMS[ROOMS.index(room) + 1 :] if room else ()
            wrong[module_of(path)] = {
                name for name in imported if name.startswith("pipelines.") and name[10:] not in below
            }
        elif package != PACKAGE:
            wrong[module_of(path)] = imported - set(MAY_IMPORT[package].split())
    assert {name: packages for name, packages in wrong.items() if packages} == {}


def test_only_the_engine_knows_beam() -> None:
    users = {
        package_of(path) for path in FILES if any(name.startswith("apache_beam") for name in imports(path))
    }
    assert users == {"pipelines.engine"}


def test_what_a_package_may_import_is_what_it_does_import() -> None:
    used: dict[str, set[str]] = {name: set() for name in MAY_IMPORT}
    for path in FILES:
        if package_of(path) in used:
            used[package_of(path)] |= packages_imported(path)
    allowed = {name: set(packages.split()) - set(GROUND.split()) for name, packages in MAY_IMPORT.items()}
    assert {name: packages - used[name] for name, packages in allowed.items() if packages - used[name]} == {}


def test_no_module_imports_itself_by_way_of_another() -> None:
    """But where both are halves of one thing: an import for types alone does not count."""
    graph = {name: imports(path) & MODULES.keys() - typed_only(path) for name, path in MODULES.items()}
    list(
        TopologicalSorter(
            {name: modules - {name, *_packages(name)} for name, modules in graph.items()}
        ).static_order()
    )


def typed_only(path: Path) -> set[str]:
    """The modules that a file imports below `if TYPE_CHECKING`, or within a function."""
    late: set[str] = set()
    for node in ast.walk(tree(path)):
        is_late = isinstance(node, ast.FunctionDef) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        )
        for each in ast.walk(node) if is_late else ():
            if isinstance(each, ast.ImportFrom):
                late |= {
                    ours(str(each.module)),
                    *(ours(f"{each.module}.{alias.name}") for alias in each.names),
                }
    return late


def _packages(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def test_every_package_and_room_has_its_place() -> None:
    packages = {package_of(path) for path in FILES}
    rooms = {name.partition(".")[2] for name in packages if name.startswith("pipelines.")}
    assert rooms == set(ROOMS)
    assert {name for name in packages if not name.startswith("pipelines")} - {PACKAGE} == set(MAY_IMPORT)
    assert len(FILES) > 100


def test_evidence_imports_only_what_lies_below_it_and_no_test() -> None:
    wrong = []
    for place, folder in enumerate(EVIDENCE):
        above = {*EVIDENCE[:place], "tests", "docs"}
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(tree(path)):
                if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in above:
                    wrong.append(f"{path.relative_to(ROOT)}: {node.module}")
    assert wrong == []


def test_nothing_is_imported_but_below_the_one_name() -> None:
    tops = set(TOP) - {PACKAGE}
    places = [*TOP, *EVIDENCE, "docs", "examples", "tests", "tools"]
    wrong = []
    for path in (path for place in places for path in (ROOT / place).rglob("*.py")):
        names = re.findall(r"^\s*(?:from|import)\s+(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in names if name in tops]
    assert wrong == []


def test_no_module_is_loaded_under_two_names() -> None:
    code = (
        "import sys, answermill.__main__\n"
        "from answermill.pipelines.steps import chain; from answermill.ranking.rerankers import registry as "
        "r\n"
        "[chain.code_of(step) for step in chain.job_steps().values()]; [entry.settings for entry in "
        "r.RERANKERS.values()]\n"
        "print(*sys.modules)"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert len([name for name in loaded if name.startswith("answermill.pipelines.")]) > 50
    assert {name for name in loaded if name.split(".")[0] in set(TOP) - {PACKAGE}} == set()


def test_pickles_are_messages_between_a_command_and_its_workers_alone() -> None:
    """Nothing on a disk is one: a pickle runs code when it is opened."""
    imports = {
        name for name, path in MODULES.items() if "\nimport pickle" in path.read_text(encoding="utf-8")
    }
    assert imports == {f"pipelines.engine.{name}" for name in ("unit_work", "worker_pool", "worker_process")}


@pytest.mark.parametrize("folder", TOP)
def test_no_name_of_a_module_is_twice_in_a_top_folder(folder: str) -> None:
    """But for the descriptions of steps, which bear the names of the steps."""
    paths = [
        path
        for path in (ROOT / folder).rglob("*.py")
        if path.stem != "__init__" and path.parent.name != "specs"
    ]
    names = Counter(path.stem for path in paths)
    assert [name for name, count in names.items() if count > 1] == []


def test_a_class_or_alias_of_the_pipelines_has_a_name_of_its_own() -> None:
    """One word for one thing. `cli.parameters` has parameters of commands, which are named after what they
    say."""
    names, everywhere = Counter[str](), Counter[str]()
    for path in FILES:
        for node in tree(path).body:
            is_alias = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias"
            name = (
                node.name if isinstance(node, ast.ClassDef) else ast.unparse(node.target) if is_alias else "_"
            )
            everywhere[name] += 1
            names[name] += path.is_relative_to(ROOT / "pipelines") and path.parent.name != "parameters"

    assert {name for name, count in names.items() if count > 1 and not name.startswith("_")} == set()
    assert {
        name: everywhere[name]
        for name in ("Outcome", "Block", "Plan", "CandidateKind")
        if everywhere[name] > 1
    } == {}


def test_no_folder_has_more_than_twelve_entries() -> None:
    """Files and folders, but the file that makes it a package, and what Python leaves behind."""
    folders = {path.parent for path in FILES}
    sizes = {
        folder: sum(path.name not in ("__init__.py", "__pycache__", "py.typed") for path in folder.iterdir())
        for folder in folders
    }
    assert {str(folder.relative_to(ROOT)): size for folder, size in sizes.items() if size > 12} == {}


def test_no_file_has_more_than_375_lines() -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES
    }
    assert {name: count for name, count in lines.items() if count > 375} == {}


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("pipelines.cli.command_line", "torch transformers spacy apache_beam faiss pyarrow"),
        ("schemas.section", "pyarrow torch"),
    ],
)
def test_what_is_read_to_check_a_file_of_settings_is_light(module: str, heavy: str) -> None:
    code = f"import sys, {PACKAGE}.{module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert f"{PACKAGE}.{module}" in loaded
    assert set(heavy.split()) & set(loaded) == set()
