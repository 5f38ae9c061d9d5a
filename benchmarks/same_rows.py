"""Two runs, row by row: `python -m benchmarks.same_rows RUN_A RUN_B`, whatever versions wrote them.

Every Parquet folder that the steps' descriptions name is compared. `rows`: rows of the first run. `differ`:
rows that differ, in all and by folder. Rows are compared within those that have the same key, or belong to
the same list, as the folder's description says: a changed row counts once, and so does a row that is in one
run alone. The order of rows in files is no part of that; `other_order` names folders in which it alone
differs.

All that is not compared is named: `columns_in_one` (A or B says in which), `columns_left_out` (by
--leave-out, such as source_file,source_offset,source_record where pages lie in other files; no column holds a
time) and `files_not_compared`. Of a folder in `folders_in_one` all rows differ; `columns_of_other_types` are
compared. With --digits numbers are first rounded to as many significant digits.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from answermill.pipelines.config.job_file import load
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.spec import FolderSpec
from answermill.pipelines.specs.registry import folders
from answermill.pipelines.steps.chain import run_steps, steps_of
from testing import tiny_job
from testing.harness import arguments, finish, say
from testing.smoke_data import small_encoder

KeyedRow: TypeAlias = tuple[str, bytes]
"""Key of a row's group, and a digest of all that is compared."""


@dataclass(frozen=True)
class FolderOfRun:
    """A folder of one of the runs."""

    files: tuple[Path, ...] = ()
    """Its Parquet files, in order."""
    is_there: bool = True

    @classmethod
    def find(cls, run: Path, spec: FolderSpec[Any]) -> FolderOfRun:
        """Find a run's folder. Raises ValueError if its number of rows is not that of its manifest."""
        folder = run / spec.name
        if not (folder / MANIFEST).is_file():
            return cls(is_there=False)
        files = tuple(sorted(folder.glob("*/passages.parquet" if spec.part_is_folder else "part-*.parquet")))
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        due = json.loads((folder / MANIFEST).read_bytes())["rows"]
        if rows != due:
            raise ValueError(f"{folder}: {rows} rows, where its manifest says {due}; ask `answermill verify`")
        return cls(files)

    def columns(self) -> dict[str, str]:
        """Column, or 'column.field' of a nested one → its type."""
        return {name: kind for file in self.files for name, kind in leaves(pq.read_schema(file))}

    def rows(self, group: Sequence[str], without: Collection[str], digits: int) -> Iterator[KeyedRow]:
        """Rows in order; the columns `group` are the key."""
        for file in self.files:
            with pq.ParquetFile(file) as opened:
                for row in (row for batch in opened.iter_batches(2_048) for row in batch.to_pylist()):
                    digest = hashlib.sha256(text(pruned(row, without, digits)).encode()).digest()
                    yield text([row[name] for name in group]), digest[:16]


@dataclass(frozen=True)
class Compared:
    """Comparison of a folder of two runs."""

    rows: tuple[int, int]
    differ: int
    other_order: bool
    columns_in_one: Sequence[str]
    """Columns of one run alone, with the run: 'COLUMN (A)'."""
    columns_left_out: Sequence[str]
    columns_of_other_types: Sequence[str]


def compare_folder(
    spec: FolderSpec[Any], a: FolderOfRun, b: FolderOfRun, leave_out: Collection[str] = (), digits: int = 0
) -> Compared:
    """Compare a folder. `leave_out`: columns or fields, by the last part of their names or the whole."""
    types_a, types_b = a.columns(), b.columns()
    either, both = types_a.keys() | types_b.keys(), types_a.keys() & types_b.keys()
    left_out = {name for name in either if name in leave_out or name.rpartition(".")[2] in leave_out}
    in_one = either - both - left_out if types_a and types_b else set()

    group = [name for name in spec.key or (spec.list_of,) if name in both - left_out]
    rows_a, rows_b = (list(folder.rows(group, left_out | in_one, digits)) for folder in (a, b))
    differ = rows_that_differ(rows_a, rows_b)

    return Compared(
        (len(rows_a), len(rows_b)),
        differ,
        not differ and rows_a != rows_b,
        [f"{name} ({'A' if name in types_a else 'B'})" for name in sorted(in_one)],
        sorted(left_out),
        sorted(name for name in both if types_a[name] != types_b[name]),
    )


def rows_that_differ(a: Sequence[KeyedRow], b: Sequence[KeyedRow]) -> int:
    """Sum over groups of the rows that the other side lacks, on the side that has more of them."""
    count_a, count_b = Counter(a), Counter(b)
    lacking = defaultdict[str, list[int]](lambda: [0, 0])
    for side, rest in enumerate((count_a - count_b, count_b - count_a)):
        for (group, _), n in rest.items():
            lacking[group][side] += n
    return sum(map(max, lacking.values()))


def leaves(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """(name, type) of each column without fields, and of the fields of others, as 'stages.rank'."""

    def below(name: str, kind: pa.DataType) -> Iterator[tuple[str, str]]:
        while pa.types.is_list(kind):
            kind = kind.value_type
        if not pa.types.is_struct(kind):
            yield name, str(kind)
            return
        for field in kind:
            yield from below(f"{name}.{field.name}", field.type)

    for field in schema:
        yield from below(field.name, field.type)


def pruned(value: Any, without: Collection[str], digits: int, name: str = "") -> Any:
    """A row, or what is in it, without some columns and fields, its numbers rounded."""
    match value:
        case dict():
            named = {key: f"{name}.{key}".removeprefix(".") for key in value}
            kept = [key for key in value if named[key] not in without]
            return {key: pruned(value[key], without, digits, named[key]) for key in kept}
        case list():
            return [pruned(item, without, digits, name) for item in value]
        case float() if digits:
            return float(f"{value:.{digits}g}")
    return value


def text(value: Any) -> str:
    """One text for one value; all digits of a number."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=repr)


def compare(run_a: Path, run_b: Path, leave_out: Collection[str], digits: int) -> dict[str, int | str]:
    """The flat result. Raises FileNotFoundError if a run has no complete folder."""
    results, complete, in_one, files = dict[str, Compared](), Counter[str](), [], set[Path]()
    for _, spec in folders():
        a, b = FolderOfRun.find(run_a, spec), FolderOfRun.find(run_b, spec)
        files.update(a.files, b.files)
        complete.update(A=a.is_there, B=b.is_there)
        if a.is_there != b.is_there:
            in_one.append(f"{spec.name} ({'A' if a.is_there else 'B'})")
        if a.is_there or b.is_there:
            compared = results[spec.name] = compare_folder(spec, a, b, leave_out, digits)
            say(f"{spec.name}: {compared.rows[0]} rows, {compared.differ} differ")

    if not complete["A"] or not complete["B"]:
        raise FileNotFoundError(f"no complete folder of a run is in {run_b if complete['A'] else run_a}")

    others = {name for run in (run_a, run_b) for name in other_files(run, files)}
    return {
        **figures(results),
        "folders_in_one": ", ".join(in_one),
        "files_not_compared": ", ".join(sorted(others)),
    }


def figures(results: Mapping[str, Compared]) -> dict[str, int | str]:
    """The flat figures of folders, and the names of columns."""

    def names(columns: Callable[[Compared], Iterable[str]]) -> str:
        return ", ".join(
            f"{folder}.{name}" for folder, compared in results.items() for name in columns(compared)
        )

    return {
        "folders": len(results),
        "rows": sum(compared.rows[0] for compared in results.values()),
        "rows_b": sum(compared.rows[1] for compared in results.values()),
        "differ": sum(compared.differ for compared in results.values()),
        **{f"differ_{name.replace('/', '_')}": compared.differ for name, compared in results.items()},
        "other_order": ", ".join(name for name, compared in results.items() if compared.other_order),
        "columns_in_one": names(lambda compared: compared.columns_in_one),
        "columns_left_out": names(lambda compared: compared.columns_left_out),
        "columns_of_other_types": names(lambda compared: compared.columns_of_other_types),
    }


def other_files(run: Path, compared: Collection[Path]) -> Iterator[str]:
    """The files in a run that are not compared: at most three parts of their paths, the second as *."""
    for path in run.rglob("*"):
        if path.is_file() and path not in compared:
            first, *rest = path.relative_to(run).parts
            if path.name == MANIFEST:
                yield f"*/{MANIFEST}"
            else:
                yield "/".join((first, "*", rest[1]) if len(rest) > 1 else (first, *rest))


def two_runs(folder: Path) -> tuple[Path, Path]:
    """A tiny job's run, and the same once more."""
    job = load(tiny_job.write(folder / "job", small_encoder()))
    for name in ("a", "b"):
        list(run_steps(job, folder / name, steps_of(job), ()))
    return folder / "a", folder / "b"


def main() -> None:
    options = arguments(
        "same_rows",
        __doc__ or "",
        needs_data=False,
        places={"run_a": "folder of a run", "run_b": "folder of another"},
        texts={"leave-out": "columns that are not compared, with commas"},
        numbers={"digits": "significant digits of numbers that are compared; all if absent"},
    )
    with tempfile.TemporaryDirectory() as folder:
        run_a, run_b = two_runs(Path(folder).resolve()) if options.smoke else (options.run_a, options.run_b)
        leave_out = [name for name in (options.leave_out or "").split(",") if name]
        result = compare(run_a, run_b, leave_out, int(options.digits or 0))

    finish("same_rows", result, options.save)


if __name__ == "__main__":
    main()
