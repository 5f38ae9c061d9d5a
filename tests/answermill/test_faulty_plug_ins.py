"""Plug-ins whose code raises errors, or gives what it may not give: the message says which, and where."""

from __future__ import annotations

import json
import re

import pytest

from answermill.indexing.documents.main_text import ExtractionFailed, TextExtractor
from answermill.pipelines.errors import IO, SETTINGS
from answermill.schemas import plug_ins
from testing.command import call
from tests.answermill.plug_in_code import OWN, SET, job_of, run_of

pytestmark = pytest.mark.usefixtures("new_process")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("print('read')", None),
        ("input()", "EOFError: EOF when reading a line"),
        ("return 'T', b'x'", "TypeError: an extractor gives a title and a text, and not a bytes"),
        ("return None", "TypeError: 'NoneType' object is not iterable"),
        ("{}['x']", "KeyError: 'x'"),
    ],
)
def test_whatever_an_extractor_does_with_a_page_the_next_one_is_read(
    code: str, says: str | None, tmp_path, monkeypatch
) -> None:
    (tmp_path / "own_extractor.py").write_text(
        "def load(comments):\n    def read(html):\n        if 'bad' in html:\n"
        f"            {code}\n        return 'T', html\n    return read\n"
    )
    monkeypatch.chdir(tmp_path)
    plug_ins.allow_code()
    with TextExtractor(by="own_extractor:load") as extractor:
        if says is None:
            assert extractor.extract("bad") == ("T", "bad")
        else:
            with pytest.raises(ExtractionFailed, match=re.escape(says)):
                extractor.extract("bad")
        assert extractor.extract("good") == ("T", "good")


def test_an_extractor_that_cannot_be_loaded_refuses_no_pages(tmp_path, monkeypatch) -> None:
    (tmp_path / "own_extractor.py").write_text("def load(comments):\n    raise KeyError('model')\n")
    monkeypatch.chdir(tmp_path)
    plug_ins.allow_code()
    said = r"'own_extractor:load' cannot be loaded: KeyError: 'model' \(.*own_extractor.py, line 2\)"
    with (
        TextExtractor(by="own_extractor:load") as extractor,
        pytest.raises(plug_ins.PlugInFailed, match=said),
    ):
        extractor.extract("a page")


ROWS = """
from answermill.pipelines.data.formats.format import Format, Options
from answermill.pipelines.data.formats.rows_in_order import Row

FORMAT = Format("own", "rows", lambda path, counted, options: ROWS, OPTIONS)
"""


@pytest.mark.parametrize(
    ("rows", "options", "code", "says"),
    [
        ("[Row(1, 'q', 'Who?', 'He.', 1)]", "Options", 0, ""),
        (
            "1 / 0",
            "Options",
            70,
            r"set.tsv: the data-set format '.*': ZeroDivisionError.*own_format.py, line 5",
        ),
        ("None", "Options", 70, "TypeError: 'NoneType' object is not iterable"),
        ("[{}]", "Options", 70, "it gave a dict, and no Row"),
        ("[Row(1, 'q', 'Who?', None, 1)]", "Options", 70, "row 1: text is None, and no text"),
        ("[Row(1, 'q', 'Who?', '\\ud800', 1)]", "Options", 70, "row 1: text has half a surrogate pair"),
        ("[Row(1, 'q', 'Who?', 'He.', 7)]", "Options", 70, "row 1: label is 7, and neither 1 nor 0"),
        ("[]", "dict", SETTINGS, "names <class 'dict'> as its options"),
    ],
)
def test_a_faulty_format_of_a_plug_in_is_named_with_the_file_and_the_row(
    rows: str, options: str, code: int, says: str, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_format.py").write_text(ROWS.replace("ROWS", rows).replace("OPTIONS", options))
    (tmp_path / "set.tsv").write_text("text\n")
    assert call("dataset", "set.tsv", "--form", "own_format:FORMAT", "--allow-code") == code
    assert re.search(says, capsys.readouterr().err)


TOOLS = """
from dataclasses import replace
from answermill_example.markdown import TOOL as SOUND

def of(item=SOUND.pack.item, read=SOUND.exports[0].read, recognise=SOUND.exports[0].recognise, **other):
    export = replace(SOUND.exports[0], name="own", read=read, recognise=recognise)
    return replace(SOUND, name="own", pack=replace(SOUND.pack, item=item, **other), exports=(export,))

Sound = of()
Items = of(item=lambda task, model: None)
Halves = of(item=lambda task, model: "\\ud800")
Climbs = of(other_files=lambda guidelines, annotators: {"../../job.toml": ""})
Empty = of(other_files=lambda guidelines, annotators: {"": ""})
Covers = of(other_files=lambda guidelines, annotators: {"./guidelines.md": ""})
Numbers = of(other_files=lambda guidelines, annotators: {"guide.md": 1})
Knows = of(recognise=lambda row, kind: row["nothing"])
Reads = of(read=lambda record, row: row["nothing"])
Dicts = of(read=lambda record, row: [{}])
Labels = of(read=lambda record, row: [replace(SOUND.exports[0].read(record, row)[0], label=7)])
"""


@pytest.mark.parametrize(
    ("name", "written", "read", "says"),
    [
        ("Sound", 0, 0, ""),
        (
            "Items",
            70,
            0,
            "the annotation tool 'own_tool:Items', `item`: TypeError: it gave a NoneType, and no str",
        ),
        ("Halves", 70, 0, "'own_tool:Halves', `item`: UnicodeEncodeError: "),
        ("Climbs", 70, 0, "`other_files`: ValueError: '../../job.toml' is no path in the pack's folder"),
        ("Empty", 70, 0, "`other_files`: ValueError: '' is no path in the pack's folder"),
        ("Covers", 70, 0, "`other_files`: ValueError: './guidelines.md' is the name of another file"),
        ("Numbers", 70, 0, "'own_tool:Numbers', `other_files`: TypeError: "),
        ("Knows", 0, 70, r"'own_tool:Knows', `recognise`: KeyError: 'nothing' \(.*own_tool.py, line 16\)"),
        ("Reads", 0, 70, r"'own_tool:Reads', `read`: KeyError: 'nothing' \(.*own_tool.py, line 17\)"),
        ("Dicts", 0, 70, "it gave a dict, and no ExportedLabel"),
        ("Labels", 0, 70, "record 1: label 7 of task"),
    ],
)
def test_a_tool_is_named_by_its_place_and_a_faulty_one_in_the_error(
    name: str, written: int, read: int, says: str, installed, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_tool.py").write_text(TOOLS)
    (tmp_path / "set.faq").write_text(SET)
    run, tools = tmp_path / "run", '[annotate]\ntools = ["own_tool:Sound"]\ntop = 2\n'
    job = job_of(tmp_path, 'reranker = "letters"', tools)
    assert (
        call("candidates", "set.faq", "--out", run) == call("rerank", job, "--out", run, "--allow-code") == 0
    )
    other = ("--allow-code", "--set", f'annotate.tools=["own_tool:{name}"]')
    assert call("annotate", job, "--out", run, *other) == written
    if not written:
        pack = (run / f"packs/own_tool:{name}/tasks-00001.md").read_text()
        [task] = re.findall(r"\((\w+)\)\n", pack)[:1]
        (tmp_path / "back.jsonl").write_text(json.dumps({"task": task, "by": "ann", "ticked": True}) + "\n")
        back = ("back.jsonl", "--form", f"own_tool:{name}", "--allow-code")
        assert call("collect", run, *back) == read
    assert re.search(says, capsys.readouterr().err)


FAULTS = (
    OWN
    + """
class Loads(Longest):
    @classmethod
    def load(cls, resources):
        raise KeyError("model")

class LoadsNothing(Longest):
    @classmethod
    def load(cls, resources):
        pass

class Words(Longest):
    reads = "word"

class Joins(Longest):
    writes = "passage"

class Keys(Longest):
    Settings = dict

class Raises(Longest):
    def rerank(self, lists):
        return {}[len(lists)]

class Exits(Longest):
    def rerank(self, lists):
        raise SystemExit(0)

instance, number = Longest(), 3

def made():
    class Inner(Longest):
        pass
    return Inner

Made = made()
"""
)


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        (
            "Loads",
            70,
            r"the reranker '.*' cannot be loaded: KeyError: 'model' \(.*own_reranker.py, line \d+\)",
        ),
        ("LoadsNothing", 70, "`load` gave a NoneType, which has no name"),
        ("Words", SETTINGS, "reads 'word' and writes 'sentence'; it reads 'sentence'"),
        ("Joins", SETTINGS, "reads 'sentence' and writes 'passage'"),
        ("Keys", SETTINGS, "names <class 'dict'> as its keys; they are a subclass of StageSettings"),
        ("Raises", 70, r"ranker own_reranker:Raises: KeyError: 1 \(.*own_reranker.py, line \d+\)"),
        ("Exits", 70, "ranker own_reranker:Exits: SystemExit: 0"),
        ("instance", SETTINGS, "is a Longest, and neither an Entry nor the class of a reranker"),
        ("number", SETTINGS, "is a int, and neither an Entry nor the class of a reranker"),
        ("Made", 0, ""),
    ],
)
def test_a_faulty_reranker_of_a_plug_in_is_named_and_is_no_defect_of_ours(
    name: str, code: int, says: str, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_reranker.py").write_text(FAULTS)
    (tmp_path / "set.tsv").write_text("question_id\tquestion\tsentence\tlabel\n1\tWho?\tHe.\t1\n")
    assert call("evaluate", f"own_reranker:{name}", "--labels", "set.tsv", "--allow-code") == code
    said = capsys.readouterr().err
    assert re.search(says, said) and "defect of AnswerMill" not in said


def test_a_unit_in_which_a_plug_in_raised_may_be_tried_again(small_run, tmp_path, capsys) -> None:
    (tmp_path / "own_reranker.py").write_text(FAULTS)
    run, job = run_of(small_run, tmp_path / "run"), job_of(tmp_path, 'reranker = "own_reranker:Raises"')
    assert call("rerank", job, "--out", run, "--allow-code") == IO
    assert re.search(r"stage Raises: KeyError: \d+ \(.*own_reranker.py, line \d+\)", capsys.readouterr().err)


def test_a_module_that_ends_the_process_cannot_be_imported(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_reranker.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "set.tsv").write_text("question_id\tquestion\tsentence\tlabel\n1\tWho?\tHe.\t1\n")
    assert call("evaluate", "own_reranker:X", "--labels", "set.tsv", "--allow-code") == SETTINGS
    assert "cannot be imported from own_reranker:X: SystemExit: 0" in capsys.readouterr().err
