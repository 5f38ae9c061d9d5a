"""Packs: tasks as the files that annotation tools read, a folder for each tool below packs/.

A pack shows a question, a sentence, its passage, and where it is from; never a task's stratum or expected label. Tasks keep
their order, the questions together. Where some tasks want several annotators and others one, each kind has a folder of its
own, since tools set that number for a whole project.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pipelines.annotate.packs import argilla, label_studio, prodigy, spreadsheet
from pipelines.annotate.packs.tool import Pack, Setup, Tool
from pipelines.errors import OUTPUT_EXISTS, JobError
from schemas.annotation import Task
from schemas.atomic_files import write_text

TOOLS: Mapping[str, Tool] = {
    tool.name: tool for tool in (label_studio.LabelStudio(), argilla.Argilla(), prodigy.Prodigy(), spreadsheet.Spreadsheet())
}
SUMMARY = "packs.json"
GUIDELINES = "guidelines.md"


def default_guidelines() -> str:
    return resources.files("pipelines.annotate").joinpath(GUIDELINES).read_text(encoding="utf-8")


def written(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the packs are there. Raises JobError (73) where others are: people may have filled them in."""
    if not folder.exists():
        return False
    found = read_summary(folder)
    for key in sorted({*settings, *found["settings"]}):
        if (there := found["settings"].get(key)) != (here := settings.get(key)):
            told = f"{key} = {there!r} there, {here!r} here"
            raise JobError(f"{folder} holds the packs of another job: {told}. Move it away; it may hold answers", OUTPUT_EXISTS)
    return True


def read_summary(folder: Path) -> dict[str, Any]:
    """What `write` left in packs.json: tasks, files with their tasks, settings. Raises JobError (73) where it is of no use."""
    try:
        return dict(json.loads((folder / SUMMARY).read_text(encoding="utf-8")))
    except (OSError, ValueError) as e:
        raise JobError(f"{folder / SUMMARY}: not readable ({e}); move {folder} away", OUTPUT_EXISTS) from e


def write(folder: Path, tasks: Iterable[Task], tools: Iterable[str], setup: Setup, settings: Mapping[str, Any]) -> int:
    """Write all packs, or nothing; returns how many tasks each has. Memory does not grow with the tasks.

    `settings` are what decides the packs: `written` compares them.
    """
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    packs: dict[tuple[str, int], Pack] = {}
    names, many = list(tools), 0
    for task in tasks:
        many += 1
        for name in names:
            if (name, task.annotators) not in packs:
                packs[name, task.annotators] = Pack(temporary / name / _kind(task.annotators), TOOLS[name], setup)
            packs[name, task.annotators].write(task)
    kinds = {annotators for _, annotators in packs}
    files: dict[str, int] = {}
    for (name, annotators), pack in packs.items():
        made = pack.finish(annotators)
        if len(kinds) == 1:
            for path in list(pack.folder.iterdir()):
                path.rename(temporary / name / path.name)
            pack.folder.rmdir()
        at = name if len(kinds) == 1 else f"{name}/{_kind(annotators)}"
        files |= {f"{at}/{file}": rows for file, rows in made.items()}
    for name in names:
        if (held := sum(rows for file, rows in files.items() if file.startswith(f"{name}/"))) != many:
            raise RuntimeError(f"{many} tasks came in, {held} are in the pack for {name}")
        write_text(temporary / name / GUIDELINES, setup.guidelines)
    told = {"tasks": many, "files": dict(sorted(files.items())), "settings": dict(settings)}
    write_text(temporary / SUMMARY, json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    temporary.rename(folder)
    return many


def _kind(annotators: int) -> str:
    return f"{annotators}-annotator{'s'[: annotators != 1]}"
