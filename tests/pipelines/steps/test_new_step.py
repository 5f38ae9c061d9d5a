"""A step is one file and one line in the registry: the rest of the program knows it from there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.config.step_registry import STEPS, StepDefinition

FILE = '''
"""Toy: counts the letters of each document's text."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from answermill.pipelines.config.step_registry import StepCode
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.runs.parquet_folder import Folder, PartWriter, read_part
from answermill.pipelines.engine.runner import carry
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.step import Step
from answermill.pipelines.engine.unit_dofn import UnitDoFn
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


OUTPUTS = {"toy": LetterCount}
REVISION = 1


def check(job, run):
    if len(job.section("toy").letter) != 1:
        raise JobError("toy.letter: give one letter", BAD_DATA)


def run_step(job, run, beam_options=()):
    documents = DOCUMENTS.open(run)
    step = Step(run, "toy", OUTPUTS, job.section("toy").model_dump(), {"documents": documents.digest()}, REVISION)
    if step.is_complete():
        return "toy (complete)"
    step.begin()
    work = CountLetters(job, documents, step)
    outcome = carry(step, len(documents.parts), work, beam_options, job.workers.processes)
    step.finish(outcome, outcome.counts)
    return f"toy  {outcome.counts['letters']} letters"


class CountLetters(UnitDoFn):
    def __init__(self, job, documents, step):
        super().__init__(step.name, step.work)
        self._job, self._documents, self._step = job, documents, step

    def work(self, number):
        part = self._documents.parts[number]
        settings = self._job.section("toy")
        counts = [
            LetterCount(d.doc_id, d.text.count(settings.letter) * (1 + settings.double))
            for d in read_part(self._documents.path, part, Document)
        ]
        with PartWriter(self._step.run / "toy", LetterCount, number) as writer:
            writer.write(counts)
        self._step.reports.write(Report(number, {"toy": writer.parts}, {"letters": sum(c.letters for c in counts)}))


STEP = StepCode(OUTPUTS, run_step, check)
'''
LINE = StepDefinition("toy", "Count letters.", "toy_step:Toy", "toy_step:STEP")
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
    (tmp_path / "modules" / "toy_step.py").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setitem(STEPS, "toy", LINE)
    copy_to(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    yield tmp_path / "job.toml"
    sys.modules.pop("toy_step", None)


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as e:
        main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return int(e.value.code or 0), shown.out, shown.err


def test_a_step_of_a_temporary_module_is_in_every_command(job, capsys, tmp_path):
    run = tmp_path / "run"
    assert "toy        Count letters." in call(capsys, "--help")[1]
    assert "toy.double\n    bool, default False\n    count each of them twice\n" in call(capsys, "keys")[1]
    assert "toy/  How often a letter is in a document." in call(capsys, "columns")[1]
    assert call(capsys, "toy", job, "--out", run)[0] == 66  # no documents/ yet
    code, out, _ = call(capsys, "run", job, "--out", run)
    assert code == 0 and [line.split()[0] for line in out.splitlines()[:2]] == ["ingest", "toy"]
    letters = int(out.splitlines()[1].split()[1])
    assert letters > 1000
    assert "toy toy 60 complete, 1 part" in " ".join(call(capsys, "status", run)[1].split())
    assert call(capsys, "toy", job, "--out", run)[1].startswith("toy (complete)")
    code, _, err = call(capsys, "toy", job, "--out", run, "--set", "toy.double=true")
    assert code == 73 and "settings double = False there, True here" in err
    code, out, _ = call(capsys, "toy", job, "--out", run, "--set", "toy.letter=ee")
    assert code == 65


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
    for name, step in STEPS.items():
        annotation = str(Job.model_fields[name].annotation)
        assert step.section.__name__ in annotation


@pytest.mark.parametrize("module", ["answermill.pipelines.config.job_file", "answermill.pipelines.cli.command_line"])
def test_parsing_a_job_imports_neither_beam_nor_a_model(module):
    code = f"import sys, {module}; print(sorted(sys.modules))"
    root = Path(__file__).parents[3]
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root).stdout
    for heavy in ("apache_beam", "torch", "spacy", "transformers", "faiss", "scipy"):
        assert f"'{heavy}'" not in loaded
