"""Every benchmark still runs: with --smoke, on a token copy of the measuring data, in this process."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

import benchmarks

NO_COMMAND = {
    "cascade_trainings",
    "command_peak",
    "corpus",
    "engines",
    "exit_rows",
    "family_models",
    "flink_machines",
    "harness",
    "label_join",
    "machines",
    "multihead_trainings",
    "peasi_data",
    "peasi_trainings",
    "plain_ingest",
    "simulation",
    "smoke_data",
    "tiny_job",
    "wqa_questions",
}
NAMES = sorted({path.stem for path in Path(benchmarks.__path__[0]).glob("[a-z]*.py")} - NO_COMMAND)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch):
    """--smoke shrinks constants and may set variables of the environment: neither is left behind."""
    before, threads = dict(os.environ), None
    if "torch" in sys.modules:
        threads = sys.modules["torch"].get_num_threads()
    yield
    for name in [name for name in sys.modules if name.startswith("benchmarks.") and name != "testing.smoke_data"]:
        del sys.modules[name]
        vars(benchmarks).pop(name.removeprefix("benchmarks."), None)  # or `from benchmarks import …` has a former module
    os.environ.clear()
    os.environ.update(before)
    if threads is not None:
        sys.modules["torch"].set_num_threads(threads)


def refused(constant: str) -> None:
    raise ValueError(f"{constant} is not a figure")


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs_on_token_data(name: str, shared_data: Path, apart, monkeypatch, capsys) -> None:
    saved = {path: path.stat().st_mtime_ns for path in Path(benchmarks.__path__[0], "results").iterdir()}
    monkeypatch.setattr(sys, "argv", [name, "--smoke", "--data", str(shared_data)])
    importlib.import_module(f"benchmarks.{name}").main()
    result = json.loads(capsys.readouterr().out.splitlines()[-1], parse_constant=refused)
    assert result and not any(isinstance(value, dict | list) for value in result.values())
    assert saved == {path: path.stat().st_mtime_ns for path in Path(benchmarks.__path__[0], "results").iterdir()}


def test_chain_measures_has_in_the_cascade_s_place(shared_data: Path, apart, monkeypatch, capsys) -> None:
    checkpoint = importlib.import_module("testing.smoke_data").small_checkpoint("hashing")
    monkeypatch.setattr(sys, "argv", ["chain", "--smoke", "--data", str(shared_data), "--hashing", checkpoint])
    importlib.import_module("experiments.chain").main()
    result = json.loads(capsys.readouterr().out.splitlines()[-1], parse_constant=refused)
    assert 0 <= result["p1_after_hashing"] <= result["mrr_after_hashing"] <= 100
    assert result["hashing_questions_per_s"] > 0 and "p1_without_cascade" not in result


def test_the_list_is_of_all_benchmarks() -> None:
    assert len(NAMES) > 25
    for name in NO_COMMAND:
        assert importlib.util.find_spec(f"benchmarks.{name}")


def test_contributing_names_every_benchmark() -> None:
    words = (Path(benchmarks.__path__[0]).parent / "CONTRIBUTING.md").read_text(encoding="utf-8").split()
    assert [name for name in NAMES if f"benchmarks.{name}" not in words] == []
