"""Records of a crawl by its columnar index, over HTTP, from a server that is busy or slow, breaks off, or has
lost files.

The pages of web-html are in eight WARC files on a server of this machine; a job wants half of them, chosen by
hash. Each fault is one run with an empty cache; `records_*` add up over all. `mismatches` counts documents
that are not those of a run over the local files (same id, text and place), and runs whose records do not add
up. One more run is killed at random moments.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from answermill.files import web
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST, REJECTS, IngestCounts
from benchmarks.storage import temporary_files
from testing.crawl_index import write_crawl
from testing.harness import arguments, finish, run_command, say, shrink
from testing.web_server import Fault, Request, WebServer, serving

FILES, KILLS, SEED = 8, 10, 11
PAGE_S = 1.0
"""Seconds that the server waits before each page of the run that is killed."""
WANTED = 266
"""Records, about half."""
JOB = """[ingest]
paths_root = "{url}"
language = ""
min_words = 0
require_title = false

[ingest.crawl_index]
files = ["{url}/index.parquet"]
max_records = {wanted}
"""


def on_pages(fault: Callable[[Request, int], Fault | None]) -> Callable[[Request, int], Fault | None]:
    """The fault, limited to requests for WARC files."""
    return lambda request, n: fault(request, n) if request.path.endswith(".warc.gz") else None


def refusing_twice() -> Callable[[Request, int], Fault | None]:
    """503 for each range's first two requests, in any order of the threads' requests."""
    requests: Counter[Request] = Counter()

    def fault(request: Request, _n: int) -> Fault | None:
        requests[request] += 1
        return Fault(status=503) if requests[request] <= 2 else None

    return fault


FAULTS: dict[str, Callable[[Request, int], Fault | None]] = {
    "none": lambda request, n: None,
    "busy": refusing_twice(),
    "overloaded": lambda request, n: Fault(status=429, headers={"Retry-After": "1"}) if n < 2 else None,
    "broken": lambda request, n: Fault(status=500) if n % 4 == 1 else None,
    "cut": lambda request, n: Fault(cut=20_000) if n % 2 == 0 else None,
    "slow": lambda request, n: Fault(wait_s=3.0) if n == 1 else None,
    "changed": lambda request, n: (
        Fault(cut=20_000, tag='"2"') if n == 0 and "warc-6" in request.path else None
    ),
    "gone": lambda request, n: Fault(status=404) if "warc-3" in request.path else None,
    "whole": lambda request, n: Fault(whole=True) if "warc-5" in request.path else None,
    "short": lambda request, n: Fault(status=416) if "warc-2" in request.path else None,
}


def main() -> None:
    options = arguments("crawl_fetch", __doc__ or "")
    if options.smoke:
        shrink(globals(), WANTED=5, KILLS=0, FAULTS={name: FAULTS[name] for name in ("none", "cut", "gone")})
    web.PAUSE_S, web.TIMEOUT_S = 0.2, 1.5
    sums: Counter[str] = Counter()
    seconds: dict[str, float] = {}

    with tempfile.TemporaryDirectory() as name, temporary_files(Path(name) / "temporary"):
        folder = Path(name)
        write_crawl(folder / "www", FILES, sorted((options.data / "web-html").glob("*.warc.gz")))
        local = documents(ingest_local(folder, options.smoke), "crawl-data")

        with serving(folder / "www") as server:
            (folder / "job.toml").write_text(JOB.format(url=server.url, wanted=WANTED))
            for fault in FAULTS:
                server.forget()
                server.fault = on_pages(FAULTS[fault])
                began = time.monotonic()
                run = run_of(folder, fault)
                seconds[fault] = time.monotonic() - began
                sums += measured(run, server, local)
                say(
                    f"{fault}: {seconds[fault]:.1f} s, {server.count('GET')} requests, "
                    f"{counts_of(run).to_json()}"
                )

            if KILLS:
                sums += killed(folder, server, local)

    clean = seconds["none"]
    result = {
        "faults": len(FAULTS) - 1,
        "records_wanted": sums["records"],
        "records_read": sums["records_read"],
        "records_failed": sums["records_failed"],
        "mismatches": sums["mismatches"],
        "requests": sums["requests"],
        "requests_repeated": sums["repeated"],
        "bytes_over_wanted": sums["sent"] / sums["record_bytes"],
        "open_requests_most": sums["open_most_none"],
        "kills": sums["kills"],
        "killed_bytes_over_wanted": sums["killed_sent"] / max(1, sums["killed_wanted"]),
        "seconds_no_fault": clean,
        "seconds_most": max(seconds.values()),
    }
    finish("crawl_fetch", result, options.save)


def ingest_local(folder: Path, inline: bool) -> Path:
    """A run over the crawl's files as they lie on the disk."""
    text = JOB.partition("\n[ingest.")[0].replace('paths_root = "{url}"', 'input = ["www/crawl-data"]')
    (folder / "local.toml").write_text(text)
    run_command("ingest", str(folder / "local.toml"), "--out", str(folder / "local"), inline=inline)
    return folder / "local"


def run_of(folder: Path, fault: str) -> Path:
    """A run of the job in this process, whose patience is short, with an empty cache."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        before, tempfile.tempdir = tempfile.tempdir, cache
        try:
            run_command("ingest", str(folder / "job.toml"), "--out", str(folder / fault), inline=True)
        finally:
            tempfile.tempdir = before
    return folder / fault


def documents(run: Path, below: str) -> dict[tuple[str, int], tuple[str, str]]:
    """(file below the crawl, offset) → (id, text) of each document."""
    read = DOCUMENTS.open(run).read()
    return {(row.source_file.partition(below)[2], row.source_offset): (row.doc_id, row.text) for row in read}


def counts_of(run: Path) -> IngestCounts:
    return INGEST.counts_of(DOCUMENTS.manifest(run))


def mismatches(run: Path, local: dict[tuple[str, int], tuple[str, str]]) -> int:
    """Documents with another id or text than the local file's, and wrong sums. A page that is a duplicate of
    an earlier one in the local run may be none where the earlier one was not wanted."""
    counts, rows = counts_of(run), documents(run, "crawl-data")
    rejects = sum(1 for _ in REJECTS.open(run).read())
    adds_up = counts.records == counts.records_read + counts.records_failed == len(rows) + rejects == WANTED
    others = [place for place, row in rows.items() if place in local and local[place] != row]
    texts = {text for _, text in local.values()}
    return (
        len(others)
        + sum(place not in local and row[1] not in texts for place, row in rows.items())
        + (not adds_up)
    )


def measured(run: Path, server: WebServer, local: dict[tuple[str, int], tuple[str, str]]) -> Counter[str]:
    counts = counts_of(run)
    page_requests = [request for request in server.requests if request.path.endswith(".warc.gz")]
    sums = Counter(
        {
            name: getattr(counts, name)
            for name in ("records", "records_read", "records_failed", "record_bytes")
        }
    )
    sums["mismatches"] = mismatches(run, local)

    sums["requests"], sums["repeated"], sums["sent"] = (
        len(page_requests),
        len(page_requests) - counts.requests,
        server.sent_pages,
    )
    if run.name == "none":
        sums["open_most_none"] = server.open_most

    return sums


def killed(folder: Path, server: WebServer, local: dict[tuple[str, int], tuple[str, str]]) -> Counter[str]:
    """Figures of a run that is killed KILLS times and then runs to its end. The server waits before each
    page, so that the run lasts long enough on a fast machine; `kills` counts runs that had not ended by
    themselves."""
    server.forget()
    server.fault = on_pages(lambda request, n: Fault(wait_s=PAGE_S))
    moments = random.Random(SEED)
    command: tuple[Any, ...] = ("ingest", str(folder / "job.toml"), "--out", str(folder / "killed"))
    sums: Counter[str] = Counter()

    for _ in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, "-m", "answermill", *command], stdout=sys.stderr, env=dict(os.environ)
        )
        time.sleep(moments.uniform(1, 10))
        child.kill()
        sums["kills"] += child.wait() == -signal.SIGKILL

    server.fault = on_pages(FAULTS["none"])
    run_command(*command)
    sums["mismatches"] = mismatches(folder / "killed", local)
    sums["killed_sent"], sums["killed_wanted"] = server.sent_pages, counts_of(folder / "killed").record_bytes
    return sums


if __name__ == "__main__":
    main()
