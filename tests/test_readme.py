"""The README is held to the code: its commands run, its names exist, its figures are the saved ones."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from pipelines.__main__ import main
from pipelines.cli.command_line import command_line
from pipelines.config.job_file import keys
from pipelines.steps.chain import folders
from ranking.registry import RERANKERS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WRITTEN = [line.partition("#")[0].strip() for line in README.splitlines() if line.startswith("    answermill ")]
COMMANDS = [command for command in WRITTEN if not re.search(r"\b[A-Z]{3,}\b", command)]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_readme_run(command, sample_run, small_run, tmp_path, monkeypatch, capsys):
    run = small_run if "out/other" in command else sample_run  # the one command that reranks
    shutil.copytree(run.parent, tmp_path / "out" / "sample")
    if "out/other" in command:
        shutil.copytree(run, tmp_path / "out" / "other")
        shutil.rmtree(tmp_path / "out" / "other" / "scored")
    monkeypatch.chdir(tmp_path)
    before = [other for other in COMMANDS if "--questions" in other] if command.startswith("answermill compare") else []
    for each in (*before, command):
        with pytest.raises(SystemExit) as e:
            main(shlex.split(each)[1:])
        assert e.value.code == 0
        assert capsys.readouterr().out


@pytest.mark.parametrize("command", [command for command in WRITTEN if command not in COMMANDS])
def test_the_commands_of_the_readme_with_names_to_fill_in_are_understood(command):
    given = shlex.split(command.partition(" -- ")[0].replace("...", ""))
    command_line().parse_args(given[1:], exit_on_error=False, print_error=False)  # raises where a name or a value is wrong


def test_a_command_with_a_wrong_name_is_not_understood():
    with pytest.raises(CycloptsError):
        command_line().parse_args(
            ["sweep", "TRAIN.toml", "--ovr", "a=1", "--out", "FOLDER"], exit_on_error=False, print_error=False
        )


def test_there_are_commands_to_run():
    assert len(COMMANDS) >= 9


@pytest.mark.parametrize("target", ["sample", "test"])
def test_the_two_commands_that_start_everything_are_in_the_makefile(target):
    assert f"    make {target} " in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_job_in_the_readme_is_the_sample_s():
    assert (ROOT / "pipelines/sample/job.toml").read_text(encoding="utf-8").strip() in README


def test_every_folder_and_reranker_is_told_of():
    for folder in {name.partition("/")[0] for outputs in folders().values() for name in outputs}:
        assert f"`{folder}/`" in README
    for name in RERANKERS:
        assert f"| `{name}` |" in README


def test_every_key_that_the_readme_names_exists():
    known = {key.replace("[]", "") for key, _, _, _ in keys()}
    named = set(re.findall(r"(?:^|[`\s])((?:ingest|index|retrieve|rerank|annotate|propagate|workers)\.[a-z_.0-9]+)", README))
    assert named
    assert {re.sub(r"\.\d+", "", key).rstrip(".") for key in named} <= known


def test_every_figure_of_the_readme_is_a_saved_one():
    """A cell with a figure stands before the cell that says `benchmark: key` of the JSON that it comes from."""
    rows = re.findall(r"\| ([\d.,]+) ?(%|s|GB|MB/s|/s)? \| `(\w+): (\w+)`(?= \|)", README)
    assert len(rows) >= 40
    for shown, unit, name, key in rows:
        saved = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))[key]
        value = saved * 100 if unit == "%" else saved
        decimals = len(shown.partition(".")[2])
        assert float(shown.replace(",", "")) == pytest.approx(value, abs=0.51 * 10**-decimals), (name, key)
