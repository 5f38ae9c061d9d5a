"""The questions of SQuAD v2 and WikiQA that `wqa` has annotated, with their gold sentences."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from answermill.indexing.passages.text import fold

TRAIN, DEV, TEST, SEED = 1_500, 200, 300, 0
DEV_ARTICLES = 12


class Question(NamedTuple):
    question_id: str
    text: str
    split: str  # 'train', 'wide' (the training questions after the first TRAIN), 'dev', 'squad' or 'wikiqa'
    doc_id: str
    gold: frozenset[str]  # sentences, folded


def questions(data: Path) -> list[Question]:
    """Sample of each set; that of SQuAD v2 has the same share of unanswerable questions as the set."""
    asked = []
    shuffle = random.Random(SEED)
    for split, path, title in (
        ("train", "squad/squad-sent-train", "squadshifts-new-wiki"),
        ("squad", "squad/squad-sent-test", "squad-dev"),
        ("wikiqa", "wikiqa/wikiqa-test", "wikiqa"),
    ):
        rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in pq.read_table(data / f"{path}.parquet").to_pylist():
            rows[row["question_id"]].append(row)
        members = []

        for key in sorted(rows):
            first = rows[key][0]
            doc_id = f"{title}:{first['document_id' if split == 'wikiqa' else 'document_title']}"
            gold = frozenset(fold(row["sentence"]) for row in rows[key] if row["label"])
            if gold or split == "squad":
                members.append(Question(f"{split}:{key}", first["question"], split, doc_id, gold))

        shuffle.shuffle(members)
        if split == "squad":
            articles = sorted({question.doc_id for question in members})[:DEV_ARTICLES]
            asked += [question._replace(split="dev") for question in members if question.doc_id in articles][
                :DEV
            ]
            asked += [question for question in members if question.doc_id not in articles][:TEST]
        else:
            asked += [
                q._replace(split="wide") if split == "train" and n >= TRAIN else q
                for n, q in enumerate(members)
            ]

    return asked
