"""The passages that PEASI is measured with: labelled ones of `corpus-wiki`, to train it, and what BM25 finds, to test it.

Labels are propagated from the sentences that answer a question. Learnt from questions of SQuAD-sent's training set: the windows
around the answer sentence, and hard negatives of the same documents. Dev and test: SQuAD v2's dev questions, the unanswerable
ones too, of different articles; and WikiQA's test questions. No document is in two of them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from benchmarks.corpus import wiki
from benchmarks.harness import say
from benchmarks.question_sets.gold import is_answer
from indexing.labels.windows import Group
from indexing.passages.text import fold
from pipelines.inputs.tables import read_passages
from pipelines.publish.passage_set import PassageRules
from pipelines.publish.training_passages import build
from schemas.corpus import Passage
from schemas.labels import LabelledPassage, LabelledSentence, SentenceLabel
from schemas.ranked import Hit

TRAIN, DEV, TEST, DEPTH, NEGATIVES = 1_500, 200, 300, 10, 2
DEV_ARTICLES = 12
MAX_TOKENS, SEED = 150, 0
WIDE_TOKENS, WIDE_PLACES, POINT_SENTENCES = 200, 12, 6
GROUPS: dict[str, Group] = {"train": "random", "train-center": "center", "train-all": "all"}
"""Table of passages → its windows."""
TABLES = (*GROUPS, "train-wide", "train-point", "dev", "squad", "wikiqa")


class Question(NamedTuple):
    question_id: str
    text: str
    split: str  # 'train', 'wide' (the training questions after the first TRAIN), 'dev', 'squad' or 'wikiqa'
    doc_id: str
    gold: frozenset[str]  # sentences, folded


def questions(data: Path) -> list[Question]:
    """A sample of each set; of SQuAD v2's as many unanswerable ones as there are in a hundred of it."""
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
        of_set = []
        for key in sorted(rows):
            first = rows[key][0]
            doc_id = f"{title}:{first['document_id' if split == 'wikiqa' else 'document_title']}"
            gold = frozenset(fold(row["sentence"]) for row in rows[key] if row["label"])
            if gold or split == "squad":
                of_set.append(Question(f"{split}:{key}", first["question"], split, doc_id, gold))
        shuffle.shuffle(of_set)
        if split == "squad":
            articles = sorted({question.doc_id for question in of_set})[:DEV_ARTICLES]
            asked += [question._replace(split="dev") for question in of_set if question.doc_id in articles][:DEV]
            asked += [question for question in of_set if question.doc_id not in articles][:TEST]
        else:
            asked += [q._replace(split="wide") if split == "train" and n >= TRAIN else q for n, q in enumerate(of_set)]
    return asked


def prepare(data: Path, work: Path) -> None:
    """Write TABLES, where they are not there: windows of each group and hard negatives; windows and made-up passages of all
    questions; and what is found for the questions of dev and test.
    """
    if all((work / f"{name}.parquet").is_file() for name in TABLES):
        return
    corpus = wiki(data, work)
    of_document: dict[str, list[Passage]] = defaultdict(list)
    for passage in corpus.passages:
        of_document[passage.doc_id].append(passage)
    asked = questions(data)
    looked_up = [question for question in asked if question.split != "wide"]
    results = corpus.bm25.search([question.text for question in looked_up], 4 * DEPTH, None)
    hits: dict[str, list[Hit]] = {}
    for question, (rows, scores) in zip(looked_up, results, strict=True):
        hits[question.question_id] = [
            Hit(question.question_id, question.text, rank, 1 / rank, float(score), rank, None, None, corpus.passages[row])
            for rank, (row, score) in enumerate(zip(rows, scores, strict=True), 1)
        ]
    labels: dict[str, list[SentenceLabel]] = {
        question.question_id: [
            SentenceLabel(question.question_id, sentence.sentence_id, question.doc_id, sentence.text, 1)
            for sentence in {s.sentence_id: s for p in of_document[question.doc_id] for s in p.sentences}.values()
            if is_answer(fold(sentence.text), question.gold)
        ]
        for question in asked
    }
    mine = {question.doc_id for question in asked if question.split == "train"}

    def own_hits(ids: Iterable[str]) -> Iterator[Hit]:
        """Hits in the documents of the training questions; the others' are not looked at."""
        return (hit for key in ids for hit in hits.get(key, ()) if hit.passage.doc_id in mine)

    def windows(name: str, splits: Sequence[str], rules: PassageRules) -> None:
        texts = {question.question_id: question.text for question in asked if question.split in splits}
        built = build(
            [label for key in texts for label in labels[key]],
            texts,
            lambda ids: (corpus.documents[doc_id] for doc_id in ids if doc_id in corpus.documents),
            own_hits,
            rules,
            dict.fromkeys(texts, "train"),
        )
        say(f"training passages, {name}: {dict(built.counts)}")
        write(work / f"{name}.parquet", [row for _, rows in built.rows() for row in rows])

    for name, group in GROUPS.items():
        windows(name, ["train"], PassageRules(group, max_tokens=MAX_TOKENS, negatives=NEGATIVES, seed=SEED))
    windows("train-wide", ["train", "wide"], PassageRules("random", WIDE_PLACES, WIDE_TOKENS, negatives=0, seed=SEED))
    wide = [row for rows in read_passages(work / "train-wide.parquet") for row in rows]
    write(work / "train-point.parquet", list(pointing(wide)))
    right = {(label.question_id, label.sentence_id) for answers in labels.values() for label in answers}
    for split in ("dev", "squad", "wikiqa"):
        of_split = [question for question in asked if question.split == split]
        write(work / f"{split}.parquet", [row for q in of_split for row in retrieved(hits[q.question_id][:DEPTH], right)])


def pointing(windows: Sequence[LabelledPassage]) -> Iterator[LabelledPassage]:
    """Each window's answer sentence at a random place among up to POINT_SENTENCES - 1 sentences of other windows."""
    choose = random.Random(SEED)
    others = [sentence for row in windows for sentence in row.sentences if not sentence.label]
    for row in windows:
        sentences = choose.sample(others, choose.randint(1, POINT_SENTENCES - 1))
        sentences.insert(choose.randint(0, len(sentences)), next(s for s in row.sentences if s.label))
        text = " ".join(sentence.text for sentence in sentences)
        yield replace(row, text=text, sentences=tuple(sentences))


def retrieved(hits: Sequence[Hit], right: set[tuple[str, str]]) -> Iterator[LabelledPassage]:
    for hit in hits:
        p = hit.passage
        sentences = tuple(
            LabelledSentence(s.sentence_id, s.text, int((hit.question_id, s.sentence_id) in right)) for s in p.sentences
        )
        label = max((s.label for s in sentences), default=0)
        yield LabelledPassage(
            hit.question_id, hit.question, p.passage_id, p.doc_id, p.title, p.text, label, "retrieved", sentences
        )


def write(path: Path, rows: Sequence[LabelledPassage]) -> None:
    pq.write_table(LabelledPassage.table(rows), path)
