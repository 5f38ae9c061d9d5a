"""examples/days: three days of users run on what ships, and what they type is understood."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

import pytest

import answermill as am
from answermill.pipelines.cli.command_line import command_line

ROOT = Path(__file__).parents[1]
DAYS = ROOT / "examples" / "days"
SCRIPTS = sorted(DAYS.glob("*.sh"))
LONGEST_S = 1_200
"""A busy machine takes some times as long as the scripts say."""


def commands(script: Path) -> list[str]:
    """The commands of a script that begin with `answermill`, each on one line."""
    text = script.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (re.sub(r"^ends_with \d+ ", "", line.strip()) for line in text.splitlines())
    return [line for line in lines if line.startswith("answermill ")]


def test_there_are_three() -> None:
    assert [script.stem for script in SCRIPTS] == ["annotation", "nightly", "researcher"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_commands_of_a_day_are_understood(script: Path) -> None:
    typed = commands(script)
    assert len(typed) >= 12
    for command in typed:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(takewhile(lambda word: word not in (">", "&", "|"), lexer))
        words = [word for word in words[1:] if word != "--allow-code"]
        command_line().parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_step_names_the_page_that_teaches_it(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    steps = re.findall(r"^step .*$", text, re.MULTILINE)
    assert len(steps) >= 7 and all(re.search(r"  # docs/\w+\.md", step) for step in steps)
    for page, section in re.findall(r"docs/([\w-]+\.md)(?:: ([^;)\n]+))?", text):
        lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
        headings = [line.lstrip("#").strip() for line in lines if line.startswith("#")]
        assert any(heading.startswith(section) for heading in headings), (page, section)


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder for a day, in which `answermill` is this checkout's."""
    typed = tmp_path / "bin"
    typed.mkdir()
    for name, words in (("answermill", "-m answermill "), ("python3", "")):
        (typed / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n', encoding="utf-8")
        (typed / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{typed}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return tmp_path / "day"


def walk(name: str, day: Path) -> str:
    """Run a day's script; returns what it has printed."""
    done = subprocess.run(
        ["sh", str(DAYS / f"{name}.sh"), str(day)],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    return done.stdout


@pytest.mark.nightly
def test_the_operator_s_day(day: Path) -> None:
    out = walk("nightly", day)
    nights = {row["run"]: row["state"] for row in json.loads((day / "runs.json").read_text())}
    assert nights == {"2026-01-30": "complete", "2026-01-31": "good", "2026-02-01": "refused"}
    assert json.loads((day / "status.json").read_text())["state"] == "complete"
    assert "stale" in out and (day / "told.txt").read_text().startswith("gate: ")
    assert (day / "runs/good").resolve().name == "2026-02-01"


@pytest.mark.nightly
@pytest.mark.skipif(
    find_spec("sentence_transformers") is None or find_spec("matplotlib") is None,
    reason="the extras plots and sentence-transformers are not installed",
)
def test_the_researcher_s_day(day: Path) -> None:
    out = walk("researcher", day)
    table = (day / "table.tex").read_text()
    assert "birnn" in table and "\\toprule" in table
    assert json.loads((day / "seeds/means.json").read_text())
    assert (day / "passages/test.parquet").is_file() and "nothing was sent" in out


@pytest.mark.nightly
def test_the_annotation_lead_s_day(day: Path) -> None:
    walk("annotation", day)
    run = am.open_run(day / "run")
    conflicts = list(run["collected/conflicts"])
    assert conflicts and all(row.label is not None for row in conflicts)  # type: ignore[attr-defined]
    page = (day / "run/annotation.html").read_text(encoding="utf-8")
    assert "anna@example.org" in page and "8d3cbe4d-dana" in page
    assert (day / "set/README.md").is_file()
