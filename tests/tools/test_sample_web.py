"""The sample web in `pipelines/data/sample`: what is committed is what its sources give, and it is what its
README says."""

import io
import json
import shutil
import tomllib
import zlib
from collections import Counter
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator

from tools.sample_web.build import KINDS, SAMPLE, SOURCES, build
from tools.sample_web.source import Page, read_pages, text_of

MEMBER = b"\x1f\x8b\x08" + bytes(5)  # how each gzip member starts: no flags, no time


def records(archive: Path) -> list[bytes | None]:
    """The decompressed records of an archive; None for one that does not inflate."""
    contents: list[bytes | None] = []
    for rest in archive.read_bytes().split(MEMBER)[1:]:
        try:
            contents.append(zlib.decompress(MEMBER + rest, wbits=31))
        except zlib.error:
            contents.append(None)
    return contents


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return read_pages(SOURCES / "pages")


@pytest.fixture(scope="module")
def responses() -> dict[str, tuple[str, bytes]]:
    """Content type and body by URL, of all responses that can be read."""
    responses_read = {}
    for raw in records(SAMPLE / "web.warc.gz"):
        for record in ArchiveIterator(io.BytesIO(raw or b"")):
            if record.headers["WARC-Type"] == "response":
                responses_read[record.headers["WARC-Target-URI"]] = (
                    record.http_headers["Content-Type"],
                    record.reader.read(),
                )
    return responses_read


def test_the_committed_files_are_what_the_sources_give(tmp_path: Path) -> None:
    build(tmp_path)
    assert records(tmp_path / "web.warc.gz") == records(SAMPLE / "web.warc.gz")
    for name in ("questions.jsonl", "labels.tsv"):
        assert (tmp_path / name).read_bytes() == (SAMPLE / name).read_bytes()


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    for out in ("first", "second"):
        build(tmp_path / out)
    assert (tmp_path / "first/web.warc.gz").read_bytes() == (tmp_path / "second/web.warc.gz").read_bytes()


def test_every_record_but_the_damaged_one_is_read_by_fastwarc() -> None:
    archived = records(SAMPLE / "web.warc.gz")
    kinds: Counter[str] = Counter()
    for raw in archived:
        for record in ArchiveIterator(io.BytesIO(raw or b""), parse_http=False):
            assert record.verify_block_digest(consume=False)
            kinds[record.headers["WARC-Type"]] += 1
    assert kinds == {"warcinfo": 1, "response": 69, "request": 2}
    assert archived.count(None) == 1
    assert 10 < archived.index(None) < len(archived) - 10  # in the middle of the file


def test_the_web_has_at_least_40_html_pages(responses: dict[str, tuple[str, bytes]]) -> None:
    assert sum(kind.startswith("text/html") and b"<h1>" in body for kind, body in responses.values()) >= 40


def test_the_questions_are_of_all_kinds() -> None:
    lines = (SAMPLE / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    kinds = Counter(json.loads(line)["kind"] for line in lines)
    assert set(kinds) == set(KINDS)
    assert kinds["unanswerable"] >= 3
    assert kinds.total() - kinds["unanswerable"] >= 40


def test_every_gold_sentence_stands_in_its_page(
    pages: dict[str, Page], responses: dict[str, tuple[str, bytes]]
) -> None:
    questions = tomllib.loads((SOURCES / "questions.toml").read_text(encoding="utf-8"))["questions"]
    gold = [entry for question in questions for entry in question["gold"]]
    assert len(gold) >= 40
    for entry in gold:
        page = pages[entry["page"]]
        _, body = responses[page.url]
        assert entry["sentence"] in text_of(body.decode(page.charset))


def test_a_label_that_is_not_in_its_page_is_refused(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    shutil.copytree(SOURCES, sources)
    tides = sources / "pages" / "tides.html"
    tides.write_text(tides.read_text(encoding="utf-8").replace("Tides are", "Tides were"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"questions\.toml: q02: not in pages/tides\.html: 'Tides are"):
        build(tmp_path / "out", sources)
    assert not (tmp_path / "out").exists()


def test_the_encodings_are_declared_in_one_place_only(
    pages: dict[str, Page], responses: dict[str, tuple[str, bytes]]
) -> None:
    kind, body = responses[pages["coffee-houses"].url]
    assert kind == "text/html; charset=windows-1252"
    assert b"isn\x92t" in body and b"<meta charset" not in body
    kind, body = responses[pages["french-stew"].url]
    assert kind == "text/html"
    assert b"14 \xa4 a kilo" in body and b'<meta charset="iso-8859-15">' in body


def test_one_page_is_repeated_and_one_nearly_so(pages: dict[str, Page]) -> None:
    assert pages["honey-bees-print"].body == pages["honey-bees"].body
    copy, original = (
        set(text_of(pages[slug].body).split(". ")) for slug in ("rosetta-stone-copy", "rosetta-stone")
    )
    # One changed, and one added after the last.
    assert len(original - copy) == 2 and len(copy - original) == 3
