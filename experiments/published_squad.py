"""Sets in SQuAD's layout, from their published JSON to the form that the studies read, and the Wikipedia
corpus made of them.

Where a sentence ends, and which one answers, is decided as in the files that the saved results were measured
on, and not as `answermill dataset` does: the studies of SQuAD-sent compare both (`experiments.datasets`).
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from answermill.indexing.passages.sentences import Span
from answermill.pipelines.data.formats.squad import positive_sentence
from experiments.published_content import Content, as2_table, json_lines

Downloads = Mapping[str, Path]
"""Name of a published file → its path."""
Converted = Iterator[tuple[str, Content]]
"""(path below the data folder, content) of each file that a set becomes."""
Convert = Callable[[Downloads, Path], Converted]
"""(its published files, the data folder) → what they become."""
Rows = Iterator[tuple[Any, ...]]
END = re.compile(r"""[.!?]["'’)\]]*(\s+)(?=["'“‘(\[]*[A-Z0-9])""")
END_TRAIN = re.compile(r"""[.!?]["'’”)\]]*(\s+)(?=["'“‘(\[]*[A-Z0-9À-Ž])""")
"""End of a sentence in SQuAD v1.1 train, whose sentences were cut later."""
DEV, TEST, SHIFTS = "squad-dev-v1.1.json.gz", "squad-dev-v2.0.json.gz", "squadshifts-new-wiki-v1.0.json.gz"
TRAIN = "qa-train/squad-train"


def sentence_spans(text: str, end: re.Pattern[str] = END) -> list[Span]:
    """(start, end) of the sentences of a paragraph; blanks before the first one belong to it."""
    spans, start = [], 0
    for match in end.finditer(text):
        spans.append((start, match.start(1)))
        start = match.end()
    if text[start:].strip():
        spans.append((start, len(text.rstrip())))
    return spans


def squad(downloads: Downloads, data: Path) -> Converted:
    """SQuAD v1.1 dev and v2.0 dev; SQuAD-sent's test set is all of v2.0, its dev set the articles that
    only v1.1 has."""
    files = {DEV: downloads["dev-v1.1.json"].read_bytes(), TEST: downloads["dev-v2.0.json"].read_bytes()}
    yield from ((f"squad/{name}", content) for name, content in files.items())

    articles = {name: json.loads(content)["data"] for name, content in files.items()}
    tests = {article["title"] for article in articles[TEST]}
    yield "squad/squad-sent-test.parquet", as2_table(sentence_rows(articles[TEST]))
    only_dev = [article for article in articles[DEV] if article["title"] not in tests]
    yield "squad/squad-sent-dev.parquet", as2_table(sentence_rows(only_dev))


def squadshifts(downloads: Downloads, data: Path) -> Converted:
    """SQuADShifts' new Wikipedia articles, from which the studies learn SQuAD-sent in place of SQuAD's
    training set."""
    content = downloads["new_wiki_v1.0.json"].read_bytes()
    yield f"squad/{SHIFTS}", content
    yield "squad/squad-sent-train.parquet", as2_table(sentence_rows(json.loads(content)["data"]))


def sentence_rows(articles: Iterable[Mapping[str, Any]]) -> Rows:
    """Rows, one for each question and sentence of its paragraph."""
    for article in articles:
        for number, paragraph in enumerate(article["paragraphs"]):
            context = paragraph["context"]
            spans = sentence_spans(context)
            for question in paragraph["qas"]:
                place = question["id"], question["question"], f"{article['title']}#{number}", article["title"]
                starts = [(answer["answer_start"],) * 2 for answer in question["answers"]]
                positive = positive_sentence(spans, starts)
                for index, (start, end) in enumerate(spans):
                    yield *place, index, context[start:end].lstrip(), int(index == positive)


def squad_train(downloads: Downloads, data: Path) -> Converted:
    """SQuAD v1.1 train, with the ids that the studies know its questions by: title#paragraph#question."""
    articles = numbered(json.loads(downloads["train-v1.1.json"].read_bytes())["data"])
    content = json.dumps({"version": "1.1", "data": articles}, ensure_ascii=False).encode()
    yield f"{TRAIN}/squad-train-v1.1.json.gz", content
    more = [("answer", pa.string()), ("certain", pa.bool_()), ("has_answer", pa.int8())]
    yield f"{TRAIN}/squad-sent-train-v1.1.parquet", as2_table(train_rows(articles), more)


def numbered(articles: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Articles by title, with such ids. Each question says whether only one sentence holds its answer."""
    renamed = []
    for article in sorted(articles, key=lambda article: article["title"]):
        paragraphs = []
        for p, paragraph in enumerate(article["paragraphs"]):
            spans = sentence_spans(paragraph["context"], END_TRAIN)
            questions = []
            for q, question in enumerate(paragraph["qas"]):
                certain = len(holding(paragraph["context"], spans, question["answers"][0]["text"])) == 1
                key = {"id": f"{article['title']}#{p}#{q}"}
                questions.append({**question, **key, "answer_start_certain": certain})
            paragraphs.append({"context": paragraph["context"], "qas": questions})
        renamed.append({"title": article["title"], "paragraphs": paragraphs})

    return renamed


def train_rows(articles: Iterable[Mapping[str, Any]]) -> Rows:
    """Rows of `sentence_rows`, of questions with one answer, with three more columns: its text, its certainty
    and whether the sentence holds it."""
    for article in articles:
        for number, paragraph in enumerate(article["paragraphs"]):
            context = paragraph["context"]
            spans = sentence_spans(context, END_TRAIN)
            for question in paragraph["qas"]:
                answer = question["answers"][0]
                positive = positive_sentence(spans, [(answer["answer_start"],) * 2])
                held = holding(context, spans, answer["text"]) | {positive}

                place = question["id"], question["question"], f"{article['title']}#{number}", article["title"]
                for index, (start, end) in enumerate(spans):
                    label = (
                        int(index == positive),
                        answer["text"],
                        question["answer_start_certain"],
                        int(index in held),
                    )
                    yield *place, index, context[start:end], *label


def holding(context: str, spans: list[Span], answer: str) -> set[int | None]:
    """Numbers of the sentences in which the answer's text begins: as whole words if the context has it so,
    else as any letters."""
    text = re.escape(answer)
    starts = [match.start() for match in re.finditer(rf"(?<!\w)(?={text}(?!\w))", context)]
    starts = starts or [match.start() for match in re.finditer(f"(?={text})", context)]
    return {positive_sentence(spans, [(start, start)]) for start in starts}


def corpus_wiki(downloads: Downloads, data: Path) -> Converted:
    """Documents of WikiQA, SelQA, SQuAD dev and SQuADShifts, joined again from the sentences and paragraphs
    that the sets have."""
    yield "corpus-wiki/documents.jsonl.gz", json_lines(documents(data))


def documents(data: Path) -> Iterator[dict[str, str]]:
    for source, splits in (("wikiqa", ("train", "dev", "test")), ("selqa", ("dev", "test"))):
        joined: dict[tuple[str, str], dict[int, str]] = {}
        for split in splits:
            for row in pq.read_table(data / f"{source}/{source}-{split}.parquet").to_pylist():
                sentences = joined.setdefault((row["document_id"], row["document_title"]), {})
                sentences.setdefault(row["sentence_index"], row["sentence"])
        for (key, title), sentences in joined.items():
            text = " ".join(sentences[index] for index in sorted(sentences))
            yield {"doc_id": f"{source}:{key}", "title": title, "source": source, "text": text}

    articles: dict[tuple[str, str], dict[str, None]] = {}
    for source, file in (("squad-dev", DEV), ("squad-dev", TEST), ("squadshifts-new-wiki", SHIFTS)):
        for article in json.loads(gzip.decompress((data / "squad" / file).read_bytes()))["data"]:
            contexts = articles.setdefault((source, article["title"]), {})
            contexts.update(dict.fromkeys(paragraph["context"] for paragraph in article["paragraphs"]))

    for (source, title), contexts in articles.items():
        yield {
            "doc_id": f"{source}:{title}",
            "title": title.replace("_", " "),
            "source": source,
            "text": "\n".join(contexts),
        }
