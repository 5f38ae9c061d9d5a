"""Packs hold every task once, in the form that each tool documents, and nothing that would give a control
away."""

from __future__ import annotations

import csv
import json
import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.pipelines.config.job_file import Annotate
from answermill.pipelines.data.annotation_tools import TOOLS
from answermill.pipelines.data.annotation_tools.argilla import as_html
from answermill.pipelines.data.annotation_tools.spreadsheet import unquote
from answermill.pipelines.data.annotation_tools.tool import LABELS, Model, marked, marked_html
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.steps.annotate import packs
from answermill.pipelines.steps.annotate.packs import PackOptions
from answermill.schemas.annotation import Task

PASSAGE = "A <b>bold</b> start. =SUM(A1) is “the answer” & more.\nThe end."
SENTENCE = "=SUM(A1) is “the answer” & more."
MODEL = Model("cosinet+cascade 1a2b3c4d", unbounded=False)
EXPECTED = 1


def task(n: int, annotators: int = 1) -> Task:
    start = PASSAGE.index(SENTENCE)

    return Task(
        task_id=f"{n:016x}",
        question_id=f"q{n // 3}",
        question="What is <it>?",
        sentence_id=f"d@{n}",
        sentence=SENTENCE,
        doc_id="d",
        passage_id="d#0",
        passage=PASSAGE,
        start=start,
        end=start + len(SENTENCE),
        title="@title",
        url='https://a.example/?a=1&b="2"' if n else "javascript:alert(1)",
        text_hash=f"{n + 1:016x}",
        score=0.25,
        rank=None,
        stratum=("top", "random", "control")[n % 3],
        probability=0.125,
        expected=EXPECTED if n % 3 == 2 else None,
        annotators=annotators,
    )


def write(folder: Path, tasks: list[Task], options: PackOptions | None = None, tools=tuple(TOOLS)) -> Path:
    options = options or PackOptions("# Guide\n", MODEL)
    assert packs.write(folder / "packs", tasks, tools, options, {"tools": list(tools)}) == len(tasks)
    return folder / "packs"


def label_studio(folder: Path) -> list[dict]:
    return [
        each
        for file in sorted(folder.glob("tasks-*.json"))
        for each in json.loads(file.read_text(encoding="utf-8"))
    ]


def argilla(folder: Path) -> list[dict]:
    return [
        each
        for file in sorted(folder.glob("records-*.json"))
        for each in json.loads(file.read_text(encoding="utf-8"))
    ]


def prodigy(folder: Path) -> list[dict]:
    lines = [
        line
        for file in sorted(folder.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").split("\n")
    ]
    return [json.loads(line) for line in lines if line]


def spreadsheet(folder: Path) -> list[dict]:
    rows = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows += csv.DictReader(file)
    return rows


def ids(folder: Path) -> list[list[str]]:
    """Task ids of each tool's files."""
    return [
        [each["data"]["task_id"] for each in label_studio(folder / "label-studio")],
        [each["id"] for each in argilla(folder / "argilla")],
        [each["task_id"] for each in prodigy(folder / "prodigy")],
        [unquote(each["task_id"]) for each in spreadsheet(folder / "csv")],
    ]


def test_every_pack_holds_every_task_once_in_its_order(tmp_path):
    tasks = [task(n) for n in (5, 3, 4, 0, 2, 1, 6)]
    folder = write(tmp_path, tasks, PackOptions("g", MODEL, tasks_per_file=3))
    assert ids(folder) == [[each.task_id for each in tasks]] * 4
    files = packs.read_summary(folder).files
    assert files["csv/tasks-00001.csv"] == files["prodigy/tasks-00002.jsonl"] == 3
    assert files["label-studio/tasks-00003.json"] == files["argilla/records-00003.json"] == 1
    assert len(files) == 12


def test_no_pack_tells_stratum_probability_expected_label_or_rank(tmp_path):
    tasks = [task(n) for n in range(6)]
    others = [replace(each, stratum="top", probability=1.0, expected=None, rank=1) for each in tasks]
    first, second = write(tmp_path / "a", tasks), write(tmp_path / "b", others)
    files = [path.relative_to(first) for path in first.rglob("*") if path.is_file()]
    assert len(files) >= 12
    for file in files:
        assert (first / file).read_bytes() == (second / file).read_bytes(), file


def test_no_file_is_larger_than_its_limit(tmp_path):
    folder = write(tmp_path, [task(n) for n in range(40)], PackOptions("g", MODEL, bytes_per_file=9_000))
    sizes = [path.stat().st_size for path in folder.rglob("*-0*.*")]
    assert len(sizes) > 12 and 8_000 < max(sizes) <= 9_000
    assert [len(each) for each in ids(folder)] == [40] * 4


def test_a_task_larger_than_a_file_may_be_has_one_of_its_own(tmp_path):
    folder = write(tmp_path, [task(0), task(1)], PackOptions("g", MODEL, bytes_per_file=10), ("prodigy",))
    assert packs.read_summary(folder).files == {
        "prodigy/tasks-00001.jsonl": 1,
        "prodigy/tasks-00002.jsonl": 1,
    }


def test_tasks_for_one_and_for_several_annotators_are_projects_of_their_own(tmp_path):
    folder = write(tmp_path, [task(n, annotators=1 + 2 * (n % 2)) for n in range(5)])
    assert {path.name for path in (folder / "argilla").iterdir()} == {
        "1-annotator",
        "3-annotators",
        "guidelines.md",
    }
    assert [each["id"][-1] for each in argilla(folder / "argilla" / "3-annotators")] == ["1", "3"]
    for kind, wanted in (("1-annotator", 1), ("3-annotators", 3)):
        settings = json.loads((folder / "argilla" / kind / ".argilla/settings.json").read_text())
        assert settings["distribution"] == {"strategy": "overlap", "min_submitted": wanted}
        assert (folder / "label-studio" / kind / "config.xml").is_file()


def test_label_studio_s_tasks_have_what_its_configuration_reads(tmp_path):
    folder = write(tmp_path, [task(1)]) / "label-studio"
    root = ET.fromstring((folder / "config.xml").read_text(encoding="utf-8"))
    (shown,) = label_studio(folder)
    assert {"$question", "$sentence", "$context"} == {
        each.get("value") for each in root.iter() if (each.get("value") or "").startswith("$")
    }
    assert {"question", "sentence", "context", "task_id", "text_hash"} <= shown["data"].keys()
    (choices,) = root.iter("Choices")
    assert tuple(each.get("value") for each in choices) == LABELS

    (prediction,) = shown["predictions"]
    assert (prediction["score"], prediction["model_version"]) == (0.75, MODEL.name)  # of 'wrong': 1 - 0.25
    (result,) = prediction["result"]
    assert (
        (result["from_name"], result["to_name"])
        == (choices.get("name"), choices.get("toName"))
        == ("answer", "sentence")
    )
    assert result["type"] == "choices" and result["value"] == {"choices": ["wrong"]}


def test_label_studio_s_data_is_the_same_in_every_export(tmp_path):
    """By equal data its Remove Duplicated Tasks knows a task again; so no score is in it."""
    first, second = task(1), replace(task(1), score=0.75, stratum="random", annotators=1)
    exports = [
        label_studio(write(tmp_path / name, [each]) / "label-studio")
        for name, each in (("a", first), ("b", second))
    ]
    assert exports[0] != exports[1] and exports[0][0]["data"] == exports[1][0]["data"]


def test_html_of_a_page_is_text_in_tools_that_render_html(tmp_path):
    folder = write(tmp_path, [task(0), task(1)])
    for shown in (
        label_studio(folder / "label-studio")[0]["data"]["context"],
        prodigy(folder / "prodigy")[0]["html"],
    ):
        assert "&lt;b&gt;bold&lt;/b&gt;" in shown and "<b>bold" not in shown and "<it>" not in shown
        assert "<mark>=SUM(A1) is “the answer” &amp; more.</mark>" in shown
        assert "javascript:alert(1)" in shown and "href" not in shown

    assert '<a href="https://a.example/?a=1&amp;b=&quot;2&quot;"' in marked_html(task(1))
    (record, _) = argilla(folder / "argilla")
    settings = json.loads((folder / "argilla/.argilla/settings.json").read_text())
    assert record["fields"]["passage"] == as_html(marked(task(0))) and "⟦=SUM(A1)" in marked(task(0))
    assert not any(field["settings"]["use_markdown"] for field in settings["fields"])


def test_a_cell_is_no_formula(tmp_path):
    risky = [
        replace(task(n), title=title)
        for n, title in enumerate(("=1", "+1", "-1", "@a", "\tx", "\rx", 'plain, "and"\nso'))
    ]
    folder = write(tmp_path, [*risky, replace(task(9), score=-1.5)], tools=("csv",))
    rows = spreadsheet(folder / "csv")
    assert [row["title"] for row in rows[:7]] == [
        "'=1",
        "'+1",
        "'-1",
        "'@a",
        "'\tx",
        "'\rx",
        'plain, "and"\nso',
    ]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row.values())

    assert rows[0]["sentence"] == "'" + SENTENCE and rows[7]["score"] == "'-1.5"
    assert all(row["label"] == row["annotator"] == "" for row in rows)


def test_prodigy_knows_a_task_again_and_asks_anew_where_its_text_is_another(tmp_path):
    other = replace(task(1), text_hash="f" * 16)
    shown = prodigy(write(tmp_path, [task(1), replace(task(1), score=0.5), other, task(2)]) / "prodigy")
    hashes = [each["_task_hash"] for each in shown]
    assert hashes[0] == hashes[1] and len(set(hashes)) == 3
    assert all(0 < each["_task_hash"] < 2**53 and each["_input_hash"] == each["_task_hash"] for each in shown)
    assert [option["id"] for option in shown[0]["options"]] == list(LABELS) and "accept" not in shown[0]


def test_without_predictions_no_pack_holds_a_score(tmp_path):
    folder = write(tmp_path, [task(1)], PackOptions("g", None))
    assert "predictions" not in label_studio(folder / "label-studio")[0]
    (record,) = argilla(folder / "argilla")
    assert record["suggestions"] == {} and "score" not in record["metadata"]
    assert not {"score", "model"} & prodigy(folder / "prodigy")[0].keys()
    assert spreadsheet(folder / "csv")[0]["score"] == ""


def test_scores_of_a_prediction_lie_within_0_and_1_in_their_order():
    scores = (-800.0, -2.0, 0.0, 0.5, 3.0, 800.0)
    shares = [Model("m", unbounded=True).score(replace(task(1), score=score)) for score in scores]
    assert shares == sorted(shares) and shares[0] == 0 and shares[2] == 0.5 and shares[-1] == 1
    assert shares[1] == pytest.approx(1 / (1 + math.e**2), abs=1e-6)
    assert Model("m", unbounded=False).score(replace(task(1), score=0.3)) == 0.3


def test_a_prediction_says_what_the_model_takes_for_likelier():
    bounded, unbounded = Model("m", unbounded=False), Model("m", unbounded=True)
    scored = {score: replace(task(1), score=score) for score in (-2.0, 0.0, 0.0055, 0.5, 0.9)}
    assert bounded.prediction(scored[0.0055]) == ("wrong", 0.9945)
    assert bounded.prediction(scored[0.5]) == ("correct", 0.5)
    assert bounded.prediction(scored[0.9]) == ("correct", 0.9)
    assert unbounded.prediction(scored[-2.0]) == ("wrong", pytest.approx(1 / (1 + math.e**-2), abs=1e-6))
    assert unbounded.prediction(scored[0.0]) == ("correct", 0.5)


def test_packs_hold_no_prediction_unless_the_job_asks_for_them():
    assert not Annotate().predictions


def test_packs_of_another_job_are_not_overwritten(tmp_path):
    folder = write(tmp_path, [task(1)])
    assert packs.are_written(folder, {"tools": list(TOOLS)})
    with pytest.raises(
        JobError, match=r"tools = .* there, \['csv'\] here\. Move it away; it may hold answers"
    ) as e:
        packs.are_written(folder, {"tools": ["csv"]})
    assert e.value.code == OUTPUT_EXISTS
    for other in ("{", "{}", "[]"):
        (folder / "packs.json").write_text(other)
        with pytest.raises(JobError, match="not readable"):
            packs.are_written(folder, {"tools": ["csv"]})


def test_label_studio_s_own_checks_take_configuration_tasks_and_predictions(tmp_path):
    interfaces = pytest.importorskip(
        "label_studio_sdk.label_interface",
        reason="runs where label-studio-sdk is installed: pip install label-studio-sdk",
    )
    folder = write(tmp_path, [task(n) for n in range(6)]) / "label-studio"
    interface = interfaces.LabelInterface((folder / "config.xml").read_text(encoding="utf-8"))
    interface.validate()
    for shown in label_studio(folder):
        assert interface.validate_task({"data": shown["data"]})
        assert interface.validate_prediction(shown["predictions"][0], return_errors=True) == []


def test_argilla_s_own_models_take_settings_and_records(tmp_path):
    pytest.importorskip("argilla", reason="runs where argilla is installed: pip install argilla")
    from argilla._models import DatasetModel, LabelQuestionSettings, RecordModel
    from argilla.records._resource import Record

    folder = write(tmp_path, [task(n) for n in range(6)]) / "argilla"
    settings = json.loads((folder / ".argilla/settings.json").read_text(encoding="utf-8"))
    dataset = DatasetModel(**json.loads((folder / ".argilla/dataset.json").read_text(encoding="utf-8")))
    assert dataset.distribution.min_submitted == 1
    assert LabelQuestionSettings(**settings["questions"][0]["settings"]).options[2]["value"] == "cannot tell"

    for shown in argilla(folder):
        model = Record.from_dict(shown).api_model()
        assert isinstance(model, RecordModel) and model.external_id == shown["id"]
        assert (model.suggestions[0].value, model.suggestions[0].score) == ("wrong", 0.75)


def test_the_guidelines_are_the_instruction_of_label_studio_s_and_argilla_s_project(tmp_path):
    guidelines = "# Is it *so*?\n\n<script>alert(1)</script>\n"
    folder = write(tmp_path, [task(0, annotators=2)], PackOptions(guidelines, None))
    project = json.loads((folder / "label-studio/project.json").read_text(encoding="utf-8"))
    assert "<h1>Is it <em>so</em>?</h1>" in project["expert_instruction"]
    assert project["title"] == "AnswerMill, 2 annotators"
    assert "<script>" not in project["expert_instruction"] and project["show_instruction"] is True
    assert project["label_config"] == (folder / "label-studio/config.xml").read_text(encoding="utf-8")
    assert project["maximum_annotations"] == 2
    settings = json.loads((folder / "argilla/.argilla/settings.json").read_text(encoding="utf-8"))
    assert settings["guidelines"] == guidelines


def test_the_instruction_of_label_studio_has_the_look_of_lists_as_its_server_lets_it_through(tmp_path):
    folder = write(tmp_path, [task(0)], PackOptions("- one\n- <style>*{}</style>\n", None))
    project = json.loads((folder / "label-studio/project.json").read_text(encoding="utf-8"))
    style, instruction = project["expert_instruction"].split("</style>")
    # Its server removes attributes that are named `style`, and writes `>` as an entity.
    assert "list-style: disc" in style and ">" not in style.removeprefix("<style>")
    assert "style=" not in instruction and "<li>&lt;style&gt;*{}&lt;/style&gt;</li>" in instruction


def test_texts_of_label_studio_and_of_the_preview_follow_the_direction_of_their_letters(tmp_path):
    folder = write(tmp_path, [task(0)]) / "label-studio"
    for name in ("config.xml", "preview.html"):
        assert "unicode-bidi: plaintext" in (folder / name).read_text(encoding="utf-8")


def test_argilla_s_page_which_reads_texts_as_html_loses_nothing_of_them(tmp_path):
    odd = replace(task(0), question="a<b and <3 AT&T", title="R & D <for all> &copy", url="https://a/?b&lt=1")
    (record,) = argilla(write(tmp_path, [odd]) / "argilla")
    texts = [record["fields"][name] for name in ("question", "title", "url")]
    assert texts == ["a&lt;b and <3 AT&amp;T", "R & D &lt;for all> &amp;copy", "https://a/?b&amp;lt=1"]


def test_a_project_of_one_person_has_the_name_as_its_title(tmp_path):
    names = ("anna@example.org", "b" * 60)
    folder = tmp_path / "packs"
    packs.write(
        folder, [task(1)], ["label-studio"], PackOptions("g", None), {}, dealt={task(1).task_id: names}
    )
    titles = [
        json.loads((folder / "label-studio" / name / "project.json").read_text(encoding="utf-8"))["title"]
        for name in names
    ]
    assert titles == ["AnswerMill: anna@example.org", "AnswerMill: " + "b" * 38]  # of 50 characters at most


def test_a_preview_shows_what_annotators_see_and_runs_nothing(tmp_path):
    tasks = [replace(task(n), question=f"Question {n}?") for n in range(12)]
    folder = write(tmp_path, tasks, PackOptions("# Guide <b>\n", None))
    pages = [(folder / tool / "preview.html").read_text(encoding="utf-8") for tool in TOOLS]
    assert len(pages) == 4 and len(set(pages)) == 1
    (page,) = set(pages)
    assert page.count("<article>") == 10 and "Question 9?" in page and "Question 10?" not in page
    assert "<h1>Guide &lt;b&gt;</h1>" in page and page.count("<mark>") == 10
    assert all(f"> {label}</label>" in page for label in LABELS) and " checked" not in page
    assert "<b>bold</b>" not in page and 'href="javascript' not in page and "default-src 'none'" in page

    foreseen = write(tmp_path / "b", tasks, PackOptions("g", MODEL))
    assert (foreseen / "csv/preview.html").read_text(encoding="utf-8").count(" checked") == 10
