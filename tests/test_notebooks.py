"""examples/notebooks: their cells run one after the other on the sample, as a reader would run them."""

from __future__ import annotations

import ast
import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def cells(notebook: Path) -> list[str]:
    """The source of each code cell."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]


def run_cells(notebook: Path) -> dict[str, Any]:
    """Run the cells in one namespace, and show what each ends with, as a notebook does; returns the names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for source in cells(notebook):
        tree = ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, notebook.name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), notebook.name, "eval"), names)
            show = getattr(value, "_repr_html_", None)
            assert (show() if show else repr(value)) or value is None
    return names


@pytest.fixture
def beside_the_sample(sample_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(sample_run.parent, tmp_path / "sample")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_three() -> None:
    assert [notebook.stem for notebook in NOTEBOOKS] == [
        "annotation_round",
        "own_reranker",
        "retrieval_study",
    ]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in content["cells"])
    assert content["cells"][0]["cell_type"] == "markdown" and len(cells(notebook)) >= 4


def test_the_retrieval_study_compares_the_stages(beside_the_sample: Path) -> None:
    names = run_cells(ROOT / "examples/notebooks/retrieval_study.ipynb")
    frame = names["compared"].to_pandas().set_index(["run", "metric"])
    assert frame.loc[("final.parquet", "P@1"), "difference"] > 0.1
    assert frame.loc[("final.parquet", "P@1"), "p_holm"] < 0.05


def test_one_s_own_reranker_is_measured(beside_the_sample: Path) -> None:
    names = run_cells(ROOT / "examples/notebooks/own_reranker.ipynb")
    assert 0.05 < names["first_right"](names["am"].Plan(["overlap"])) < 0.9


def test_the_annotation_round_ends_with_no_open_task(beside_the_sample: Path) -> None:
    names = run_cells(ROOT / "examples/notebooks/annotation_round.ipynb")
    run = names["am"].open_run("round/run")
    assert len(run["collected/labels"]) == len(run["tasks"]) and names["rows"]


@pytest.mark.nightly
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_real_kernel_runs_it(notebook: Path, beside_the_sample: Path) -> None:
    if find_spec("nbclient") is None or find_spec("ipykernel") is None:
        pytest.skip("nbclient and ipykernel are not installed; `make test` installs them")
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(notebook, as_version=4)
    NotebookClient(content, timeout=600, kernel_name="python3").execute(cwd=str(beside_the_sample))
