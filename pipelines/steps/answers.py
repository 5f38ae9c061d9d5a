"""answers.jsonl, for people: the best candidate of each question, with its page and its place in the crawl."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.execution.parquet_folder import Folder, Part, read_batches
from schemas.atomic_files import sha256, write_text
from schemas.corpus import Document, Question

ANSWERS = "answers.jsonl"
COLUMNS = (
    *("question_id", "unit", "candidate_id", "passage_id", "doc_id", "url", "title"),
    *("start", "end", "text", "rank", "stages"),
)
"""What is read of scored/."""


def check_answers(run: Path) -> None:
    """Refuse a run that lacks what answers are written from, before any work is done. Raises JobError (66)."""
    Folder.open(run / "questions", Question, "retrieve")
    Folder.open(run / "documents", Document, "ingest")


def write_answers(run: Path, parts: Sequence[Part]) -> Part:
    """Write answers.jsonl from the parts of scored/; returns its lines, bytes and SHA-256.

    One line per question, in the questions' order; `answer` is null if nothing was retrieved, or all of it was dropped.
    """
    best: dict[str, dict[str, Any]] = {}
    for part in parts:
        for batch in read_batches(run / "scored", part, COLUMNS):
            best.update({row["question_id"]: row for row in batch.to_pylist() if row["rank"] == 1})
    pages = places_of(run, {row["doc_id"] for row in best.values()})
    lines = []
    for question in Folder.open(run / "questions", Question, "retrieve").read():
        row = best.get(question.question_id)
        answer: dict[str, Any] = {"question_id": question.question_id, "question": question.text, "answer": None}
        if row is not None:
            answer |= {
                "answer": row["text"],
                "unit": row["unit"],
                "score": row["stages"][-1]["score"] if row["stages"] else None,
            }
            answer |= {key: row[key] for key in ("title", "url", "candidate_id", "passage_id", "doc_id", "start", "end")}
            answer |= pages.get(row["doc_id"], {})
        lines.append(json.dumps(answer, ensure_ascii=False) + "\n")
    write_text(run / ANSWERS, "".join(lines))
    return Part(ANSWERS, len(lines), (run / ANSWERS).stat().st_size, sha256(run / ANSWERS))


def places_of(run: Path, doc_ids: set[str]) -> dict[str, dict[str, Any]]:
    """doc_id → file, offset and record of the crawl, for these documents; no text is read."""
    folder = Folder.open(run / "documents", Document, "ingest")
    columns = ["source_file", "source_offset", "source_record"]
    places = {}
    for part in folder.parts:
        for batch in read_batches(folder.path, part, ["doc_id", *columns], rows=8_192):
            ids = batch.column("doc_id").to_pylist()
            rows = [row for row, doc_id in enumerate(ids) if doc_id in doc_ids]
            places.update({ids[row]: {name: batch.column(name)[row].as_py() for name in columns} for row in rows})
    return places
