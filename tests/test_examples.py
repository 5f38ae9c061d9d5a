"""examples/schedulers: what can be said of its files without a scheduler; `make test-schedulers` runs
them."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from answermill.pipelines.cli.command_line import command_line

FOLDER = Path(__file__).parents[1] / "examples" / "schedulers"


def crontab() -> str:
    """The command of cron's line, and a check of its time."""
    lines = (FOLDER / "crontab").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line and not line.startswith("#") and not re.match(r"\w+=", line)]
    minute, hour, *rest = line.split(maxsplit=5)
    assert int(minute) < 60 and int(hour) < 24 and rest[:3] == ["*", "*", "*"]
    assert "%" not in line, "which is an end of line to cron"
    return rest[3].partition(" >>")[0].replace("$METRICS", "FILE")


def systemd() -> str:
    service = (FOLDER / "answermill.service").read_text(encoding="utf-8")
    return re.findall(r"^ExecStart=/usr/bin/env (.*)$", service, re.MULTILINE)[0]


def snakemake() -> str:
    rule = (FOLDER / "Snakefile").read_text(encoding="utf-8")
    return re.sub(r"\{[\w.]+\}", "NAME", re.findall(r'shell: "(.*)"', rule)[0])


def airflow() -> str:
    tree = ast.parse((FOLDER / "airflow_dag.py").read_text(encoding="utf-8"))
    (command,) = [
        ast.literal_eval(keyword.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "bash_command"
    ]
    return str(command).replace("{{ ds }}", "2026-01-31")


@pytest.mark.parametrize("scheduler", [crontab, systemd, snakemake, airflow], ids=lambda each: each.__name__)
def test_every_scheduler_begins_a_night_by_a_command_that_is_understood(scheduler) -> None:
    words = shlex.split(scheduler())
    assert words[:2] == ["answermill", "night"] and "--runs" in words
    command_line().parse_args(words[1:], exit_on_error=False, print_error=False)


def test_systemd_has_nothing_to_say_against_the_units(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not on this machine")
    for name in ("answermill.service", "answermill.timer"):
        shutil.copy(FOLDER / name, tmp_path)
    units = [str(path) for path in tmp_path.iterdir()]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if "answermill" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_what_systemd_does_not_try_again_is_what_the_page_says() -> None:
    service = (FOLDER / "answermill.service").read_text(encoding="utf-8")
    codes = re.search(r"^RestartPreventExitStatus=(.*)$", service, re.MULTILINE)
    assert codes is not None and codes[1].split() == ["2", "3", "65", "66", "69", "73", "78"]
    page = (FOLDER.parents[1] / "docs" / "schedulers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d, ]+) \| calls somebody", page, re.MULTILINE)
    assert sorted(", ".join(rows).split(", "), key=int) == codes[1].split()
