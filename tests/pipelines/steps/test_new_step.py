"""A step is a package and one line in the registry: every command knows it from its description."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.look.estimate.actual import predicted_and_actual
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.specs import registry
from answermill.pipelines.specs.registry import SPECS, job_steps
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.pipelines.specs.run import Run
from tests.added_step import added_step

JOB = """
[ingest]
input = ["web.warc.gz"]
[toy]
letter = "e"
"""


@pytest.fixture
def job(tmp_path):
    from answermill.pipelines.data.sample import copy_to

    copy_to(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "modules").mkdir()
    with added_step(tmp_path / "modules"):
        yield tmp_path / "job.toml"


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as e:
        main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return int(e.value.code or 0), shown.out, shown.err


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_step_of_a_temporary_module_is_in_every_command(job, capsys, tmp_path):
    run = tmp_path / "run"
    assert "toy        Count letters." in call(capsys, "--help")[1]
    assert "toy.double\n    bool, default False\n    count each of them twice\n" in call(capsys, "keys")[1]
    assert "toy/  How often a letter is in a document." in call(capsys, "columns")[1]
    assert call(capsys, "toy", job, "--out", run)[0] == 66  # no documents/ yet
    code, out, _ = call(capsys, "run", job, "--out", run, "--metrics", tmp_path / "run.prom")
    assert code == 0 and [line.split()[0] for line in out.splitlines()[:2]] == ["ingest", "toy"]
    letters = int(out.splitlines()[1].split()[1])
    assert letters > 1000

    assert "toy toy 60 complete, 1 part" in words(call(capsys, "status", run)[1])
    assert call(capsys, "toy", job, "--out", run)[1].startswith("toy (complete)")
    code, _, err = call(capsys, "toy", job, "--out", run, "--set", "toy.double=true")
    assert code == 73 and "settings double = False there, True here" in err
    code, out, _ = call(capsys, "toy", job, "--out", run, "--set", "toy.letter=ee")
    assert code == 65

    report = json.loads((run / "report.json").read_text())
    (figures,) = (step for step in report["steps"] if step["step"] == "toy")
    assert figures["rows"] == {"toy": 60}
    assert figures["counts"] == {"documents": 60, "letters": letters, "by_length.any": 60, "letters_ms": 1500}
    assert {"what": "toy: letters counted", "items": 60, "item": "documents", "seconds": 1.5}.items() <= next(
        work for work in report["work"] if work["what"].startswith("toy")
    ).items()
    (unit,) = (unit for unit in report["units"] if unit["step"] == "toy")
    assert (unit["seconds"], unit["items"], unit["item"]) == (1.5, letters, "letters")

    page = (run / "report.html").read_text()
    assert "by_length.any" in page and f"{letters:,}" in page

    metrics = (tmp_path / "run.prom").read_text()
    assert f'answermill_count{{count="letters",job="{job}",step="toy"}} {float(letters)}' in metrics
    assert f'answermill_rows{{folder="toy",job="{job}",step="toy"}} 60.0' in metrics


def test_damage_to_its_folder_is_found_and_repaired_by_its_description(job, capsys, tmp_path):
    run = tmp_path / "run"
    assert call(capsys, "run", job, "--out", run)[0] == 0
    assert call(capsys, "verify", run)[0] == 0
    (part,) = (run / "toy").glob("part-*")
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    code, out, _ = call(capsys, "verify", run, "--repair")
    assert code == 65 and f"wrong      toy/{part.name} was changed since it was written" in out
    assert f"repair     toy/{part.name} is removed and made again\n" in out
    assert f"steps      toy\nthen       `answermill run JOB.toml --out {run}`\n" in out
    assert call(capsys, "verify", run, "--repair", "--yes", "--job", job)[0] == 0
    assert part.read_bytes() == content

    part.unlink()
    code, _, err = call(capsys, "status", run)
    assert code == 65 and f"`answermill run JOB.toml --out {run}` makes it again" in err
    assert call(capsys, "run", job, "--out", run)[0] == 0 and part.read_bytes() == content

    (run / "toy" / "part-00007-01234567.parquet").write_bytes(b"nobody's")
    code, out, _ = call(capsys, "clean", run)
    assert "toy/part-00007-01234567.parquet" in out

    (run / "toy" / "_manifest.json").write_text('{"format": 4}')
    code, _, err = call(capsys, "status", run)
    assert (
        code == 65
        and f"format 4, this version reads 5; `answermill run JOB.toml --out {run} --redo toy`" in err
    )


def test_counts_that_are_not_those_of_its_rows_are_found_and_it_is_done_again(job, capsys, tmp_path):
    from toy_spec import LETTERS

    run = tmp_path / "run"
    assert call(capsys, "run", job, "--out", run)[0] == 0
    written = LETTERS.manifest(run)
    (run / "toy" / MANIFEST).unlink()
    replace(written, counts={**written.counts, "documents": 61}).write(run / "toy")
    code, out, _ = call(capsys, "verify", run, "--repair")
    assert code == 65 and "wrong      toy has 60 rows, 61 documents were counted\n" in out
    assert f"steps      toy\nthen       `answermill run JOB.toml --out {run} --redo toy`\n" in out
    assert call(capsys, "verify", run, "--repair", "--yes", "--job", job)[0] == 0
    assert LETTERS.manifest(run).counts == written.counts


def test_a_sum_that_does_not_hold_is_found(job, capsys, tmp_path, monkeypatch):
    from toy_spec import ToyCounts

    run = tmp_path / "run"
    assert call(capsys, "run", job, "--out", run)[0] == 0
    monkeypatch.setattr(ToyCounts, "sums", {"documents": ("letters",)})
    code, out, err = call(capsys, "verify", run)
    assert code == 65 and "toy counts 60 documents, but" in out + err


def test_explain_names_its_rows_of_a_question(job, small_run, capsys, tmp_path):
    """Of a folder with a column `question_id` explain says how many rows are the question's."""
    run = tmp_path / "run"
    for name in ("documents", "questions", "retrieved", "scored", "answers"):
        shutil.copytree(small_run / name, run / name)
    assert call(capsys, "toy", job, "--out", run)[0] == 0
    asked = next(QUESTIONS.open(run).read())
    assert "also in toy_asked/ (1 row)" in call(capsys, "explain", run, asked.question_id)[1]
    explained = json.loads(call(capsys, "explain", run, asked.question_id, "--json")[1])
    assert explained["elsewhere"] == {"toy_asked": 1}


def test_plan_runs_it_on_a_sample_and_foresees_the_job(job, capsys, tmp_path):
    run = tmp_path / "run"
    code, out, _ = call(capsys, "plan", job, "--out", run)
    assert code == 0 and re.search(r"^toy +[\d.]+ s", out, re.M) and re.search(r"^toy/ +[\d.]+ MB", out, re.M)
    assert call(capsys, "run", job, "--out", run)[0] == 0
    compared = predicted_and_actual(Run.open(run))
    for name in ("letters", "bytes of toy"):
        assert compared[name][0] == pytest.approx(compared[name][1], rel=0.1) != 0, name


def test_its_section_is_checked_as_all_others_are(job, capsys, tmp_path):
    code, _, err = call(capsys, "run", job, "--out", tmp_path / "run", "--set", "toy.leter=x")
    assert code == 78 and "unknown key toy.leter; did you mean 'letter'?" in err
    job.write_text(JOB.replace("[toy]", "[tyo]"))
    code, _, err = call(capsys, "run", job, "--out", tmp_path / "run")
    assert code == 78 and "unknown key tyo; did you mean 'toy'?" in err
    job.write_text("")
    assert "[propagate], [toy]" in call(capsys, "run", job, "--out", tmp_path / "run")[2]


def test_a_job_without_it_does_not_import_it(job):
    job.write_text(JOB.partition("[toy]")[0])
    assert load(job).section("toy") is None
    assert "toy_step" not in sys.modules


def test_the_sections_that_a_job_declares_are_those_of_the_registry():
    for name, spec in job_steps().items():
        annotation = str(Job.model_fields[name].annotation)
        assert spec.section.__name__ in annotation


PIPELINES = Path(registry.__file__).parents[1]


@pytest.mark.parametrize(
    ("place", "descriptions"),
    [
        ("runs", set()),
        ("look/verify", {"registry", "run"}),
        ("look/report/manifest_figures.py", {"registry", "run"}),
        ("look/estimate/plan_file.py", set()),
    ],
)
def test_what_is_a_loop_over_descriptions_names_no_step(place, descriptions):
    """`descriptions`: the modules of `specs/` that it may import."""
    steps, folders = {*SPECS, *registry.STAND_INS}, {folder.name for _, folder in registry.folders()}
    paths = [PIPELINES / place] if place.endswith(".py") else sorted((PIPELINES / place).rglob("*.py"))
    assert paths
    for path in paths:
        text = path.read_text(encoding="utf-8")
        names = steps | (folders if "watch" not in path.parts else set())  # a metric has the name of a folder
        named = {name for name in names if re.search(rf"""["'/]{name}["'/]""", text)}
        assert named == set(), path
        assert {*re.findall(r"pipelines\.specs\.(\w+)", text)} <= descriptions, path


@pytest.mark.parametrize(
    "module", ["answermill.pipelines.config.job_file", "answermill.pipelines.cli.command_line"]
)
def test_parsing_a_job_imports_neither_beam_nor_a_model(module):
    code = f"import sys, {module}; print(sorted(sys.modules))"
    root = Path(__file__).parents[3]
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    ).stdout
    for heavy in ("apache_beam", "torch", "spacy", "transformers", "faiss", "scipy"):
        assert f"'{heavy}'" not in loaded
