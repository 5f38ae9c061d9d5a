"""Ingest of real pages: Beam against a plain loop over the same functions, interleaved; and what becomes of the pages.

MB/s counts decompressed bytes of web pages (text that comes as JSONL is in the time, not in the bytes; `web_mb_per_s` is
without it). `beam_overhead` is Beam's wall time over the plain loop's, less one. `peak_gb` and `peak_gb_4x` are the memory
of the command on the Wikipedia corpus, and on four times as much text.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, finish, say, seconds
from indexing.documents.main_text import Extractor
from pipelines.config.job_file import Job
from pipelines.execution.runner import configure_logging
from pipelines.execution.step import total
from pipelines.steps import ingest
from pipelines.steps.crawl_files import find_files


def plain(job: Job, run: Path) -> Counter[str]:
    """The step without Beam: the same functions, one after the other."""
    settings = job.ingest
    assert settings is not None
    this = ingest.step(job, run)
    this.begin()
    files = find_files(job, settings)
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


def peak_of_command(data: Path, folder: Path, copies: int) -> float:
    """GB of memory at the most that `answermill ingest` takes for so many different copies of the corpus, one file each."""
    folder.mkdir()
    with gzip.open(data / "corpus-wiki/documents.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    for copy in range(copies):
        with gzip.open(folder / f"{copy}.jsonl.gz", "wt", encoding="utf-8", compresslevel=1) as out:
            for document in documents:
                text = f"{document['text']} This is copy number {copy}."
                out.write(json.dumps({"id": f"{copy}:{document['doc_id']}", "title": document["title"], "text": text}) + "\n")
    (folder / "job.toml").write_text('[ingest]\ninput = ["*.jsonl.gz"]\n', encoding="utf-8")
    command = [sys.executable, "-m", "pipelines", "ingest", str(folder / "job.toml"), "--out", str(folder / "run")]
    child = subprocess.Popen(command, stdout=sys.stderr)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with status {status}")
    return used.ru_maxrss / 1e6


def main() -> None:
    given = arguments("ingest", __doc__ or "")
    configure_logging()
    data = given.data.resolve()
    web = [str(data / "warc"), str(data / "web-html" / "*.warc.gz")]
    job = Job.model_validate({"ingest": {"input": [*web, str(data / "corpus-wiki")]}})
    web_job = Job.model_validate({"ingest": {"input": web}})
    taken: dict[str, list[float]] = {"plain": [], "beam": [], "web": []}
    with tempfile.TemporaryDirectory() as folder:
        counts: Counter[str] = Counter()
        plain(web_job, Path(folder) / "warm-up")
        for n in range(given.rounds):
            with seconds(taken["plain"]):
                counts = plain(job, Path(folder) / f"plain-{n}")
            with seconds(taken["beam"]):
                say(ingest.ingest(job, Path(folder) / f"beam-{n}"))
            with seconds(taken["web"]):
                ingest.ingest(web_job, Path(folder) / f"web-{n}")
            say(f"round {n + 1}: " + ", ".join(f"{name} {times[-1]:.1f} s" for name, times in taken.items()))
        peaks = [peak_of_command(data, Path(folder) / f"{copies}x", copies) for copies in (1, 4)]
    wall = statistics.median(taken["beam"])
    result: dict[str, float | int | str] = {
        "mb_per_s": counts["bytes"] / 1e6 / wall,
        "plain_mb_per_s": counts["bytes"] / 1e6 / statistics.median(taken["plain"]),
        "web_mb_per_s": counts["bytes"] / 1e6 / statistics.median(taken["web"]),
        "beam_overhead": statistics.median(b / p for p, b in zip(taken["plain"], taken["beam"], strict=True)) - 1,
        "mb": counts["bytes"] / 1e6,
        "pages": counts["pages"],
        "documents": counts["documents"],
        "rejects": counts["rejects"],
        "passages": counts["passages"],
        "sentences": counts["sentences"],
        "peak_gb": peaks[0],
        "peak_gb_4x": peaks[1],
    }
    result |= {key.replace(".", "_"): n for key, n in sorted(counts.items()) if key.startswith(("rejected.", "skipped."))}
    finish("ingest", result, given.save)


if __name__ == "__main__":
    main()
