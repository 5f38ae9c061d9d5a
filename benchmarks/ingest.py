"""Ingest of real pages: Beam against a plain loop over the same functions, interleaved; and what becomes of the pages.

MB/s counts decompressed page bytes. `beam_overhead` is Beam's wall time over the plain loop's, less one.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, finish, peak_gb, say, seconds
from indexing.extract import Extractor
from pipelines import ingest
from pipelines.job import Job
from pipelines.runner import configure_logging
from pipelines.step import total


def plain(job: Job, run: Path) -> Counter[str]:
    """The step without Beam: the same functions, one after the other."""
    settings = job.ingest
    assert settings is not None
    this = ingest.step(job, run)
    this.begin()
    files = ingest.find_files(job, settings)
    buckets: dict[tuple[str, int], list[Any]] = defaultdict(list)
    losers: dict[int, list[Any]] = defaultdict(list)
    with Extractor(settings.page_seconds) as extractor:
        for file in files:
            report = ingest.parse_file(file, ingest.rules(settings), extractor, this.work)
            for bucket, member in ingest.document_keys(report, this.work):
                buckets[bucket].append(member)
    for bucket, members in buckets.items():
        for unit, lost in ingest.find_duplicates(bucket, members):
            losers[unit].append(lost)
    splitter = ingest.splitter(settings)
    for file in files:
        ingest.cut_file(file, losers[file.number], splitter, this)
    counts = total(this.reports.read().values())
    this.finish(this.reports.read().values(), counts)
    return counts


def main() -> None:
    given = arguments("ingest", __doc__ or "")
    configure_logging()
    data = given.data.resolve()
    inputs = [str(data / "warc"), str(data / "web-html" / "*.warc.gz"), str(data / "corpus-wiki")]
    job = Job.model_validate({"ingest": {"input": inputs}})
    taken: dict[str, list[float]] = {"plain": [], "beam": []}
    with tempfile.TemporaryDirectory() as folder:
        counts: Counter[str] = Counter()
        for n in range(given.rounds):
            with seconds(taken["plain"]):
                counts = plain(job, Path(folder) / f"plain-{n}")
            with seconds(taken["beam"]):
                say(ingest.ingest(job, Path(folder) / f"beam-{n}"))
            say(f"round {n + 1}: plain {taken['plain'][-1]:.1f} s, Beam {taken['beam'][-1]:.1f} s")
    wall = statistics.median(taken["beam"])
    result: dict[str, float | int | str] = {
        "mb_per_s": counts["bytes"] / 1e6 / wall,
        "plain_mb_per_s": counts["bytes"] / 1e6 / statistics.median(taken["plain"]),
        "beam_overhead": statistics.median(b / p for p, b in zip(taken["plain"], taken["beam"], strict=True)) - 1,
        "mb": counts["bytes"] / 1e6,
        "pages": counts["pages"],
        "documents": counts["documents"],
        "rejects": counts["rejects"],
        "passages": counts["passages"],
        "sentences": counts["sentences"],
        "peak_gb": peak_gb(),
    }
    result |= {key.replace(".", "_"): n for key, n in sorted(counts.items()) if key.startswith(("rejected.", "skipped."))}
    finish("ingest", result, given.save)


if __name__ == "__main__":
    main()
