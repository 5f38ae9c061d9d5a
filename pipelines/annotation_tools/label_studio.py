"""Label Studio: tasks in its JSON, and the labelling configuration of the project that reads them.

An import adds tasks and never looks for those that are there. `data` says nothing of the run, so the same task is the same
`data` in every export: a second import of it goes by Data Manager → Actions → Remove Duplicated Tasks, which keeps annotations,
or is not made at all with `annotate.since`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipelines.annotate.packs.tool import ASKED, LABELS, QUESTION, Model, Setup, marked_html
from schemas.annotation import Task

CONFIGURATION = f"""\
<View>
  <Header size="3" value="$question"/>
  <Text name="sentence" value="$sentence" valueType="text"/>
  <Choices name="{QUESTION}" toName="sentence" choice="single" required="true" showInline="true">
{"".join(f'    <Choice value="{label}" hotkey="{key}"/>{chr(10)}' for key, label in enumerate(LABELS, 1))}\
  </Choices>
  <Header size="5" value="{ASKED}"/>
  <HyperText name="context" value="$context" valueType="text" inline="true"/>
</View>
"""


class LabelStudio:
    name = "label-studio"
    stem, suffix = "tasks", ".json"
    before, between, after = "[\n", ",\n", "\n]\n"

    def item(self, task: Task, model: Model | None) -> str:
        kept = ("task_id", "text_hash", "question_id", "question", "sentence_id", "sentence", "passage", "title", "url")
        made: dict[str, Any] = {"data": {key: getattr(task, key) for key in kept} | {"context": marked_html(task)}}
        if model is not None:
            result = {"from_name": QUESTION, "to_name": "sentence", "type": "choices", "value": {"choices": [LABELS[0]]}}
            made["predictions"] = [{"model_version": model.name, "score": model.score(task), "result": [result]}]
        return json.dumps(made, ensure_ascii=False)

    def beside(self, setup: Setup, annotators: int) -> Mapping[str, str]:
        return {"config.xml": CONFIGURATION}
