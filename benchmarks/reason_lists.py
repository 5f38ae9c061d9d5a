"""Lists of why, how and what-is questions, of which L-train has few: factoid questions are nine tenths of SQuAD.

Three sources, each of questions that share no words with a test question, and without a candidate that answers one:
SQuAD v1.1 train's own, with the sentences of their paragraph; FairytaleQA's explicit ones, with those of their section; and
WikiWhy's, whose right candidate is the cause and whose wrong ones are the effect, which says the question again, and the causes
of OTHERS other questions. `draw` takes as many as SOURCES says, by hash.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.question_sets import draw, sources
from benchmarks.question_sets.gold import drawn
from benchmarks.question_sets.learnable import Questions, learnable
from pipelines.datasets import by_question, read_dataset
from schemas.labels import LabelledCandidate

SOURCES = {"squad": 3_000, "fairytaleqa": 1_500, "wikiwhy": 2_500}
"""Questions of each at the most."""
SQUAD = "qa-train/squad-train/squad-sent-train-v1.1.parquet"
FAIRYTALES = "qa-train/fairytaleqa/fairytaleqa-sent.parquet"
WIKIWHY = "qa-train/wikiwhy/wikiwhy-pairs.jsonl.gz"
OTHERS = 5
REASON = re.compile(r"why\b|for what reason|what (?:caus|led|ma[dk]e)", re.IGNORECASE)
QUANTITY = "many|much|long|old|far|often|big|large|tall|high|deep|fast|wide|heavy|late"
MANNER = re.compile(rf"how\b(?! (?:{QUANTITY})\b)", re.IGNORECASE)
DEFINITION = re.compile(r"what (?:is|are) (?:an? |the )?[\w-]+(?: [\w-]+)?\?", re.IGNORECASE)
NAME = "FairytaleQA (Xu et al. 2022) and WikiWhy (Ho et al. 2023)"
LICENCE = "Apache 2.0 (FairytaleQA), MIT (WikiWhy)"


def reason_lists(data: Path) -> Questions:
    """A list a question, by question id."""
    of_source = {"squad": squad(data), "fairytaleqa": fairytales(data), "wikiwhy": wikiwhy(data)}
    lists = []
    for name, members in of_source.items():
        apart = {rows[0].question_id: rows for rows in learnable(data, members)}
        lists += [apart[key] for key in drawn(apart, SOURCES[name])]
    return sorted(lists, key=lambda rows: rows[0].question_id)


def squad(data: Path) -> Questions:
    """Of documents that no question of L-test or L-dev is about."""
    tests = [each for members in draw.test_pool(data).values() for each in members]
    is_apart, leaks = draw.apart_from([*tests, *draw.dev_set(data)]), draw.leaked(data)
    members = (each for each in sources.squad_train(data) if is_reasoned(each.text) and each.question_id not in leaks)
    ids = {each.question_id.partition(":")[2] for each in members if is_apart(each)}
    lists = (rows for rows in by_question(read_dataset(data / SQUAD)) if rows[0].question_id in ids)
    return [[replace(row, title=row.title.replace("_", " ")) for row in rows] for rows in lists]


def is_reasoned(question: str) -> bool:
    return any(kind.match(question) for kind in (REASON, MANNER, DEFINITION))


def fairytales(data: Path) -> Questions:
    """Some questions are about two sections, whose sentences then follow each other."""
    of_question: dict[str, list[LabelledCandidate]] = {}
    for row in pq.read_table(data / FAIRYTALES).to_pylist():
        if is_reasoned(row["question"]):
            rows, key, title = of_question.setdefault(row["question_id"], []), row["question_id"], row["document_title"]
            place = f"{key}-{len(rows)}", row["document_id"], title.replace("-", " "), len(rows)
            rows.append(LabelledCandidate(key, row["question"], *place, row["sentence"], row["label"]))
    return list(of_question.values())


def wikiwhy(data: Path) -> Questions:
    with gzip.open(data / WIKIWHY, "rt", encoding="utf-8") as lines:
        pairs = [json.loads(line) for line in lines]
    pairs.sort(key=lambda pair: hashlib.sha256(pair["id"].encode()).digest())
    return [list(wikiwhy_rows(pairs, n)) for n in range(len(pairs))]


def wikiwhy_rows(pairs: list[dict[str, str]], n: int) -> Iterator[LabelledCandidate]:
    pair = pairs[n]
    others = [pairs[(n + step) % len(pairs)]["cause"] for step in range(1, OTHERS + 1)]
    key = f"wikiwhy-{pair['id']}"
    for position, text in enumerate((pair["effect"], pair["cause"], *others)):
        place = f"{key}-{position}", f"{key}-{position}", "", position
        yield LabelledCandidate(key, pair["question"], *place, text.strip(), int(position == 1), previous="", next="")
