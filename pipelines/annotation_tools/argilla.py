"""Argilla 2: the settings of a data set as Argilla writes them to disk, and records in its JSON.

A record's id is the task's: logged again, it is updated, with its responses kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipelines.annotate.packs.tool import ASKED, LABELS, QUESTION, Model, Setup, marked
from schemas.annotation import Task

FIELDS = {"question": True, "sentence": True, "passage": True, "title": False, "url": False}
"""Field → whether each record has it."""
METADATA = {"score": "float", "question_id": "terms", "sentence_id": "terms", "text_hash": "terms"}


class Argilla:
    name = "argilla"
    stem, suffix = "records", ".json"
    before, between, after = "[\n", ",\n", "\n]\n"

    def item(self, task: Task, model: Model | None) -> str:
        shown = {name: marked(task) if name == "passage" else getattr(task, name) for name in FIELDS}
        suggestions = {}
        if model is not None:
            suggestions[QUESTION] = {"value": LABELS[0], "score": model.score(task), "agent": model.name}
        record = {
            "id": task.task_id,
            "fields": {name: text for name, text in shown.items() if FIELDS[name] or text},
            "metadata": {name: getattr(task, name) for name in METADATA if name != "score" or model is not None},
            "suggestions": suggestions,
            "responses": {},
            "vectors": {},
        }
        return json.dumps(record, ensure_ascii=False)

    def beside(self, setup: Setup, annotators: int) -> Mapping[str, str]:
        settings = _settings(setup.guidelines, annotators)
        shared = {key: settings[key] for key in ("guidelines", "allow_extra_metadata", "distribution")}
        dataset = {"name": "answermill" if annotators == 1 else f"answermill-{annotators}-annotators", "status": "draft"}
        return {
            ".argilla/settings.json": json.dumps(settings, indent=1, ensure_ascii=False) + "\n",
            ".argilla/dataset.json": json.dumps({**dataset, **shared}, indent=1, ensure_ascii=False) + "\n",
        }


def _settings(guidelines: str, annotators: int) -> dict[str, Any]:
    fields = [
        {"name": name, "title": name, "required": required, "settings": {"type": "text", "use_markdown": False}}
        for name, required in FIELDS.items()
    ]
    options = [{"value": label, "text": label} for label in LABELS]
    question = {
        "name": QUESTION,
        "title": ASKED,
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
