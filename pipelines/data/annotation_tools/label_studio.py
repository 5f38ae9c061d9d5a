"""Label Studio: tasks in its JSON, the project that reads them, with its labelling configuration and its
instructions as the server's API takes them, and its exports.

An import adds tasks, and does not check for existing ones. `data` holds nothing of the run, so the same task
is the same `data` in every export: Data Manager → Actions → Remove Duplicated Tasks removes a second import
of it and keeps annotations, and `annotate.since` avoids it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from answermill.pipelines.data.annotation_tools.export_values import (
    label_of,
    list_at,
    object_at,
    read_table_row,
    text_of,
    time_of,
    user_of,
)
from answermill.pipelines.data.annotation_tools.preview import instructions
from answermill.pipelines.data.annotation_tools.tool import (
    LABELS,
    QUESTION,
    WORDING,
    ExportedLabel,
    ExportForm,
    ExportRow,
    FileKind,
    Malformed,
    Model,
    PackFormat,
    Tool,
    marked_html,
)
from answermill.schemas.annotation import Task

# Each line is written in the direction of its own letters.
CONFIGURATION = f"""\
<View className="answermill">
  <Style>.answermill * {{ unicode-bidi: plaintext; }}</Style>
  <Header size="3" value="$question"/>
  <Text name="sentence" value="$sentence" valueType="text"/>
  <Header size="5" value="{WORDING}"/>
  <Choices name="{QUESTION}" toName="sentence" choice="single" required="true" showInline="true">
{"".join(f'    <Choice value="{label}" hotkey="{key}"/>{chr(10)}' for key, label in enumerate(LABELS, 1))}\
  </Choices>
  <HyperText name="context" value="$context" valueType="text" inline="true"/>
</View>
"""
# Label Studio's page takes marks and margins from lists and paragraphs, and its server removes `style`
# attributes.
INSTRUCTION = """\
<style>
.answermill-guide * { unicode-bidi: plaintext; line-height: 1.4; }
.answermill-guide :is(h1, h2, h3, p, ul, ol) { margin: 0 0 0.6em; }
.answermill-guide ul { list-style: disc; padding-left: 1.5em; }
.answermill-guide ol { list-style: decimal; padding-left: 1.5em; }
</style>
<div class="answermill-guide">
%s</div>
"""
LONGEST_TITLE = 50
"""Most characters of a project's title."""


def item(task: Task, model: Model | None) -> str:
    names = (
        "task_id",
        "text_hash",
        "question_id",
        "question",
        "sentence_id",
        "sentence",
        "passage",
        "title",
        "url",
    )
    content: dict[str, Any] = {
        "data": {name: getattr(task, name) for name in names} | {"context": marked_html(task)}
    }
    if model is not None:
        label, confidence = model.prediction(task)
        result = {
            "from_name": QUESTION,
            "to_name": "sentence",
            "type": "choices",
            "value": {"choices": [label]},
        }
        content["predictions"] = [{"model_version": model.name, "score": confidence, "result": [result]}]

    return json.dumps(content, ensure_ascii=False)


def other_files(guidelines: str, annotators: int) -> Mapping[str, str]:
    title = "AnswerMill" if annotators == 1 else f"AnswerMill, {annotators} annotators"
    return _project(guidelines, annotators, title)


def personal_files(guidelines: str, person: str) -> Mapping[str, str]:
    return _project(guidelines, 1, f"AnswerMill: {person}"[:LONGEST_TITLE])


def _project(guidelines: str, annotators: int, title: str) -> Mapping[str, str]:
    project = {
        "title": title,
        "label_config": CONFIGURATION,
        "expert_instruction": INSTRUCTION % instructions(guidelines),
        "show_instruction": True,
        "maximum_annotations": annotators,
    }
    return {
        "config.xml": CONFIGURATION,
        "project.json": json.dumps(project, indent=1, ensure_ascii=False) + "\n",
    }


def is_json(row: ExportRow, kind: FileKind) -> bool:
    return kind != "csv" and isinstance(row.get("data"), dict)


def is_json_min(row: ExportRow, kind: FileKind) -> bool:
    return kind != "csv" and "annotation_id" in row and "task_id" in row


def is_annotation(row: ExportRow, kind: FileKind) -> bool:
    return kind != "csv" and "result" in row and isinstance(row.get("task"), dict)


def read_annotation(record: int, row: ExportRow) -> list[ExportedLabel]:
    """The label of an annotation with its task in it, which Label Studio writes a file of each into a
    storage."""
    return read_json(record, {"data": object_at(object_at(row, "task"), "data"), "annotations": [row]})


def read_json(record: int, row: ExportRow) -> list[ExportedLabel]:
    data = object_at(row, "data")
    task_id, text_hash = text_of(data.get("task_id")), text_of(data.get("text_hash"))
    labels = []

    for annotation in list_at(row, "annotations"):
        if not isinstance(annotation, dict):
            raise Malformed(f"an annotation that is no object: {str(annotation)[:60]!r}")

        # A skipped task may hold choices, which count for nothing.
        label, reason, detail = label_of(_choices(annotation))
        if annotation.get("was_cancelled"):
            label, reason, detail = None, "cancelled", "skipped in Label Studio"
        created_at = time_of(annotation.get("created_at"))
        labels.append(
            ExportedLabel(
                record,
                task_id,
                text_hash,
                user_of(annotation.get("completed_by")) or None,
                label,
                reason,
                detail,
                time_of(annotation.get("updated_at")) or created_at,
                annotation_id=text_of(annotation.get("id")),
                created_at=created_at,
            )
        )

    return labels


def _choices(annotation: ExportRow) -> list[Any]:
    """The choices in the control named `answer`."""
    choices: list[Any] = []
    for result in list_at(annotation, "result"):
        if isinstance(result, dict) and result.get("from_name") == QUESTION:
            choices += list_at(object_at(result, "value"), "choices")
    return choices


TOOL = Tool(
    name="label-studio",
    pack=PackFormat(
        "tasks", ".json", "[\n", ",\n", "\n]\n", item, other_files, personal_files=personal_files
    ),
    exports=(
        ExportForm("label-studio", is_json, read_json),
        ExportForm("label-studio-annotation", is_annotation, read_annotation),
        ExportForm("label-studio-min", is_json_min, read_table_row),
    ),
)
