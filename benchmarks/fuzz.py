"""Crawl files that were damaged at random, thrown at the readers: gzip, WARC, records that are fetched alone,
HTTP and HTML; and sound pages in forms that are drawn at random, for the readers of headers, media types and
letters.

Each target damages a part of the sample web as a seed says, reads it, and names what is wrong with the
outcome: an error, a page that is lost though its bytes are sound, a record that is not counted, a place that
is not in the file, a tag that was taken for half a letter. `--minutes N` throws for so long at each target;
what is found is printed with its target and seed, and belongs among the CASES of
tests/indexing/crawl/test_readers.py. With `--only TARGET` the result is that target's alone, `fuzz_TARGET`,
so that several commands share a machine's cores.
"""

from __future__ import annotations

import gzip
import random
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

from answermill.indexing.crawl.gzip_stream import ByteStream
from answermill.indexing.crawl.http_response import page
from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.media_types import declared_type, sniffed_type
from answermill.indexing.crawl.raw_page import Place, RawPage
from answermill.indexing.crawl.records import WantedRecord, record_pages
from answermill.indexing.documents.main_text import TextExtractor
from answermill.indexing.documents.parse import DocumentRules, parse
from answermill.indexing.encodings.decoders import decoded, encoding_of
from answermill.indexing.encodings.page_text import decode
from answermill.schemas.corpus import Document, Rejected
from benchmarks.fault_list.fuzz import mutated
from testing.crawl_index import SAMPLE, members
from testing.harness import arguments, finish, say

TAKES = "--minutes N for each reader"

_LABELS = (
    *(
        "utf-8",
        "utf-16",
        "utf-16be",
        "latin1",
        "koi8-u",
        "tis-620",
        "x-mac-cyrillic",
        "x-user-defined",
        "hz-gb-2312",
    ),
    *("shift_jis", "euc-jp", "iso-2022-jp", "euc-kr", "big5", "gbk", "gb18030", "windows-1255"),
)
STEPS = 100_000
"""Calls after which a stream that does not end is taken for endless."""


def read_gzip(folder: Path, seed: int) -> Iterator[str]:
    """Check that the stream ends, never goes back, and gives the bytes before the damage."""
    content, sound, damaged_from = _damaged(folder / "a.gz", seed)
    stream = ByteStream(folder / "a.gz", True, b"WARC/")
    read, position = bytearray(), 0

    try:
        for _ in range(STEPS):
            if count := stream.need(4096):
                if len(read) == stream.position:
                    sure = stream.fault_position - stream.position if stream.fault else count
                    read += stream.ahead[: max(0, min(count, sure))]
                stream.drop(count)
            elif stream.fault:
                stream.resume()
            else:
                break

            if stream.position < position:
                yield f"position {stream.position} after {position}"
            if not 0 <= stream.offset() <= len(content):
                yield f"offset {stream.offset()} in a file of {len(content)} bytes"
            position = stream.position
        else:
            yield "the stream does not end"
    finally:
        stream.close()

    whole = b"".join(_inflated(member) for member in _members_before(sound, damaged_from))
    if not read.startswith(whole):
        yield "bytes before the damage are others"


def read_warc(folder: Path, seed: int) -> Iterator[str]:
    """Check that every outcome is in the file, in order, and the part before the damage as without any."""
    content, sound, damaged_from = _damaged(folder / "a.warc.gz", seed)
    outcomes = list(read_pages(folder / "a.warc.gz", "a", Counter()))
    offsets = [outcome.source_offset for outcome in outcomes]
    if offsets != sorted(offsets) or any(not 0 <= offset <= len(content) for offset in offsets):
        yield f"places {offsets} in a file of {len(content)} bytes"
    (folder / "sound.warc.gz").write_bytes(sound)
    before = list(read_pages(folder / "sound.warc.gz", "a", Counter()))
    ends = [page.source_offset for page in before[1:]] + [len(sound)]
    untouched = [page for page, end in zip(before, ends, strict=True) if end <= damaged_from]
    if outcomes[: len(untouched)] != untouched:
        yield "a page before the damage is another"


def read_records(folder: Path, seed: int) -> Iterator[str]:
    """Check that every wanted record has one outcome, in order, at its own place in the crawl."""
    draw = random.Random(seed)
    records, starts, failures, content = [], dict[int, int](), dict[int, str](), b""
    for number, (member, url) in enumerate(draw.sample(_responses(), 6)):
        changed = mutated(member, draw) if draw.random() < 0.5 else member
        records.append(WantedRecord("crawl", "crawl", 1_000_000 * number, max(1, len(changed)), url))
        if not changed or draw.random() < 0.2:
            failures[number] = "HTTP 404"
        else:
            starts[number] = len(content)
            content += changed

    (folder / "records.warc.gz").write_bytes(content)
    outcomes = list(record_pages(folder / "records.warc.gz", records, starts, failures))
    if len(outcomes) != len(records):
        yield f"{len(outcomes)} outcomes of {len(records)} records"

    for number, (record, outcome) in enumerate(zip(records, outcomes, strict=False)):
        if not record.offset <= outcome.source_offset <= record.end or outcome.source_file != "crawl":
            yield f"record {number} is at {outcome.source_offset}, not in {record.offset}–{record.end}"
        if number in failures and not isinstance(outcome, Rejected):
            yield f"record {number} was not fetched, and was read"


def read_http(folder: Path, seed: int) -> Iterator[str]:
    """Check that a block is a page or a reject."""
    draw = random.Random(seed)
    member, _ = draw.choice(_responses())
    block = mutated(_inflated(member).partition(b"\r\n\r\n")[2], draw)
    fields = {
        "warc-type": draw.choice(["response", "resource", "conversion"]),
        "content-type": "application/http",
    }
    outcome = page(Place("a", 0), fields, block)
    if not isinstance(outcome, RawPage | Rejected):
        yield f"{type(outcome).__name__} came back"


def read_html(folder: Path, seed: int) -> Iterator[str]:
    """Check that a page with any markup is a document or a reject, and that sentences are valid UTF-8."""
    draw = random.Random(seed)
    sound = draw.choice(_pages())
    outcome = parse(
        replace(sound, body=mutated(sound.body, draw)),
        DocumentRules(languages=frozenset(), min_words=0),
        _extractor(),
    )
    if not isinstance(outcome, Document | Rejected):
        yield f"{type(outcome).__name__} came back"
    elif isinstance(outcome, Document):
        (outcome.title + outcome.text).encode()


def read_header(folder: Path, seed: int) -> Iterator[str]:
    """Check that a page comes out of its codings and header as it was, in whichever form they are."""
    draw = random.Random(seed)
    sound = draw.choice([page.body for page in _pages() if page.body])
    body, codings, chunks = sound, list[str](), draw.random() < 0.5
    for coding in draw.choices(
        ("gzip", "x-gzip", "deflate", "none", "identity", "utf-8"), k=draw.randrange(3)
    ):
        codings.append(coding)
        body = _packed(coding, body, draw)
    if chunks:
        size = draw.choice((1_000, 100_000))
        pieces = [body[n : n + size] for n in range(0, len(body), size)]
        body = b"".join(
            b"%x%s\r\n%s\r\n" % (len(piece), draw.choice((b"", b" ", b";a=b")), piece) for piece in pieces
        )
        body += b"0\r\n\r\n"

    blank, end = draw.choice(("", " ", "\t")), draw.choice(("\r\n", "\n"))
    kind = draw.choice(
        ("text/html", "TEXT/HTML;charset=x", "text/plain,text/html", "text/html charset=x", "")
    )
    fields = [("Content-Type", kind), ("Content-Encoding", ", ".join(codings)), ("X", f"a{end} b: c")]
    fields += [("Transfer-Encoding", "Chunked")] if chunks else []
    draw.shuffle(fields)
    lines = [draw.choice(("HTTP/1.1 200 OK", "http/1.0 200", "HTTP/2  200 "))]
    lines += [f"{draw.choice((name, name.lower()))}{blank}:{value}" for name, value in fields]
    interim = f"HTTP/1.1 100 Continue{end}{end}" if draw.random() < 0.3 else ""
    block = f"{interim}{end.join(lines)}{end}{end}".encode() + body

    outcome = page(Place("a", 0), {"warc-type": "response", "content-type": "application/http"}, block)
    if not isinstance(outcome, RawPage):
        yield f"{outcome.reason} {outcome.detail}"
    elif outcome.body != sound or (outcome.content_type != "text/html" and kind):
        yield f"{outcome.content_type}, {len(outcome.body)} bytes of {len(sound)}"


def read_type(folder: Path, seed: int) -> Iterator[str]:
    """Check that bytes and headers have a media type or none, and a tag of the standard's makes HTML."""
    draw = random.Random(seed)
    head = mutated(
        draw.choice(
            (b"<?xml version='1.0'?><html>", b"<!-- a -->", b"<!DOCTYPE a [", b"%PDF-1", b"\xff\xfe")
        ),
        draw,
    )
    name = sniffed_type(head)
    if name.count("/") != (1 if head else 0) or not name.isascii():
        yield f"{name!r} of {head[:60]!r}"
    if sniffed_type(b" \n<TITLE>" + head) != "text/html":
        yield f"no HTML of {head[:60]!r}"
    header = mutated(b'text/html; a="b, c"; charset=utf-8, */*', draw).decode("latin-1")
    declared = declared_type(header)
    if declared.name.count("/") > 1 or declared_type(f"{header}").name != declared.name:
        yield f"{declared.name!r} of {header!r}"


def read_letters(folder: Path, seed: int) -> Iterator[str]:
    """Check that letters are read in every encoding, whatever they are, and that none takes a tag with it."""
    draw = random.Random(seed)
    body = (
        draw.randbytes(draw.randrange(40))
        if draw.random() < 0.5
        else mutated(draw.choice(_pages()).body, draw)
    )
    label = draw.choice(_LABELS)
    encoding = encoding_of(label)
    text = decoded(body, encoding)
    text.encode("utf-8")
    if encoding not in ("replacement", "iso2022_jp", "utf-16-le", "utf-16-be") and text.count(
        "<"
    ) != body.count(b"<"):
        yield f"{text.count('<')} tags of {body.count(b'<')} in {label}"
    chosen = decode(body, label, draw.choice(("text/html", "application/xhtml+xml", "text/plain")))
    if (
        chosen is not None
        and encoding == "utf-8"
        and body.isascii()
        and b"\x1b" not in body
        and chosen != body.decode().replace("\0", "")
    ):
        yield "ASCII is read as something else"


TARGETS: dict[str, Callable[[Path, int], Iterator[str]]] = {
    "gzip": read_gzip,
    "warc": read_warc,
    "records": read_records,
    "http": read_http,
    "html": read_html,
    "header": read_header,
    "type": read_type,
    "letters": read_letters,
}


def wrong(target: str, folder: Path, seed: int) -> list[str]:
    """Fault in the outcome of one throw; an error that a reader raises is one, too."""
    try:
        return list(TARGETS[target](folder, seed))
    except Exception as e:  # any is a finding
        return [f"{type(e).__name__}: {e}"]


def _damaged(file: Path, seed: int) -> tuple[bytes, bytes, int]:
    """Write some of the sample's members, damaged; returns (what was written, the sound bytes, first other
    byte)."""
    draw = random.Random(seed)
    sound = b"".join(draw.sample(_members(), 5))
    content = mutated(sound, draw)
    if not content.startswith(b"\x1f\x8b\x08"):  # or it would be no gzip file
        content = sound[:3] + content[3:]
    file.write_bytes(content)
    pairs = enumerate(zip(content, sound, strict=False))
    return content, sound, next((n for n, (a, b) in pairs if a != b), min(len(content), len(sound)))


@cache
def _members() -> tuple[bytes, ...]:
    """Members of the sample that inflate."""
    return tuple(member for member in members(SAMPLE.read_bytes()) if _inflated(member))


@cache
def _responses() -> tuple[tuple[bytes, str], ...]:
    """(member, URL) of the sample's responses."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [(member, _read(Path(folder) / "a.warc.gz", member)) for member in _members()]
    return tuple((member, outcome.url) for member, outcome in outcomes if outcome is not None and outcome.url)


@cache
def _pages() -> tuple[RawPage, ...]:
    return tuple(outcome for outcome in read_pages(SAMPLE, "a", Counter()) if isinstance(outcome, RawPage))


@cache
def _extractor() -> TextExtractor:
    return TextExtractor(deadline_s=2.0)


def _read(file: Path, content: bytes) -> RawPage | Rejected | None:
    file.write_bytes(content)
    return next(iter(read_pages(file, "a", Counter())), None)


def _packed(coding: str, body: bytes, draw: random.Random) -> bytes:
    """The body in a coding; in gzip of one to four members."""
    if coding == "deflate":
        return zlib.compress(body, 1)
    if "gzip" not in coding:
        return body
    ends = sorted(draw.randrange(len(body) + 1) for _ in range(draw.randrange(4)))
    return b"".join(
        gzip.compress(body[start:end], 1) for start, end in zip([0, *ends], [*ends, len(body)], strict=True)
    )


def _members_before(content: bytes, end: int) -> Iterator[bytes]:
    position = 0
    for member in members(content):
        position += len(member)
        if position <= end:
            yield member


def _inflated(member: bytes) -> bytes:
    try:
        return zlib.decompress(member, wbits=31)
    except zlib.error:
        return b""


def main() -> None:
    options = arguments(
        "fuzz",
        __doc__ or "",
        needs_data=False,
        numbers={"minutes": "how long to throw at each target; 1 if absent"},
        texts={"only": f"one target: {', '.join(TARGETS)}; all if absent"},
    )
    if options.only not in (None, *TARGETS):
        sys.exit(f"--only {options.only}: the targets are {', '.join(TARGETS)}")
    targets = [options.only] if options.only else list(TARGETS)
    minutes = 0.01 if options.smoke else 1.0 if options.minutes is None else options.minutes
    thrown: Counter[str] = Counter()
    findings: Counter[str] = Counter()

    with tempfile.TemporaryDirectory() as folder:
        for target in targets:
            say(f"{target}, {minutes:g} minutes")
            end = time.monotonic() + 60 * minutes
            for seed in count(time.time_ns() // 1_000_000):
                thrown[target] += 1
                for what in wrong(target, Path(folder), seed):
                    findings[target] += 1
                    say(f'("{target}", {seed}): {what}')
                if time.monotonic() > end:
                    break

    _extractor().close()
    result = {f"thrown_{target}": thrown[target] for target in targets} | {
        "findings": findings.total(),
        "minutes": minutes,
    }
    finish("_".join(["fuzz", *targets[: len(targets) == 1]]), result, options.save)


if __name__ == "__main__":
    main()
