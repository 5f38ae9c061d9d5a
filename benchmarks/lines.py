"""Size of the product: lines by folder, and the rooms of `pipelines/` on the floors that their imports make.

Python files are counted, without generated ones and those shipped as data. `lines` are all lines, `code`
those that are not blank, a comment or a docstring. `pipelines_entries`: files and folders directly in
`pipelines/`; `pipelines_rooms`: the folders among them. `pipelines_floors`: the longest chain of entries of
which each imports the next; entries that import one another stand on one floor, and `pipelines_in_cycles`
counts them.
An import counts wherever it is in a file, and for types alone too.

--revision counts another revision, out of `git archive`; else the files are counted as they are.
"""

from __future__ import annotations

import ast
import io
import subprocess
import tarfile
import tempfile
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

from testing.harness import arguments, finish

ROOT = Path(__file__).parents[1]
FOLDERS = ("schemas", "files", "indexing", "ranking", "pipelines", "answermill", "tools")
ROOMS = "pipelines"
_BLANK = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
NO_CODE = frozenset({tokenize.COMMENT, *_BLANK})
Graph = Mapping[str, frozenset[str]]
"""Entry → the entries that it imports."""


def code_lines(text: str) -> int:
    """The lines of a file that are not blank, a comment or a docstring, of a class's fields too.

    >>> code_lines('"A file."\\n\\nx = 1  # one\\n"A field."\\n# A remark.\\ny = f(\\n    2\\n)\\n')
    4
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def imported(text: str) -> Iterator[str]:
    """The modules that a file names in its imports: of `from a import b` both a and a.b."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of_rooms(folder: Path) -> Graph:
    """The entries of `pipelines/`, by the names that imports have for them."""
    entries = {path.stem: path for path in folder.iterdir() if is_entry(path)}
    graph = {}
    for name, path in entries.items():
        names: set[str] = set()
        for file in python_files(path) if path.is_dir() else [path]:
            for module in imported(file.read_text(encoding="utf-8")):
                room = module.removeprefix("answermill.").removeprefix(f"{ROOMS}.").partition(".")[0]
                if module.removeprefix("answermill.").startswith(f"{ROOMS}.") and room in entries:
                    names.add(room)
        graph[name] = frozenset(names - {name})
    return graph


def reached(graph: Graph, start: str) -> set[str]:
    """Entries that one imports, directly or by way of others."""
    seen, left = set[str](), [start]
    while left:
        new = graph[left.pop()] - seen
        seen |= new
        left += new
    return seen


def floors(graph: Graph) -> tuple[int, int]:
    """(floors, entries that import one another, directly or by way of others).

    >>> floors({"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset("b"), "d": frozenset()})
    (2, 2)
    """
    below = {name: reached(graph, name) for name in graph}
    storey: dict[str, int] = {}
    # Entries that reach fewer others are first, so that all that an entry reaches has its floor by then,
    # except its own cycle.
    for name in sorted(graph, key=lambda name: len(below[name] | {name})):
        cycle = {other for other in below[name] if name in below[other]} | {name}
        storey[name] = 1 + max((storey[other] for other in below[name] - cycle), default=0)
    return max(storey.values(), default=0), sum(name in below[name] for name in graph)


def python_files(folder: Path) -> list[Path]:
    """Python files below a folder, without links."""
    return sorted(path for path in folder.rglob("*.py") if path.is_file() and not path.is_symlink())


def is_entry(path: Path) -> bool:
    """True if it is a module or a folder with modules, but not an `__init__.py`."""
    return bool(python_files(path)) if path.is_dir() else path.suffix == ".py" and path.stem != "__init__"


def count(root: Path) -> dict[str, int]:
    """Figures of the repository's folders below `root`; 0 for a missing one."""
    result: dict[str, int] = {}
    for folder in FOLDERS:
        texts = [path.read_text(encoding="utf-8") for path in python_files(root / folder)]
        result[f"files_{folder}"] = len(texts)
        result[f"lines_{folder}"] = sum(len(text.splitlines()) for text in texts)
        result[f"code_{folder}"] = sum(map(code_lines, texts))

    measures = ("files", "lines", "code")
    sums = {measure: sum(result[f"{measure}_{folder}"] for folder in FOLDERS) for measure in measures}

    entries = [path for path in (root / ROOMS).iterdir() if is_entry(path)]
    number_of_floors, in_cycles = floors(imports_of_rooms(root / ROOMS))
    return {
        **sums,
        **result,
        f"{ROOMS}_entries": len(entries),
        f"{ROOMS}_rooms": sum(path.is_dir() for path in entries),
        f"{ROOMS}_floors": number_of_floors,
        f"{ROOMS}_in_cycles": in_cycles,
    }


def unpack(revision: str, folder: Path, repository: Path = ROOT) -> str:
    """Write the Python files of a revision into a folder; returns its commit.

    Raises CalledProcessError if git knows no such revision.
    """

    def git(*words: str) -> bytes:
        command = ["git", "-C", str(repository), *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout

    commit = git("rev-parse", "--short=12", f"{revision}^{{commit}}").decode().strip()
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))) as archive:
        members = [member for member in archive if member.isfile() and member.name.endswith(".py")]
        archive.extractall(folder, members, filter="data")
    return commit


def main() -> None:
    revision = {"revision": "a revision that git knows; else the files here"}
    options = arguments("lines", "lines of the product", needs_data=False, texts=revision)
    with tempfile.TemporaryDirectory() as folder:
        root, counted = ROOT, "the files here"
        if options.revision:
            root, counted = Path(folder), unpack(options.revision, Path(folder))
        result: dict[str, int | str] = {"counted": counted, **count(root)}
    finish("lines", result, options.save)


if __name__ == "__main__":
    main()
