"""The command line as a whole: groups, help texts, completion in a shell."""

from __future__ import annotations

import inspect
import re
import subprocess
from pathlib import Path

import pytest

from answermill.pipelines.cli.command_line import command_line
from answermill.pipelines.config import job_file, training_file
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.learn.evaluate.tune import UNIFORM
from testing.command import call

COMMANDS = {
    name: command for name, command in command_line().resolved_commands().items() if not name.startswith("-")
}


def help_of(name: str, option: str) -> str:
    (text,) = (
        argument.parameter.help
        for argument in COMMANDS[name].assemble_argument_collection()
        if option in argument.names
    )
    return str(text)


def test_the_help_shows_the_commands_in_groups(capsys):
    assert call("--help") == 0
    shown = capsys.readouterr().out
    places = [
        shown.index(f"─ {group} ─")
        for group in ("Begin and give", "Jobs", "Data sets and annotation", "Models", "Evaluation")
    ]
    assert places == sorted(places)
    assert shown.index("│ ingest ") < shown.index("│ index ") < shown.index("│ collect ") < places[3]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_text_is_a_whole_sentence(name):
    command = COMMANDS[name]
    texts = [argument.parameter.help for argument in command.assemble_argument_collection() if argument.show]
    for text in (*texts, command.help.strip().partition("\n")[0]):
        assert text and text[-1] in ".…" and not text.startswith(("of ", "as ")), text


def written_files():
    """(command, option, its check, whether it takes several) of each option that names a file to write."""
    for name, command in COMMANDS.items():
        for argument in command.assemble_argument_collection():
            text, kind = argument.parameter.help or "", str(argument.hint)
            is_written = text.startswith(("Write", "Plot")) or "to write, as" in text
            if "Path" in kind and is_written and "folder" not in text:
                yield name, argument.names[0], argument.parameter.validator, "tuple" in kind


@pytest.mark.parametrize(("name", "option", "checks", "takes_several"), list(written_files()))
def test_a_file_to_write_is_refused_before_any_work(name, option, checks, takes_several, tmp_path):
    (check,) = checks
    (tmp_path / "file").touch()
    (tmp_path / "folder.svg").mkdir()
    check(Path, (tmp_path / "new.svg",) if takes_several else tmp_path / "new.svg")
    for place, reason in (
        ("folder.svg", "is a folder; name a file in it"),
        ("file/new.svg", "/file is a file, no folder; give another name"),
    ):
        with pytest.raises(JobError, match=reason) as e:
            check(Path, (tmp_path / place,) if takes_several else tmp_path / place)
        assert e.value.code == OUTPUT_EXISTS


def folders_to_write():
    """(command, option, its check) of each option that names a folder to write. Those of a job are refused
    by the job, which tells --on-failure."""
    for name, command in COMMANDS.items():
        for argument in command.assemble_argument_collection():
            text = argument.parameter.help or ""
            is_of_job = "or its URL" in text
            is_written = text.startswith("Folder to write") or "it is created" in text or "is written" in text
            is_folder = (text.startswith("Folder ") and is_written) or "into this folder" in text
            if is_folder and not is_of_job:
                yield name, argument.names[0], argument.parameter.validator


@pytest.mark.parametrize(("name", "option", "checks"), list(folders_to_write()))
def test_a_folder_to_write_is_refused_before_any_work(name, option, checks, tmp_path):
    (check,) = checks
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "new"):
        check(Path, place)
    for place in (tmp_path / "file", tmp_path / "file" / "new" / "run"):
        with pytest.raises(JobError, match=r"^(/.*: )?/.*/file is a file; give a folder\n") as e:
            check(Path, place)
        assert e.value.code == OUTPUT_EXISTS


@pytest.mark.parametrize(
    ("name", "keys"), [("train", training_file.keys), ("sweep", training_file.keys), ("run", job_file.keys)]
)
def test_the_example_of_a_setting_is_a_key_of_the_file_that_the_command_reads(name, keys):
    example = re.search(r"e\.g\. ([a-z.]+)=", help_of(name, "--set"))
    assert example and example[1] in {key for key, *_ in keys()}


def test_the_folder_that_a_training_writes_is_called_a_checkpoint():
    assert help_of("train", "--out").startswith("Folder of the checkpoint")


def test_the_help_of_the_grid_names_the_schedules_that_are_always_tried():
    assert ", ".join(map(str, list(UNIFORM)[:-1])) + f" or {list(UNIFORM)[-1]} at all" in help_of(
        "tune", "--grid"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_has_more_than_eight_arguments(name):
    assert len(inspect.signature(COMMANDS[name].default_command).parameters) <= 8


def test_options_of_all_groups_of_parameters_are_understood():
    parsed = (
        command_line()
        .parse_args(
            [
                "evaluate",
                "RR",
                "--labels",
                "set.tsv",
                "--words",
                "blanks",
                "--json",
                "figures.json",
                "--metrics",
                "MAP",
                "P@1",
            ],
            exit_on_error=False,
        )[1]
        .arguments
    )
    assert parsed["measure"].metrics == ("MAP", "P@1") and parsed["measure"].protocol == "answerable"

    assert parsed["options"].words == "blanks" and parsed["files"].json.name == "figures.json"


def test_wrong_usage_exits_with_2(capsys):
    assert call("run") == 2
    assert call("run", "job.toml", "other.toml", "--out", "run") == 2
    assert call("evaluate", "RR", "--labels", "set.tsv", "--protocol", "none") == 2
    assert "none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("run", "answermill run: JOB is missing. The job file, or its URL."),
        ("run JOB.toml", "answermill run: --out is missing. Folder of the run, or its URL"),
        ("run JOB.toml --ot RUN", "run: --ot is no option of this command, and --out is missing. Folder of"),
        ("run --quick", "answermill run: Unknown option: --quick."),
        ("run JOB.toml --out", "--out requires an argument."),
        ("sample --plan ful", 'Did you mean "full"?'),
    ],
)
def test_wrong_usage_names_what_is_missing_and_the_help_to_read(capsys, typed, says):
    assert call(*typed.split()) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert says in shown and "│" not in shown
    assert shown.endswith(f"Type `answermill {typed.partition(' ')[0]} --help` for more.")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("eval", {"evaluate"}),
        ("evaluate --cov", {"--coverage"}),
        ("re", {"retrieve", "rerank", "recipe", "report"}),
    ],
)
def test_bash_completes_commands_and_options(capsys, typed, offered):
    assert call("completion", "bash") == 0
    words = f"answermill {typed}".split()
    ask = (
        f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _answermill; printf '%s\\n' "
        f'"${{COMPREPLY[@]}}"'
    )
    script = capsys.readouterr().out + ask
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    assert set(shown.split()) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_is_written_for_other_shells(capsys, shell):
    assert call("completion", shell) == 0
    assert "propagate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("train", "job.toml", "--out", "model"), "train has no work for an engine"),
        (("status", "run"), "status has no work for an engine"),
        (("ask", "run", "Why?"), "ask has no work for an engine"),
        (("run", "JOB", "--out", "run", "--dry-run"), "--dry-run does no work"),
    ],
)
def test_an_engine_s_options_are_refused_where_no_engine_works(words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = [str(copy_to(tmp_path)) if word == "JOB" else word for word in words]
    before = sorted(tmp_path.rglob("*"))
    assert call(*words, "--", "--runner=DirectRunner") == 2
    assert f"{says}, so leave out what follows `--`: --runner=DirectRunner" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_keys_and_columns_show_what_is_named_and_say_what_names_there_are(capsys):
    assert call("columns", "scored") == 0
    shown = capsys.readouterr().out
    folders = [line for line in shown.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in folders] == ["scored/"] and "    question_id" in shown
    assert call("columns", "labels") == 0
    assert "labels/sentences/  " in capsys.readouterr().out

    assert call("keys", "rerank") == 0
    names = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert len(names) > 1 and all(name.startswith("rerank.") for name in names)
    assert call("keys", "distil", "--of", "train") == 0
    assert capsys.readouterr().out.startswith("distil.")

    for command, wrong, meant in (("columns", "scoerd", "scored"), ("keys", "rerunk", "rerank")):
        assert call(command, wrong) == 2
        assert (
            f"{command} {wrong}: no such name; is {meant} meant; they begin with " in capsys.readouterr().err
        )


def test_an_empty_question_is_refused_at_once(tmp_path, capsys):
    for questions in ([""], ["Why?", " "]):
        assert call("ask", str(tmp_path), *questions) == 2
        assert "a question is empty" in capsys.readouterr().err
