"""Every benchmark and experiment still runs: with --smoke, on a token copy of the measuring data, in this
process."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

import benchmarks
import experiments
from testing import listing
from testing.listing import commands

PACKAGES = (benchmarks, experiments)
NAMES = [
    f"{package.__name__}.{listed.name}"
    for package in PACKAGES
    for listed in commands(Path(package.__path__[0]))
]


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch):
    """--smoke shrinks constants and may set variables of the environment: neither is left behind."""
    before, threads = dict(os.environ), None
    if "torch" in sys.modules:
        threads = sys.modules["torch"].get_num_threads()
    yield

    for package in PACKAGES:
        for name in [name for name in sys.modules if name.startswith(f"{package.__name__}.")]:
            del sys.modules[name]
            # Or `from benchmarks import …` has a former module.
            vars(package).pop(name.partition(".")[2], None)

    os.environ.clear()
    os.environ.update(before)
    if threads is not None:
        sys.modules["torch"].set_num_threads(threads)


def refused(constant: str) -> None:
    raise ValueError(f"{constant} is not a figure")


def saved_files() -> dict[Path, int]:
    folders = (Path(package.__path__[0], "results") for package in PACKAGES)
    return {path: path.stat().st_mtime_ns for folder in folders for path in folder.iterdir()}


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_a_command_runs_on_token_data(name: str, shared_data: Path, apart, monkeypatch, capsys) -> None:
    saved = saved_files()
    monkeypatch.setattr(sys, "argv", [name, "--smoke", "--data", str(shared_data)])
    importlib.import_module(name).main()
    result = json.loads(capsys.readouterr().out.splitlines()[-1], parse_constant=refused)
    assert result and not any(isinstance(value, dict | list) for value in result.values())
    assert saved == saved_files()


@pytest.mark.nightly
def test_chain_measures_has_in_the_cascade_s_place(shared_data: Path, apart, monkeypatch, capsys) -> None:
    checkpoint = importlib.import_module("testing.smoke_data").small_checkpoint("hashing")
    monkeypatch.setattr(
        sys, "argv", ["chain", "--smoke", "--data", str(shared_data), "--hashing", checkpoint]
    )
    importlib.import_module("experiments.chain").main()
    result = json.loads(capsys.readouterr().out.splitlines()[-1], parse_constant=refused)
    assert 0 <= result["p1_after_hashing"] <= result["mrr_after_hashing"] <= 100
    assert result["hashing_questions_per_s"] > 0 and "p1_without_cascade" not in result


@pytest.mark.nightly
def test_lists_of_an_encoder_are_compared_with_the_default_s(
    shared_data: Path, apart, monkeypatch, capsys
) -> None:
    other = importlib.import_module("testing.smoke_data").small_encoder()
    monkeypatch.setattr(
        sys, "argv", ["long_lists", "--smoke", "--data", str(shared_data), "--encoder", other]
    )
    importlib.import_module("experiments.long_lists").main()
    result = json.loads(capsys.readouterr().out.splitlines()[-1], parse_constant=refused)
    assert 0 <= result["dev_dense_r10"] <= 100
    low, gain, high = (result[f"dev_dense_r10_{key}"] for key in ("low", "difference", "high"))
    assert -100 <= low <= gain <= high <= 100 and 0 < result["dev_fused_r1_p"] <= 1


@pytest.mark.nightly
def test_the_paper_s_cascade_has_a_body_of_twelve_layers(
    shared_data: Path, apart, monkeypatch, capsys
) -> None:
    words = ["--body", "base", "--models", "mt6,paper"]
    monkeypatch.setattr(sys, "argv", ["cascade_paper", "--smoke", "--data", str(shared_data), *words])
    importlib.import_module("experiments.cascade_paper").main()
    result = json.loads(capsys.readouterr().out.splitlines()[-1], parse_constant=refused)
    assert result["seeds_paper"] == result["seeds_mt6"] == 2 and "seeds_early" not in result
    assert 0 < result["base_wikiqa_map_paper_a0"] <= 100 and "wikiqa_map_paper_a0" not in result


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_its_commands_with_time_and_data(package, capsys) -> None:
    listing.show(Path(package.__path__[0]))
    shown = capsys.readouterr().out
    names = [name.partition(".")[2] for name in NAMES if name.startswith(package.__name__)]
    assert len(names) > 20 and all(f"\n{name}: " in shown for name in names)


def test_the_list_has_what_a_module_says_of_itself() -> None:
    listed = {each.name: each for each in commands(Path(benchmarks.__path__[0]))}
    assert listed["bitflips"].takes == "ten minutes" and listed["crawl_fetch"].data == ("web-html",)
    assert listed["kills"].date and listed["gpu_speed"].seconds is None
    assert "label_join" not in listed  # which is none
