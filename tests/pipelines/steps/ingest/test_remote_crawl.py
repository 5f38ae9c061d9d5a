"""A crawl that stays where it is: files by lists of paths, and single records by the columnar index, give the
rows of a local copy, with the places of the crawl; and every record that was wanted is read or counted."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from answermill.__main__ import main
from answermill.files import web
from answermill.files.store import put
from answermill.indexing.crawl import records
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, IO, SETTINGS, JobError
from answermill.pipelines.look.verify import sums
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST
from answermill.pipelines.specs.registry import folder_specs
from answermill.pipelines.steps.ingest import wanted_records
from answermill.pipelines.steps.ingest.crawl_files import find_files
from answermill.pipelines.steps.ingest.fetch_plan import foresee
from answermill.pipelines.steps.ingest.ingest import ingest
from answermill.schemas.corpus import Document, Passage, Rejected
from answermill.schemas.record import Record
from testing.crawl_index import write_crawl, write_index
from testing.object_store import ObjectStore
from testing.web_server import Fault, Request, WebServer, serving

RECORDS: dict[str, type[Record]] = {"documents": Document, "passages": Passage, "rejects": Rejected}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample web as a crawl of three files; for reading only."""
    folder = tmp_path_factory.mktemp("written") / "www"
    write_crawl(folder)
    return folder


@pytest.fixture(scope="module")
def local(written: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Rows of a run over the files of the crawl on the disk."""
    folder = tmp_path_factory.mktemp("local")
    ingest(job(folder, input=[str(written / "crawl-data")]), folder / "run")
    return rows(folder / "run")


@pytest.fixture
def crawl(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample web as a crawl of three files; and a cache of this test alone."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(web, "PAUSE_S", 0.01)
    monkeypatch.setattr(web, "TRIES", 3)
    return Path(shutil.copytree(written, tmp_path / "www"))


@pytest.fixture
def server(crawl: Path) -> Iterator[WebServer]:
    with serving(crawl) as server:
        yield server


@pytest.fixture
def rows_of_index(crawl: Path) -> list[dict[str, Any]]:
    return wanted_records.ds.dataset(crawl / "index.parquet").to_table().to_pylist()


def job(folder: Path, index: dict[str, Any] | None = None, **settings: Any) -> Job:
    """A job in `folder`; `index` is its crawl_index."""
    folder.mkdir(exist_ok=True)
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    if index is not None:
        lines += ["[ingest.crawl_index]", *(f"{key} = {json.dumps(value)}" for key, value in index.items())]
    (folder / "job.toml").write_text("[ingest]\n" + "\n".join(lines) + "\n")
    return load(folder / "job.toml")


def query(folder: Path, server: WebServer, **index: Any) -> Job:
    """A job that asks the index of the server's crawl."""
    return job(folder, {"files": [f"{server.url}/index.parquet"], **index}, paths_root=server.url)


def rows(run: Path) -> dict[str, list[Any]]:
    """Documents and passages in their order; of rejects a unit has those first that are none by other pages,
    so by place."""
    read = {name: list(folder_specs()[name].open(run).read()) for name in RECORDS}
    return read | {"rejects": sorted(read["rejects"], key=lambda row: (row.source_file, row.source_offset))}


def counts(run: Path) -> Counter[str]:
    return Counter(dict(INGEST.counts_of(DOCUMENTS.open(run).manifest).flat()))


def moved_to(root: str, local: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The rows, as if the files of the crawl were those below `root`."""

    def moved(row: Any) -> Any:
        return replace(row, source_file=re.sub(r".*crawl-data/", f"{root}/crawl-data/", row.source_file))

    return {name: list(map(moved, each)) for name, each in local.items()}


def check(run: Path) -> Counter[str]:
    """Every record that was wanted is read or counted; returns the counts."""
    count = counts(run)
    assert count["records"] == count["records_read"] + count["records_failed"] > 0
    assert count["pages"] == count["records"], "nothing was read that was not wanted"
    manifest = DOCUMENTS.open(run).manifest
    assert not list(sums._wrong_sums("documents", manifest))
    return count


@pytest.mark.parametrize("where", ["list on the server", "list on the disk"])
def test_the_files_of_a_list_give_the_rows_of_a_local_copy(
    crawl: Path, server: WebServer, tmp_path: Path, local: dict[str, list[Any]], where: str
) -> None:
    path = f"{server.url}/warc.paths.gz" if where == "list on the server" else str(crawl / "warc.paths.gz")
    remote = job(tmp_path / "job", input=[path], paths_root=server.url)
    line = foresee(remote)
    server.forget()
    ingest(remote, tmp_path / "run")
    assert rows(tmp_path / "run") == moved_to(server.url, local)
    bytes_asked = sum(file.stat().st_size for file in (crawl / "crawl-data").iterdir())
    assert line.endswith(
        f"reads 3 files, {bytes_asked:,} bytes; it fetches {bytes_asked:,} bytes in 3 requests"
    )

    asked = [
        request for request in server.requests if request.method == "GET" and "paths" not in request.path
    ]
    assert len(asked) == 3 and server.open_most <= 4
    server.forget()
    assert ingest(remote, tmp_path / "run").endswith("(complete)")
    assert server.count("GET") <= 1, "of a complete run the list is read, and nothing else"


def test_a_part_of_a_list_is_read(crawl: Path, server: WebServer, tmp_path: Path) -> None:
    for span, names in (([0, 1], ["warc-0"]), ([1, 9], ["warc-1", "warc-2"])):
        part = job(
            tmp_path / "job", input=[str(crawl / "*.paths.gz")], paths_root=server.url, paths_range=span
        )
        assert part.ingest is not None
        assert [Path(file.name).name for file in find_files(part, part.ingest).files] == [
            f"{name}.warc.gz" for name in names
        ]


def test_records_of_the_index_give_the_rows_of_a_local_copy(
    server: WebServer,
    tmp_path: Path,
    rows_of_index: list[dict[str, Any]],
    local: dict[str, list[Any]],
) -> None:
    remote = query(tmp_path / "job", server)
    line = foresee(remote)
    server.forget()
    ingest(remote, tmp_path / "run")
    wanted = {
        (f"{server.url}/{row['warc_filename']}", row["warc_record_offset"])
        for row in wanted_of(rows_of_index)
    }
    there = moved_to(server.url, local)

    got = rows(tmp_path / "run")
    for name in ("documents", "passages"):
        assert got[name] == [row for row in there[name] if (row.source_file, row.source_offset) in wanted]
    assert {(row.source_file, row.source_offset) for row in (*got["documents"], *got["rejects"])} == wanted
    assert len(got["documents"]) > 50
    count = check(tmp_path / "run")
    ranges = [
        request
        for request in server.requests
        if request.method == "GET" and request.path.endswith(".warc.gz")
    ]
    asked = sum((request.range or (0, 0))[1] - (request.range or (0, 0))[0] for request in ranges)  # type: ignore[operator]
    assert line.endswith(f"it fetches {asked:,} bytes in {len(ranges)} requests"), (line, asked, len(ranges))

    assert len(ranges) == count["requests"] < 8 and count["record_bytes"] <= asked == count["request_bytes"]
    assert f"{len(wanted)} records of 3 files of the crawl" in line
    again = server.requests.copy()
    assert ingest(remote, tmp_path / "run").endswith("(complete)")
    assert not [request for request in server.requests[len(again) :] if request.method == "GET"], (
        "nothing is read again"
    )


def wanted_of(index: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that the default conditions leave."""
    html = ("text/html", "application/xhtml+xml")
    return [row for row in index if row["fetch_status"] == 200 and row["content_mime_detected"] in html]


def test_each_condition_of_the_query_counts(
    crawl: Path, tmp_path: Path, rows_of_index: list[dict[str, Any]]
) -> None:
    index = [
        {**row, "content_languages": ["eng", "eng,deu", "deu,eng", None][n % 4]}
        for n, row in enumerate(rows_of_index)
    ]
    write_index(crawl / "index.parquet", index)
    days = sorted({str(row["fetch_time"].date()) for row in index})
    domain = index[0]["url_host_registered_domain"]
    conditions: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
        ({"domains": [domain]}, lambda row: row["url_host_registered_domain"] == domain),
        ({"languages": ["eng"]}, lambda row: (row["content_languages"] or "").startswith("eng")),
        ({"mime": []}, lambda row: True),
        ({"mime": ["text/html"]}, lambda row: row["content_mime_detected"] == "text/html"),
        ({"status": [404, 301], "mime": []}, lambda row: row["fetch_status"] in (404, 301)),
        ({"fetched_from": days[-1]}, lambda row: str(row["fetch_time"].date()) >= days[-1]),
        ({"fetched_before": days[-1]}, lambda row: str(row["fetch_time"].date()) < days[-1]),
    ]

    for n, (condition, holds) in enumerate(conditions):
        settings = {"files": [str(crawl / "index.parquet")], **condition}
        wanted = [row for row in index if holds(row)]
        wanted = [row for row in wanted if row["fetch_status"] in condition.get("status", [200])]
        mime = condition.get("mime", ["text/html", "application/xhtml+xml"])
        wanted = [row for row in wanted if not mime or row["content_mime_detected"] in mime]
        asked = job(tmp_path / "job", settings, paths_root=str(crawl))
        table = tmp_path / f"{n}.parquet"
        assert asked.ingest is not None

        try:
            wanted_records.choose(asked, asked.ingest, table, 0)
        except JobError as e:
            assert not wanted and "no record that fulfils it" in str(e)
            continue

        got = wanted_records.pq.read_table(table)["url"].to_pylist()
        assert sorted(got) == sorted(row["url"] for row in wanted) and len(got) > 0, condition


def test_a_sample_of_the_records_is_the_same_every_time(crawl: Path, tmp_path: Path) -> None:
    urls = []
    for n in range(2):
        asked = job(
            tmp_path / "job",
            {"files": [str(crawl / "index.parquet")], "max_records": 7},
            paths_root=str(crawl),
        )
        assert asked.ingest is not None
        wanted_records.choose(asked, asked.ingest, tmp_path / f"{n}.parquet", 0)
        urls.append(wanted_records.pq.read_table(tmp_path / f"{n}.parquet")["url"].to_pylist())
    assert urls[0] == urls[1] and len(urls[0]) == 7


def test_units_of_any_size_and_ranges_of_any_length_give_the_same_rows(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(query(tmp_path / "job", server), tmp_path / "run")
    monkeypatch.setattr(wanted_records, "UNIT_RECORDS", 7)
    monkeypatch.setattr(records, "GAP", -1)
    server.forget()
    ingest(query(tmp_path / "job", server), tmp_path / "small")
    assert rows(tmp_path / "small") == rows(tmp_path / "run")
    assert check(tmp_path / "small")["requests"] > 2 * check(tmp_path / "run")["requests"]


FAULTS: dict[str, Callable[[Request, int], Fault | None]] = {
    "busy": lambda request, n: Fault(status=503) if n < 2 else None,
    "cut": lambda request, n: Fault(cut=1_000) if n < 2 else None,
    "slow": lambda request, n: Fault(wait_s=0.6) if n < 1 else None,
    "gone": lambda request, n: Fault(status=404) if "warc-1" in request.path else None,
    "whole": lambda request, n: Fault(whole=True) if "warc-1" in request.path else None,
}


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_the_server_does_each_record_is_read_or_counted(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(web, "TIMEOUT_S", 0.3)
    server.fault = lambda request, n: FAULTS[name](request, n) if request.path.endswith(".warc.gz") else None
    ingest(query(tmp_path / "job", server), tmp_path / "run")
    count = check(tmp_path / "run")
    lost = [row for row in rows(tmp_path / "run")["rejects"] if row.reason == "not_fetched"]
    assert len(lost) == count["records_failed"]

    if name in ("gone", "whole"):
        assert 10 < len(lost) < count["records"] and {"warc-1" in row.source_file for row in lost} == {True}
        assert all(
            ("HTTP 404" if name == "gone" else "ignores Range") in row.detail and row.url for row in lost
        )
    else:
        assert not lost


def test_a_server_that_stays_busy_ends_the_step_and_the_same_command_goes_on(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wanted_records, "UNIT_RECORDS", 10)
    server.fault = lambda request, n: Fault(status=503) if "warc-1" in request.path else None
    asked = query(tmp_path / "job", server)
    with pytest.raises(JobError, match=r"of ingest failed, .* HTTP 503") as e:
        ingest(asked, tmp_path / "run")
    assert e.value.code == IO
    done = {
        request.range for request in server.requests if "warc-0" in request.path or "warc-2" in request.path
    }

    server.fault = lambda request, n: None
    server.forget()
    ingest(asked, tmp_path / "run")
    again = {
        request.range for request in server.requests if "warc-0" in request.path or "warc-2" in request.path
    }
    assert len(done) > 2 and len(again) <= 2, (
        "only the units that share a file with a failed one are fetched again"
    )

    check(tmp_path / "run")
    ingest(query(tmp_path / "other", server), tmp_path / "at-once")
    assert rows(tmp_path / "run") == rows(tmp_path / "at-once")


def test_the_records_of_units_that_may_fail_are_counted_one_by_one(server: WebServer, tmp_path: Path) -> None:
    server.fault = lambda request, n: Fault(status=503) if "warc-1" in request.path else None
    asked = query(tmp_path / "job", server)
    asked = asked.model_copy(
        update={"workers": asked.workers.model_copy(update={"max_failed_units": 9, "tries": 1})}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wanted_records, "UNIT_RECORDS", 10)
        ingest(asked, tmp_path / "run")
    count = check(tmp_path / "run")
    assert count["records_failed"] == count["rejected.unit_failed"] > 10 and count["failed_units"] > 2


def test_a_unit_that_was_fetched_whole_is_not_fetched_again_and_a_damaged_copy_is(
    crawl: Path, server: WebServer, tmp_path: Path
) -> None:
    asked = query(tmp_path / "job", server)
    assert asked.ingest is not None
    unit = wanted_records.choose(asked, asked.ingest, tmp_path / "records.parquet", 0)[0]
    file = unit.fetch()
    server.forget()
    content = file.read_bytes()
    assert unit.fetch() == file and server.requests == []
    file.write_bytes(content[:-1])
    assert unit.fetch().read_bytes() == content and len(server.requests) == unit.counts().requests
    (file.parent / "fetched.json").unlink()
    server.forget()
    assert unit.fetch().read_bytes() == content and server.requests, "without its listing it is not there"


def test_an_index_that_is_wrong_costs_the_records_it_is_wrong_about(
    crawl: Path, server: WebServer, tmp_path: Path, rows_of_index: list[dict[str, Any]]
) -> None:
    wanted = wanted_of(rows_of_index)
    wrong = {
        1: {"warc_record_offset": wanted[1]["warc_record_offset"] + 5},
        3: {"warc_record_length": wanted[3]["warc_record_length"] - 9},
        5: {"url": "https://elsewhere.example/"},
        7: {"warc_record_length": 30_000_000},
        9: {"warc_record_offset": 10_000_000},
        11: {"warc_record_length": -5},
    }
    write_index(crawl / "index.parquet", [{**row, **wrong.get(n, {})} for n, row in enumerate(wanted)])

    ingest(query(tmp_path / "job", server), tmp_path / "run")
    count = check(tmp_path / "run")
    assert count["records"] == len(wanted)
    reasons = {row.url: row.reason for row in rows(tmp_path / "run")["rejects"]}
    named = {n: reasons.pop(change.get("url", wanted[n]["url"])) for n, change in wrong.items()}
    assert named == {
        1: "broken_record",
        3: "broken_record",
        5: "other_record",
        7: "too_large",
        9: "not_fetched",
        11: "no_record",
    }

    assert set(reasons.values()) <= {"language", "no_content", "too_short", "duplicate"}, (
        "others are what they are"
    )


@pytest.mark.parametrize("what", ["list", "index"])
def test_a_crawl_in_a_store_gives_the_rows_of_a_local_copy(
    crawl: Path, s3: ObjectStore, tmp_path: Path, local: dict[str, list[Any]], what: str
) -> None:
    place = s3.folder(f"commoncrawl-{what}")
    for file in [path for path in crawl.rglob("*") if path.is_file()]:
        (tmp_path / "copy").write_bytes(file.read_bytes())
        put(tmp_path / "copy", place / file.relative_to(crawl))

    if what == "list":
        remote = job(tmp_path / "job", input=[f"{place}/warc.paths.gz"], paths_root=str(place))
    else:
        remote = job(tmp_path / "job", {"files": [f"{place}/*.parquet"]}, paths_root=str(place))

    ingest(remote, tmp_path / "run")
    there = moved_to(str(place), local)
    if what == "list":
        assert rows(tmp_path / "run") == there
    else:
        check(tmp_path / "run")
        got = {(row.source_file, row.source_offset): row for row in rows(tmp_path / "run")["documents"]}
        assert got == {(row.source_file, row.source_offset): row for row in there["documents"]}


def test_where_paths_are_meant_from_by_default(crawl: Path, tmp_path: Path, s3: ObjectStore) -> None:
    local = job(tmp_path / "job", input=[str(crawl / "warc.paths.gz")])
    assert local.ingest is not None
    roots = [
        str(wanted_records.root_of(local, local.ingest, source))
        for source in (crawl / "warc.paths.gz", s3.folder("x.paths.gz"))
    ]
    assert roots == ["https://data.commoncrawl.org/", "s3://commoncrawl"]


def test_a_dry_run_says_what_it_would_fetch_and_writes_nothing(
    server: WebServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query(tmp_path / "job", server)
    server.forget()
    before = sorted((tmp_path / "job").rglob("*"))
    with pytest.raises(SystemExit) as e:
        main(["run", str(tmp_path / "job/job.toml"), "--out", str(tmp_path / "run"), "--dry-run"])
    assert e.value.code == 0
    out = capsys.readouterr().out
    assert re.fullmatch(
        r"dry run    ingest reads 0 files, 0 bytes; \d+ records of 3 files of the crawl, [\d,]+ bytes; "
        r"it fetches [\d,]+ bytes in \d requests\n",
        out,
    ), out

    assert {request.path for request in server.requests} == {"/index.parquet"}
    assert not (tmp_path / "run").exists() and sorted((tmp_path / "job").rglob("*")) == before


def test_what_cannot_be_read_is_refused_in_one_sentence(
    crawl: Path, server: WebServer, tmp_path: Path
) -> None:
    (crawl / "empty.paths").write_text("\n")
    (crawl / "bad.paths.gz").write_bytes(b"\x1f\x8b\x08 no gzip")
    (crawl / "up.paths").write_text("../secret.warc.gz\n")
    (crawl / "lost.paths").write_text("crawl-data/warc-9.warc.gz\n")
    write_index(crawl / "none.parquet", [])
    wanted_records.pq.write_table(wanted_records.pa.table({"url": ["x"]}), crawl / "other.parquet")
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"input": [str(crawl / "empty.paths")]}, BAD_DATA, "no path in it"),
        ({"input": [str(crawl / "bad.paths.gz")]}, BAD_DATA, "not a list of paths"),
        ({"input": [str(crawl / "up.paths")]}, BAD_DATA, "'../secret.warc.gz' is no path below"),
        ({"input": [str(crawl / "lost.paths")]}, INPUT_MISSING, "warc-9.warc.gz: no such file"),
        ({"input": [f"{server.url}/nothing.warc.gz"]}, INPUT_MISSING, "nothing.warc.gz: no such file"),
        (
            {"input": [str(crawl / "warc.paths.gz")], "paths_range": [7, 9]},
            INPUT_MISSING,
            "no path in ingest.paths_range",
        ),
        (
            {"input": [], "index": {"files": [str(crawl / "none.parquet")]}},
            BAD_DATA,
            "no record that fulfils it",
        ),
        (
            {"input": [], "index": {"files": [str(crawl / "other.parquet")]}},
            BAD_DATA,
            "not CommonCrawl's columnar index: it has no column warc_filename, warc_record_length",
        ),
        ({"input": []}, SETTINGS, "ingest.input is missing, and so is crawl_index"),
        ({"input": ["x"], "paths_range": [3]}, SETTINGS, r"paths_range is \[first, end\]"),
        (
            {"input": [], "index": {"files": ["x"], "fetched_from": "2024-13-01"}},
            SETTINGS,
            "month must be in 1..12",
        ),
    ]

    for settings, code, said in cases:
        with pytest.raises(JobError, match=said) as e:
            ingest(job(tmp_path / "job", **{"paths_root": server.url, **settings}), tmp_path / "run")
        assert e.value.code == code and "\n" not in str(e.value), settings
