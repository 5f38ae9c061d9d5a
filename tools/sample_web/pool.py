"""Sheet of pooled sentences that nobody has judged: `python -m tools.sample_web.pool RUN --out SHEET`.

Pooled are, of each question, the sentences among the first DEPTH of a plan of the sample, or of the list that
one of its stages leaves: so a plan that ends early is judged too. RUN is a run of the sample's job in a copy
of the sample; the other plans run here, over what it retrieved. The sheet shows no score and no rank, and has
the sentences of a question in the order of a hash.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from answermill.files.atomic_files import replacing
from answermill.indexing.passages.text import fold
from answermill.pipelines.data.sample import PLANS
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.rerank import SCORED
from answermill.schemas.ranked import ScoredCandidate
from benchmarks.sample import DEPTH, labels, rows_by
from testing.harness import say

COLUMNS = ("question_id", "question", "title", "passage", "sentence")


def pooled(rows: Iterable[ScoredCandidate]) -> Iterator[ScoredCandidate]:
    """Rows of the sentences that a plan, or a stage of it, ranks among its first DEPTH."""
    for row in rows:
        ranks = [row.rank, *(score.rank for score in row.stages)]
        if row.unit == "sentence" and any(rank is not None and rank <= DEPTH for rank in ranks):
            yield row


def unjudged(rows: Iterable[ScoredCandidate]) -> list[ScoredCandidate]:
    """Pooled rows without a label, each text of a question once; by question, then by a hash of both."""
    known = labels()
    missing: dict[tuple[str, str], ScoredCandidate] = {}
    for row in pooled(rows):
        if fold(row.text) not in known[row.question_id]:
            missing.setdefault((row.question_id, fold(row.text)), row)

    def order(key: tuple[str, str]) -> tuple[str, bytes]:
        return key[0], hashlib.sha256("\0".join(key).encode()).digest()

    return [missing[key] for key in sorted(missing, key=order)]


def plan_rows(run: Path, name: str) -> Iterable[ScoredCandidate]:
    """The run's own rows for its plan, the default one; another plan runs."""
    return SCORED.open(run).read() if name == "default" else rows_by(run, name)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.sample_web.pool",
        description="Write the sample's sentences that lack a judgement.",
    )
    parser.add_argument("run", type=Path, help="run of the sample's job, in a copy of the sample")
    parser.add_argument("--out", type=Path, required=True, help="sheet to write, TSV")
    parser.add_argument(
        "--plans", nargs="+", choices=PLANS, default=list(PLANS), help="all of them if absent"
    )
    options = parser.parse_args()

    missing = unjudged(row for name in options.plans for row in plan_rows(options.run, name))
    passages = {passage.passage_id: passage.text for passage in PASSAGES.open(options.run).read()}
    with replacing(options.out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in missing:
            passage = " ".join(passages[row.passage_id].split())
            writer.writerow([row.question_id, row.question, row.title, passage, row.text])
    say(f"{len(missing):,} pooled sentences without a judgement: {options.out}")


if __name__ == "__main__":
    main()
