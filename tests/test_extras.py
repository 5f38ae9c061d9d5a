"""Libraries that only some commands need: without one, a command says what to install before it begins, and
ends with 69."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import answermill as am
from answermill.__main__ import main
from answermill.files.extras import ExtraMissing, need
from answermill.ranking.rerankers.registry import load_reranker

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
INSTALLED = ("schemas", "files", "indexing", "ranking", "pipelines", "answermill")
COMMANDS = {
    "evaluate scored --labels labels --coverage curve.svg": ("matplotlib", "plots"),
    "agreement scored --labels labels --heads a --teachers b --plot matrix.png": ("matplotlib", "plots"),
    "sweep train.toml --over train.epochs=1,2 --out out": ("matplotlib", "plots"),
    "train train.toml --out out --tensorboard": ("tensorboard", "tensorboard"),
    "tune checkpoint --dev dev.tsv --out out": ("matplotlib", "plots"),
    "report scored --excel": ("xlsxwriter", "excel"),
    "export checkpoint --out out": ("sentence_transformers", "sentence-transformers"),
}
"""Command → the library that it needs, and the extra."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_whose_extra_is_not_installed_says_what_to_type(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library, extra = COMMANDS[command]
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.chdir(tmp_path)
    for name in ("labels", "train.toml", "dev.tsv"):
        (tmp_path / name).touch()
    for name in ("checkpoint", "scored"):
        (tmp_path / name).mkdir()
    with pytest.raises(SystemExit) as e:
        main(command.split())

    err = capsys.readouterr().err
    assert e.value.code == 69, err
    assert err.startswith("answermill: ") and err.endswith(
        f"needs {library}: pip install 'answermill[{extra}]'\n"
    )
    assert err.count("\n") == 1


def test_a_stage_whose_extra_is_not_installed_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        ExtraMissing, match=r"late_interaction needs .*: pip install 'answermill\[sentence-transformers\]'"
    ):
        load_reranker("late_interaction", tmp_path)


def test_a_class_whose_extra_is_not_installed_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyterrier", None)
    monkeypatch.delitem(sys.modules, "answermill.pyterrier", raising=False)
    with pytest.raises(
        ExtraMissing, match=r"PyTerrierReranker needs pyterrier: pip install 'answermill\[pyterrier\]'"
    ):
        am.PyTerrierReranker  # noqa: B018


def test_what_is_installed_is_not_missing() -> None:
    need("json", "none", "nobody")


def test_every_extra_that_is_named_exists_and_the_tests_have_those_of_commands() -> None:
    assert {extra for _, extra in COMMANDS.values()} < EXTRAS.keys()
    tested = EXTRAS["test"][0].removeprefix("answermill[").removesuffix("]").split(",")
    assert {extra for _, extra in COMMANDS.values()} | {"ensemble", "pyterrier", "s3", "trafilatura"} == set(
        tested
    )


OPTIONAL = frozenset(
    [
        "matplotlib",
        "sentence_transformers",
        "optuna",
        "trafilatura",
        "pyterrier",
        "s3fs",
        "tensorboard",
        "xlsxwriter",
    ]
)


def loaded_with(path: Path) -> set[str]:
    """Modules that a file imports as soon as it is imported itself."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.removeprefix("answermill.") for name in names}


def test_an_extra_is_loaded_by_its_commands_alone() -> None:
    """Other modules load it, and those that load it, within functions."""
    files = [path for folder in INSTALLED for path in (ROOT / folder).rglob("*.py")]
    loaded = {".".join(path.relative_to(ROOT).with_suffix("").parts): loaded_with(path) for path in files}
    reached = {name for name, names in loaded.items() if {each.split(".")[0] for each in names} & OPTIONAL}
    loading = set[str]()
    while reached > loading:
        loading = reached
        reached = loading | {name for name, names in loaded.items() if names & loading}

    assert loading == {
        "answermill.pyterrier",
        "pipelines.learn.evaluate.plot",
        "pipelines.learn.evaluate.tune",
        "pipelines.learn.train.export",
        "pipelines.learn.train.sweep",
        "ranking.rerankers.cascade.cross_encoder",
    }


@pytest.mark.nightly
def test_commands_that_need_no_extra_load_none() -> None:
    """Nor do the libraries that they need."""
    code = (
        "import sys\n"
        "from answermill.pipelines.config.step_code import code_of\n"
        "from answermill.pipelines.specs.registry import job_steps\n"
        "from answermill.ranking.rerankers.registry import RERANKERS\n"
        "import answermill.pipelines.learn.evaluate.evaluate, answermill.pipelines.learn.evaluate.ensemble\n"
        "import answermill.pipelines.learn.train.train\n"
        "[code_of(step) for step in job_steps().values()]; [entry.reranker for entry in RERANKERS.values()]\n"
        f"print([name for name in {sorted(OPTIONAL)} if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"
