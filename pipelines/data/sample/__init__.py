"""A small web of our own writing, with questions and labels, on which `answermill` can be tried without a
crawl.

`build.py` makes it from `pages/`, `templates/`, `sites.toml` and `questions.toml`.
"""

from __future__ import annotations

from pathlib import Path

from answermill.files.atomic_files import replacing
from answermill.pipelines.specs.shipped_plans import PLANS as PLANS

FILES = (
    "web.warc.gz",
    "questions.jsonl",
    "labels.tsv",
    *PLANS.values(),
    *(f"weights/{file.name}" for file in sorted(Path(__file__).parent.glob("weights/*.json"))),
)


def copy_to(folder: Path) -> Path:
    """Copy the sample into a folder, which is created if it does not exist; returns the job file's path.

    A file that is there already stays as it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if not (folder / name).exists():
            (folder / name).parent.mkdir(exist_ok=True)
            with replacing(folder / name) as temporary:
                temporary.write_bytes(_shipped(name))
    return folder / "job.toml"


def edited(folder: Path) -> list[Path]:
    """The files of a copy that differ from the sample's."""
    return [folder / name for name in FILES if (folder / name).read_bytes() != _shipped(name)]


def _shipped(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()
