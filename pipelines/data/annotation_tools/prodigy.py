"""Prodigy: JSONL for its `choice` interface, and the JSONL that `db-out` writes.

Both hashes identify the task and its text. So a task that a data set holds an answer to is left out of the
stream, and a task whose text has changed is asked again. They have 53 bits, which JavaScript keeps exact.
"""

from __future__ import annotations

import hashlib
import html
import json
from typing import Any

from answermill.pipelines.data.annotation_tools.export_values import (
    label_of,
    list_at,
    object_at,
    text_of,
    time_of,
)
from answermill.pipelines.data.annotation_tools.tool import (
    LABELS,
    QUESTION,
    ExportedLabel,
    ExportForm,
    ExportRow,
    FileKind,
    Model,
    PackFormat,
    Tool,
    marked_html,
)
from answermill.schemas.annotation import Task

_ANSWERS = {"accept": "correct", "reject": "wrong"}


def item(task: Task, model: Model | None) -> str:
    key = int(hashlib.sha256(f"{task.task_id} {task.text_hash}".encode()).hexdigest()[:16], 16) >> 11
    body = f"<h3>{html.escape(task.question)}</h3><p>{html.escape(task.sentence)}</p>{marked_html(task)}"

    content: dict[str, Any] = {
        "text": task.sentence,
        "html": body,
        "options": [{"id": label, "text": label} for label in LABELS],
        "meta": {"task_id": task.task_id},
        "task_id": task.task_id,
        "text_hash": task.text_hash,
        "question_id": task.question_id,
        "question": task.question,
        "sentence_id": task.sentence_id,
        "passage": task.passage,
        "title": task.title,
        "url": task.url,
        "_input_hash": key,
        "_task_hash": key,
    }

    if model is not None:
        content |= {"score": task.score, "model": model.name}
        content["meta"]["score"] = round(task.score, 4)

    return json.dumps(content, ensure_ascii=False)


def recognise(row: ExportRow, kind: FileKind) -> bool:
    has_id = "task_id" in row or isinstance(row.get("meta"), dict)
    return kind != "csv" and ("_task_hash" in row or (QUESTION in row and has_id))


def read(record: int, row: ExportRow) -> list[ExportedLabel]:
    meta, answer = object_at(row, "meta"), row.get(QUESTION)
    if answer is None:
        return []

    task_id, text_hash = (text_of(row.get(name) or meta.get(name)) for name in ("task_id", "text_hash"))
    label: tuple[int | None, str, str]
    if answer == "ignore":
        label = None, "skipped", "ignored in Prodigy"
    elif "accept" not in row and "options" not in row:
        label = label_of([_ANSWERS.get(text_of(answer), answer)])
    elif answer == "accept":
        label = label_of(list_at(row, "accept"))
    else:  # `reject` refuses the task, whatever was chosen
        label = None, "skipped", f"task answered {answer!r} in Prodigy"

    annotator = text_of(row.get("_annotator_id") or row.get("_session_id"))
    return [ExportedLabel(record, task_id, text_hash, annotator, *label, time_of(row.get("_timestamp")))]


TOOL = Tool(
    name="prodigy",
    pack=PackFormat("tasks", ".jsonl", "", "\n", "\n", item),
    exports=(ExportForm("prodigy", recognise, read),),
)
