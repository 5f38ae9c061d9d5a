"""An annotation tool is one file and one line in TOOLS: `annotate` then writes its packs and `collect` reads
its exports."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from answermill.pipelines.data import annotation_tools
from answermill.pipelines.errors import BAD_DATA, SETTINGS, USAGE
from answermill.pipelines.specs.collect import LABELS
from testing.command import call

MODULE = """
import json
from answermill.pipelines.data.annotation_tools.tool import ExportedLabel, ExportForm, Malformed, PackFormat, Tool

def item(task, model):
    return json.dumps({"ask": task.question, "of": task.sentence, "toy": task.task_id, "sure": model and model.score(task)})

def read(record, row):
    if row["verdict"] not in (0, 1, None):
        raise Malformed(f"verdict {row['verdict']!r}")
    if row["verdict"] is None:
        return []
    return [ExportedLabel(record, row["toy"], "", row.get("by") or "", row["verdict"], "", "", None)]

TOOL = Tool(
    name="toy",
    pack=PackFormat("cards", ".toy", "", "\\n", "\\n", item, lambda guidelines, annotators: {"HOW": f"{annotators}\\n"}),
    exports=(ExportForm("toy", lambda row, kind: kind == "lines" and "verdict" in row, read),),
)
"""
DATA = """question_id\tquestion\tsentence\tlabel
a\tWho sang it?\tIt was he who sang it.\t1
a\tWho sang it?\tNobody knows.\t0
b\tWhere was it?\tNot here.\t0
b\tWhere was it?\tIt was where you look.\t1
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with scored sentences, where the toy is one of the tools."""
    (tmp_path / "toy.py").write_text(MODULE)
    spec = importlib.util.spec_from_file_location("toy", tmp_path / "toy.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(annotation_tools.TOOLS, "toy", module.TOOL)
    (tmp_path / "set.tsv").write_text(DATA)
    (tmp_path / "job.toml").write_text(
        '[[rerank.stages]]\nreranker = "overlap"\n[annotate]\ntools = ["toy", "csv"]\npredictions = true\n'
    )

    assert call("candidates", tmp_path / "set.tsv", "--out", tmp_path / "run") == 0
    assert call("rerank", tmp_path / "job.toml", "--out", tmp_path / "run") == 0
    return tmp_path / "run"


def test_annotate_writes_the_pack_of_a_new_tool_and_collect_reads_its_export(
    run: Path, tmp_path: Path
) -> None:
    assert call("annotate", tmp_path / "job.toml", "--out", run) == 0
    assert {path.name for path in (run / "packs/toy").iterdir()} == {
        "cards-00001.toy",
        "HOW",
        "guidelines.md",
        "preview.html",
    }
    assert {path.name for path in (run / "packs").iterdir()} == {"toy", "csv", "packs.json"}
    assert (run / "packs/toy/HOW").read_text() == "1\n"
    cards = [json.loads(line) for line in (run / "packs/toy/cards-00001.toy").read_text().splitlines()]
    assert len(cards) == 4 and all(0 <= card["sure"] <= 1 for card in cards)
    answers = [
        {"toy": card["toy"], "verdict": int(card["of"].startswith("It was")), "by": "anna"}
        for card in cards[:3]
    ]

    export = tmp_path / "export.jsonl"
    export.write_text(
        "".join(json.dumps(row) + "\n" for row in [*answers, {"toy": cards[3]["toy"], "verdict": None}])
    )
    assert call("collect", run, export) == 0
    labels = {row.sentence: row.label for row in LABELS.open(run).read()}
    assert labels == {card["of"]: int(card["of"].startswith("It was")) for card in cards[:3]}
    sources = json.loads((run / "collected/agreement.json").read_text())["exports"]
    assert [(each["form"], each["records"], each["unanswered"]) for each in sources] == [("toy", 4, 1)]


def test_a_new_tool_is_known_by_name_wherever_tools_and_forms_are_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, export = tmp_path / "job.toml", tmp_path / "export.jsonl"
    capsys.readouterr()
    assert call("annotate", job, "--out", run, "--set", "annotate.tools=['toyy']") == SETTINGS
    assert (
        "annotate.tools: no tool is named 'toyy'; known: label-studio, argilla, prodigy, csv, toy"
        in capsys.readouterr().err
    )
    assert call("annotate", job, "--out", run) == 0
    export.write_text('{"toy": "x", "verdict": 1}\n')

    assert call("collect", run, export, "--form", "toyy") == USAGE
    assert (
        "label-studio, label-studio-annotation, label-studio-min, argilla, prodigy, csv, toy"
        in capsys.readouterr().err
    )
    export.write_text('{"toy": "x", "verdict": 7}\n')
    assert call("collect", run, export, "--form", "toy") == BAD_DATA
    assert "export.jsonl:1: not what toy writes: verdict 7" in capsys.readouterr().err
