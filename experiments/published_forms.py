"""Conversion of published data sets, other than those in SQuAD's layout, to the form that the studies read.
Texts are not changed."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from experiments.published_content import as2_table, json_lines
from experiments.published_squad import END_TRAIN, Convert, Converted, Downloads, Rows, sentence_spans

SPLITS = ("train", "dev", "test")
OVERLAP = 0.8
"""Share of an answer's words that a sentence must have to count as the answer."""


def wikiqa(downloads: Downloads, data: Path) -> Converted:
    """Convert Microsoft's archive: three tables of labelled sentences, and one of answer phrases."""
    with zipfile.ZipFile(downloads["WikiQACorpus.zip"]) as archive:
        for split in SPLITS:
            lines = _lines(archive.read(f"WikiQACorpus/WikiQA-{split}.tsv"))
            yield f"wikiqa/wikiqa-{split}.parquet", as2_table(map(_wikiqa_row, lines[1:]))
        phrases = _lines(archive.read("WikiQACorpus/WikiQASent.pos.ans.tsv"))
        yield "wikiqa/WikiQASent.pos.ans.tsv.gz", "".join(f"{line}\n" for line in phrases).encode()


def _lines(content: bytes) -> list[str]:
    return [line.removesuffix("\r") for line in content.decode("utf-8-sig").split("\n") if line]


def _wikiqa_row(line: str) -> tuple[Any, ...]:
    question_id, question, document_id, title, sentence_id, sentence, label = line.split("\t")
    return (
        question_id,
        question,
        document_id,
        title,
        int(sentence_id.rpartition("-")[2]),
        sentence,
        int(label),
    )


def selqa(downloads: Downloads, data: Path) -> Converted:
    """Convert answer sentence selection, dev and test: a list of questions, each with the sentences of a
    section of an article."""
    for split in ("dev", "test"):
        questions = json.loads(downloads[f"selqa-ass-{split}.json"].read_bytes())
        yield f"selqa/selqa-{split}.parquet", as2_table(_selqa_rows(split, questions))


def _selqa_rows(split: str, questions: Sequence[Mapping[str, Any]]) -> Rows:
    for number, question in enumerate(questions):
        place = (
            f"selqa-{split}-{number}",
            question["question"],
            f"{question['article']}#{question['section']}",
            question["article"],
        )
        for index, sentence in enumerate(question["candidates"]):
            yield *place, index, sentence, int(index in question["answers"])


def qed(downloads: Downloads, data: Path) -> Converted:
    """Convert QED's release: paragraphs of Wikipedia in Natural Questions' tokens, with the offsets of their
    sentences and answers."""
    more = [("answer", pa.string()), ("type", pa.string()), ("selected", pa.int8())]
    for split in ("train", "dev"):
        lines = downloads[f"qed-{split}.jsonlines"].read_text(encoding="utf-8").split("\n")
        examples = (json.loads(line) for line in lines if line.strip())
        rows = (row for example in examples for row in _qed_rows(example))
        yield f"qa-train/nq-qed/nq-qed-{split}.parquet", as2_table(rows, more)


def _qed_rows(example: Mapping[str, Any]) -> Rows:
    annotation, text = example["annotation"], example["paragraph_text"]
    kind = annotation["explanation_type"]
    spans = [answer["paragraph_reference"] for answer in annotation.get("answer") or ()]
    spans = spans or [span for annotator in example["original_nq_answers"] for span in annotator]
    selected = (annotation.get("selected_sentence") or {}).get("start")

    key, answer = f"nq{example['example_id']}", plain(spans[0]["string"]) if spans else None
    starts = example["sentence_starts"]
    for index, (start, end) in enumerate(zip(starts, [*starts[1:], len(text)], strict=True)):
        label = int(kind != "none" and any(start <= span["start"] < end for span in spans))
        place = key, example["question_text"], key, example["title_text"], index
        yield *place, plain(text[start:end]), label, answer, kind, int(selected == start)


def plain(tokens: str) -> str:
    """Text of Natural Questions' tokens.

    >>> plain("It 's called `` eyespots '' ( 98 % ) , and role - playing -- once .")
    'It\\'s called "eyespots" (98%), and role-playing – once.'
    """
    text = re.sub(r"`` ?", '"', re.sub(r" ?''", '"', tokens))
    text = re.sub(r" ([,.;:!?%)\]}])", r"\1", re.sub(r"([(\[{$£#]) ", r"\1", text))
    text = re.sub(r" (n't\b)|(?<=\w) (')", r"\1\2", text)
    return re.sub(r"(\w) - (\w)", r"\1-\2", text.replace(" -- ", " – ")).strip()


def fairytaleqa(downloads: Downloads, data: Path) -> Converted:
    """Convert the repository's archive: for each story a table of questions and one of its sections.

    An explicit question is kept if its answer is in one sentence, or if a sentence has most of the answer's
    words.
    """
    more = [("answer", pa.string()), ("certain", pa.bool_()), ("split", pa.string()), ("kind", pa.string())]
    with zipfile.ZipFile(downloads["FairytaleQAData-main.zip"]) as archive:
        rows = (row for story in _stories(archive) for row in _story_rows(*story))
        yield "qa-train/fairytaleqa/fairytaleqa-sent.parquet", as2_table(rows, more)


def _stories(archive: zipfile.ZipFile) -> Iterator[tuple[str, str, list[dict[str, str]], dict[str, str]]]:
    """(split, story, questions, section number → text) of each story."""
    names = archive.namelist()
    for name in sorted(names):
        if match := re.fullmatch(r"(.*/data-by-train-split)/questions/(\w+)/(.+)-questions\.csv", name):
            root, split, story = match.groups()
            sections = _table(archive, f"{root}/section-stories/{split}/{story}-story.csv")
            yield split, story, _table(archive, name), {row["section"]: row["text"] for row in sections}


def _table(archive: zipfile.ZipFile, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(archive.read(name).decode("utf-8-sig"))))


def _story_rows(split: str, story: str, questions: list[dict[str, str]], sections: Mapping[str, str]) -> Rows:
    for question in questions:
        numbers = re.findall(r"\d+", question["cor_section"])
        cut = [(number, sentences_of(sections[number])) for number in numbers]
        sentences = [(number, index, text) for number, texts in cut for index, text in enumerate(texts)]
        position, certain = answer_sentence(question["answer1"], [text for _, _, text in sentences])
        if question["ex-or-im1"] == "explicit" and position is not None:
            key = f"ft-{story}-{question['question_id']}", question["question"]
            for n, (number, index, text) in enumerate(sentences):
                label = int(n == position), question["answer1"], certain, split, "explicit"
                yield *key, f"{story}#{number}", story, index, text, *label


def sentences_of(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, END_TRAIN)]


def answer_sentence(answer: str, sentences: Sequence[str]) -> tuple[int | None, bool]:
    """(number of the sentence that holds an answer, whether it is the only one); None if no sentence is like
    it."""
    holding = [n for n, sentence in enumerate(sentences) if answer.lower() in sentence.lower()]
    if len(holding) == 1:
        return holding[0], True

    words = Counter(re.findall(r"\w+", answer.lower()))
    shares = [(words & Counter(re.findall(r"\w+", sentence.lower()))).total() for sentence in sentences]
    best = max(range(len(sentences)), key=lambda n: shares[n], default=None)
    if best is None or not words or shares[best] < OVERLAP * words.total():
        return None, False
    return best, False


def wikiwhy(downloads: Downloads, data: Path) -> Converted:
    """Convert three files, each id → text."""
    names = ("question", "cause", "effect")
    texts = {name: json.loads(downloads[f"{name}.json"].read_bytes())[name] for name in names}
    pairs = ({"id": key, **{name: texts[name][key] for name in texts}} for key in texts["question"])
    yield "qa-train/wikiwhy/wikiwhy-pairs.jsonl.gz", json_lines(pairs)


def nq_open(downloads: Downloads, data: Path) -> Converted:
    lines = downloads["NQ-open.dev.jsonl"].read_text(encoding="utf-8").split("\n")
    questions = (json.loads(line) for line in lines if line)
    rows = ({"question": question["question"], "answers": question["answer"]} for question in questions)
    yield "questions/nq-open-dev.jsonl.gz", json_lines(rows)


def cacm(downloads: Downloads, data: Path) -> Converted:
    """Convert Anserini's copy: a page of HTML for each document, the topics, and the judgements unchanged."""
    with tarfile.open(downloads["cacm.tar.gz"]) as archive:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        pages = [(Path(member.name).stem, archive.extractfile(member)) for member in members]
        texts = {key: page.read().decode("latin-1") for key, page in pages if page}

    plain_texts = ((key, re.sub(r"</?(?:html|pre)>", "", text).strip("\n")) for key, text in texts.items())
    rows = ({"doc_id": key, "text": text} for key, text in plain_texts)
    yield "retrieval/cacm/docs.jsonl.gz", json_lines(rows)

    topics = downloads["topics.cacm.txt"].read_text(encoding="utf-8")
    queries = re.findall(r"<DOC>\s*<DOCNO>\s*(\S+)\s*</DOCNO>(.*?)</DOC>", topics, re.DOTALL)
    questions = ({"query_id": key, "text": " ".join(text.split())} for key, text in queries)
    yield "retrieval/cacm/queries.jsonl.gz", json_lines(questions)
    yield "retrieval/cacm/qrels.txt", downloads["qrels.cacm.txt"].read_bytes()


def cranfield(downloads: Downloads, data: Path) -> Converted:
    """Convert documents and queries in XML without a root. A judgement names the number of a query in the
    file, from 1, and not its `<num>`."""
    names = ("title", "author", "bib", "text")
    documents = _elements(downloads["cran.all.1400.xml"], "doc", ("docno", *names))
    rows = ({"doc_id": docno, **dict(zip(names, texts, strict=True))} for docno, *texts in documents)
    yield "retrieval/cranfield/docs.jsonl.gz", json_lines(rows)

    queries = enumerate(_elements(downloads["cran.qry.xml"], "top", ("num", "title")), 1)
    questions = ({"query_id": str(n), "source_num": num, "text": text} for n, (num, text) in queries)
    yield "retrieval/cranfield/queries.jsonl.gz", json_lines(questions)
    yield "retrieval/cranfield/qrels.txt", downloads["cranqrel.trec.txt"].read_bytes()


def _elements(path: Path, tag: str, fields: Sequence[str]) -> Iterator[list[str]]:
    """Texts of these fields of each element, without markup; '' for one that is missing or empty."""
    for element in re.findall(rf"<{tag}>(.*?)</{tag}>", path.read_text(encoding="utf-8"), re.DOTALL):
        texts = (re.search(rf"<{field}>(.*?)</{field}>", element, re.DOTALL) for field in fields)
        yield [" ".join(html.unescape(text[1]).split()) if text else "" for text in texts]


def unchanged(folder: str) -> Convert:
    """Conversion that puts the files into a folder unchanged, since the package reads them so."""

    def convert(downloads: Downloads, data: Path) -> Converted:
        for name, path in downloads.items():
            with path.open("rb") as file:
                yield f"{folder}/{name}", file

    return convert


def asnq(downloads: Downloads, data: Path) -> Converted:
    """Convert the archive's tables, of 3 GB, unchanged."""
    with tarfile.open(downloads["asnq.tar"]) as archive:
        for member in archive:
            if member.name.endswith(".tsv") and (file := archive.extractfile(member)) is not None:
                yield f"asnq/{Path(member.name).name}", file
