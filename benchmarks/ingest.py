"""Ingest of real pages: Beam against a plain loop over the same functions, interleaved; and its results.

MB/s counts decompressed bytes of web pages: reading text from JSONL counts in the time, not in the bytes, and
`web_mb_per_s` is without it; `text_mb_per_s` is that of the JSONL alone, in bytes of its texts, by the plain
loop. `beam_overhead` is Beam's wall time divided by the plain loop's, less one.
`parse_mb_per_s` and `cut_mb_per_s` are of one core by stage; the rest of the time is Beam's, and that of
duplicates and checks.

`over_trafilatura_pipeline`: how many times as fast as a plain script of Trafilatura and spaCy
(`plain_ingest.py`) ingest cuts the same crawl files, both in one process; how good the two extractors are,
`experiments.extraction` says.

`peak_gb` and `peak_gb_4x` are the memory of the command on the Wikipedia corpus, and on four times as much
text; `peak_gb_web` and `peak_gb_long` on the crawl files, and on copies of them until there are --pages
pages.
"""

from __future__ import annotations

import gzip
import json
import statistics
import tempfile
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

from answermill.indexing.documents.main_text import TextExtractor
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.engine.runner import configure_logging
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.specs.ingest import IngestCounts
from answermill.pipelines.steps.ingest import ingest, parse_and_cut
from answermill.pipelines.steps.ingest.crawl_files import find_files
from answermill.pipelines.steps.ingest.repeated import verdicts
from benchmarks.plain_ingest import plain_ingest
from testing.harness import arguments, finish, installed, run_command, say, seconds, shrink

PAGES = 100_000
FOLDERS, CRAWL_FILES = ("warc", "web-html"), "*.warc*"


def ingest_without_beam(job: Job, run: Path) -> IngestCounts:
    """The step's functions, called one after the other; returns the step's counts."""
    settings = job.ingest
    assert settings is not None
    step = ingest.step_of(job, run)
    commit = Commit(step)
    commit.begin()
    files = find_files(job, settings).files
    buckets: dict[tuple[str, int], list[Any]] = defaultdict(list)
    duplicates: dict[int, list[Any]] = defaultdict(list)

    with TextExtractor(settings.page_seconds) as extractor:
        for file in files:
            report = parse_and_cut.parse_file(
                file, parse_and_cut.document_rules(settings), extractor, step.work
            )
            for bucket, keys in verdicts.document_keys(report, step.work):
                buckets[bucket].append(keys)

    for bucket, members in buckets.items():
        for unit, rows in verdicts.find_duplicates(bucket, members):
            duplicates[unit].append(rows)

    splitter = parse_and_cut.splitter(settings)
    for file in files:
        parse_and_cut.cut_file(file, duplicates[file.number], splitter, settings.min_words, step)
    outcome = Outcome.of(IngestCounts(), step.reports.each())
    commit.finish(outcome)

    return outcome.counts


def peak_of_command(data: Path, folder: Path, copies: int, inline: bool) -> float:
    """The peak memory, in GB, of `answermill ingest` over that many different copies of the corpus, one file
    each."""
    folder.mkdir()
    with gzip.open(data / "corpus-wiki/documents.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    for copy in range(copies):
        with gzip.open(folder / f"{copy}.jsonl.gz", "wt", encoding="utf-8", compresslevel=1) as out:
            for document in documents:
                text = f"{document['text']} This is copy number {copy}."
                out.write(
                    json.dumps(
                        {"id": f"{copy}:{document['doc_id']}", "title": document["title"], "text": text}
                    )
                    + "\n"
                )

    (folder / "job.toml").write_text('[ingest]\ninput = ["*.jsonl.gz"]\n', encoding="utf-8")
    return run_command("ingest", folder / "job.toml", "--out", folder / "run", inline=inline)


def peak_of_crawl(files: list[Path], folder: Path, copies: int, inline: bool) -> float:
    """The peak memory, in GB, of `answermill ingest` over that many copies of the crawl files."""
    folder.mkdir()
    for copy in range(copies):
        for file in files:
            (folder / f"{copy:03d}-{file.name}").symlink_to(file)
    (folder / "job.toml").write_text(f'[ingest]\ninput = ["{CRAWL_FILES}"]\n', encoding="utf-8")
    return run_command("ingest", folder / "job.toml", "--out", folder / "run", inline=inline)


def main() -> None:
    options = arguments(
        "ingest",
        __doc__ or "",
        numbers={"pages": f"of the long run; {PAGES:,} if absent: a quarter of an hour"},
    )
    if options.smoke:
        shrink(globals(), PAGES=1, FOLDERS=("web-html",))
    configure_logging()
    data = options.data.resolve()
    files = sorted(file.resolve() for name in FOLDERS for file in (data / name).glob(CRAWL_FILES))
    web = [str(file) for file in files]
    job = Job.model_validate({"ingest": {"input": [*web, str(data / "corpus-wiki")]}})

    web_job = Job.model_validate({"ingest": {"input": web}})
    text_job = Job.model_validate({"ingest": {"input": [str(data / "corpus-wiki")]}})
    with gzip.open(data / "corpus-wiki/documents.jsonl.gz", "rt", encoding="utf-8") as lines:
        text_bytes = sum(len(json.loads(line)["text"].encode()) for line in lines)
    times: dict[str, list[float]] = {"plain": [], "beam": [], "web": [], "text": []}
    _, missing = installed({"trafilatura": lambda: import_module("trafilatura")})
    if not missing:
        times["trafilatura"] = []

    with tempfile.TemporaryDirectory() as folder:
        counts = IngestCounts()
        web_counts = ingest_without_beam(web_job, Path(folder) / "warm-up")
        copies = -(-int(options.pages or PAGES) // web_counts.pages)

        for n in range(options.rounds):
            with seconds(times["plain"]):
                counts = ingest_without_beam(job, Path(folder) / f"plain-{n}")
            with seconds(times["beam"]):
                say(ingest.ingest(job, Path(folder) / f"beam-{n}", ("--runner=DirectRunner",)))
            with seconds(times["web"]):
                ingest.ingest(web_job, Path(folder) / f"web-{n}")
            with seconds(times["text"]):
                ingest_without_beam(text_job, Path(folder) / f"text-{n}")
            if not missing:
                with seconds(times["trafilatura"]):
                    plain_ingest(files, Path(folder) / f"trafilatura-{n}.jsonl")
            say(
                f"round {n + 1}: " + ", ".join(f"{name} {values[-1]:.1f} s" for name, values in times.items())
            )

        peaks = [peak_of_command(data, Path(folder) / f"{n}x", n, options.smoke) for n in (1, 4)]
        peaks += [
            peak_of_crawl(files, Path(folder) / name, n, options.smoke)
            for name, n in (("web", 1), ("long", copies))
        ]

    wall = statistics.median(times["beam"])
    result: dict[str, float | int | str] = {
        "mb_per_s": counts.bytes / 1e6 / wall,
        "plain_mb_per_s": counts.bytes / 1e6 / statistics.median(times["plain"]),
        "web_mb_per_s": counts.bytes / 1e6 / statistics.median(times["web"]),
        "text_mb_per_s": text_bytes / 1e6 / statistics.median(times["text"]),
        "text_mb": text_bytes / 1e6,
        "beam_overhead": statistics.median(b / p for p, b in zip(times["plain"], times["beam"], strict=True))
        - 1,
        "mb": counts.bytes / 1e6,
        "pages": counts.pages,
        "documents": counts.documents,
        "rejects": counts.rejects,
        "passages": counts.passages,
        "sentences": counts.sentences,
        "peak_gb": peaks[0],
        "peak_gb_4x": peaks[1],
        "pages_long": copies * web_counts.pages,
        "peak_gb_web": peaks[2],
        "peak_gb_long": peaks[3],
        "parse_mb_per_s": web_counts.bytes / 1e3 / web_counts.parse_ms,
        "cut_mb_per_s": web_counts.bytes / 1e3 / web_counts.cut_ms,
    }
    if missing:
        result["not_installed"] = ", ".join(missing)
    else:
        ratios = [script / ours for ours, script in zip(times["web"], times["trafilatura"], strict=True)]
        result |= {
            "over_trafilatura_pipeline": statistics.median(ratios),
            "over_trafilatura_pipeline_low": min(ratios),
            "over_trafilatura_pipeline_high": max(ratios),
        }

    result |= {
        key.replace(".", "_"): n
        for key, n in sorted(counts.flat())
        if key.startswith(("rejected.", "skipped."))
    }
    finish("ingest", result, options.save)


if __name__ == "__main__":
    main()
