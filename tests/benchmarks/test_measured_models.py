"""Saved results name the shipped checkpoints that they measured, and pages say where these ship no more."""

from __future__ import annotations

import ast
import doctest
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from answermill.ranking.entry import SHIPPED
from docs import generate, reproduction
from testing import harness, measured_models
from testing.listing import commands

ROOT = Path(__file__).parents[2]
PACKAGES = ("benchmarks", "experiments")
SOURCES = {
    f"{package}.{listed.name}": (ROOT / package / f"{listed.name}.py").read_text(encoding="utf-8")
    for package in PACKAGES
    for listed in commands(ROOT / package)
}
RESULTS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for package in PACKAGES
    for path in sorted((ROOT / package / "results").glob("*.json"))
}
LEADS_TO_MODELS = re.compile(
    r"\bSHIPPED\b|pipelines/data/sample|data\.sample\b|data import sample|\bfirst_of_plan\b"
    r"|\bcosinet_and_bm25\b|^RECIPE\b",
    re.MULTILINE,
)
"""Names that a module takes shipped checkpoints by: their folder, the sample's plans, and a recipe's."""
NO_MODELS = {
    "benchmarks.families": "reads the sample's questions alone; its models are random",
    "benchmarks.sentence_vectors": "its plan has stages of `similarity` alone",
    "benchmarks.startup": "its commands end before a model is loaded",
}
"""Module that has such a name and measures no shipped checkpoint → why."""
Declared = Sequence[str] | dict[str, Sequence[str]] | None


def declared(module: str) -> Declared:
    """MEASURED_MODELS of a module: names of checkpoints, of all its results or by result; None without it."""
    for node in ast.parse(SOURCES[module]).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MEASURED_MODELS":
            models: Declared = ast.literal_eval(node.value)
            return models
    return None


def models_of(module: str, result: str) -> set[str]:
    """Names of the checkpoints that a module declares for a result."""
    models = declared(module) or ()
    return set(models[result] if isinstance(models, dict) else models)


def names_of(module: str) -> set[str]:
    """Names of all checkpoints that a module declares."""
    models = declared(module) or ()
    return set().union(*models.values()) if isinstance(models, dict) else set(models)


def test_a_saved_result_has_the_digests_of_the_models(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "benchmarks/results").mkdir(parents=True)
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    monkeypatch.setattr(harness, "_module", lambda name: f"benchmarks.{name}")
    monkeypatch.setattr(sys, "argv", ["made", "--save"])
    harness.finish("made", {"map": 0.5}, True, ("cosinet", "cascade"))
    harness.finish("other", {"map": 0.5}, True)

    saved, other = (
        json.loads((tmp_path / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
        for name in ("made", "other")
    )
    digests = {
        name: json.loads((SHIPPED / name / "sha256.json").read_text(encoding="utf-8"))["sha256"][
            "model.safetensors"
        ]
        for name in ("cascade", "cosinet")
    }
    assert saved["models"] == ", ".join(f"{name} {digest[:12]}" for name, digest in digests.items())
    assert "models" not in other and capsys.readouterr().out == '{"map": 0.5}\n' * 2


def test_the_text_of_models_is_read_as_it_is_written() -> None:
    text = measured_models.models_text(("peasi", "cascade"))
    assert measured_models.models_of({"models": text}).keys() == {"cascade", "peasi"}
    assert measured_models.former_models({"models": text}) == []
    assert measured_models.former_models({"models": f"{text[:-1]}x, absent 0123456789ab"}) == [
        "peasi",
        "absent",
    ]
    assert doctest.testmod(measured_models).failed == 0


def test_a_result_has_exactly_the_models_that_its_module_declares() -> None:
    wrong = []
    for name, result in RESULTS.items():
        module = result["command"].split()[2]
        models = measured_models.models_of(result)
        if models.keys() != models_of(module, name):
            wrong.append(f"{name}.json has {sorted(models)}, {module} declares another MEASURED_MODELS")
        wrong += [
            f"{name}: {digits}" for digits in models.values() if not re.fullmatch("[0-9a-f]{12}", digits)
        ]
    assert wrong == []
    assert sum("models" in result for result in RESULTS.values()) >= 20


def test_a_module_declares_the_models_that_it_names() -> None:
    undeclared = [
        module
        for module, source in SOURCES.items()
        if LEADS_TO_MODELS.search(source) and declared(module) is None and module not in NO_MODELS
    ]
    assert undeclared == []

    for module, source in SOURCES.items():
        named = set(re.findall(r"\bSHIPPED / \"(\w+)\"", source))
        assert named <= names_of(module), module
        assert all((SHIPPED / name).is_dir() for name in names_of(module)), module


def test_what_a_module_declares_is_saved() -> None:
    """`finish` takes the models, which a module may have narrowed to those that an option leaves."""
    for module in SOURCES:
        if declared(module) is not None:
            (call,) = (
                node
                for node in ast.walk(ast.parse(SOURCES[module]))
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "finish"
            )
            assert len(call.args) == 4, module


def doctored(name: str, models: str) -> dict[str, Any]:
    return {**RESULTS[name], "models": models}


@pytest.fixture
def cascade(request, monkeypatch) -> None:
    """The results of `schedules` and `cascade_speed` are of a former cascade, or of the one that ships."""
    text = measured_models.models_text(("cascade",))
    text = "cascade 0123456789ab" if request.param == "former" else text
    results = RESULTS | {name: doctored(name, text) for name in ("schedules", "cascade_speed")}
    monkeypatch.setattr(generate, "saved", results.__getitem__)


TEMPLATE = """A paragraph of [[schedules.cost .2]].

| table | |
|---|---|
| cost | [[schedules.cost .2]] |

![a plot](../images/speed.svg)

Another of [[retrieval.cacm_map %.2]].
"""


@pytest.mark.parametrize("cascade", ["former"], indirect=True)
def test_figures_of_a_former_model_are_marked(cascade) -> None:
    assert generate.source("schedules").endswith(
        f"{RESULTS['schedules']['date']}, measured with a former cascade"
    )

    note = "*schedules.json was measured with a former cascade.*"
    page = generate._BLOCK.sub(generate.with_sources, TEMPLATE)
    assert f"[[schedules.cost .2]].\n\n{note}\n\n*From `python -m experiments.schedules" in page
    assert "measured with a former cascade.*\n\n| table" in page
    assert "speed.svg)\n\n*cascade_speed.json was measured with a former cascade.*\n\nAnother" in page
    assert page.endswith("[[retrieval.cacm_map %.2]].\n") and page.count(note) == 1

    plain = generate._BLOCK.sub(generate.with_note, TEMPLATE)
    assert plain.count(note) == 2 and f"| cost | [[schedules.cost .2]] |\n\n{note}\n" in plain
    (study,) = (text for path, text in generate.pages_of_studies() if path.stem == "schedules")
    assert "measured with a former cascade.*\n\n| key |" in study


@pytest.mark.parametrize("cascade", ["shipped"], indirect=True)
def test_figures_of_the_model_that_ships_are_not_marked(cascade) -> None:
    assert "former" not in generate.source("schedules")
    assert "former" not in generate._BLOCK.sub(generate.with_sources, TEMPLATE)
    assert generate._BLOCK.sub(generate.with_note, TEMPLATE) == TEMPLATE


@pytest.mark.parametrize(("former", "expected"), [([], "yes"), (["cascade"], "no: one that shipped before")])
def test_the_page_on_reproduction_says_whether_a_model_ships(former, expected, monkeypatch) -> None:
    monkeypatch.setattr(reproduction, "former_models", lambda result: former)
    assert reproduction.filled("{{ships experiments.schedules}}") == expected
