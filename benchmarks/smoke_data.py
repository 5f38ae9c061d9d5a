"""A token copy of the measuring data, on which a benchmark takes seconds: what `--smoke` runs on.

It has a few questions of each data set, the documents of corpus-wiki that they are about, and the smallest crawl files;
everything else is linked. The files have the names and the form of the whole data.
"""

from __future__ import annotations

import atexit
import gzip
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

QUESTIONS = {"wikiqa": 12, "squad": 24, "selqa": 8}
"""Questions of each set and split."""
DOCUMENTS, LINES, ARTICLES, CRAWL_FILES = 60, 3, 2, 2
TITLES = {"squad-sent-train": "squadshifts-new-wiki", "squad-sent-dev": "squad-dev", "squad-sent-test": "squad-dev"}


@cache
def small_data(data: Path) -> Path:
    """A folder that has the copy until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="answermill-smoke-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for source in sorted(data.iterdir()):
        if source.is_dir():
            (folder / source.name).mkdir()
            for file in sorted(source.iterdir()):
                (folder / source.name / file.name).symlink_to(file.resolve())
    documents: set[str] = set()
    for name, questions in QUESTIONS.items():
        for file in sorted((data / name).glob("*.parquet")):
            table = some_questions(pq.read_table(file), questions)
            replace(folder / name / file.name, lambda path, table=table: pq.write_table(table, path))  # type: ignore[misc]
            documents |= documents_of(file.stem, table)
    corpus = rows(data / "corpus-wiki/documents.jsonl.gz")
    corpus.sort(key=lambda row: json.loads(row)["doc_id"] not in documents)
    write_rows(folder / "corpus-wiki/documents.jsonl.gz", corpus[: max(DOCUMENTS, len(documents))])
    for split in ("train", "dev", "test"):
        file = Path(f"insuranceqa-v1-partial/{split}.jsonl.gz")
        write_rows(folder / file, rows(data / file)[:LINES])
    for file in sorted((data / "squad").glob("*.json.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as source_file:
            articles = json.load(source_file)
        write_rows(folder / "squad" / file.name, [json.dumps(articles | {"data": articles["data"][:ARTICLES]})])
    for name, pattern in (("warc", "*.warc.gz"), ("web-html", "*.warc.gz")):
        files = sorted((data / name).glob(pattern), key=lambda file: file.stat().st_size)
        for file in (folder / name).iterdir():
            if ".warc" in file.name and file.name not in {kept.name for kept in files[:CRAWL_FILES]}:
                file.unlink()
    return folder


def some_questions(table: pa.Table, number: int) -> pa.Table:
    """The rows of so many questions, evenly spaced, two thirds of them with an answer (all, if all have one)."""
    questions = list(dict.fromkeys(table["question_id"].to_pylist()))
    answered = set(table.filter(pc.greater(table["label"], 0))["question_id"].to_pylist())
    with_answer = [question for question in questions if question in answered]
    without = [question for question in questions if question not in answered]
    chosen = spaced(without, number // 3)
    chosen += spaced(with_answer, number - len(chosen))
    return table.filter(pc.is_in(table["question_id"], pa.array(chosen)))


def spaced(questions: list[str], number: int) -> list[str]:
    return questions[:: max(1, len(questions) // number)][:number]


def documents_of(name: str, table: pa.Table) -> set[str]:
    """Ids in corpus-wiki of the documents that the questions are about."""
    if name in TITLES:
        return {f"{TITLES[name]}:{title}" for title in table["document_title"].to_pylist()}
    return {f"wikiqa:{document}" for document in table["document_id"].to_pylist()} if name.startswith("wikiqa") else set()


def rows(file: Path) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


def write_rows(file: Path, lines: list[str]) -> None:
    def write(path: Path) -> None:
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as out:
            out.writelines(line + "\n" for line in lines)

    replace(file, write)


def replace(link: Path, write: Callable[[Path], object]) -> None:
    """Write a file in place of a link."""
    link.unlink()
    write(link)
