"""A job that takes seconds where libraries are loaded: pages of made-up facts, questions and labels; all
steps, no models."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
SUBJECTS = (
    "glacier",
    "river",
    "senate",
    "violin",
    "comet",
    "vaccine",
    "harbour",
    "orchard",
    "lantern",
    "canal",
)
PLACES = ("Norway", "Kenya", "Peru", "Wales", "Japan", "Chile")
PAGES = 30
JOB = """
[ingest]
input = [{input}]
min_words = 10
language = ""
passage_words = 30
[index]
shards = {shards}
encoder = {encoder}
[retrieve]
questions = "questions.jsonl"
depth = 6
block = {block}
[[rerank.stages]]
reranker = "overlap"
keep = 8
[[rerank.stages]]
reranker = "similarity"
[annotate]
controls = "labels.tsv"
[propagate]
labels = "labels.tsv"
same_text = true
windows = "all"
[workers]
processes = {processes}
"""
PLACE_COLUMNS = ("source_file", "source_offset", "source_record")
"""Columns with the source of a row, which differ if pages are in other files."""
FOLDERS = ("documents", "passages", "rejects", "questions", "retrieved", "scored", "answers", "tasks")
LABELS = ("sentences", "passages", "documents", "windows", "conflicts", "rejects")


def pages() -> list[dict[str, Any]]:
    """Pages with ids, each of some paragraphs; every seventh is too short, and refused."""
    rows = []
    for n in range(PAGES):
        subject, place = SUBJECTS[n % 10], PLACES[n % 6]
        sentences = [
            f"The {subject} of {place} is {n + 1} metres long. ",
            f"People in {place} have looked after the {subject} since {1800 + n}. ",
            f"A {SUBJECTS[(n + 3) % 10]} that is older stands near the {subject} of {place}. ",
            f"In the year {1900 + n} the {subject} was measured again by {n + 2} people.\n",
        ]
        text = "".join(sentences) * (1 + n % 3) if n % 7 else "Nothing to see."
        rows.append(
            {
                "id": f"d{n:02d}",
                "url": f"https://{subject}.example/{n}",
                "title": f"The {subject}",
                "text": text,
            }
        )

    return rows


def questions() -> list[dict[str, str]]:
    texts = [f"How long is the {subject} of {PLACES[n % 6]}?" for n, subject in enumerate(SUBJECTS)]
    return [{"question_id": f"q{n}", "text": text} for n, text in enumerate(texts)]


def labels() -> list[str]:
    """Lines of labels.tsv: labels of sentences by their texts, one of which is on no page."""
    lines = [f"q{n}\tThe {SUBJECTS[n]} of {PLACES[n % 6]} is {n + 1} metres long.\t1" for n in range(1, 7)]
    lines += [
        f"q{n}\tIn the year {1900 + n} the {SUBJECTS[n]} was measured again by {n + 2} people.\t0"
        for n in range(1, 7)
    ]
    return [*lines, "q9\tNobody wrote this sentence.\t1"]


def write(folder: Path, encoder: str, dice: random.Random | None = None, processes: int = 1) -> Path:
    """Write the job into the folder; returns the job file's path. `dice` draws the order of everything, the
    number of files, and the sizes of shards and blocks."""
    folder.mkdir(parents=True, exist_ok=True)

    def shuffled(rows: Sequence[T]) -> list[T]:
        return dice.sample(rows, len(rows)) if dice else list(rows)

    files = dice.randint(1, 5) if dice else 3
    contents = dict[str, list[str]]({f"pages-{n}.jsonl": [] for n in range(files)})
    for n, page in enumerate(shuffled(pages())):
        contents[f"pages-{n % files}.jsonl"].append(json.dumps(page))
    contents["questions.jsonl"] = [json.dumps(row) for row in shuffled(questions())]
    contents["labels.tsv"] = ["question_id\tsentence\tlabel", *shuffled(labels())]
    for name, lines in contents.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = ", ".join(
        f'"{name}"' for name in shuffled([name for name in contents if name.startswith("pages")])
    )

    shards, block = (dice.randint(1, 5), dice.randint(1, 12)) if dice else (2, 4)
    values = {
        "input": names,
        "encoder": json.dumps(encoder),
        "shards": shards,
        "block": block,
        "processes": processes,
    }
    (folder / "job.toml").write_text(JOB.format(**values), encoding="utf-8")

    return folder / "job.toml"


def digests(run: Path) -> dict[str, str]:
    """Folder → digest of its rows, sorted, without PLACE_COLUMNS."""
    names = (*FOLDERS, *(f"labels/{name}" for name in LABELS))
    return {name: hashlib.sha256("\n".join(sorted(_rows(run / name))).encode()).hexdigest() for name in names}


def _rows(folder: Path) -> Iterator[str]:
    import pyarrow.parquet as pq

    for part in folder.glob("part-*.parquet"):
        for row in pq.read_table(part).to_pylist():
            yield json.dumps(_without_place(row), sort_keys=True)


def _without_place(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_place(value) if isinstance(value, Mapping) else value
        for name, value in row.items()
        if name not in PLACE_COLUMNS
    }
