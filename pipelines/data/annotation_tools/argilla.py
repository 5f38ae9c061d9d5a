"""Argilla 2: the settings of a data set as Argilla writes them to disk, and records in its JSON.

A record's id is the task's: logged again, it is updated, with its responses kept. Exports are read nested, as
`to_json` and the server write them, or flat, as `to_list(flatten=True)` does.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any

from answermill.pipelines.data.annotation_tools.export_values import label_of, list_at, object_at, text_of
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
    marked,
)
from answermill.schemas.annotation import Task

FIELDS = {"question": True, "sentence": True, "passage": True, "title": False, "url": False}
"""Field → True if each record has it."""
METADATA = {"score": "float", "question_id": "terms", "sentence_id": "terms", "text_hash": "terms"}

_TAG_OR_ENTITY = re.compile(r"<(?=[A-Za-z/!?])|&(?=[A-Za-z#])")


def as_html(text: str) -> str:
    """The text as Argilla's page shows it unchanged: the page takes a text field for HTML, and would leave
    out what looks like a tag, with all that follows if it has no end.

    >>> as_html("<b>R&D</b>, 1 < 2 & 3")
    '&lt;b>R&amp;D&lt;/b>, 1 < 2 & 3'
    """
    return _TAG_OR_ENTITY.sub(lambda match: html.escape(match[0]), text)


def item(task: Task, model: Model | None) -> str:
    texts = {name: as_html(marked(task) if name == "passage" else getattr(task, name)) for name in FIELDS}
    suggestions = {}
    if model is not None:
        label, confidence = model.prediction(task)
        suggestions[QUESTION] = {"value": label, "score": confidence, "agent": model.name}
    record = {
        "id": task.task_id,
        "fields": {name: text for name, text in texts.items() if FIELDS[name] or text},
        "metadata": {name: getattr(task, name) for name in METADATA if name != "score" or model is not None},
        "suggestions": suggestions,
        "responses": {},
        "vectors": {},
    }

    return json.dumps(record, ensure_ascii=False)


def other_files(guidelines: str, annotators: int) -> Mapping[str, str]:
    settings = _settings(guidelines, annotators)
    shared = {key: settings[key] for key in ("guidelines", "allow_extra_metadata", "distribution")}
    dataset = {
        "name": "answermill" if annotators == 1 else f"answermill-{annotators}-annotators",
        "status": "draft",
    }
    return {
        ".argilla/settings.json": json.dumps(settings, indent=1, ensure_ascii=False) + "\n",
        ".argilla/dataset.json": json.dumps({**dataset, **shared}, indent=1, ensure_ascii=False) + "\n",
    }


def _settings(guidelines: str, annotators: int) -> dict[str, Any]:
    fields = [
        {
            "name": name,
            "title": name,
            "required": required,
            "settings": {"type": "text", "use_markdown": False},
        }
        for name, required in FIELDS.items()
    ]

    options = [{"value": label, "text": label} for label in LABELS]
    question = {
        "name": QUESTION,
        "title": WORDING,
        "description": None,
        "required": True,
        "settings": {"type": "label_selection", "options": options, "visible_options": None},
    }

    metadata = [
        {"name": name, "title": name, "visible_for_annotators": False, "settings": {"type": kind}}
        for name, kind in METADATA.items()
    ]

    return {
        "guidelines": guidelines,
        "fields": fields,
        "questions": [question],
        "metadata": metadata,
        "vectors": [],
        "allow_extra_metadata": False,
        "distribution": {"strategy": "overlap", "min_submitted": annotators},
        "mapping": None,
    }


_FLAT = f"{QUESTION}.responses"


def recognise(row: ExportRow, kind: FileKind) -> bool:
    return kind != "csv" and ("_server_id" in row or isinstance(row.get("fields"), dict) or _FLAT in row)


def read(record: int, row: ExportRow) -> list[ExportedLabel]:
    task_id = text_of(row.get("external_id") or row.get("id"))  # where both are, `id` is the server's own
    text_hash = text_of(object_at(row, "metadata").get("text_hash") or row.get("text_hash"))
    labels = []

    for value, user, status in _responses(row):
        label, reason, detail = label_of(
            [] if value is None else value if isinstance(value, list) else [value]
        )
        if status in ("draft", "discarded"):
            label, reason, detail = None, "skipped", f"{status} in Argilla"
        elif status not in (None, "submitted"):
            label, reason, detail = None, "not_a_label", f"response status {status!r}"

        annotator = text_of(user) or None
        labels.append(
            ExportedLabel(
                record, task_id, text_hash, annotator, label, reason, detail, None, status is not None
            )
        )

    return labels


def _responses(row: ExportRow) -> list[tuple[Any, Any, Any]]:
    """(value, user, status or None) of each response to the question `answer`, of any of the three forms."""
    if _FLAT in row:
        values, users, states = (list_at(row, name) for name in (_FLAT, f"{_FLAT}.users", f"{_FLAT}.status"))
        if len(users) != len(values) or len(states) not in (0, len(values)):
            raise Malformed(f"{len(values)} responses, {len(users)} users, {len(states)} states")
        return list(zip(values, users, states or [None] * len(values), strict=True))

    if isinstance(row.get("responses") or {}, dict):
        responses = list_at(object_at(row, "responses"), QUESTION)
    else:  # as the server gives them: one response a user, with the values of all questions
        responses = [
            {**response, **object_at(object_at(response, "values"), QUESTION)}
            if isinstance(response, dict)
            else response
            for response in list_at(row, "responses")
        ]

    if not all(isinstance(response, dict) for response in responses):
        raise Malformed("a response that is no object")

    return [
        (response.get("value"), response.get("user_id"), response.get("status")) for response in responses
    ]


TOOL = Tool(
    name="argilla",
    pack=PackFormat("records", ".json", "[\n", ",\n", "\n]\n", item, other_files),
    exports=(ExportForm("argilla", recognise, read),),
)
