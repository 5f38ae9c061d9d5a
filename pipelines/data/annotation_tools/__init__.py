"""Annotation tools, each with both directions: the packs of tasks that it imports, and the exports that it
writes.

| form of export | what |
| --- | --- |
| label-studio | JSON: tasks with `data.task_id`, `data.text_hash`, and `annotations` with a choice named `answer` |
| label-studio-annotation | JSON: an annotation with its `task`, a file of each, from a target storage |
| label-studio-min | JSON_MIN: an annotation a record, with `task_id`, `text_hash`, `answer`, `annotator` |
| argilla | Argilla 2: records, nested as `to_json` and the server write them, or flat as `to_list(flatten=True)` |
| prodigy | `db-out`: a judged task a line, with `accept` of a choice, or `answer` alone |
| csv | `task_id`, `text_hash`, `label` (or `answer`), `annotator`; Label Studio's CSV too |

All say "correct", "wrong" or "cannot tell"; also 1 and 0, yes and no, true and false.
"""

from __future__ import annotations

from answermill.pipelines.data.annotation_tools import argilla, label_studio, prodigy, spreadsheet
from answermill.pipelines.data.annotation_tools.tool import ExportForm, Tool

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (  # an export has the first of their forms that recognises it
        label_studio.TOOL,
        argilla.TOOL,
        prodigy.TOOL,
        spreadsheet.TOOL,
    )
}


def export_forms() -> dict[str, ExportForm]:
    """All forms of exports, by name."""
    return {form.name: form for tool in TOOLS.values() for form in tool.exports}
