"""All that ingest finds by bringing keys together is the same whatever carries the work."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from answermill.files.atomic_files import sha256
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.steps.ingest import ingest

MENU = "Read the other reports of our harbour, and see what the tide may bring."
DOMAINS = ("a.example", "b.example", "c.example", "d.example")
FOUND = (
    "duplicate",
    "near_duplicate",
    " domain",
    "paragraphs of boilerplate",
    "documents of the earlier run vanished",
)


def text(seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(
        f"the {draw.choice(['moon', 'tide', 'river'])} of {draw.randrange(99)} rose;" for _ in range(60)
    )


def page(n: int, seed: int, more: str = "") -> dict[str, str]:
    domain = DOMAINS[min(n % 5, 3)]
    return {
        "id": f"p{n}",
        "url": f"https://{domain}/{n}",
        "text": f"{MENU}\n{text(seed)} {more}",
        "language": "en",
    }


PAGES = [page(n, n) for n in range(40)]
PAGES += [page(40, 3), page(41, 7, "Printed on a rainy day."), page(46, 11, "Shared by a friend.")]
EARLIER = [page(n, 100 + n) for n in range(0, 60, 3)]


def job(folder: Path, pages: Sequence[dict[str, str]], processes: int = 1, **settings: object) -> Job:
    """A job over the pages, in three files."""
    folder.mkdir(exist_ok=True)
    for n in range(3):
        (folder / f"{n}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pages[n::3]))
    sections = {
        "ingest": {"input": [str(folder / "*.jsonl")], **settings},
        "workers": {"processes": processes},
    }
    return Job.model_validate(sections)


def written(run: Path) -> dict[str, str]:
    """The SHA-256 of each file of rows, and of each table."""
    return {
        str(file.relative_to(run)): sha256(file)
        for suffix in ("parquet", "tsv")
        for file in run.rglob(f"*.{suffix}")
    }


@pytest.mark.nightly
def test_ingest_is_the_same_by_every_engine(tmp_path: Path) -> None:
    ingest.ingest(job(tmp_path / "old", EARLIER), tmp_path / "earlier")
    since = str(tmp_path / "earlier")
    settings = {
        "near_duplicates": 0.8,
        "boilerplate": 0.5,
        "boilerplate_pages": 3,
        "domains": 3,
        "max_reject_share": 1.0,
    }

    engines: dict[str, tuple[int, Sequence[str]]] = {
        "here": (1, ()),
        "two": (2, ()),
        "beam": (1, ("--runner=DirectRunner",)),
    }
    lines, files = set(), []
    for name, (processes, options) in engines.items():
        new = job(tmp_path / "new", PAGES, processes, since=since, **settings)
        lines.add(ingest.ingest(new, tmp_path / name, options))
        files.append(written(tmp_path / name))

    (line,) = lines
    assert [what for what in FOUND if what not in line] == []
    assert files[0] == files[1] == files[2] and {"domains.tsv", "vanished.tsv"} <= files[0].keys()
