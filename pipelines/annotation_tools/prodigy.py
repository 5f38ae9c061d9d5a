"""Prodigy: JSONL for its `choice` interface.

Both hashes stand for the task and its text, so a task that a data set holds an answer to is left out of the stream, and one
whose text is another is asked again. They have 53 bits, which JavaScript keeps exact.
"""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Mapping
from typing import Any

from pipelines.annotate.packs.tool import LABELS, Model, Setup, marked_html
from schemas.annotation import Task


class Prodigy:
    name = "prodigy"
    stem, suffix = "tasks", ".jsonl"
    before, between, after = "", "\n", "\n"

    def item(self, task: Task, model: Model | None) -> str:
        key = int(hashlib.sha256(f"{task.task_id} {task.text_hash}".encode()).hexdigest()[:16], 16) >> 11
        shown = f"<h3>{html.escape(task.question)}</h3><p>{html.escape(task.sentence)}</p>{marked_html(task)}"
        made: dict[str, Any] = {
            "text": task.sentence,
            "html": shown,
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
            made |= {"score": task.score, "model": model.name}
            made["meta"]["score"] = round(task.score, 4)
        return json.dumps(made, ensure_ascii=False)

    def beside(self, setup: Setup, annotators: int) -> Mapping[str, str]:
        return {}
