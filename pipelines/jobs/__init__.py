"""Job files to start one's own from, with comments: what `answermill recipe` writes."""

from __future__ import annotations

from pathlib import Path

from pipelines.errors import OUTPUT_EXISTS, JobError
from schemas.atomic_files import write_text

FOLDER = Path(__file__).parent


def copy_to(name: str, folder: Path) -> Path:
    """Copy <name>.toml into a folder; returns where it is. Raises JobError (73) where another file of that name is there."""
    content, target = (FOLDER / f"{name}.toml").read_text(encoding="utf-8"), folder / f"{name}.toml"
    if not write_text(target, content, replace=False) and target.read_bytes() != content.encode():
        raise JobError(f"{target} is there already, and is another; name another --out", OUTPUT_EXISTS)
    return target
