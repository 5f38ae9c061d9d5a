"""A step is a package and one line in the registry: every command knows it from its description."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs import registry
from answermill.pipelines.specs.registry import SPECS, job_steps
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.schemas.corpus import Question
from tests.made_steps import Rows, made_spec, report

FILES = {
    "toy_spec": '''
"""Toy: counts the letters of each document's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from answermill.pipelines.runs.counts import StepCounts, by_name, milliseconds
from answermill.pipelines.runs.spec import FolderSpec, Maker, StepSpec

MAKER = Maker("toy")


@dataclass(frozen=True)
class ToyCounts(StepCounts):
    """Counts of toy."""

    documents: int = 0
    letters: int = 0
    by_length: Mapping[str, int] = by_name()
    letters_ms: int = milliseconds("letters counted", "documents")


LETTERS = FolderSpec(
    "toy", "toy_step:LetterCount", MAKER, key=("doc_id",), links={"doc_id": "documents"}, rows="documents"
)
TOY = StepSpec(
    MAKER,
    "Count letters.",
    (LETTERS,),
    ToyCounts,
    settings="toy_step:Toy",
    reads=("documents",),
    item="documents",
    code="toy_step:STEP",
    units_stand_alone=True,
)
''',
    "toy_step": '''
from __future__ import annotations

import pyarrow as pa
from pydantic import Field
from toy_spec import LETTERS, TOY, ToyCounts

from answermill.pipelines.config.step_code import StepCode
from answermill.pipelines.engine.runner import carry
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import PartWriter, read_part
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.schemas.corpus import Document
from answermill.schemas.record import Record, column, record
from answermill.schemas.section import Section


class Toy(Section):
    """Documents in, numbers of letters out."""

    letter: str = Field(description="letter to count")
    double: bool = Field(False, description="count each of them twice")


@record
class LetterCount(Record):
    """How often a letter is in a document."""

    doc_id: str = column(pa.string(), "Document.doc_id")
    letters: int = column(pa.int64(), "number of letters")


def check(job, run):
    if len(job.section("toy").letter) != 1:
        raise JobError("toy.letter: give one letter", BAD_DATA)


def step_of(job, run):
    return Step(run, TOY, job.section("toy").model_dump(), {"documents": DOCUMENTS.open(run).digest()})


def run_step(job, run, beam_options=()):
    documents, step = DOCUMENTS.open(run), step_of(job, run)
    commit = Commit(step)
    if commit.is_complete():
        return "toy (complete)"
    commit.begin()
    work = CountLetters(job, documents, step)
    outcome = carry(step, len(documents.parts), work, beam_options, job.workers.processes)
    commit.finish(outcome)
    return f"toy  {outcome.counts.letters} letters"


class CountLetters(UnitWork):
    def __init__(self, job, documents, step):
        super().__init__(step.name, step.work, ToyCounts)
        self._job, self._documents, self._step = job, documents, step

    def work(self, number):
        part = self._documents.parts[number]
        settings = self._job.section("toy")
        rows = [
            LetterCount(d.doc_id, d.text.count(settings.letter) * (1 + settings.double))
            for d in read_part(self._documents.path, part, Document)
        ]
        with PartWriter(self._step.run / "toy", LetterCount, number) as writer:
            writer.write(rows)
        letters = sum(row.letters for row in rows)
        counts = ToyCounts(documents=len(rows), letters=letters, by_length={"any": len(rows)}, letters_ms=1500)
        self._step.reports.write(Report(number, {"toy": writer.parts}, counts))


STEP = StepCode(run_step, check, step_of)
''',
}
JOB = """
[ingest]
input = ["web.warc.gz"]
[toy]
letter = "e"
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    from answermill.pipelines.data.sample import copy_to

    (tmp_path / "modules").mkdir()
    for name, text in FILES.items():
        (tmp_path / "modules" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    from toy_spec import TOY

    monkeypatch.setitem(SPECS, "toy", TOY)
    copy_to(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    yield tmp_path / "job.toml"
    for name in FILES:
        sys.modules.pop(name, None)


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
    assert (unit["seconds"], unit["items"], unit["item"]) == (1.5, 60, "documents")

    page = (run / "report.html").read_text()
    assert "by_length.any" in page and f"{letters:,}" in page

    metrics = (tmp_path / "run.prom").read_text()
    assert f'answermill_count{{count="letters",run="{run}",step="toy"}} {float(letters)}' in metrics
    assert f'answermill_rows{{folder="toy",run="{run}",step="toy"}} 60.0' in metrics


def test_damage_to_its_folder_is_found_and_repaired_by_its_description(job, capsys, tmp_path):
    run = tmp_path / "run"
    assert call(capsys, "run", job, "--out", run)[0] == 0
    assert call(capsys, "verify", run)[0] == 0
    (part,) = (run / "toy").glob("part-*")
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    code, out, err = call(capsys, "verify", run)
    assert code == 65 and f"toy/{part.name} was changed since it was written" in out + err

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


def test_a_row_that_leads_nowhere_and_a_sum_that_does_not_hold_are_found(job, capsys, tmp_path, monkeypatch):
    from toy_spec import ToyCounts

    run = tmp_path / "run"
    assert call(capsys, "run", job, "--out", run)[0] == 0
    monkeypatch.setattr(ToyCounts, "sums", {"documents": ("letters",)})
    code, out, err = call(capsys, "verify", run)
    assert code == 65 and "toy counts 60 documents, but" in out + err


def test_explain_names_its_rows_of_a_question(small_run, capsys, tmp_path, monkeypatch):
    """Of a folder with a column `question_id` explain says how many rows are the question's."""
    run = tmp_path / "run"
    for name in ("questions", "retrieved", "scored", "answers"):
        shutil.copytree(small_run / name, run / name)
    asked = next(QUESTIONS.open(run).read())
    spec = made_spec("toy", {"toy": Question})
    step = Step(run, spec, {}, {})
    Commit(step).begin()
    with PartWriter(run / "toy", Question, 0) as writer:
        writer.write([asked, asked, Question("another", "Who?")])
    Commit(step).finish(Outcome.of(Rows(), [report(0, {"toy": writer.parts})]))

    monkeypatch.setitem(SPECS, "toy", spec)
    assert "also in toy/ (2 rows)" in call(capsys, "explain", run, asked.question_id)[1]
    assert json.loads(call(capsys, "explain", run, asked.question_id, "--json")[1])["elsewhere"] == {"toy": 2}


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
        ("look/verify", {"registry"}),
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
