"""Data sets of answer sentence selection, as streams of `LabelledCandidate`: what the five papers train and measure on.

A file goes in; out come its questions' candidates, in their original order, with their labels. Nothing is lower-cased,
tokenised, sampled or left out on the way: to drop questions without an answer is the protocol of whoever reads. Where a
form itself must leave something out, or decide, its reader counts it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.datasets.insuranceqa import read_insuranceqa, recognise_indexed
from pipelines.datasets.lines import Row, in_order, open_bytes
from pipelines.datasets.natural_questions import read_nq_asnq, read_nq_la
from pipelines.datasets.parquet import columns_of, read_parquet
from pipelines.datasets.squad import read_squad
from pipelines.datasets.tabular import read_asnq, read_tsv, read_wikiqa, recognise_tabs
from pipelines.datasets.trecqa import PAIRS, read_trecqa
from pipelines.datasets.yahooqa import read_yahooqa, recognise_yahooqa
from pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from schemas.labels import LabelledCandidate

FORMATS: Mapping[str, str] = {
    "wikiqa": "WikiQA's own TSV with its header; sentences of a Wikipedia summary",
    "trecqa": "TREC-QA as jacana's pseudo-XML; train, train-all, dev and test, raw or clean",
    "asnq": "ASNQ: question, sentence, class 1-4 between tabs, 4 is positive; options questions, split",
    "tsv": "question, sentence, label 0/1 between tabs, or any columns that a header names",
    "squad": "SQuAD v1.1 / v2.0 JSON as SQuAD-sent: the sentences of the paragraph; option splitter",
    "nq-la": "Natural Questions JSONL as NQ-LA: the paragraphs of the page; option annotators",
    "nq-asnq": "Natural Questions JSONL with ASNQ's classes: the sentences of the page; options annotators, splitter",
    "insuranceqa": "insuranceQA v1, original files or JSONL: the pool of answers; options answers, vocabulary",
    "yahooqa": "yahooQA's splits as JSON, {question: [[answer, label], ...]}; option split",
    "parquet": "LabelledCandidate rows, or question_id ... sentence, label",
}
_READERS: Mapping[str, Callable[..., Iterator[Row]]] = {
    "wikiqa": read_wikiqa,
    "trecqa": read_trecqa,
    "asnq": read_asnq,
    "tsv": read_tsv,
    "squad": read_squad,
    "nq-la": read_nq_la,
    "nq-asnq": read_nq_asnq,
    "insuranceqa": read_insuranceqa,
    "yahooqa": read_yahooqa,
    "parquet": read_parquet,
}
_HEAD = 1 << 20  # bytes that decide what a file is; less could be all one class of ASNQ
_LINE = 1 << 25  # but a line of Natural Questions, a whole page, may have more
_JSON_KEYS = {  # a line of JSON that has all of these is one of this form
    "nq-la": {"question_text", "long_answer_candidates", "annotations"},
    "insuranceqa": {"question_id", "question", "positive_ids"},
}


def read_dataset(
    path: Path, form: str | None = None, *, counted: Counter[str] | None = None, **options: Any
) -> Iterator[LabelledCandidate]:
    """The candidates of a file, one at a time; `form` is one of FORMATS, or None to recognise it.

    A question's candidates are consecutive, their positions 0..n-1 in original order; question ids are unique. `options` are
    those of the form's reader. What it left out or decided stands in `counted` when the stream has ended.

    Raises JobError: 66 where a file is missing, 2 where the form is unknown, 65 where it cannot be recognised and, during the
    reading and with the line, where a row is wrong. Nothing is skipped for being wrong.
    """
    if not path.is_file():
        raise JobError(f"{path}: no such file", INPUT_MISSING)
    known = "; ".join(f"{name} ({what})" for name, what in FORMATS.items())
    form = form or recognise(path)
    if form is None:
        raise JobError(f"{path}: not recognised as a data set; name its form, one of: {known}", BAD_DATA)
    if form not in _READERS:
        raise JobError(f"{path}: unknown form {form!r}; known: {known}", USAGE)
    return in_order(path, _READERS[form](path, Counter() if counted is None else counted, **options))


def by_question(rows: Iterable[LabelledCandidate]) -> Iterator[list[LabelledCandidate]]:
    """The candidates of a data set, as one list for each question."""
    for _, group in groupby(rows, key=lambda row: row.question_id):
        yield list(group)


def recognise(path: Path) -> str | None:
    """The form of a file by its name and its first MiB, or first line of JSON; None where it is no data set
    that we know, or could be two. Natural Questions are taken for 'nq-la'; 'nq-asnq' must be asked for.
    """
    if path.name.endswith(".parquet"):
        try:
            return "parquet" if columns_of(pq.read_schema(path)) else None
        except (OSError, pa.ArrowInvalid):
            return None
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD)
        text = head.decode("utf-8", errors="ignore" if len(head) == _HEAD else "strict").removeprefix("\ufeff")
    except (JobError, OSError, EOFError, zlib.error, UnicodeDecodeError):  # missing, broken gzip, or no text
        return None
    first = text.lstrip()[:1]
    if first == "{":
        return _recognise_json(path, text)
    if first == "<":
        return "trecqa" if PAIRS.match(text.lstrip()) else None
    whole = [line.removesuffix("\r") for line in text.split("\n")[: -1 if len(head) == _HEAD else None] if line.strip()]
    if not whole:
        return None
    return "insuranceqa" if recognise_indexed(whole[0]) else recognise_tabs(whole)


def _recognise_json(path: Path, head: str) -> str | None:
    if all(re.search(rf'"{key}"\s*:', head) for key in ("data", "paragraphs", "qas")):
        return "squad"
    if recognise_yahooqa(head):
        return "yahooqa"
    with open_bytes(path) as file:
        try:
            row = json.loads(file.readline(_LINE))
        except (ValueError, OSError, EOFError, zlib.error):
            return None
    return next((form for form, keys in _JSON_KEYS.items() if keys <= row.keys()), None)
