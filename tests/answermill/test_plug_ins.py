"""Plug-ins: an installed package adds a reranker, a data-set format, an annotation tool and an extractor;
'module:Class' does so where the user allows it; and `am.Plan` takes objects."""

from __future__ import annotations

import json
import pickle
import re
import sys
from typing import ClassVar

import pytest

import answermill as am
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import BAD_DATA, SETTINGS, UNAVAILABLE, JobError
from answermill.pipelines.specs.collect import LABELS
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.specs.rerank import SCORED
from answermill.ranking.reranker import order_by
from answermill.schemas import plug_ins
from testing.command import call
from tests.answermill.conftest import forget
from tests.answermill.plug_in_code import OWN, SET, job_of, run_of
from tools.sample_web.build import member, record

pytestmark = pytest.mark.usefixtures("new_process")


def test_an_installed_reranker_is_like_one_of_ours_and_its_code_is_an_input(
    installed, small_run, tmp_path, capsys
) -> None:
    run, job = run_of(small_run, tmp_path / "run"), job_of(tmp_path, 'reranker = "letters"\nletters = "e"')
    assert call("rerank", job, "--out", run) == 0
    scored = SCORED.open(run)
    scores = {row.text: row.stages[0].score for row in scored.read()}
    assert len(set(scores.values())) > 20
    for text, score in scores.items():
        letters = [letter for letter in text.lower() if letter.isalpha()]
        assert score == round(letters.count("e") / max(len(letters), 1), 6)
    revision = plug_ins.digest(plug_ins.RERANKERS, "letters")
    assert scored.manifest.inputs["code of letters"] == revision

    code = installed / "letters.py"
    code.write_text(code.read_text() + "\n# another revision\n")
    forget()
    assert plug_ins.digest(plug_ins.RERANKERS, "letters") != revision
    assert call("rerank", job, "--out", run) == 73
    capsys.readouterr()

    assert call("keys", "rerank.stages") == 0 and "letters: letters that count" in capsys.readouterr().out
    assert call("rerank", job, "--out", run, "--set", "rerank.stages.0.leters=a") == SETTINGS
    assert "did you mean 'letters'?" in capsys.readouterr().err


def test_an_installed_format_is_recognised_and_a_reranker_ranks_it(installed, tmp_path, capsys) -> None:
    (tmp_path / "set.faq").write_text(SET)
    assert call("evaluate", "letters", "--labels", tmp_path / "set.faq", "--metrics", "P@1") == 0
    assert "100.00" in capsys.readouterr().out
    assert call("dataset", "--form", "list") == 0 and "faq " in capsys.readouterr().out

    assert call("candidates", tmp_path / "set.faq", "--out", tmp_path / "run", "--form", "faq") == 0
    for wrong in ("It was he.", " It was he.", "+- It was he."):
        (tmp_path / "set.faq").write_text(f"Q: Who?\n{wrong}\n")
        assert call("evaluate", "letters", "--labels", tmp_path / "set.faq") == BAD_DATA
        assert "set.faq:2: a line begins with" in capsys.readouterr().err

    (tmp_path / "set.faq").write_text("Q: Who?\n+ He.\n- She.\n\nQ: When?\n+ Now.\n- Then.\n")
    assert call("dataset", tmp_path / "set.faq") == 0
    assert re.search(r"^all +2 +4 +2 ", capsys.readouterr().out, re.MULTILINE)


def test_packs_of_an_installed_tool_are_written_and_its_exports_are_read(installed, tmp_path, capsys) -> None:
    (tmp_path / "set.faq").write_text(SET)
    run, tools = tmp_path / "run", '[annotate]\ntools = ["markdown"]\ntop = 2\n'
    job = job_of(tmp_path, 'reranker = "letters"', tools)
    assert call("candidates", tmp_path / "set.faq", "--out", run) == 0
    assert call("rerank", job, "--out", run) == 0 and call("annotate", job, "--out", run) == 0
    [pack] = run.rglob("tasks*.md")
    lines = pack.read_text().splitlines()
    assert len(lines) == 4 and lines[0].startswith("- [ ] W")

    tasks = [line.rpartition("(")[2].rstrip(")") for line in lines]
    answers = [{"task": task, "by": "ann", "ticked": n == 0} for n, task in enumerate(tasks)]
    (tmp_path / "back.jsonl").write_text("".join(json.dumps(each) + "\n" for each in answers))
    assert call("collect", run, tmp_path / "back.jsonl") == 0
    assert sorted(row.label for row in LABELS.open(run).read()) == [0, 0, 0, 1]

    assert call("annotate", job, "--out", run, "--set", 'annotate.tools=["markdwon"]') == SETTINGS
    assert "no tool is named 'markdwon'; known: label-studio" in capsys.readouterr().err


def test_an_installed_extractor_reads_pages_and_its_code_is_an_input(installed, tmp_path, capsys) -> None:
    html = "<title>It</title><h1>Head</h1><p>One and two.</p><div>Aside</div><p>Three and four.</p>"
    page = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{html}".encode()
    (tmp_path / "pages.warc.gz").write_bytes(member(record("response", "https://a.example/", page, {})))
    job = tmp_path / "job.toml"
    job.write_text(
        '[ingest]\ninput = ["pages.warc.gz"]\nmin_words = 1\nlanguage = ""\nextractor = "paragraphs"\n'
    )
    assert call("ingest", job, "--out", tmp_path / "run") == 0
    documents = DOCUMENTS.open(tmp_path / "run")
    assert [each.text for each in documents.read()] == ["One and two.\nThree and four."]
    revision = plug_ins.digest(plug_ins.EXTRACTORS, "paragraphs")
    assert documents.manifest.inputs["code of the extractor"] == revision

    assert call("ingest", job, "--out", tmp_path / "other", "--set", "ingest.extractor=paragrafs") == SETTINGS
    assert "known: blocks, resiliparse, trafilatura, paragraphs" in capsys.readouterr().err


def test_a_class_is_named_in_a_job_where_the_user_allows_it_alone(small_run, tmp_path, capsys) -> None:
    (tmp_path / "own_reranker.py").write_text(OWN)
    run, job = run_of(small_run, tmp_path / "run"), job_of(tmp_path, 'reranker = "own_reranker:Longest"')
    assert call("rerank", job, "--out", run) == SETTINGS
    assert "imported only with --allow-code" in capsys.readouterr().err
    assert "own_reranker" not in sys.modules
    with pytest.raises(JobError, match=r"in Python `am.allow_code\(\)`"):
        am.load_job(job)

    two = ("--set", "workers.processes=2")
    assert call("rerank", job, "--out", run, "--allow-code", *two) == 0
    rows = list(SCORED.open(run).read())
    assert {row.stages[0].stage for row in rows} == {"Longest"}
    assert all(row.stages[0].score == len(row.text) for row in rows)
    am.allow_code()
    assert am.load_job(job).rerank is not None


def test_the_class_of_a_reranker_with_keys_names_them(installed, small_run, tmp_path, capsys) -> None:
    job = job_of(tmp_path, 'reranker = "answermill_example.letters:Letters"\nletters = "e"')
    run = run_of(small_run, tmp_path / "run")
    assert call("rerank", job, "--out", run, "--allow-code") == 0
    by_name = run_of(small_run, tmp_path / "by_name")
    named = job_of(tmp_path, 'reranker = "letters"\nname = "Letters"\nletters = "e"')
    assert call("rerank", named, "--out", by_name) == 0
    assert list(SCORED.open(run).read()) == list(SCORED.open(by_name).read())

    code = installed / "letters.py"
    code.write_text(
        code.read_text().replace("    Settings: ClassVar[type[LettersStage]] = LettersStage\n", "")
    )
    forget()
    job = job_of(tmp_path, 'reranker = "answermill_example.letters:Letters"')
    other = run_of(small_run, tmp_path / "other")
    assert call("rerank", job, "--out", other, "--allow-code") == SETTINGS
    assert "add `Settings = LettersStage` to the class" in capsys.readouterr().err


def test_code_that_cannot_be_imported_is_said_where_it_is_named_and_by_doctor(
    installed, tmp_path, capsys
) -> None:
    (installed / "letters.py").write_text("import nowhere_to_be_found\n")
    (installed / "faq.py").write_text("FORMAT = 3\n")
    (installed / "paragraphs.py").write_text("raise OSError('no paragraphs')\n")
    (tmp_path / "set.tsv").write_text("question_id\tquestion\tsentence\tlabel\n1\tWho?\tHe.\t1\n")

    call("doctor")
    said = capsys.readouterr().out
    assert "annotation tool markdown of answermill-plug-in-example 1.0" in said
    assert "'faq' is a int, and no Format" in said
    assert "extractor 'paragraphs' cannot be imported" in said and "OSError: no paragraphs" in said

    assert call("evaluate", "letters", "--labels", tmp_path / "set.tsv") == SETTINGS
    said = capsys.readouterr().err
    assert "answermill_example.letters:Letters cannot be imported: ModuleNotFoundError: No module" in said
    assert call("evaluate", "random", "--labels", tmp_path / "set.tsv", "--form", "faq") == SETTINGS
    assert "'faq' is a int, and no Format" in capsys.readouterr().err


def test_two_packages_with_one_name_are_refused(installed, tmp_path) -> None:
    other = tmp_path / "other/other-2.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 2.0\n")
    (other / "entry_points.txt").write_text("[answermill.rerankers]\nletters = other:LETTERS\n")
    sys.path.append(str(other.parent))
    with pytest.raises(plug_ins.PlugInUnusable, match=r"answermill-plug-in-example 1.0 and other 2.0"):
        plug_ins.installed(plug_ins.RERANKERS)


class Nothing(UnitWork):
    """Work of a step that does nothing."""

    def work(self, unit: int, *rest: object) -> None:
        """Do nothing."""


def test_a_worker_with_other_code_of_a_plug_in_is_refused(installed, tmp_path) -> None:
    (tmp_path / "_work").mkdir()
    plug_ins.load(plug_ins.RERANKERS, "letters")
    work = pickle.dumps(Nothing("rerank", tmp_path / "_work"))
    assert isinstance(pickle.loads(work), Nothing)

    code = installed / "letters.py"
    code.write_text(code.read_text() + "\n")
    forget()
    with pytest.raises(JobError, match=r"of revision \w{12} here, of \w{12} where the command runs") as e:
        pickle.loads(work)
    assert e.value.code == UNAVAILABLE

    forget()
    sys.path.remove(str(installed.parent))
    with pytest.raises(JobError, match="of revision none here"):
        pickle.loads(work)


class Short:
    """The shortest sentence first."""

    name: ClassVar[str] = "short"
    reads: ClassVar[str] = "sentence"
    writes: ClassVar[str] = "sentence"

    def __init__(self, sign: int = -1) -> None:
        self.sign = sign

    def rerank(self, lists):
        return [
            order_by(each, [self.sign * len(c.text) for c in each.candidates], self.name) for each in lists
        ]


def test_a_plan_takes_objects_beside_names_and_later_stages_read_their_scores() -> None:
    texts = ["It was he who sang it.", "He.", "Nobody knows who sang."]
    assert [each.index for each in am.Plan([Short()]).rerank("Who sang it?", texts)] == [1, 0, 2]
    assert [each.index for each in am.Plan([Short(1)]).rerank("Who sang it?", texts)] == [0, 2, 1]
    assert am.rerank("Who sang it?", texts, ["overlap", Short()])[0].text == "He."

    blend = am.stage("blend", weights={"short": 1.0})
    assert am.Plan([Short(), blend]).rerank("Who sang it?", texts)[0].text == "He."
    with pytest.raises(JobError, match="a reranker of your own with name, reads, writes, rerank"):
        am.Plan([Short])
