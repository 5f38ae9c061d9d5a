"""Last lines of the sample command: some answers of its run, to be read by people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from answermill.pipelines.specs.rerank import ANSWERS_FILE


def best_answers(run: Path, count: int = 3) -> Iterator[str]:
    """Lines with the answers of the highest scores: question, answer, page; one a page, equal scores in the
    order asked.

    No line if the run has no `answers.jsonl`, which is written by its rerank step.
    """
    if not (run / ANSWERS_FILE).is_file():
        return
    rows = [json.loads(line) for line in (run / ANSWERS_FILE).read_text(encoding="utf-8").splitlines()]
    ranked = sorted((row for row in rows if row["answer"] is not None), key=lambda row: -(row["score"] or 0))
    by_page: dict[str, dict[str, Any]] = {}
    for row in ranked:
        by_page.setdefault(row["doc_id"], row)
    chosen = list(by_page.values())[:count]
    yield f"{len(chosen)} of {len(rows)} answers, those with the highest scores:"
    for row in chosen:
        yield f"\n  {row['question']}\n  {row['answer']}\n    {row['title']}, {row['url']}"
