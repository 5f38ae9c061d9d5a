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
from answermill.schemas import plug_ins

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (  # an export has the first of their forms that recognises it
        label_studio.TOOL,
        argilla.TOOL,
        prodigy.TOOL,
        spreadsheet.TOOL,
    )
}


def find_tool(name: str) -> Tool:
    """The tool of that name, ours or a plug-in's. Raises ValueError with the known names."""
    if name in TOOLS:
        return TOOLS[name]
    if not plug_ins.is_known(plug_ins.TOOLS, name):
        known = ", ".join((*TOOLS, *plug_ins.installed(plug_ins.TOOLS)))
        raise ValueError(f"no tool is named {name!r}; known: {known}")
    tool = plug_ins.load(plug_ins.TOOLS, name)
    if not isinstance(tool, Tool):
        raise plug_ins.PlugInUnusable(f"the annotation tool {name!r} is a {type(tool).__name__}, and no Tool")
    return tool


def export_forms(form: str | None = None) -> dict[str, ExportForm]:
    """All forms of exports, by name: of our tools, of installed plug-ins, and of the tool that `form` names
    as 'module:attribute'."""
    tools = [*TOOLS.values(), *plug_ins.usable(plug_ins.TOOLS, find_tool).values()]
    if form is not None and plug_ins.is_code(form):
        tools.append(find_tool(form))
    return {export.name: export for tool in tools for export in tool.exports}
