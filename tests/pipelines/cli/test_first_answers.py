"""What needs no model is answered without loading one: help, listings, wrong usage, and files that are
missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.pipelines.cli.evaluation_commands import RULES
from answermill.pipelines.config.step_code import StepCode, code_of
from answermill.pipelines.specs.registry import job_steps
from answermill.ranking.rerankers.baselines import overlap

ROOT = Path(__file__).parents[3]
HEAVY = {"torch", "apache_beam", "transformers", "spacy", "faiss", "scipy", "matplotlib", "jnius"}
CODE = """
import contextlib, io, json, sys
from answermill.__main__ import main
answers = []
for arguments in json.loads(sys.argv[1]):
    try:
        with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()):
            main(arguments)
    except SystemExit as e:
        answers.append((e.code, err.getvalue()))
print(json.dumps([answers, sorted(sys.modules)]))
"""


def answers(*commands: list[str]) -> tuple[list[tuple[int, str]], set[str]]:
    """(exit code, stderr) of each command, all in one process, and the modules that it has loaded then."""
    command = [sys.executable, "-c", CODE, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""
    ends, modules = json.loads(done.stdout)
    return [tuple(answer) for answer in ends], set(modules)


def test_what_needs_no_model_loads_none(tmp_path):
    from answermill.pipelines.data.sample import copy_to

    job, out = str(copy_to(tmp_path)), str(tmp_path / "run")
    absent, labels = str(tmp_path / "absent.parquet"), str(tmp_path / "labels.tsv")
    missing = f"{absent}: no such f"  # a file, a folder or both
    data = f'[data]\ntrain = ["{absent}"]\ndev = ["{labels}"]\nname = "n"\nlicence = "l"\n'
    (tmp_path / "train.toml").write_text(data + '[model]\nreranker = "cosinet"\nembeddings = "x"\n')
    cases = [
        (["--help"], 0, ""),
        (["run", "--help"], 0, ""),
        (["columns"], 0, ""),
        (["status", str(tmp_path)], 66, "no run in"),
        (["status", absent], 66, "no folder"),
        (["run", "--oot", "x"], 2, "--oot"),
        (["run", absent, "--out", out], 66, absent),
        (["run", job, "--out", out, "--set", f"ingest.input=['{absent}']"], 66, missing),
        (["run", job, "--out", out, "--set", f"retrieve.questions={absent}"], 66, missing),
        (["run", job, "--out", out, "--set", f"propagate.labels={absent}"], 66, missing),
        (["run", job, "--out", out, "--set", f"rerank.stages.0.checkpoint={absent}"], 66, missing),
        (
            ["rerank", job, "--out", out, "--set", "rerank.stages.0.reranker=cosinett"],
            78,
            "did you mean 'cosinet'?",
        ),
        (["train", absent, "--out", out], 66, absent),
        (["train", str(tmp_path / "train.toml"), "--out", out], 66, missing),
        (["sweep", absent, "--over", "train.seed=1", "--out", out], 66, missing),
        (["tune", "x", "--dev", absent, "--out", out], 66, missing),
        (["tune-bm25", job, "--out", absent, "--labels", labels], 66, missing),
        (["heads", absent, "--out", out], 66, missing),
        (["export", absent, "--out", out], 66, missing),
        (["dataset", absent], 66, missing),
        (["collect", str(tmp_path), absent], 66, missing),
        (["evaluate", "cosinett", "--labels", labels], 66, "did you mean the reranker 'cosinet'?"),
        (["evaluate", "cosinet", "--labels", absent], 66, missing),
        (["evaluate", absent, "--labels", labels], 66, missing),
        (["evaluate", "RR", "--labels", labels, "--coverage", "curve.pdf"], 2, "ends in .svg or .png"),
        (["compare", absent, labels], 66, missing),
        (["ensemble", absent, "--labels", labels, "--stages", "a", "b"], 66, missing),
    ]
    ends, modules = answers(*(arguments for arguments, _, _ in cases))
    for (arguments, code, says), (got, err) in zip(cases, ends, strict=True):
        assert got == code and says in " ".join(err.split()), (arguments, err)

    assert "pyarrow" in modules
    assert HEAVY & modules == set()


def test_each_step_of_a_job_has_code_where_its_description_says():
    for spec in job_steps().values():
        assert spec.folders and isinstance(code_of(spec), StepCode)


def test_the_rules_that_are_known_early_are_all():
    assert overlap.RULES == RULES


def test_what_is_no_reranker_is_told_so(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("labels.tsv").touch()
    with pytest.raises(SystemExit) as e:
        main(["evaluate", "wurst", "--labels", "labels.tsv"])
    assert e.value.code == 66
    assert (
        capsys.readouterr().err
        == "answermill: wurst: no such file or folder, and no reranker has this name\n"
    )
