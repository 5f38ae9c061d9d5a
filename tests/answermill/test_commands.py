"""Every command has its function in `answermill`, with the same defaults and the same errors."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path
from typing import get_type_hints

import pyarrow.parquet as pq
import pytest
from cyclopts import Parameter

import answermill as am
from answermill.commands import BY_HAND, COMMANDS, _options, function_name
from answermill.pipelines.cli.command_line import command_line
from answermill.pipelines.errors import OUTPUT_EXISTS, USAGE, JobError
from answermill.schemas.labels import LabelledCandidate
from testing.command import call

APP = command_line()
ALL = [name for name in APP if not name.startswith("-")]


@pytest.mark.parametrize("name", ALL)
def test_a_command_has_its_function(name: str) -> None:
    if name == "completion":
        return  # a script for a shell
    function = getattr(am, function_name(name))
    assert name in (*COMMANDS, *BY_HAND) and function_name(name) in am.__all__
    assert (function.__doc__ or "").strip()


def test_a_call_that_fails_tells_what_its_command_tells(tmp_path: Path) -> None:
    output = tmp_path / "output"
    hook = f'echo "$ANSWERMILL_CODE $ANSWERMILL_MESSAGE" > {output}'
    with pytest.raises(JobError, match=r"none\.toml") as error:
        am.rerank_step(tmp_path / "none.toml", out=tmp_path / "run", on_failure=hook)
    assert output.read_text() == f"{error.value.code} {error.value}\n"


@pytest.mark.parametrize("name", [name for name in ALL if name != "completion"])
def test_a_function_has_the_defaults_of_its_command(name: str) -> None:
    parameters = inspect.signature(getattr(am, function_name(name))).parameters
    compared = 0
    for argument in APP[name].assemble_argument_collection():
        if not argument.show or argument.field_info.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        option = argument.keys[-1] if argument.keys else argument.field_info.name
        if option not in parameters:
            assert name in BY_HAND, f"{name}: no {option}"
            continue
        mine, default = parameters[option].default, argument.field_info.default
        if default is not inspect.Parameter.empty and mine is not inspect.Parameter.empty:
            assert str(mine) == str(default) or (not mine and not default), option
            compared += 1
    assert compared or not argument.keys or name in (*BY_HAND, "keys", "columns", "doctor", "heads", "status")


def test_a_function_says_what_its_command_prints(small_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, *arguments in (
        ("status", small_run),
        ("verify", small_run),
        ("clean", small_run),
        ("columns", "scored"),
        ("keys", "rerank"),
    ):
        assert call(name, *arguments) == 0
        printed = capsys.readouterr().out
        said = getattr(am, name)(*arguments)
        assert str(said) == printed.rstrip("\n") and said.code == 0
        assert capsys.readouterr().out == ""
    assert am.status(small_run)._repr_html_().startswith("<pre>")


def test_options_of_groups_are_written_flat(small_run: Path) -> None:
    labels = small_run / "labels" / "sentences"
    shown = am.explain(small_run, _a_question(small_run), first=1, json=True)
    assert "question" in json.loads(shown[0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'frist'"):
        am.explain(small_run, "q", frist=1)
    assert am.ensemble(small_run / "scored", labels=labels, stages=["cosinet", "cascade"], parts=2)


def _a_question(run: Path) -> str:
    return next(iter(am.open_run(run)["questions"])).question_id  # type: ignore[attr-defined, no-any-return]


def test_a_step_runs_by_its_function(small_run: Path, tmp_path: Path) -> None:
    shutil.copytree(small_run.parent, tmp_path / "job", ignore=shutil.ignore_patterns("run*"))
    said = am.ingest(tmp_path / "job" / "job.toml", out=tmp_path / "run", settings=["ingest.min_words=20"])
    assert said[0].startswith("ingest ") and len(am.open_run(tmp_path / "run")["documents"]) > 0


@pytest.mark.parametrize(
    ("call", "code", "says"),
    [
        (lambda: am.status("no_run"), 66, "no folder no_run"),
        (lambda: am.recipe("jobb"), 2, "name: 'jobb' is none of 'job', 'wqa'"),
        (lambda: am.collect("s3://bucket/run", ["a.json"]), 78, "no URLs"),
        (lambda: am.ask("run"), 2, "no question is given"),
        (lambda: am.dataset(["missing.tsv"]), 66, "missing.tsv: no such file"),
    ],
)
def test_an_error_is_that_of_the_command(call: object, code: int, says: str) -> None:
    with pytest.raises(am.JobError, match=says) as e:
        call()  # type: ignore[operator]
    assert e.value.code == code


def test_results_are_shown_and_become_frames(small_run: Path, tmp_path: Path) -> None:
    run = am.open_run(small_run)
    scored = run["scored"]
    assert len(scored.to_pandas(["question_id"])) == len(scored)
    assert "<table" in scored._repr_html_() and f"{len(scored):,} rows" in scored._repr_html_()
    assert "scored" in run._repr_html_()

    rows = [
        LabelledCandidate(f"q{n}", f"Who {n}?", f"q{n}-{c}", "d", "", c, f"It <was> {c}.", c)
        for n in range(4)
        for c in range(2)
    ]
    labels = tmp_path / "set.parquet"
    pq.write_table(LabelledCandidate.table(rows), labels)
    figures = am.evaluate("RR", labels, metrics=["P@1", "MAP"])
    assert figures.to_pandas().groupby("metric")["value"].mean().to_dict() == {"P@1": 0.0, "MAP": 0.5}
    assert "<pre>" in figures._repr_html_()
    compared = am.compare("RR", "WO+RR", labels, metrics=["P@1"], rounds=50)
    assert list(compared.to_pandas()["metric"]) == ["P@1"]
    many = am.compare_many(["RR", "WO+RR", "WO"], labels, metrics=["P@1"], rounds=50)
    assert list(many.to_pandas()["run"]) == ["WO+RR", "WO"] and "p (Holm)" in many._repr_html_()


def test_what_the_command_line_refuses_is_refused_here_too(tmp_path: Path) -> None:
    for options, code, reason in (
        ({"out": tmp_path}, OUTPUT_EXISTS, "is a folder; name a file in it"),
        ({"out": tmp_path / "c.json", "plot": [tmp_path / "c.txt"]}, USAGE, "ends in .svg or .png"),
    ):
        with pytest.raises(JobError, match=reason) as e:
            am.calibrate(tmp_path, labels=tmp_path, **options)
        assert e.value.code == code
    with pytest.raises(JobError, match="seed: Must be >= 0") as e:
        am.static_encoder(tmp_path, out=tmp_path / "new", seed=-1)
    assert e.value.code == USAGE


SEEDED = [
    name for name in ALL if any(each.name == "--seed" for each in APP[name].assemble_argument_collection())
]


@pytest.mark.parametrize("name", SEEDED)
def test_every_seed_is_from_0_up(name: str) -> None:
    seed = next(each for each in APP[name].assemble_argument_collection() if each.name == "--seed")
    with pytest.raises(ValueError, match="Must be >= 0"):
        for check in seed.parameter.validator:  # type: ignore[union-attr]
            check(int, -1)


@pytest.mark.parametrize("name", [name for name in ALL if name != "completion"])
def test_every_mark_of_an_option_is_one_that_the_command_line_reads(name: str) -> None:
    function = APP[name].default_command
    assert function is not None
    kinds = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        for option in _options(parameter.name, kinds[parameter.name], parameter.default):
            assert all(isinstance(mark, Parameter) for mark in option.marks), option.name
            # The check of a later mark replaces that of an earlier one.
            assert sum(bool(mark.validator) for mark in option.marks) <= 1, option.name


def test_a_report_is_not_begun_where_a_file_stands_in_its_folder_s_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(JobError, match="is a file; give a folder") as e:
            am.report(tmp_path, out=out)
        assert e.value.code == OUTPUT_EXISTS
