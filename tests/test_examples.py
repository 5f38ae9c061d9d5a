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
NIGHT = (FOLDER / "night.sh").read_text(encoding="utf-8")
STAGES = re.findall(r"^    (\w+)\)$", NIGHT, re.MULTILINE)


def night(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = {"PATH": "/usr/bin:/bin"}
    return subprocess.run(
        ["sh", str(FOLDER / "night.sh"), *words],
        env=path | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_has_five_stages_and_says_what_it_lacks(tmp_path: Path) -> None:
    assert STAGES == ["run", "verify", "compare", "publish", "retain"]
    assert "JOB: the job file" in night("run", RUNS=str(tmp_path)).stderr
    wrong = night("evaluate", JOB="job.toml", RUNS=str(tmp_path))
    assert wrong.returncode == 2 and "the stages are run, verify, compare, publish, retain" in wrong.stderr


def test_its_commands_are_understood() -> None:
    lines = re.findall(r"^ +(answermill .*?)$", NIGHT, re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["run", "evaluate", "verify", "compare"]
    for line in lines:
        words = (
            line.replace("${METRICS:+--metrics", "--metrics")
            .replace('"$METRICS"}', "FILE")
            .replace('"$MARGIN"', "0.02")
        )
        tokens = shlex.split(re.sub(r"\$\(.*?\)", "NIGHT", words.replace('"$(readlink "$good")"', "N")))
        command_line().parse_args(tokens[1:], exit_on_error=False, print_error=False)


def test_publishing_is_a_link_and_old_runs_go_but_for_the_good_one(tmp_path: Path) -> None:
    for day in range(1, 6):
        (tmp_path / f"2026-01-0{day}").mkdir()
        (tmp_path / f"2026-01-0{day}.scores.parquet").touch()

    variables = {"JOB": "job.toml", "RUNS": str(tmp_path), "KEEP": "2"}
    assert night("publish", NIGHT="2026-01-01", **variables).returncode == 0
    assert (tmp_path / "good").readlink() == Path("2026-01-01")
    assert night("retain", NIGHT="2026-01-05", **variables).returncode == 0
    kept = ["2026-01-01", "2026-01-04", "2026-01-05"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*kept, *(f"{day}.scores.parquet" for day in kept), "good"]
    )
    assert night("publish", NIGHT="2026-01-05", **variables).returncode == 0

    assert (tmp_path / "good").readlink() == Path("2026-01-05") and not (tmp_path / "good.new").is_symlink()


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
    assert codes is not None and codes[1].split() == ["2", "3", "65", "66", "73", "78"]


def test_the_line_of_cron_runs_the_script() -> None:
    lines = (FOLDER / "crontab").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line and not line.startswith("#") and not re.match(r"\w+=", line)]
    minute, hour, *rest = line.split(maxsplit=5)
    assert int(minute) < 60 and int(hour) < 24 and rest[:3] == ["*", "*", "*"]
    words = shlex.split(rest[3])
    assert (
        words[:2] == ["flock", "-n"] and words[3:5] == ["sh", "/opt/answermill/night.sh"] and "%" not in line
    )


def test_airflow_and_snakemake_have_the_stages_of_the_script() -> None:
    dag = ast.parse((FOLDER / "airflow_dag.py").read_text(encoding="utf-8"))
    (stages,) = [
        ast.literal_eval(node.value)
        for node in dag.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "STAGES"
    ]
    assert list(stages) == STAGES and stages["compare"] == 0

    rules = re.search(
        r"^STAGES = (\[.*\])$", (FOLDER / "Snakefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rules is not None and ast.literal_eval(rules[1]) == STAGES
