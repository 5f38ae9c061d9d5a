"""Faults of inputs: pages, questions and labels of other types, encodings and lengths, damaged, empty or
changed."""

from __future__ import annotations

import gzip
import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.fault_list.damage import (
    all_of,
    changed,
    copied,
    cut,
    emptied,
    flipped,
    replaced,
    written,
)
from benchmarks.fault_list.fault import (
    Fault,
    Harm,
    Place,
    all_documents,
    fewer_documents,
    nothing,
    same_documents,
)

QUESTIONS = "run JOB --out RUN --redo retrieve --set retrieve.questions="
LABELS = "run JOB --out RUN --redo propagate --set propagate.labels="
NEW = "ingest JOB --out WORK/new --set ingest.input="
ROW = '{"question_id": "new", "text": %s}\n'


def _asked(place: Place) -> list[dict[str, str]]:
    return [
        json.loads(line)
        for line in (place.folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def questions_tsv(place: Place) -> None:
    """Write the job's questions as a spreadsheet saves them: with a byte order mark, and lines that end in CR
    LF."""
    lines = ["question_id\ttext", *(f"{row['question_id']}\t{row['text']}" for row in _asked(place))]
    (place.folder / "q.tsv").write_bytes(b"\xef\xbb\xbf" + "".join(f"{line}\r\n" for line in lines).encode())


def questions_parquet(place: Place) -> None:
    """Write the job's questions as Parquet, with one text that is not UTF-8."""
    texts = [*(row["text"].encode() for row in _asked(place)[:-1]), b"What is \xff?"]
    text = pa.array(texts, pa.binary()).view(pa.string())
    pq.write_table(
        pa.table({"question_id": [row["question_id"] for row in _asked(place)], "text": text}),
        place.folder / "q.parquet",
    )


def pages_parquet(place: Place) -> None:
    """Write two pages, one with a text that is not UTF-8, and one with a date beyond the year 9999."""
    good = "Tea is a drink that people make of the leaves of a plant and of hot water. " * 8
    text = pa.array([good.encode(), b"\xff" + good.encode(), good.upper().encode()], pa.binary()).view(
        pa.string()
    )
    date = pa.array([0, 0, 9_000_000_000_000_000], pa.timestamp("s"))
    pq.write_table(
        pa.table({"url": ["http://a.org/1", "http://a.org/2", "http://a.org/3"], "text": text, "date": date}),
        place.folder / "bad.parquet",
    )


def labels_parquet(place: Place) -> None:
    header, *rows = ((place.folder / "labels.tsv").read_text(encoding="utf-8")).splitlines()
    columns = list(zip(*(row.split("\t") for row in rows), strict=True))
    pq.write_table(
        pa.table(dict(zip(header.split("\t"), map(list, columns), strict=True))), place.folder / "l.parquet"
    )
    changed("l.parquet", lambda whole: whole[:10] + b"\xff" * 60 + whole[70:])(place)


def packed(pattern: str, name: str, damage: bool) -> Harm:
    """Pack a file with gzip, on demand with wrong bytes in its middle."""

    def harm(place: Place) -> None:
        whole = gzip.compress(place.file(pattern).read_bytes())
        middle = len(whole) // 2
        (place.folder / name).write_bytes(
            whole[:middle] + b"\xff" * 40 + whole[middle + 40 :] if damage else whole
        )

    return harm


def new_row(text: str, name: str = "questions.jsonl") -> Harm:
    """Add a line to a file."""
    return changed(name, lambda whole: whole + text.encode())


def mixed_folder(place: Place) -> None:
    """Write an input folder: the sample web, unreadable and empty files, and one whose name is not UTF-8."""
    pages = place.folder / "pages"
    pages.mkdir()
    shutil.copy2(place.folder / "web.warc.gz", pages)
    for name in ("old.arc", "web.warc.gz.md5", "readme.txt"):
        (pages / name).write_text("something else\n", encoding="utf-8")
    for name in ("empty.warc.gz", "empty.warc", "empty.jsonl", "empty.parquet"):
        (pages / name).touch()
    with open(os.path.join(os.fsencode(pages), b"\xff\xfe.jsonl"), "wb") as file:  # noqa: PTH118, PTH123
        file.write(b'{"url": "http://a.org", "text": "short"}\n')


def moved_copy(place: Place) -> None:
    """Give all files other dates, as after `cp -r`."""
    for path in place.folder.rglob("*"):
        os.utime(path, (1, 1))


NESTED, LONG = "[" * 200_000, "tea " * 50_000
TYPES = {
    "a list": ROW % '["a", "b"]',
    "an object": ROW % '{"x": 1}',
    "a number": ROW % "7",
    "null": ROW % "null",
    "zero-width": ROW % '"\\u200b\\u200d"',
    "half a pair": ROW % '"What is \\ud800?"',
    "deep JSON": NESTED + "\n",
    "not an object": "[1]\n",
    "cut": '{"question_id": "new", "te\n',
    "too long": ROW % json.dumps(LONG),
    "an id that is a list": '{"question_id": [1], "text": "What is tea?"}\n',
    "an id twice": '{"question_id": "q01", "text": "What is tea?"}\n',
    "an id of half a pair": '{"question_id": "\\udfff", "text": "What is tea?"}\n',
}
"""Name of a line of questions that must be refused with its number → the line."""


FAULTS = (
    *(
        Fault(
            f"question: {name}",
            new_row(line),
            "run JOB --out RUN --redo retrieve",
            65,
            "questions.jsonl:7",
            "restore" if name == "null" else "",
        )
        for name, line in TYPES.items()
    ),
    Fault("questions: TSV with a byte order mark", questions_tsv, QUESTIONS + "q.tsv", 0, ""),
    Fault(
        "questions: JSONL with a byte order mark",
        changed("questions.jsonl", lambda whole: b"\xef\xbb\xbf" + whole),
        "run JOB --out RUN --redo retrieve",
        0,
        "",
    ),
    Fault("questions: gzip", packed("questions.jsonl", "q.jsonl.gz", False), QUESTIONS + "q.jsonl.gz", 0, ""),
    Fault(
        "questions: damaged gzip",
        packed("questions.jsonl", "q.jsonl.gz", True),
        QUESTIONS + "q.jsonl.gz",
        65,
        "q.jsonl.gz:",
    ),
    Fault(
        "questions: cut gzip",
        all_of(packed("questions.jsonl", "q.jsonl.gz", False), cut("q.jsonl.gz")),
        QUESTIONS + "q.jsonl.gz",
        65,
        "q.jsonl.gz:",
    ),
    Fault("questions: Parquet, not UTF-8", questions_parquet, QUESTIONS + "q.parquet", 65, "q.parquet"),
    Fault(
        "questions: cut Parquet",
        all_of(questions_parquet, cut("q.parquet")),
        QUESTIONS + "q.parquet",
        65,
        "q.parquet",
    ),
    Fault("questions: a file that is not there", nothing, QUESTIONS + "none.tsv", 66, "none.tsv"),
    Fault(
        "questions: not UTF-8",
        written("q.tsv", "question_id\ttext\n1\tWhat is café?\n".encode("latin-1")),
        QUESTIONS + "q.tsv",
        65,
        "q.tsv:2",
    ),
    Fault(
        "questions: a long TSV cell",
        written("q.tsv", f"question_id\ttext\n1\t{LONG}\n"),
        QUESTIONS + "q.tsv",
        65,
        "q.tsv:2",
    ),
    Fault(
        "questions: CSV",
        written("q.csv", "nr,frage\n1,What is tea?\n"),
        QUESTIONS + "q.csv",
        65,
        "it has nr, frage",
    ),
    Fault(
        "questions: emptied",
        emptied("questions.jsonl"),
        "run JOB --out RUN --redo retrieve",
        65,
        "questions.jsonl",
        "restore",
    ),
    Fault(
        "questions: one more",
        new_row(ROW % '"What is tea?"'),
        "run JOB --out RUN",
        73,
        "--redo retrieve",
        "restore",
    ),
    Fault(
        "labels: damaged gzip", packed("labels.tsv", "l.tsv.gz", True), LABELS + "l.tsv.gz", 65, "l.tsv.gz:"
    ),
    Fault("labels: damaged Parquet", labels_parquet, LABELS + "l.parquet", 65, "l.parquet"),
    Fault(
        "labels: a byte order mark",
        changed("labels.tsv", lambda whole: b"\xef\xbb\xbf" + whole),
        "run JOB --out RUN --redo propagate",
        0,
        "",
    ),
    Fault(
        "labels: no number",
        new_row("q01\tTea.\tperhaps\n", "labels.tsv"),
        "run JOB --out RUN --redo propagate",
        65,
        "labels.tsv:17",
    ),
    Fault(
        "labels: NaN",
        new_row("q01\tTea.\tnan\n", "labels.tsv"),
        "run JOB --out RUN --redo propagate",
        65,
        "labels.tsv:17",
    ),
    Fault("labels: emptied", emptied("labels.tsv"), "run JOB --out RUN --redo propagate", 65, "labels.tsv"),
    Fault(
        "labels: one more",
        new_row("q01\tTea.\t0\n", "labels.tsv"),
        "run JOB --out RUN",
        73,
        "--redo propagate",
        "restore",
    ),
    Fault(
        "pages: Parquet with bad rows",
        pages_parquet,
        NEW + '\'["web.warc.gz","bad.parquet"]\'',
        0,
        "broken_record",
        right=all_documents,
    ),
    Fault(
        "pages: cut Parquet",
        all_of(pages_parquet, cut("bad.parquet")),
        NEW + '\'["web.warc.gz","bad.parquet"]\'',
        0,
        "broken_record",
        right=all_documents,
    ),
    Fault(
        "pages: a folder of all sorts",
        mixed_folder,
        NEW + "'[\"pages\"]'",
        0,
        "60 documents + 15 rejects (4 empty_file",
        right=same_documents,
    ),
    Fault(
        "pages: an empty file",
        written("e.jsonl", ""),
        NEW + '\'["web.warc.gz","e.jsonl"]\'',
        0,
        "e",
        right=all_documents,
    ),
    Fault("pages: empty files alone", written("e.jsonl", ""), NEW + "'[\"e.jsonl\"]'", 65, "empty_file"),
    Fault(
        "pages: one bit flipped", flipped("web.warc.gz"), "run JOB --out RUN", 73, "web.warc.gz", "restore"
    ),
    Fault(
        "pages: a bit flipped, new run",
        flipped("web.warc.gz"),
        NEW + "'[\"web.warc.gz\"]'",
        0,
        "broken_record",
        right=fewer_documents,
    ),
    Fault(
        "pages: cut, new run",
        cut("web.warc.gz"),
        NEW + "'[\"web.warc.gz\"]'",
        0,
        "broken_record",
        right=fewer_documents,
    ),
    Fault(
        "pages: one file more",
        all_of(
            copied("web.warc.gz", "more.warc.gz"),
            replaced("job.toml", 'input = ["web.warc.gz"]', 'input = ["*.warc.gz"]'),
        ),
        "run JOB --out RUN",
        73,
        "--redo ingest",
        "restore",
    ),
    Fault(
        "pages: a URL that is not read", nothing, NEW + "'[\"hdfs://host/web.warc.gz\"]'", 78, "of URLs only"
    ),
    Fault("a copied run", moved_copy, "run JOB --out RUN", 0, "(complete)"),
)
