"""A small web of our own writing, with questions and labels: what `answermill` can be tried on without a crawl.

`build.py` makes it from `pages/`, `templates/`, `sites.toml` and `questions.toml`.
"""

from __future__ import annotations

from pathlib import Path

FILES = ("web.warc.gz", "questions.jsonl", "labels.tsv", "job.toml")


def copy_to(folder: Path) -> Path:
    """Copy the sample into a folder, which is made if it is not there; returns the job file's path.

    A file that is there with the same content stays as it is; one with another content is overwritten but for the job
    file, which people edit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        content, target = Path(__file__).with_name(name).read_bytes(), folder / name
        kept = target.is_file() and (name == "job.toml" or target.read_bytes() == content)
        if not kept:
            target.write_bytes(content)
    return folder / "job.toml"
