from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from answermill.indexing.documents.main_text import TextExtractor
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, IO, OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.parquet_folder import read_part
from answermill.pipelines.runs.step import WORK
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.ingest import IngestCounts
from answermill.pipelines.specs.registry import folder_specs
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.ingest import crawl_files, ingest, parse_and_cut
from answermill.pipelines.steps.ingest.crawl_files import find_files
from answermill.pipelines.steps.ingest.repeated import verdicts
from answermill.schemas.corpus import Document, Passage, Rejected
from tests.indexing.crawl.warc_files import http, record

WORDS = "The quick brown fox jumps over the lazy dog while the river runs slowly to the wide grey sea"
RECORDS = {"documents": Document, "passages": Passage, "rejects": Rejected}


def text(n: int) -> str:
    return f"{WORDS} on day {n}. {WORDS} on the day after that. It was night number {n}."


def make_job(folder, files, **settings):
    """A job over JSONL files, given as {name: list of documents}."""
    for name, documents in files.items():
        with gzip.open(folder / name, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(document) + "\n" for document in documents)
    lines = [
        f"{key} = {json.dumps(value)}"
        for key, value in {"input": ["*.jsonl.gz"], "min_words": 5, **settings}.items()
    ]
    (folder / "job.toml").write_text("[ingest]\n" + "\n".join(lines))
    return load(folder / "job.toml")


AUDITED: dict[str, Counter[str]] = {}
"""Name of a folder → how often a folder below it was listed (`crawl/`), or a file opened
(`crawl/a.jsonl`)."""


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    for folder, counts in AUDITED.items():
        if event in ("open", "os.scandir", "os.listdir") and str(arguments[0]).startswith(f"{folder}/crawl"):
            name = str(arguments[0]).removeprefix(f"{folder}/").rstrip("/")
            counts[name if event == "open" else f"{name}/"] += 1


sys.addaudithook(audit)  # which stays as long as the process; a test asks for it by the fixture


@pytest.fixture
def audited(tmp_path):
    """How often each file of tmp_path/crawl is opened, and each of its folders listed, by this process."""
    counts = AUDITED[str(tmp_path)] = Counter()
    yield counts
    del AUDITED[str(tmp_path)]


def rows(run):
    return {name: list(folder_specs()[name].open(run).read()) for name in RECORDS}


DOCUMENTS = {
    "a.jsonl.gz": [{"id": f"a{n}", "text": text(n)} for n in range(30)] + [{"id": "short", "text": "No."}],
    "b.jsonl.gz": [{"id": f"b{n}", "text": text(n).upper()} for n in (3, 50, 4)]
    + [{"id": "a1", "text": text(60)}],
    "c.jsonl.gz": [{"id": "c1", "text": text(50)}, {"id": "c2"}],
}


def killed_after_one(job: Job, run: Path) -> list[int]:
    """Ingest, killed when its second unit is cut into passages; returns the number of the one that is
    done."""
    done, cut_file = list[int](), ingest.cut_file

    def killed(file, *others):
        if done:
            raise KeyboardInterrupt
        done.append(file.number)
        return cut_file(file, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "cut_file", killed)
        with pytest.raises(BaseException):  # noqa: B017  # Beam wraps what a worker raises
            ingest.ingest(job, run)
    return done


def ingest_without_beam(job, run, then=lambda files, step, extractor: None):
    """The step's functions, called one after the other; `then` is called when the duplicates are found."""
    step = ingest.step_of(job, run)
    Commit(step).begin()
    files = find_files(job, job.ingest).files
    buckets, duplicates = defaultdict(list), defaultdict(list)

    with TextExtractor(job.ingest.page_seconds) as extractor:
        for file in files:
            report = parse_and_cut.parse_file(
                file, parse_and_cut.document_rules(job.ingest), extractor, step.work
            )
            for bucket, keys in verdicts.document_keys(report, step.work):
                buckets[bucket].append(keys)
        for bucket, members in buckets.items():
            for unit, rows in verdicts.find_duplicates(bucket, members):
                duplicates[unit].append(rows)
        then(files, step, extractor)

    for file in files:
        parse_and_cut.cut_file(
            file, duplicates[file.number], parse_and_cut.splitter(job.ingest), job.ingest.min_words, step
        )

    Commit(step).finish(Outcome.of(IngestCounts(), step.reports.each()))


def test_beam_gives_what_the_functions_give(tmp_path):
    job = make_job(tmp_path, DOCUMENTS)
    ingest.ingest(job, tmp_path / "beam")
    ingest_without_beam(job, tmp_path / "plain")
    tables = rows(tmp_path / "beam")
    assert tables == rows(tmp_path / "plain")
    assert len(tables["documents"]) == 31


def test_a_run_lists_each_folder_once_and_opens_each_file_once_before_workers_do(
    tmp_path, monkeypatch, audited
):
    (tmp_path / "crawl/more").mkdir(parents=True)
    job = make_job(
        tmp_path,
        {f"crawl/{name}": documents for name, documents in DOCUMENTS.items()},
        input=["crawl", "crawl"],
    )
    (tmp_path / "crawl/more/psgs.tsv").write_text(f"id\ttext\ttitle\np\t{text(70)}\tT\n")
    for name in ("labels.tsv", "a.md5"):
        (tmp_path / "crawl/more" / name).write_text("question_id\tlabel\n")

    audited.clear()
    assert sum(path.is_file() for path in (tmp_path / "crawl").rglob("*")) == 6
    one_listing = Counter(audited)
    assert set(one_listing) == {"crawl/", "crawl/more/"}

    before_workers = []
    begin = ingest.open_engine
    monkeypatch.setattr(
        ingest, "open_engine", lambda *options: before_workers.append(Counter(audited)) or begin(*options)
    )
    audited.clear()
    (line,) = run_steps(job, tmp_path / "run", ["ingest"], ())
    assert line.endswith("are not read: 1 .md5, 1 .tsv")
    assert {name: n for name, n in audited.items() if name.endswith("/")} == one_listing
    assert before_workers == [
        one_listing + Counter([f"crawl/{name}" for name in (*DOCUMENTS, "more/psgs.tsv", "more/labels.tsv")])
    ]


@pytest.mark.parametrize("size", [{"BLOCK_PAGES": 1}, {"BLOCK_PAGES": 7}, {"BLOCK_CHARACTERS": 500}])
def test_the_size_of_blocks_does_not_matter(tmp_path, monkeypatch, size):
    job = make_job(tmp_path, DOCUMENTS, passage_words=10)
    ingest_without_beam(job, tmp_path / "whole")
    for name, value in size.items():
        monkeypatch.setattr(parse_and_cut, name, value)
    ingest_without_beam(job, tmp_path / "blocks")
    assert rows(tmp_path / "blocks") == rows(tmp_path / "whole")


def test_parts_have_bounded_rows_and_whole_documents(tmp_path, monkeypatch):
    job = make_job(tmp_path, DOCUMENTS, passage_words=10)
    ingest_without_beam(job, tmp_path / "whole")
    monkeypatch.setattr(parse_and_cut, "ROWS_OF_PART", 7)
    monkeypatch.setattr(parse_and_cut, "BLOCK_PAGES", 1)
    ingest_without_beam(job, tmp_path / "cut")
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    folders = {name: folder_specs()[name].open(tmp_path / "cut") for name in ("documents", "passages")}
    ids = {
        name: [
            list(dict.fromkeys(row.doc_id for row in read_part(folder.path, part, folder.record)))
            for part in folder.parts
        ]
        for name, folder in folders.items()
    }
    assert ids["documents"] == ids["passages"]

    passages = folders["passages"].parts
    assert [part.unit for part in passages] == sorted(part.unit for part in passages) and len(passages) > 5
    assert sorted(part.file for part in passages) == [part.file for part in passages]
    longest = max(Counter(row.doc_id for row in folders["passages"].read()).values())
    assert max(part.rows for part in passages) < 7 + longest


def test_pages_in_are_documents_and_rejects_out(tmp_path):
    summary = ingest.ingest(make_job(tmp_path, DOCUMENTS), tmp_path / "run")
    tables = rows(tmp_path / "run")
    assert len(tables["documents"]) + len(tables["rejects"]) == sum(map(len, DOCUMENTS.values())) == 37
    assert Counter(r.reason for r in tables["rejects"]) == {
        "duplicate": 3,
        "duplicate_id": 1,
        "missing_text": 1,
        "too_short": 1,
    }

    assert (
        "37 pages = 31 documents + 6 rejects (3 duplicate, 1 duplicate_id, 1 missing_text, 1 too_short)"
        in summary
    )


def test_the_first_of_two_equal_texts_stays_whatever_file_it_is_in(tmp_path):
    ingest.ingest(make_job(tmp_path, DOCUMENTS), tmp_path / "run")
    kept = {d.doc_id for d in rows(tmp_path / "run")["documents"]}
    assert {"a3", "b50"} <= kept
    assert not {"b3", "b4", "c1"} & kept


def test_every_sentence_and_passage_is_an_exact_span_of_its_document(sample_run):
    tables = rows(sample_run)
    texts = {d.doc_id: d.text for d in tables["documents"]}
    count = 0
    for passage in tables["passages"]:
        assert texts[passage.doc_id][passage.start : passage.end] == passage.text
        for sentence in passage.sentences:
            assert texts[passage.doc_id][sentence.start : sentence.end] == sentence.text
            assert sentence.sentence_id == f"{passage.doc_id}@{sentence.start}"
            count += 1
    assert count > 1_000


def test_a_killed_run_goes_on_and_ends_with_the_same_rows(tmp_path, monkeypatch):
    job = make_job(tmp_path, DOCUMENTS)
    ingest.ingest(job, tmp_path / "whole")
    done, cut_file = killed_after_one(job, tmp_path / "killed"), ingest.cut_file
    assert len(list((tmp_path / "killed" / WORK).glob("ingest-*/unit-*.json"))) == 1
    worked = []
    monkeypatch.setattr(
        ingest, "cut_file", lambda file, *others: worked.append(file.number) or cut_file(file, *others)
    )
    ingest.ingest(job, tmp_path / "killed")

    assert sorted(done + worked) == [0, 1, 2]
    assert rows(tmp_path / "killed") == rows(tmp_path / "whole")
    assert not (tmp_path / "killed" / WORK).exists()


def test_a_complete_step_is_skipped(tmp_path):
    job = make_job(tmp_path, DOCUMENTS)
    ingest.ingest(job, tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    assert ingest.ingest(job, tmp_path / "run").endswith("(complete)")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


def test_other_settings_do_not_overwrite_a_complete_step(tmp_path):
    ingest.ingest(make_job(tmp_path, DOCUMENTS), tmp_path / "run")
    with pytest.raises(JobError, match=r"settings passage_words = 100 there, 50 here") as e:
        ingest.ingest(make_job(tmp_path, {}, passage_words=50), tmp_path / "run")
    assert e.value.code == OUTPUT_EXISTS


@pytest.mark.nightly
def test_two_processes_give_what_one_gives(tmp_path):
    job = make_job(tmp_path, DOCUMENTS)
    ingest.ingest(job, tmp_path / "one")
    two = job.model_copy(update={"workers": job.workers.model_copy(update={"processes": 2})})
    two._folder = tmp_path
    ingest.ingest(two, tmp_path / "two")
    assert rows(tmp_path / "two") == rows(tmp_path / "one")


@pytest.mark.parametrize("pattern", ["pages/*/p.jsonl", "pages/**/*.jsonl"])
def test_a_glob_finds_files_in_folders_relative_or_absolute(tmp_path, pattern):
    for name in ("a", "b"):
        (tmp_path / "pages" / name).mkdir(parents=True)
        (tmp_path / "pages" / name / "p.jsonl").write_text("")
    for each in (pattern, str(tmp_path / pattern)):
        job = make_job(tmp_path, {}, input=[each])
        assert [file.path.parent.name for file in find_files(job, job.ingest).files] == ["a", "b"]
    job = make_job(tmp_path, {}, input=[str(tmp_path / "none" / "*.jsonl")])
    with pytest.raises(JobError, match=r"/none/\*\.jsonl' is no file, folder or glob that finds files\n"):
        find_files(job, job.ingest)
    for wrong in ("**x", str(tmp_path / "**x")):  # no pattern before Python 3.13
        job = make_job(tmp_path, {}, input=[wrong])
        with pytest.raises(JobError, match=r"\*\*x' is no file, folder or glob that finds files"):
            find_files(job, job.ingest)


@pytest.mark.parametrize(
    ("source", "says"), [("absent.warc", "is no file, folder or glob"), ("empty", "no .warc, .wet, .jsonl")]
)
def test_missing_input_is_refused(tmp_path, source, says):
    (tmp_path / "empty").mkdir()
    with pytest.raises(JobError, match=says) as e:
        ingest.ingest(make_job(tmp_path, {}, input=[source]), tmp_path / "run")
    assert e.value.code == INPUT_MISSING
    assert not (tmp_path / "run").exists()


def test_a_job_that_keeps_nothing_fails_and_says_why(tmp_path):
    says = r"no document is left of 1 page in 1 file: 1 too_short; the first, in a\.jsonl\.gz: too_short, 1 "
    with pytest.raises(JobError, match=says) as e:
        ingest.ingest(make_job(tmp_path, {"a.jsonl.gz": [{"id": "1", "text": "No."}]}), tmp_path / "run")
    assert e.value.code == BAD_DATA


def test_too_many_rejects_fail_the_job(tmp_path):
    with pytest.raises(
        JobError, match=r"16.2% of the pages were refused, more than ingest.max_reject_share = 10.0%"
    ) as e:
        ingest.ingest(make_job(tmp_path, DOCUMENTS, max_reject_share=0.1), tmp_path / "run")
    assert e.value.code == BAD_DATA


def test_dpr_mode_cuts_blocks_of_exactly_so_many_words(tmp_path):
    ingest.ingest(make_job(tmp_path, DOCUMENTS, passages="dpr", passage_words=20), tmp_path / "run")
    passages = rows(tmp_path / "run")["passages"]
    by_document = defaultdict(list)
    for passage in passages:
        by_document[passage.doc_id].append(len(passage.text.split()))
    assert all(words == 20 for counts in by_document.values() for words in counts[:-1])


def test_the_sample_web_is_refused_where_it_should_be(sample_run):
    rejects = rows(sample_run)["rejects"]
    assert {(r.url.partition(".example/")[2], r.reason) for r in rejects} >= {
        ("de/rhein", "language"),
        ("fr/mont-blanc", "language"),
        ("blank", "no_content"),
        ("links", "no_content"),
        ("thanks", "too_short"),
        ("honey-bees", "duplicate"),
        ("old/tides.php", "http_status"),
        ("slide-rules", "http_status"),
    }
    assert sum(r.reason == "broken_record" for r in rejects) == 1


def test_charsets_come_out_right(sample_run):
    texts = {d.url.rpartition("/")[2]: d.text for d in rows(sample_run)["documents"]}
    assert "€" in texts["boeuf-bourguignon"]
    assert "\ufffd" not in texts["coffee-houses"] + texts["boeuf-bourguignon"]


def test_a_document_is_found_again_at_its_offset(sample_run, tmp_path):
    """The byte offset is that of the record's gzip member, as in a CDX."""
    copy_to(tmp_path)
    raw = (tmp_path / "web.warc.gz").read_bytes()
    document = rows(sample_run)["documents"][7]
    record = zlib.decompressobj(31).decompress(raw[document.source_offset :])
    assert f"WARC-Target-URI: {document.url}".encode() in record
    assert document.source_record.encode() in record


def test_progress_goes_through_the_bytes_of_a_file_twice(tmp_path, monkeypatch):
    reached = []

    class Noted(Meter):
        def reach(self, items):
            super().reach(items)
            reached.append((self, items))

    monkeypatch.setattr(parse_and_cut, "Meter", Noted)
    monkeypatch.setattr(parse_and_cut, "BLOCK_PAGES", 5)
    job = load(copy_to(tmp_path))
    ingest_without_beam(job, tmp_path / "run")
    size = (tmp_path / "web.warc.gz").stat().st_size
    passes = [
        [items for meter, items in reached if meter is one]
        for one in dict.fromkeys(meter for meter, _ in reached)
    ]
    assert len(passes) == 2

    for items in passes:
        assert items == sorted(items) and len(set(items)) > 10
        assert size / 2 < items[-1] <= size


def test_offsets_that_are_not_of_the_file_are_no_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(parse_and_cut.Meter, "reach", lambda meter, items: reached.append((meter, items)))
    reached = []
    ingest_without_beam(make_job(tmp_path, DOCUMENTS), tmp_path / "run")
    assert len({meter for meter, _ in reached}) == 3  # of three files, when they are cut
    assert max(items for _, items in reached) < max(file.stat().st_size for file in tmp_path.glob("*.gz"))


def refuse_first_page(files, step, extractor):
    """A late attempt at the second file, whose first page took too long on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        pages = crawl_files.read_pages

        def with_a_reject(*arguments):
            first, *others = pages(*arguments)
            rejected = Rejected(
                first.source_file, first.source_offset, first.source_record, first.url, "page_too_slow", ""
            )
            return iter([rejected, *others])

        patch.setattr(crawl_files, "read_pages", with_a_reject)
        rules = parse_and_cut.document_rules(ingest.Ingest(input=["x"], min_words=5))
        return parse_and_cut.parse_file(files[1], rules, extractor, step.work)


def test_a_late_attempt_that_refused_a_page_more_moves_no_duplicate(tmp_path):
    """The rows of the duplicates, counted in its documents, would be those of other pages."""
    job, standing = make_job(tmp_path, DOCUMENTS), []
    ingest_without_beam(job, tmp_path / "plain")
    ingest_without_beam(
        job, tmp_path / "late", lambda *arguments: standing.append(refuse_first_page(*arguments))
    )
    assert standing[0].parts["documents"][0].rows == 4
    assert rows(tmp_path / "late") == rows(tmp_path / "plain")


def test_duplicates_of_other_documents_than_the_parsed_ones_are_refused(tmp_path):
    def parsed_anew(files, step, extractor):
        (parse_and_cut.parsed_files(step.work).folder / "unit-00001.json").unlink()
        assert refuse_first_page(files, step, extractor).parts["documents"][0].rows == 3

    with pytest.raises(
        JobError, match=r"b\.jsonl\.gz: its pages were parsed again .* the same command again"
    ) as e:
        ingest_without_beam(make_job(tmp_path, DOCUMENTS), tmp_path / "run", parsed_anew)
    assert e.value.code == IO


@pytest.mark.parametrize("media_types", [None, ["text/html", "text/plain"]])
def test_refused_media_types_are_counted_and_plain_text_is_read_if_it_is_asked_for(tmp_path, media_types):
    pages = [
        ("http://a.org/", "text/html", f"<html><title>A</title><p>{text(1)}".encode()),
        ("http://a.org/b.txt", "text/plain", text(2).encode()),
        ("http://a.org/robots.txt", "text/plain", b"User-agent: *\nDisallow: /\n"),
        ("http://a.org/c.png", "image/png", b"\x89PNG"),
    ]
    (tmp_path / "a.warc").write_bytes(
        b"".join(
            record("response", http(body, content_type=kind), WARC_Target_URI=url)
            for url, kind, body in pages
        )
        + record("conversion", text(3).encode(), "text/plain")
    )
    asked = {} if media_types is None else {"media_types": media_types}
    job = make_job(tmp_path, {}, input=["a.warc"], **asked)
    line = ingest.ingest(job, tmp_path / "run")
    counts = folder_specs()["documents"].open(tmp_path / "run").manifest.counts
    if media_types is None:
        assert "5 pages = 2 documents + 3 rejects (2 media_type, 1 not_html)" in line
        assert counts["media_types"] == {"text/plain": 2, "image/png": 1}
        assert {row.detail for row in folder_specs()["rejects"].open(tmp_path / "run").read()} == {
            "text/plain; ingest.media_types can name it",
            "image/png; ingest.media_types cannot name it",
        }
    else:
        assert "5 pages = 3 documents + 2 rejects (1 not_html, 1 plain_text)" in line
        assert counts["media_types"] == {"image/png": 1}
