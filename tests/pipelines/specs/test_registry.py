"""Descriptions of steps are true, since what they name is there, and alone, since nothing else spells it."""

from __future__ import annotations

import ast
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from answermill.files.atomic_files import WrongShape, write_text
from answermill.pipelines import steps
from answermill.pipelines.runs.spec import FolderSpec, SealedFile
from answermill.pipelines.specs import registry
from answermill.pipelines.specs.registry import SPECS, STAND_INS, folder_specs

STEPS = Path(registry.__file__).parents[1] / "steps"
ALL = {**SPECS, **STAND_INS}
FOLDERS = [pytest.param(spec, each, id=f"{spec.name} {each.name}") for spec in ALL.values() for each in spec]


def columns(folder: FolderSpec[Any]) -> set[str]:
    """Of its record, and of those in it, as 'passage.passage_id'."""
    schema = folder.record.schema()
    structs = [field for field in schema if pa.types.is_struct(field.type)]
    return {*schema.names, *(f"{struct.name}.{inner.name}" for struct in structs for inner in struct.type)}


@pytest.mark.parametrize(("spec", "folder"), FOLDERS)
def test_a_folder_names_columns_counts_and_folders_that_there_are(spec: Any, folder: FolderSpec[Any]) -> None:
    of_list = [folder.list_of, *folder.candidate, folder.fate, *folder.filled.values()]
    assert {*filter(None, [*folder.key, *folder.links, *of_list])} <= columns(folder)
    assert not folder.list_of or ("rank" in columns(folder) and folder.candidate)
    others = [*folder.links.values(), folder.same_rows_as, folder.cut_from]
    assert {*filter(None, others)} <= folder_specs().keys()
    assert not folder.rows or isinstance(getattr(spec.counts(), folder.rows), int)
    if folder.fate:
        assert folder.filled.keys() <= {*spec.counts.sums[folder.rows]}


@pytest.mark.parametrize("spec", ALL.values(), ids=ALL.keys())
def test_a_step_names_counts_and_folders_that_there_are(spec: Any) -> None:
    counts = spec.counts()
    for name in (spec.item, *counts.sums, *chain.from_iterable(counts.sums.values())):
        assert isinstance(getattr(counts, name), int), name
    assert {*spec.reads} <= folder_specs().keys() - {folder.name for folder in spec}
    assert {file.needed_by for file in spec.files} - {""} <= {folder.name for folder in spec}


def test_a_file_that_another_one_seals_has_the_digest_that_stands_there(tmp_path) -> None:
    file = SealedFile("lent/tasks.csv", sealed_by="lent/figures.json", digest_key="tasks_sha256")
    assert file.place == "lent" and SealedFile("inputs.json").place == ""
    with pytest.raises(FileNotFoundError):
        file.written_digest(tmp_path)
    write_text(tmp_path / "lent/figures.json", '{"votes": 3, "tasks_sha256": "ab12"}')
    assert file.written_digest(tmp_path) == "ab12"
    for content in ('{"votes": 3}', '{"tasks_sha256": 12}', '["tasks_sha256"]', "{"):
        (tmp_path / "lent/figures.json").write_text(content)
        with pytest.raises(WrongShape, match=r"figures\.json"):
            file.written_digest(tmp_path)


WORDS = {
    ("index/index.py", "shards"),
    ("retrieve/retrieve.py", "questions"),
    ("annotate/annotate.py", "tasks"),
    ("annotate/packs.py", "tasks"),
    ("annotate/run_packs.py", "tasks"),
}
"""File of a step, and a key of a job file, a count or a key of JSON that is called as a folder is."""


def test_no_step_spells_the_name_of_a_folder_that_its_description_has() -> None:
    spelt = set()
    for spec in SPECS.values():
        names = {folder.name for folder in spec}
        for path in (STEPS / spec.name).rglob("*.py"):
            constants = (node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Constant))
            spelt |= {(path.relative_to(STEPS).as_posix(), value) for value in constants if value in names}
    assert spelt == WORDS


def test_the_path_of_a_folder_in_a_run_is_asked_of_its_description() -> None:
    """In all of the pipelines no path ends in the name of a folder, and no part is looked up by one."""
    spelt = []
    for path in STEPS.parent.rglob("*.py"):
        for node in ast.walk(tree(path)):
            match node:
                case (
                    ast.BinOp(op=ast.Div(), right=ast.Constant(value=name))
                    | ast.Subscript(value=ast.Attribute(attr="parts"), slice=ast.Constant(value=name))
                ) if name in folder_specs():
                    spelt.append(f"{path}: {ast.unparse(node)}")
    assert spelt == []


def tree(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_the_package_of_the_steps_names_each_of_them() -> None:
    assert [name for name in SPECS if name not in str(steps.__doc__)] == []
