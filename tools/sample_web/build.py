"""Builds the sample web: `python -m tools.sample_web.build [--out FOLDER]`.

In: `pages/*.html` (a comment of `key: value` lines, then the article), `templates/`, `sites.toml`,
`questions.toml`, `judgements.tsv`. Out: `web.warc.gz` (WARC/1.0, ISO 28500), `questions.jsonl`, `labels.tsv`.
The same sources give the same bytes."""

import argparse
import base64
import gzip
import hashlib
import io
import json
import tomllib
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import urlsplit

from answermill.indexing.passages.text import fold
from testing.judgements import Judgement, read_judgements
from tools.sample_web.source import Page, read_pages, text_of

SOURCES = Path(__file__).parent
SAMPLE = SOURCES.parents[1] / "pipelines" / "data" / "sample"
"""The folder that ships with the package, in which the three files are."""
DATE = "2024-05-01T00:00:00Z"
HTTP_DATE = "Wed, 01 May 2024 00:00:00 GMT"
SHEET = "judgements.tsv"
"""Judged sentences. A label of `questions.toml` that both readings contradict is mended there, unless it is a
question's only correct one; `pool` finds the sentences that still lack a judgement."""
PLACE = ("question_id", "page", "sentence")
KINDS = ("factoid", "definition", "why", "how", "unanswerable")


def payload(page: Page, pages: Mapping[str, Page], sources: Path = SOURCES) -> bytes:
    """The body of the HTTP response: the page in its site's template, in its own charset."""
    if page.template == "none":
        return page.body.encode(page.charset)

    host = urlsplit(page.url).netloc
    sites = tomllib.loads((sources / "sites.toml").read_text(encoding="utf-8"))
    if host not in sites:
        raise ValueError(
            f"pages/{page.slug}.html: host {host!r} is not in sites.toml; known: {', '.join(sites)}"
        )

    near = [
        p for p in pages.values() if urlsplit(p.url).netloc == host and p.template != "none" and p != page
    ]
    template = (sources / "templates" / f"{page.template or sites[host]['template']}.html").read_text(
        encoding="utf-8"
    )
    rendered = Template(template).substitute(
        lang=page.lang,
        meta="" if page.declared == "header" else f'<meta charset="{page.charset}">\n',
        title=page.title,
        site=sites[host]["name"],
        body=page.body.strip(),
        links="\n".join(f'<li><a href="{urlsplit(p.url).path}">{p.title}</a></li>' for p in near),
    )

    try:
        return rendered.encode(page.charset)
    except UnicodeEncodeError as error:
        bad = rendered[error.start]
        raise ValueError(
            f"pages/{page.slug}.html: {bad!r} is not in {page.charset}; write an entity"
        ) from error


def _digest(block: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(block).digest()).decode()


def _id(kind: str, url: str) -> str:
    return f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{kind} {url}')}>"


def record(kind: str, url: str, block: bytes, fields: Mapping[str, str]) -> bytes:
    """One WARC record, not yet compressed. `fields` are those that differ from kind to kind."""
    head = {"WARC-Type": kind, "WARC-Record-ID": _id(kind, url), "WARC-Date": DATE, **fields}
    head |= {"WARC-Block-Digest": _digest(block), "Content-Length": str(len(block))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"WARC/1.0\r\n{lines}\r\n".encode() + block + b"\r\n\r\n"


def page_records(page: Page, body: bytes) -> Iterator[bytes]:
    """The response of a page, and after it the request if `page.request` is 'yes'."""
    charset = "" if page.declared == "meta" or page.type != "text/html" else f"; charset={page.charset}"
    head = [f"HTTP/1.1 {page.status}", f"Date: {HTTP_DATE}", f"Content-Type: {page.type}{charset}"]
    head += [f"Location: {page.location}"] if page.location else []
    head += [f"Content-Length: {len(body)}"]
    block = ("\r\n".join(head) + "\r\n\r\n").encode() + body
    common = {"WARC-Target-URI": page.url, "WARC-Warcinfo-ID": _id("warcinfo", "web")}
    http = "application/http; msgtype="
    fields = common | {"Content-Type": f"{http}response", "WARC-Payload-Digest": _digest(body)}
    yield record("response", page.url, block, fields)

    if page.request == "yes":
        parts = urlsplit(page.url)
        request = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: text/html\r\n\r\n".encode()
        fields = common | {"Content-Type": f"{http}request", "WARC-Concurrent-To": _id("response", page.url)}
        yield record("request", page.url, request, fields)


def member(raw: bytes, damaged: bool = False) -> bytes:
    """`raw` as one gzip member without time or name. `damaged`: its first half inflates, then a block follows
    of the type 3, which does not exist (RFC 1951, 3.2.3), so that no reader gets past it."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0) as out:
        out.write(raw[: len(raw) // 2])
        if damaged:
            out.flush(zlib.Z_FULL_FLUSH)  # ends on a whole byte, where the next block starts
        middle = buffer.tell()
        out.write(raw[len(raw) // 2 :])
    packed = buffer.getvalue()
    return packed[:middle] + b"\xff" * 16 + packed[middle + 16 :] if damaged else packed


def archive(pages: Mapping[str, Page], sources: Path = SOURCES) -> bytes:
    """The whole `web.warc.gz`: warcinfo, then the records of every page in the order of `pages`."""
    about = b"software: AnswerMill pipelines.sample.build\r\nformat: WARC File Format 1.0\r\n"
    members = [member(record("warcinfo", "web", about, {"Content-Type": "application/warc-fields"}))]
    for page in pages.values():
        body = payload(page, pages, sources)
        members += [member(raw, page.damaged == "yes") for raw in page_records(page, body)]
    return b"".join(members)


def read_questions(pages: Mapping[str, Page], sources: Path = SOURCES) -> list[dict[str, Any]]:
    """The questions of `questions.toml`. Raises ValueError if one does not fit the pages."""
    path = sources / "questions.toml"
    questions: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["questions"]
    texts = {slug: text_of(page.body) for slug, page in pages.items()}
    seen: set[str] = set()

    for question in questions:
        where = f"{path}: {question['id']}"
        if question["id"] in seen:
            raise ValueError(f"{where}: the id is used twice")

        seen.add(question["id"])
        if question["kind"] not in KINDS:
            raise ValueError(f"{where}: unknown kind {question['kind']!r}; known: {', '.join(KINDS)}")
        if (question["kind"] == "unanswerable") == bool(question["gold"]):
            raise ValueError(f"{where}: needs a gold sentence unless it is unanswerable, and none if it is")

        for label in [*question["gold"], *question.get("wrong", [])]:
            if label["sentence"] not in texts.get(label["page"], ""):
                raise ValueError(f"{where}: not in pages/{label['page']}.html: {label['sentence']!r}")

        if both := {g["sentence"] for g in question["gold"]} & {
            w["sentence"] for w in question.get("wrong", [])
        }:
            raise ValueError(f"{where}: both gold and wrong: {min(both)!r}")

    return questions


def labels(questions: list[dict[str, Any]], judgements: Iterable[Judgement]) -> Iterator[str]:
    """The lines of `labels.tsv` under its header: each sentence once per question, correct before wrong, and
    the questions' own before those that were judged.

    Raises ValueError if a judgement is of no question, or says other than `questions.toml`.
    """
    own = {question["id"]: labels_of(question) for question in questions}
    judged: dict[str, dict[int, dict[str, str]]] = {key: {1: {}, 0: {}} for key in own}
    for row in judgements:
        key, _, sentence = row.place
        if key not in own:
            raise ValueError(f"{SHEET}: {key}: not a question of questions.toml")
        if (label := own[key].get(sentence, row.label)) != row.label:
            raise ValueError(f"{SHEET}: {key}: {row.label} here, {label} in questions.toml: {sentence!r}")
        judged[key][row.label].setdefault(fold(sentence), sentence)

    for key, sentences in own.items():
        known = {fold(sentence) for sentence in sentences}
        yield from (f"{key}\t{sentence}\t{label}" for sentence, label in sentences.items())
        for label, texts in judged[key].items():
            yield from (f"{key}\t{text}\t{label}" for folded, text in texts.items() if folded not in known)


def labels_of(question: Mapping[str, Any]) -> dict[str, int]:
    """Sentence → label, as a question of `questions.toml` states them."""
    gold = {entry["sentence"]: 1 for entry in question["gold"]}
    return gold | {entry["sentence"]: 0 for entry in question.get("wrong", [])}


def build(out: Path, sources: Path = SOURCES) -> None:
    """Write the three files into `out`, which is created if it does not exist."""
    pages = read_pages(sources / "pages")
    questions = read_questions(pages, sources)
    judgements = read_judgements(sources / SHEET, PLACE)
    texts = {slug: text_of(page.body) for slug, page in pages.items()}
    for key, slug, sentence in (row.place for row in judgements):
        if sentence not in texts.get(slug, ""):
            raise ValueError(f"{SHEET}: {key}: not in pages/{slug}.html: {sentence!r}")

    rows = [{"question_id": q["id"], "text": q["text"], "kind": q["kind"]} for q in questions]
    files = {
        "web.warc.gz": archive(pages, sources),
        "questions.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(),
        "labels.tsv": "\n".join(
            ["question_id\tsentence\tlabel", *labels(questions, judgements), ""]
        ).encode(),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (out / name).write_bytes(content)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.sample_web.build", description="Build the sample web."
    )
    parser.add_argument(
        "--out", type=Path, default=SAMPLE, help="folder for the three files (default: the package's sample)"
    )
    build(parser.parse_args().out)


if __name__ == "__main__":
    main()
