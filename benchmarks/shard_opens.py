"""Number of times that retrieve opens the shards of an index, and a check that its output does not depend on
the number of shards.

8 shards meet 20,000 questions (`opens`, of which `opens_passages` are of the file of passages alone, and
`seconds`); then 1, 3, 8 and 64 shards of the same passages meet 300
questions, and `mismatches` counts the parts of questions/ and retrieved/ that are not those of one shard.
Pages and questions are made up, the dense encoder is a token one: the work is measured, not the results.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from answermill.indexing.shards.lucene.jvm import Java
from answermill.indexing.shards.shard import Shard
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.steps.chain import run_steps
from testing.harness import arguments, finish, peak_gb, say, seconds, shrink
from testing.smoke_data import small_encoder

PAGES, WORDS = 2_000, 3_000
SHARDS, QUESTIONS = 8, 20_000
COMPARED_SHARDS, COMPARED_QUESTIONS = (1, 3, 8, 64), 300
DEPTH = 10


def write_input(folder: Path) -> None:
    """Pages and questions of the same made-up words, the frequent ones more often."""
    draw = random.Random(0)
    words = [f"w{n:04d}" for n in range(WORDS)]
    weights = [1 / (n + 3) for n in range(WORDS)]
    pages = (
        {"id": f"d{n}", "title": "", "text": " ".join(draw.choices(words, weights, k=60)) + "."}
        for n in range(PAGES)
    )

    questions = (
        {"question_id": f"q{n}", "text": " ".join(draw.choices(words, weights, k=6)) + "?"}
        for n in range(QUESTIONS)
    )
    for name, rows in (("pages", pages), ("questions", questions)):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def job(folder: Path, shards: int, questions: int) -> Job:
    return Job.model_validate(
        {
            "ingest": {"input": [str(folder / "pages.jsonl")], "min_words": 1, "language": ""},
            "index": {"shards": shards, "encoder": str(small_encoder())},
            "retrieve": {
                "questions": str(folder / "questions.jsonl"),
                "depth": DEPTH,
                "max_questions": questions,
            },
        }
    )


@dataclass(frozen=True)
class Openings:
    """Name of a shard → how often it was opened; how often all its bytes were read, to compare checksums; and
    how often an index was loaded from it."""

    opened: Counter[str] = field(default_factory=Counter)
    verified: Counter[str] = field(default_factory=Counter)
    searched: Counter[str] = field(default_factory=Counter)


@contextmanager
def counted() -> Iterator[Openings]:
    """Count in the block what is done to each shard."""
    counts = Openings()
    open_shard, close = Shard.open, Shard.close

    def noted(
        folder: Path,
        java: Java | None = None,
        heap: str = "1g",
        verify: bool = True,
        digest: str | None = None,
        *,
        device: str = "cpu",
    ) -> Shard:
        counts.opened[folder.name] += 1
        counts.verified[folder.name] += verify
        return open_shard(folder, java, heap, verify, digest, device=device)

    def closed(self: Shard) -> None:
        counts.searched[self.folder.name] += not vars(self).keys().isdisjoint({"bm25", "dense"})
        close(self)

    Shard.open, Shard.close = noted, closed  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        Shard.open, Shard.close = open_shard, close  # type: ignore[method-assign]


def retrieve(folder: Path, shards: int, questions: int) -> tuple[set[str], float]:
    """(the names of the parts, which have a digest of their content; seconds of retrieve alone)."""
    run, run_job, taken = folder / f"{shards}-{questions}", job(folder, shards, questions), list[float]()
    list(run_steps(run_job, run, ["ingest", "index"], ()))
    with seconds(taken):
        list(run_steps(run_job, run, ["retrieve"], ()))
    parts = {
        f"{name}/{part.name}" for name in ("questions", "retrieved") for part in (run / name).glob("part-*")
    }
    say(f"{shards} shards, {questions:,} questions: {taken[0]:.1f} s")
    return parts, taken[0]


def measure(folder: Path) -> dict[str, float | int | str]:
    write_input(folder)
    with counted() as counts:
        _, taken = retrieve(folder, SHARDS, QUESTIONS)
    result: dict[str, float | int | str] = {
        "shards": SHARDS,
        "questions": QUESTIONS,
        "opens": counts.opened.total(),
        "opens_passages": counts.opened.total() - counts.searched.total(),
        "opens_most": max(counts.opened.values()),
        "verified": counts.verified.total(),
        "seconds": taken,
        "peak_gb": peak_gb(),
    }

    first, *others = (retrieve(folder, shards, COMPARED_QUESTIONS)[0] for shards in COMPARED_SHARDS)
    return result | {
        "compared": len(first) * len(others),
        "mismatches": sum(len(first ^ other) for other in others),
    }


def main() -> None:
    options = arguments("shard_opens", __doc__ or "", needs_data=False)
    if options.smoke:
        shrink(globals(), PAGES=40, SHARDS=2, QUESTIONS=20, COMPARED_SHARDS=(1, 2), COMPARED_QUESTIONS=5)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder).resolve())
    finish("shard_opens", result, options.save)


if __name__ == "__main__":
    main()
