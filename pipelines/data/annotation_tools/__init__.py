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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Any

from answermill.pipelines.data.annotation_tools import argilla, label_studio, prodigy, spreadsheet
from answermill.pipelines.data.annotation_tools.tool import (
    ExportedLabel,
    ExportForm,
    ExportRow,
    Malformed,
    PackFormat,
    Tool,
)
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
    return _checked(name, tool)


def _checked(name: str, tool: Tool) -> Tool:
    """A plug-in's tool, of which what fails raises PlugInFailed. Raises PlugInUnusable if a part of it is
    none."""
    where = f"the annotation tool {name!r}"
    for part, kind in ((tool.pack, PackFormat), *((export, ExportForm) for export in tool.exports)):
        if not isinstance(part, kind):
            raise plug_ins.PlugInUnusable(f"{where} has a {type(part).__name__}, and no {kind.__name__}")

    packs: dict[str, Any] = {
        key: plug_ins.guarded(f"{where}, `{key}`", function, kind, check=check)
        for key, kind, check in (
            ("item", str, str.encode),
            ("other_files", Mapping, partial(_check_files, tool.pack)),
            ("personal_item", str, str.encode),
            ("personal_files", Mapping, partial(_check_files, tool.pack)),
        )
        if (function := getattr(tool.pack, key)) is not None
    }
    exports = tuple(
        replace(
            export,
            recognise=plug_ins.guarded(f"{where}, `recognise`", export.recognise, object),
            read=_reader(f"{where}, `read`", export),
        )
        for export in tool.exports
    )
    return replace(tool, name=name, pack=replace(tool.pack, **packs), exports=exports)


def _check_files(pack: PackFormat, texts: Mapping[Any, Any]) -> None:
    """Raise ValueError or TypeError if a path is outside the pack's folder or another file's of the pack, or
    a text cannot be written."""
    for path, text in texts.items():
        parts = PurePath(path).parts
        if not parts or PurePath(path).is_absolute() or ".." in parts:
            raise ValueError(f"{path!r} is no path in the pack's folder")
        if pack.is_taken(str(PurePath(path))):
            raise ValueError(f"{path!r} is the name of another file of the pack")
        str.encode(text)


def _reader(what: str, export: ExportForm) -> Callable[[int, ExportRow], Sequence[ExportedLabel]]:
    def read(record: int, row: ExportRow) -> Sequence[ExportedLabel]:
        with plug_ins.running(what, getattr(export.read, "__module__", "") or "", Malformed):
            labels = list(export.read(record, row))
            for label in labels:
                if not isinstance(label, ExportedLabel):
                    raise TypeError(f"it gave a {type(label).__name__}, and no ExportedLabel")
                if label.label not in (0, 1, None) or not isinstance(label.task_id, str):
                    raise ValueError(f"record {record}: label {label.label!r} of task {label.task_id!r}")
            return labels

    return read


def export_forms(form: str | None = None) -> dict[str, ExportForm]:
    """All forms of exports, by name: those of the tool that `form` names as 'module:attribute', which come
    first, of our tools, and of installed plug-ins."""
    tools = [*TOOLS.values(), *plug_ins.usable(plug_ins.TOOLS, find_tool).values()]
    if form is not None and plug_ins.is_code(form):
        tools.insert(0, find_tool(form))
    forms: dict[str, ExportForm] = {}
    for export in (export for tool in tools for export in tool.exports):
        forms.setdefault(export.name, export)
    return forms
