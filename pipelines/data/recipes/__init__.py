"""Job files with comments, to start one's own from; `answermill recipe` writes them."""

from __future__ import annotations

from pathlib import Path

from answermill.files.atomic_files import write_text
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError

FOLDER = Path(__file__).parent


def copy_to(name: str, folder: Path) -> Path:
    """Copy <name>.toml into a folder; returns its path. Raises JobError (73) if a different file has
    that name, or the folder is a file."""
    if folder.exists() and not folder.is_dir():
        raise JobError(f"--out {folder} is a file; give a folder", OUTPUT_EXISTS)
    content, target = (FOLDER / f"{name}.toml").read_text(encoding="utf-8"), folder / f"{name}.toml"
    if not write_text(target, content, replace=False) and target.read_bytes() != content.encode():
        raise JobError(f"{target} exists already, with other content; give another --out", OUTPUT_EXISTS)
    return target
