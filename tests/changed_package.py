"""The package as somebody has it who has added files and changed one: links to our files, but for these."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "answermill"


@dataclass(frozen=True)
class ChangedPackage:
    """A folder in which `import answermill` is the changed package."""

    folder: Path

    @classmethod
    def write(cls, folder: Path, changes: Mapping[str, str]) -> ChangedPackage:
        """Write it; `changes`: the path of a file, as in 'ranking/entry.py' → its text."""
        _link(PACKAGE, folder / PACKAGE.name, {PurePosixPath(name): text for name, text in changes.items()})
        (folder / "docs").symlink_to(ROOT / "docs")
        return cls(folder)

    def answermill(self, *words: object) -> str:
        """The output of a command, stderr last."""
        return self._output("-m", "answermill", *words)

    def prints(self, code: str) -> str:
        """The output of a program."""
        return self._output("-c", code)

    def _output(self, *words: object) -> str:
        command = [sys.executable, *map(str, words)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        return " ".join((done.stdout + done.stderr).split())


def with_lines(file: str, lines: Mapping[str, str]) -> dict[str, str]:
    """File of ours → its text with a line after each of these; each line stands in it once."""
    text = (ROOT / file).read_text(encoding="utf-8")
    for line, new in lines.items():
        assert text.count(f"{line}\n") == 1, line
        text = text.replace(f"{line}\n", f"{line}\n{new}\n")
    return {file: text}


def _link(source: Path, target: Path, changes: Mapping[PurePosixPath, str]) -> None:
    """A folder of links to what is in `source`, and within it of the changed files."""
    target.mkdir(parents=True)
    below: dict[str, dict[PurePosixPath, str]] = {}
    for path, text in changes.items():
        below.setdefault(path.parts[0], {})[PurePosixPath(*path.parts[1:])] = text

    for each in source.iterdir() if source.is_dir() else ():
        if each.name not in below and each.name != "__pycache__":
            (target / each.name).symlink_to(each.resolve())

    for name, inner in below.items():
        if PurePosixPath() in inner:
            (target / name).write_text(inner[PurePosixPath()], encoding="utf-8")
        else:
            _link(source / name, target / name, inner)
