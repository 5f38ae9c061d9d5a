"""Labelled sets whose documents are in the corpus: each as a list of `Asked`, of the questions that have an
answer; of two sets also of those that have none."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments.question_sets.gold import Asked

CORPUS_WIKI = "corpus-wiki/documents.jsonl.gz"
SQUAD_TRAIN = "qa-train/squad-train/squad-train-v1.1.json.gz"
SQUAD_JSON = {
    "squad-sent-test": "squad/squad-dev-v2.0.json.gz",
    "squad-sent-dev": "squad/squad-dev-v1.1.json.gz",
    "squad-sent-train": "squad/squadshifts-new-wiki-v1.0.json.gz",
}
"""Table of labelled sentences → the file that has its questions' short answers."""
QED = {split: f"qa-train/nq-qed/nq-qed-{split}.parquet" for split in ("train", "dev")}
DOCUMENT_FILES = (CORPUS_WIKI, SQUAD_TRAIN, *QED.values())
"""Files that `documents` reads."""
Row = Mapping[str, Any]


def wikiqa(data: Path, split: str) -> list[Asked]:
    phrases: dict[str, list[str]] = defaultdict(list)
    with gzip.open(data / "wikiqa/WikiQASent.pos.ans.tsv.gz", "rt", encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            cells = line.rstrip("\n").split("\t")
            phrases[cells[0]] += [phrase for phrase in cells[6:9] if phrase and phrase != "NO_ANS"]
    rows = answers_in(data / f"wikiqa/wikiqa-{split}.parquet")
    return asked(
        "wikiqa", rows, lambda row: f"wikiqa:{row['document_id']}", lambda key, _: tuple(phrases[key])
    )


def selqa(data: Path, split: str) -> list[Asked]:
    rows = answers_in(data / f"selqa/selqa-{split}.parquet")
    return asked("selqa", rows, lambda row: f"selqa:{row['document_id']}", lambda key, _: ())


def squad(data: Path, name: str) -> list[Asked]:
    """SQuAD-sent's 'test' (v2.0 dev), 'dev' (articles that only v1.1 dev has) or 'train' (SQuADShifts)."""
    corpus = "squadshifts-new-wiki" if name == "train" else "squad-dev"
    strings: dict[str, tuple[str, ...]] = {}
    for _, _, paragraph in paragraphs(data / SQUAD_JSON[f"squad-sent-{name}"]):
        for question in paragraph["qas"]:
            strings[question["id"]] = tuple(dict.fromkeys(answer["text"] for answer in question["answers"]))
    rows = answers_in(data / f"squad/squad-sent-{name}.parquet")
    return asked(
        "squad", rows, lambda row: f"{corpus}:{row['document_title']}", lambda key, _: strings.get(key, ())
    )


def squad_train(data: Path) -> list[Asked]:
    """Questions of SQuAD v1.1 train whose answer sentence is certain."""
    rows = (
        row
        for row in answers_in(data / "qa-train/squad-train/squad-sent-train-v1.1.parquet")
        if row["certain"]
    )
    return asked(
        "squad", rows, lambda row: f"squad-train:{row['document_title']}", lambda _, row: (row["answer"],)
    )


def qed(data: Path, split: str) -> list[Asked]:
    """Real queries (Natural Questions) that one sentence answers."""
    rows = answers_in(data / QED[split])
    single = (row for row in rows if row["type"] == "single_sentence")
    return asked("qed", single, lambda row: f"qed:{row['document_title']}", lambda _, row: (row["answer"],))


def wikiqa_without_answer(data: Path, split: str) -> list[Asked]:
    """Real queries of which no sentence of their page was labelled as an answer."""
    rows = pq.read_table(data / f"wikiqa/wikiqa-{split}.parquet").to_pylist()
    return without_answer("wikiqa", rows, lambda row: f"wikiqa:{row['document_id']}")


def squad_without_answer(data: Path) -> list[Asked]:
    """Questions that annotators of SQuAD v2.0 dev wrote so that their paragraph seems to answer them."""
    rows = pq.read_table(data / "squad/squad-sent-test.parquet").to_pylist()
    return without_answer("squad", rows, lambda row: f"squad-dev:{row['document_title']}")


def answers_in(path: Path) -> Iterator[Row]:
    table = pq.read_table(path)
    yield from table.filter(pc.greater(table["label"], 0)).to_pylist()


def asked(
    source: str,
    rows: Iterator[Row],
    document: Callable[[Row], str],
    strings: Callable[[str, Row], tuple[str, ...]],
) -> list[Asked]:
    """Questions that have an answer sentence, in the order of the rows."""
    by_question: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_question[row["question_id"]].append(row)

    return [
        Asked(
            f"{source}:{key}",
            first["question"],
            str(first["document_title"]).replace("_", " "),
            tuple((document(row), row["sentence"]) for row in positives),
            strings(key, first),
        )
        for key, positives in by_question.items()
        for first in positives[:1]
    ]


def without_answer(source: str, rows: Sequence[Row], document: Callable[[Row], str]) -> list[Asked]:
    """Questions that have no answer sentence, in the order of the rows."""
    answered = {row["question_id"] for row in rows if row["label"] > 0}
    first_rows: dict[str, Row] = {}
    for row in rows:
        if row["question_id"] not in answered:
            first_rows.setdefault(row["question_id"], row)

    return [
        Asked(
            f"{source}:{key}",
            row["question"],
            str(row["document_title"]).replace("_", " "),
            (),
            without_answer=(document(row),),
        )
        for key, row in first_rows.items()
    ]


def documents(data: Path) -> Iterator[dict[str, str]]:
    """Corpus: doc_id, title and text of corpus-wiki's documents, of SQuAD train's articles, and of QED's
    pages, with the paragraphs that have a question. Sets are whole, whatever is drawn of them, and without
    labels."""
    with gzip.open(data / CORPUS_WIKI, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield {name: row[name] for name in ("doc_id", "title", "text")}

    articles: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for key, title, paragraph in paragraphs(data / SQUAD_TRAIN):
        articles[f"squad-train:{key}", title][paragraph["context"]] = None
    for file in QED.values():
        sentences: dict[tuple[str, str], list[str]] = defaultdict(list)
        for row in pq.read_table(data / file).to_pylist():
            sentences[row["question_id"], row["document_title"]].append(row["sentence"])
        for (_, title), paragraph_sentences in sentences.items():
            articles[f"qed:{title}", title][" ".join(paragraph_sentences)] = None

    for (doc_id, title), texts in articles.items():
        yield {"doc_id": doc_id, "title": title, "text": "\n".join(texts)}


def paragraphs(path: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(article's key, its title, a paragraph) of a file in SQuAD's layout."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    for article in articles:
        key = article.get("title", "")
        for paragraph in article["paragraphs"]:
            yield key, key.replace("_", " "), paragraph
