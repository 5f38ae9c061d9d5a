"""PEASI beside the plain AS2 baseline, in the form of its Tables 2 and 3, on MiniLM-L6 as the body.

Passages of `corpus-wiki`, the first DEPTH that BM25 finds for a question, labelled by propagation from the sentences that
answer it. Learnt from questions of SQuAD-sent's training set: the windows around the answer sentence (one, at random), and the
first retrieved passages of the same documents that hold no answer. Dev and test: SQuAD v2's dev questions, the unanswerable
ones too, of different articles; and WikiQA's test questions. No document is in two of them.

Everything begins with the same body, fine-tuned on SQuAD-sent as AS2, which is the baseline too (TANDA without its adapt).
PR learns alone from TRAIN questions. EASI's one token has to learn to point before it can choose, and on passages alone that
takes thousands of steps; so `easi_point` learns from made-up passages, the answer of each question among a few sentences of
other documents. From there EASI learns from each group of the TRAIN questions' windows (Table 3; `answer_…_top1_<group>`
are of each with the same PR), and `easi_wide` from one window of each question there is, of up to WIDE_TOKENS, the answer at
any of WIDE_PLACES places, for the passages that retrieval finds do not keep it among the first five. k is SLOTS. Stage two
begins with PR and `easi_wide`, at RATE_JOINT; mtl0, whose one body can begin with one of them only, with the slower to learn,
EASI. There k is SLOTS_JOINT, chosen by `dev_easi_accuracy_easi_wide_k…`, how well `easi_wide` does if it reads fewer sentences
at once; one at once would be best, and no EASI.

Keys: `passage_…` are passage-level and compare with each other alone; `answer_…` are answer-level. P@1, MAP and MRR in percent
over the questions whose retrieved passages hold an answer. `easi_accuracy_…`: of the retrieved passages that hold one, those
whose extracted sentence is one. `aurc_…`: area under risk against coverage over SQuAD's questions, unanswerable ones included.
"""

from __future__ import annotations

import multiprocessing
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch

from benchmarks.cascade_quality import training as as2_training
from benchmarks.harness import arguments, finish, say
from indexing import bm25, java
from indexing.dense import find_model
from indexing.given import fold
from indexing.windows import Group
from pipelines import run
from pipelines.job import Job
from pipelines.passages import Rules, build
from pipelines.records import Folder
from pipelines.tables import read_passages
from pipelines.train import run as train_run
from pipelines.trainjob import TrainJob
from ranking.cascade import Cascade
from ranking.cascade import load as load_as2
from ranking.confidence import risk_coverage
from ranking.lists import ranked_passages
from ranking.metrics import Judged, measure
from ranking.peasi import UNCALIBRATED, Asked, Reader, answer_logit, load, per_list
from ranking.reranker import Resources, to_sentences
from schemas.corpus import Document, Passage
from schemas.labels import LabelledPassage, LabelledSentence, SentenceLabel
from schemas.ranked import Hit

TRAIN, DEV, TEST, DEPTH, NEGATIVES = 1_500, 200, 300, 10, 2
DEV_ARTICLES = 12
MAX_TOKENS, SEED = 150, 0
WIDE_TOKENS, WIDE_PLACES, POINT_SENTENCES = 200, 12, 6
SLOTS, SLOTS_JOINT = 5, 3
FEWER = (3, 2, 1)
RATE_PR, RATE_EASI, RATE_JOINT = 5e-5, 1e-4, 1e-5
RATE_POINT = 2e-4
PROCESSES = 2
VARIANTS = ("pr", "easi_wide", "mtl0", "mtl1", "joint")
GROUPS: dict[str, Group] = {"easi": "random", "easi_center": "center", "easi_all": "all"}
TRAINED_ON = {
    "easi_point": "train-point",
    "easi_center": "train-center",
    "easi_all": "train-all",
    "easi_wide": "train-wide",
}
"""The table of passages; the others learn from `train`."""
DATA = {
    "name": "passages of Wikipedia, labelled by SQuADShifts' new Wikipedia questions (Miller et al. 2020), windows and hard "
    "negatives of 1,500 of them, one window of each of the 7,938; dev set: the first 10 passages that BM25 finds for 200 "
    "questions of SQuAD v2.0 dev (Rajpurkar et al. 2018), of Wikipedia documents",
    "licence": "CC BY-SA 4.0",
}
RESOURCES = Resources(None, lambda: None, find_model)  # type: ignore[arg-type, return-value]


class Question(NamedTuple):
    question_id: str
    text: str
    split: str  # 'train', 'wide' (the training questions after the first TRAIN), 'dev', 'squad' or 'wikiqa'
    doc_id: str
    gold: frozenset[str]  # sentences, folded


def questions(data: Path) -> list[Question]:
    """A sample of each set; of SQuAD v2's as many unanswerable ones as there are in a hundred of it."""
    made = []
    shuffle = random.Random(SEED)
    for split, path, title in (
        ("train", "squad/squad-sent-train", "squadshifts-new-wiki"),
        ("squad", "squad/squad-sent-test", "squad-dev"),
        ("wikiqa", "wikiqa/wikiqa-test", "wikiqa"),
    ):
        rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in pq.read_table(data / f"{path}.parquet").to_pylist():
            rows[row["question_id"]].append(row)
        found = []
        for key in sorted(rows):
            first = rows[key][0]
            doc_id = f"{title}:{first['document_id' if split == 'wikiqa' else 'document_title']}"
            gold = frozenset(fold(row["sentence"]) for row in rows[key] if row["label"])
            if gold or split == "squad":
                found.append(Question(f"{split}:{key}", first["question"], split, doc_id, gold))
        shuffle.shuffle(found)
        if split == "squad":
            articles = sorted({question.doc_id for question in found})[:DEV_ARTICLES]
            made += [question._replace(split="dev") for question in found if question.doc_id in articles][:DEV]
            made += [question for question in found if question.doc_id not in articles][:TEST]
        else:
            made += [q._replace(split="wide") if split == "train" and n >= TRAIN else q for n, q in enumerate(found)]
    return made


def prepare(data: Path, work: Path) -> None:
    """Labelled passages: train.parquet, and with the windows of the other groups; dev, squad, wikiqa."""
    if all((work / f"{name}.parquet").is_file() for name in ("train", *TRAINED_ON.values(), "dev", "squad", "wikiqa")):
        return
    job = Job.model_validate({"ingest": {"input": [str(data / "corpus-wiki/documents.jsonl.gz")], "min_words": 1}})
    for line in run.run_steps(job, work / "run", ["ingest"], ()):
        say(line)
    passages = list(Folder.open(work / "run/passages", Passage, "ingest").read())
    documents = {document.doc_id: document for document in Folder.open(work / "run/documents", Document, "ingest").read()}
    of_document: dict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        of_document[passage.doc_id].append(passage)
    java.start(java.find_java())
    if not (work / "bm25").is_dir():
        bm25.build(((passage.title, passage.text) for passage in passages), work / "bm25")
    asked = questions(data)
    looked_up = [question for question in asked if question.split != "wide"]
    found = bm25.Bm25Index(work / "bm25").search([question.text for question in looked_up], 4 * DEPTH, None)
    hits: dict[str, list[Hit]] = {}
    for question, (rows, scores) in zip(looked_up, found, strict=True):
        hits[question.question_id] = [
            Hit(question.question_id, question.text, rank, 1 / rank, float(score), rank, None, None, passages[row])
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

    def windows(name: str, splits: Sequence[str], rules: Rules) -> None:
        texts = {question.question_id: question.text for question in asked if question.split in splits}
        built = build(
            [label for key in texts for label in labels[key]],
            texts,
            lambda ids: (documents[doc_id] for doc_id in ids if doc_id in documents),
            own_hits,
            rules,
            dict.fromkeys(texts, "train"),
        )
        say(f"training passages, {name}: {dict(built.counts)}")
        write(work / f"{name}.parquet", [row for _, rows in built.rows() for row in rows])

    for name, group in GROUPS.items():
        windows(TRAINED_ON.get(name, "train"), ["train"], Rules(group, max_tokens=MAX_TOKENS, negatives=NEGATIVES, seed=SEED))
    windows("train-wide", ["train", "wide"], Rules("random", WIDE_PLACES, WIDE_TOKENS, negatives=0, seed=SEED))
    wide = [row for rows in read_passages(work / "train-wide.parquet") for row in rows]
    write(work / "train-point.parquet", list(pointing(wide)))
    right = {(label.question_id, label.sentence_id) for made in labels.values() for label in made}
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


def is_answer(text: str, gold: Iterable[str]) -> bool:
    """Whether a sentence of the right document is an answer: it holds one, or is half of one at least."""
    return any(right in text or (text in right and 2 * len(text) >= len(right)) for right in gold)


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


def training(work: Path, name: str) -> TrainJob:
    easi, alone = name.startswith("easi"), name == "pr" or name.startswith("easi")
    begun = "as2" if name in ("pr", "easi_point") else "easi_point" if easi else "easi_wide" if name == "mtl0" else "pr"
    section: dict[str, Any] = {"variant": "easi" if easi else name, "encoder": str(work / begun)}
    section |= {"words": "source", "store": "fp16"}
    if name != "pr":
        section["slots"] = SLOTS if easi else SLOTS_JOINT
    if name in ("mtl1", "joint"):
        section["easi"] = str(work / "easi_wide")
    section |= {"tokens": 1_000 if alone else 1_200, "classifier_rate": 10.0 if alone else 3.0}
    train = work / f"{TRAINED_ON.get(name, 'train')}.parquet"
    return TrainJob.model_validate(
        {
            "peasi": section,
            "data": {**DATA, "train": [str(train)], "dev": [str(work / "dev.parquet")]},
            "train": {
                "epochs": 1,
                "learning_rate": {"pr": RATE_PR, "easi_point": RATE_POINT}.get(name, RATE_EASI if easi else RATE_JOINT),
                "schedule": "linear",
                "precision": "bf16",
                "clip": 1.0,
                "metric": "P@1",
                "evaluate_every": 0,
            },
        }
    )


def train(data: Path, work: Path, name: str) -> str:
    torch.set_num_threads(1)
    job = as2_training(data, work, "mt6", False) if name == "as2" else training(work, name)
    *_, last = train_run(job, work / name)
    return f"{name}: {last}"


class Table(NamedTuple):
    """What a model says of a set's passages, question by question."""

    passages: list[np.ndarray]  # logits of p(q, p); empty without a PR
    sentence: list[np.ndarray]  # the extracted sentence's number, -1 = none; empty without an EASI
    log_p: list[np.ndarray]


def scored(work: Path, name: str, test: str, slots: int | None = None) -> Table:
    """`slots`: of EASI, the first so many; None: all."""
    torch.set_num_threads(1)
    lists = [ranked_passages(rows) for rows in read_passages(work / f"{test}.parquet")]
    model, tokeniser = load(work / name, RESOURCES)
    model.slots = slots or model.slots
    reader = Reader(model, tokeniser)
    asked = [Asked.of(ranked, c) for ranked in lists for c in ranked.candidates]
    passages = per_list(lists, reader.passages(asked)) if model.reads_passages else []
    if not model.reads_sentences:
        return Table(passages, [], [])
    found = reader.sentences(asked)
    return Table(passages, per_list(lists, found.sentence), per_list(lists, found.log_p))


def as2(work: Path, test: str) -> list[dict[str, float]]:
    """The baseline's score of each sentence."""
    torch.set_num_threads(1)
    ranker = Cascade(*load_as2(work / "as2", "pointwise", RESOURCES))
    lists = [to_sentences(ranked_passages(rows)) for rows in read_passages(work / f"{test}.parquet")]
    found = ranker.exit_scores(lists)
    return [
        {c.candidate_id: float(score) for c, score in zip(ranked.candidates, rows.scores[:, -1], strict=True)}
        for ranked, rows in zip(lists, found, strict=True)
    ]


def metrics(judged: Iterable[tuple[Sequence[float], Sequence[int]]]) -> dict[str, float]:
    """P@1, MAP, MRR in percent over the lists that hold something right."""
    made = Judged.of([(list(scores), list(labels)) for scores, labels in judged])
    kept = made.kept("answerable")
    names = {"P@1": "p1", "MAP": "map", "MRR": "mrr"}
    return {names[metric]: 100 * float(v.expected[kept].mean()) for metric, v in measure(made, tuple(names)).items()}


def answers(rows: Sequence[LabelledPassage], chosen: Callable[[dict[str, int]], dict[str, float]]) -> tuple[Any, Any]:
    """A question's answers: scores of the chosen sentences, all others below them; and the labels."""
    labels = {s.sentence_id: s.label for row in rows for s in row.sentences}
    scores = chosen(labels)
    lowest = min(scores.values(), default=0.0) - 1
    return [scores.get(key, lowest) for key in labels], list(labels.values())


def rows_of(test: str, work: Path, tables: dict[str, Table], as2_scores: list[dict[str, float]]) -> Iterator[tuple[str, float]]:
    lists = read_passages(work / f"{test}.parquet")
    yield f"{test}_questions", len(lists)
    yield f"{test}_answerable", sum(any(row.label for row in rows) for rows in lists)
    yield f"{test}_passages", sum(map(len, lists))
    yield f"{test}_sentences", sum(len(row.sentences) for rows in lists for row in rows)
    baseline = metrics(answers(rows, lambda _, s=scores: s) for rows, scores in zip(lists, as2_scores, strict=True))  # type: ignore[misc]
    yield from ((f"{test}_answer_{metric}_as2", value) for metric, value in baseline.items())
    order = metrics(([-n for n in range(len(rows))], [row.label for row in rows]) for rows in lists)
    yield from ((f"{test}_passage_{metric}_bm25", value) for metric, value in order.items())
    for name, table in tables.items():
        if table.passages:
            found = metrics(
                (scores.tolist(), [r.label for r in rows]) for rows, scores in zip(lists, table.passages, strict=True)
            )
            yield from ((f"{test}_passage_{metric}_{name}", value) for metric, value in found.items())
        if not table.sentence:
            continue
        yield f"{test}_easi_accuracy_{name}", accuracy(lists, table)
        picked = [
            {rows[n].sentences[at].sentence_id for n, at in enumerate(best.tolist()) if at >= 0}
            for rows, best in zip(lists, table.sentence, strict=True)
        ]
        all_as2 = metrics(
            answers(rows, lambda _, s=scores, p=mine: {key: value for key, value in s.items() if key in p})  # type: ignore[misc]
            for rows, scores, mine in zip(lists, as2_scores, picked, strict=True)
        )
        yield from ((f"{test}_answer_{metric}_all_as2_{name}", value) for metric, value in all_as2.items())
        if table.passages:
            yield from of_top(test, name, lists, table)
    for name, group in GROUPS.items():
        yield from of_top(test, group, lists, tables[name]._replace(passages=tables["pr"].passages))
    yield from selective(test, work, lists, tables, as2_scores)


def accuracy(lists: list[list[LabelledPassage]], table: Table) -> float:
    """Of the passages that hold an answer, those whose extracted sentence is one, in percent."""
    right = [
        bool(rows[n].sentences[at].label) if at >= 0 else False
        for rows, best in zip(lists, table.sentence, strict=True)
        for n, at in enumerate(best.tolist())
        if rows[n].label
    ]
    return 100 * float(np.mean(right))


def of_top(test: str, name: str, lists: list[list[LabelledPassage]], table: Table) -> Iterator[tuple[str, float]]:
    """The pipeline 'top-1': the sentence of PR's best passage, then that of the next, and so on."""
    judged = []
    for rows, scores, best in zip(lists, table.passages, table.sentence, strict=True):
        given: dict[str, float] = {}
        for n in np.argsort(-scores, kind="stable").tolist():
            if best[n] >= 0:
                given.setdefault(rows[n].sentences[best[n]].sentence_id, float(scores[n]))
        judged.append(answers(rows, lambda _, g=given: g))  # type: ignore[misc]
    yield from ((f"{test}_answer_{metric}_top1_{name}", value) for metric, value in metrics(judged).items())


def selective(
    test: str, work: Path, lists: list[list[LabelledPassage]], tables: dict[str, Table], as2_scores: list[dict[str, float]]
) -> Iterator[tuple[str, float]]:
    """Risk against coverage over all questions, those without an answer too."""
    labels = [{s.sentence_id: s.label for row in rows for s in row.sentences} for rows in lists]
    best = [max(scores, key=lambda key: scores[key]) for scores in as2_scores]
    right = np.array([of[key] for of, key in zip(labels, best, strict=True)], np.float64)
    confidence = np.array([scores[key] for scores, key in zip(as2_scores, best, strict=True)])
    curve = risk_coverage(confidence, right)
    yield f"{test}_aurc_as2", curve.aurc
    yield f"{test}_right_as2", 100 * float(right.mean())
    for name, table in tables.items():
        if not (table.passages and table.sentence):
            continue
        calibration = load(work / name, RESOURCES)[0].calibration or UNCALIBRATED
        confidence_, right_ = [], []
        for rows, scores, chosen, log_p in zip(lists, table.passages, table.sentence, table.log_p, strict=True):
            top = int(np.argmax(scores))
            there = chosen[top] >= 0
            confidence_.append(float(calibration(answer_logit(scores[[top]], log_p[[top]]))[0]) if there else np.nan)
            right_.append(float(rows[top].sentences[chosen[top]].label) if there else 0.0)
        curve = risk_coverage(np.array(confidence_), np.array(right_))
        yield f"{test}_aurc_{name}", curve.aurc
        yield f"{test}_right_{name}", 100 * float(np.mean(right_))


def main() -> None:
    given = arguments("peasi_quality", __doc__ or "", paths={"work": "folder of the trainings, which stay; out/peasi_quality"})
    data, work = given.data.resolve(), (given.work or Path("out/peasi_quality")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    prepare(data, work)
    context = multiprocessing.get_context("spawn")
    result: dict[str, float | int | str] = {}
    with ProcessPoolExecutor(PROCESSES, context) as pool:
        one = ("as2",), ("easi_point", "pr"), ("easi_wide", "easi_all", "easi", "easi_center")
        for names in (*one, ("joint", "mtl1", "mtl0")):
            for made in [pool.submit(train, data, work, name) for name in names]:
                say(made.result())
        tests, models = ("dev", "squad", "wikiqa"), dict.fromkeys((*VARIANTS, *GROUPS))
        tables = {(test, name): pool.submit(scored, work, name, test) for test in tests for name in models}
        baselines = {test: pool.submit(as2, work, test) for test in tests}
        fewer = {(test, k): pool.submit(scored, work, "easi_wide", test, k) for test in tests for k in FEWER}
        for (test, k), table in fewer.items():
            lists = read_passages(work / f"{test}.parquet")
            result[f"{test}_easi_accuracy_easi_wide_k{k}"] = accuracy(lists, table.result())
        for test in tests:
            of = {name: tables[test, name].result() for name in models}
            result |= rows_of(test, work, of, baselines[test].result())
            say(f"{test}: " + ", ".join(f"{key} {value:.2f}" for key, value in result.items() if key.startswith(test)))
    for ours, theirs in (
        ("answer_p1_as2", "squad_answer_p1_as2"),
        ("answer_p1_top1", "squad_answer_p1_top1_mtl1"),
        ("answer_p1_all_as2", "squad_answer_p1_all_as2_mtl1"),
        ("passage_p1_pr", "squad_passage_p1_pr"),
        ("passage_p1_pr_easi", "squad_passage_p1_joint"),
    ):
        result[ours] = result[theirs]
    finish("peasi_quality", result, given.save)


if __name__ == "__main__":
    main()
