"""An index that takes over shards of the crawl before (`index.since`) beside one from nothing: time, and the
rows that are found.

Two crawls of Wikipedia pages in different orders, of which a hundredth of the pages is gone and as many are
new. `cost_share` is the time of ingest and index of the delta over that of the run from nothing,
`index_cost_share` that of index alone, `delta_..._s` and `full_..._s` the seconds; medians of the rounds.
`taken_over` passages are in shards of the first crawl, beside `tombstones` that no search finds. `mismatches`
are rows of retrieved/ that differ; `control_mismatches` those that differ once BM25 counts the words of the
tombstones too, so that the comparison is seen to fail.
"""

from __future__ import annotations

import gzip
import json
import random
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

from answermill.files.atomic_files import link_or_copy
from answermill.indexing.shards.dense import DEFAULT
from answermill.indexing.shards.lucene.statistics import ShardSize
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.chain import run_steps
from testing.harness import arguments, finish, say, shrink
from testing.smoke_data import small_encoder

TAKES = "ten minutes; with a static encoder and --pages 4000 five"
PAGES, QUESTIONS, SHARD_COUNT, DEPTH, FILES = 1_400, 200, 4, 50, 8
CHANGED = 0.01
"""Share of the pages that are gone, and of those that are new."""
Page = dict[str, Any]


def write_crawls(data: Path, folder: Path) -> None:
    """The files of both crawls, and questions for them by the titles of pages."""
    changed = max(1, round(CHANGED * PAGES))
    with gzip.open(data / "corpus-wiki" / "documents.jsonl.gz", "rt", encoding="utf-8") as file:
        pages = [json.loads(line) for line in islice(file, PAGES + changed)]
    pages = [{"id": page["doc_id"], "title": page["title"], "text": page["text"]} for page in pages]

    # The pages of one crawl are spread over the files of the next as if they had never met.
    draw = random.Random(0)
    write_pages(folder / "first", draw.sample(pages[:-changed], len(pages) - changed))
    write_pages(folder / "second", draw.sample(pages[changed:], len(pages) - changed))
    with (folder / "questions.jsonl").open("w", encoding="utf-8") as file:
        for n, page in enumerate(islice(pages[::-1], QUESTIONS)):
            text = f"What is known of {page['title']}, and who wrote about it?"
            file.write(json.dumps({"question_id": f"q{n}", "text": text}) + "\n")


def write_pages(folder: Path, pages: Sequence[Page]) -> None:
    folder.mkdir()
    for n in range(FILES):
        lines = "".join(json.dumps(page) + "\n" for page in pages[n::FILES])
        (folder / f"{n}.jsonl").write_text(lines, encoding="utf-8")


def job(folder: Path, crawl: str, encoder: str, since: Path | None = None) -> Job:
    return Job.model_validate(
        {
            "ingest": {"input": [str(folder / crawl / "*.jsonl")], "language": ""},
            "index": {
                "shards": SHARD_COUNT,
                "encoder": encoder,
                "since": str(since) if since is not None else None,
            },
            "retrieve": {"questions": str(folder / "questions.jsonl"), "depth": DEPTH},
        }
    )


def timed(run_job: Job, run: Path) -> dict[str, float]:
    """Step → its seconds."""
    taken = dict[str, float]()

    def ended(step: str, seconds: float, _: bool) -> None:
        taken[step] = seconds

    list(run_steps(run_job, run, ["ingest", "index"], (), ended=ended))
    say(f"{run.name}: {', '.join(f'{step} {time:.1f} s' for step, time in taken.items())}")
    return taken


def mismatches(run: Path, other: Path) -> int:
    """Rows of retrieved/ that are not the same in both runs."""
    rows = (RETRIEVED.open(each).read() for each in (run, other))
    return sum(row != other_row for row, other_row in zip_longest(*rows))


def measure(data: Path, folder: Path, encoder: str, rounds: int) -> dict[str, float | int | str]:
    write_crawls(data, folder)
    former = folder / "run-first"
    timed(job(folder, "first", encoder), former)
    full, delta = job(folder, "second", encoder), job(folder, "second", encoder, former)

    times: dict[str, list[float]] = defaultdict(list)
    for n in range(rounds):
        for name, run_job in (("full", full), ("delta", delta)):
            for step, time in timed(run_job, folder / f"{name}-{n}").items():
                times[f"{name}_{step}_s"].append(time)

    # The same shards once more, whose tombstones' words count.
    control = folder / "control"
    for path in (folder / "delta-0").rglob("*"):
        if path.is_file() and path.relative_to(folder / "delta-0").parts[0] in ("passages", "shards"):
            link_or_copy(path, control / path.relative_to(folder / "delta-0"))
    for name, run_job in (("full-0", full), ("delta-0", delta)):
        list(run_steps(run_job, folder / name, ["retrieve"], ()))
    with patch.object(ShardSize, "__sub__", lambda size, _: size):
        list(run_steps(delta, control, ["retrieve"], ()))

    counts = INDEX.counts_of(SHARDS.open(folder / "delta-0").manifest)
    medians = {name: statistics.median(values) for name, values in times.items()}
    cost = {name: medians[f"{name}_ingest_s"] + medians[f"{name}_index_s"] for name in ("full", "delta")}
    return {
        "encoder": Path(encoder).name,
        "pages": PAGES,
        "passages": counts.passages,
        "questions": QUESTIONS,
        "taken_over": counts.taken_over,
        "tombstones": counts.tombstones,
        **medians,
        "cost_share": cost["delta"] / cost["full"],
        "index_cost_share": medians["delta_index_s"] / medians["full_index_s"],
        "compared": RETRIEVED.open(folder / "full-0").rows,
        "mismatches": mismatches(folder / "full-0", folder / "delta-0"),
        "control_mismatches": mismatches(folder / "full-0", control),
    }


def main() -> None:
    options = arguments(
        "delta",
        __doc__ or "",
        numbers={"pages": f"of a crawl; {PAGES:,} if absent"},
        texts={"encoder": f"{DEFAULT} if absent; or the folder of another, such as a static one"},
    )
    encoder = options.encoder or DEFAULT
    if options.smoke:
        encoder = str(small_encoder())
        shrink(globals(), PAGES=40, QUESTIONS=5, SHARD_COUNT=2, DEPTH=5, FILES=2)
    elif options.pages:
        shrink(globals(), PAGES=round(options.pages))
    with tempfile.TemporaryDirectory() as folder:
        result = measure(options.data.resolve(), Path(folder).resolve(), encoder, options.rounds)
    finish("delta", result, options.save)


if __name__ == "__main__":
    main()
