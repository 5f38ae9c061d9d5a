"""PEASI's own variants beside AS2, in the form of its Tables 2, 3, 5 and 6, learnt from the same questions.

The models are those of `experiments.peasi_trainings` in WORK/train, which are trained there if they are
missing, from --questions of L-train. All begin with the cascade that ships: with --body small its 6 layers of
384, with --body base the 12 layers of 768, as in the paper; then --save writes `peasi_quality_base.json`, for
a card, or for a night.

Models in keys. `slot`: the paper's PR and slot EASI, trained apart; `mtl0`, `mtl1` and `mtl1_pairs` (PR ⊕
EASI in two stages): trained together. `shipped`: PEASI that ships, on one transformer and with a classifier
of sentences for both heads, which learnt from more questions and began with an earlier cascade; it is left
out with --body base. `as2`: the sentence alone, like the paper's; `as2_context`: with its title and its
neighbours.

Questions are SQuAD's and WikiQA's of L-test that have an answer in their passages; choices are made on L-dev,
by which trainings stop. Protocols (`peasi_data`): the first passages that BM25 retrieves; and, of at most
WINDOW_QUESTIONS questions of a set, drawn by hash, all windows around the best sentences, as in the paper.
There `_all`, `_center` and `_random` are groups of windows on which the same models are measured (Table 3).

Keys: `MODEL_SET_passage_…` are of rankings of passages and compare with each other alone: by BM25, by
p(q, p), and by the best of a passage's sentences for AS2. `MODEL_SET_answer_…` are of answers: those of AS2
over all sentences; EASI's sentence of the best passage, which has P@1 alone; and `slot_to_MODEL`, AS2 over
the sentences that EASI extracts. `shipped_product` and `shipped_listwise` rank them by p(q, p) · p(s | p),
and by the same with a softmax over the question's passages. P@1, MAP and MRR are in percent.
`B_SET_…_over_A`: the difference in P@1, its 95 % interval (`_low`, `_high`), `_p` of a paired
randomisation test, and `_shows`: that B is ahead, behind, or no difference, by the interval.
`MODEL_SET_easi_accuracy`: of the passages that hold an answer, those whose extracted sentence is one.
`MODEL_SET_aurc`: area under risk against coverage over all questions, those without an answer included.
`better_…` and `worse_…`: of the questions where one of mtl1_pairs and AS2 is right alone the first by hash,
and what either says (Tables 5 and 6).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from answermill.files.model_files import HISTORY
from answermill.pipelines.data.inputs.tables import read_passages
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.ranking.entry import SHIPPED
from answermill.ranking.evaluation.risk_coverage import risk_coverage
from answermill.ranking.plan import run_stages
from answermill.ranking.rerankers.peasi.answer_logit import answer_logit
from answermill.schemas.corpus import Document
from experiments import long_lists, peasi_data, peasi_trainings, train_lists, trainings
from experiments.first_stage import first_of_plan
from experiments.long_lists import LongList, read_lists
from experiments.peasi_rows import (
    Questions,
    Reader,
    Rows,
    Scores,
    as2_scores,
    best_sentence,
    by_passage,
    compared,
    only,
    product,
    sentence_labels,
)
from experiments.peasi_trainings import Body, trained_name
from experiments.question_sets.gold import by_hash, drawn
from testing.harness import arguments, finish, say, shrink, trained_by, work_folder
from testing.smoke_data import small_checkpoint

TAKES = "four hours of one core, kept in --work"
MEASURED_MODELS = {
    "peasi_quality": ("cascade", "cosinet", "peasi"),
    "peasi_quality_base": ("cascade_base", "cosinet"),
}
DECIDED = (
    'The order of `score = "log_odds"`, chosen on L-dev, where it is more often right first than the '
    "product. The default plan leaves PEASI out: its answers are nowhere ahead of AS2's."
)

TESTS = ("squad", "wikiqa")
"""Sources of L-test."""
WINDOW_QUESTIONS = 200
SHIPPED_PEASI = SHIPPED / "peasi"
MODELS = tuple(name for name in peasi_trainings.FILES if name != "peasi")
AS2 = tuple(peasi_trainings.AS2)
BEST = "mtl1_pairs"
"""The paper's best, from which the examples are."""


class System(NamedTuple):
    """A ranker of passages, and the extractor that reads its best one."""

    pr: Reader
    easi: Reader


def systems(train: Path, body: Body) -> dict[str, System]:
    """The models that are measured, by their names in keys."""
    parts = {"slot": ("pr", "easi")} | {name: (name, name) for name in ("mtl0", "mtl1", "mtl1_pairs")}
    folders = {name: [train / trained_name(part, body) for part in pair] for name, pair in parts.items()}
    if body == "small":
        folders["shipped"] = [SHIPPED_PEASI, SHIPPED_PEASI]
    return {
        name: System(*(Reader(folder, train.parent) for folder in pair)) for name, pair in folders.items()
    }


def as2_models(train: Path, body: Body, lists: Questions) -> dict[str, Scores]:
    return {name: as2_scores(train / trained_name(name, body), lists, train.parent) for name in AS2}


def retrieved_rows(
    name: str, lists: Questions, models: Mapping[str, System], as2: Mapping[str, Scores]
) -> dict[str, float | int | str]:
    """Figures on the passages that BM25 retrieves, of questions with an answer among them."""
    rows = Rows(name, lists)
    rows.keys[f"{name}_answerable"] = len(lists)
    rows.keys[f"{name}_passages"] = sum(map(len, lists))
    rows.keys[f"{name}_sentences"] = sum(len(row.sentences) for asked in lists for row in asked)
    order = [-float(n) for asked in lists for n in range(len(asked))]
    rows.rank("passage", "bm25", by_passage(lists, order))

    for label, scores in as2.items():
        rows.rank("passage", label, best_sentence(lists, scores))
        rows.rank("answer", label, scores)
    answers: dict[str, list[str]] = {}
    for label, model in models.items():
        passages = model.pr.passages(lists)
        rows.rank("passage", label, passages)
        answers[label] = model.easi.answers(lists, passages)
        rows.first(label, answers[label])
        rows.over("passage", label, "bm25", *as2)
        rows.over("answer", label, *as2)
        rows.keys[f"{label}_{name}_easi_accuracy"] = accuracy(lists, model.easi)

    extracted = models["slot"].easi.sentences(lists)
    for label, scores in as2.items():
        rows.rank("answer", f"slot_to_{label}", list(map(only, scores, extracted)))
        rows.over("answer", f"slot_to_{label}", label)
    rows.over("answer", "slot", "slot_to_as2")
    # What the paper says of its variants (Table 2).
    for b, a in (("mtl0", "slot"), ("mtl1", "slot"), ("mtl1_pairs", "mtl1")):
        rows.over("passage", b, a)
        rows.over("answer", b, a)

    shown = examples(lists, as2["as2"], answers[BEST]) if name == TESTS[0] else {}
    return {**rows.keys, **shown}


def product_rows(name: str, lists: Questions, model: System) -> dict[str, float | int | str]:
    """Figures of the product of p(q, p) and p(s | p), by which stages can rank the answers."""
    rows, passages, sentences = Rows(name, lists), model.pr.passages(lists), model.easi.sentences(lists)
    rows.rank("answer", "shipped_product", list(map(product, passages, sentences)))
    rows.rank("answer", "shipped_listwise", list(map(partial(product, listwise=True), passages, sentences)))
    rows.over("answer", "shipped_listwise", "shipped_product")
    return rows.keys


def accuracy(lists: Questions, easi: Reader) -> float:
    """Percentage of the passages with an answer whose extracted sentence is one."""
    answering = [[row for row in rows if row.label] for rows in lists]
    right = [
        sentence_labels([row]).get(extracted.get(row.passage_id, ("", 0.0))[0], 0)
        for rows, extracted in zip(answering, easi.sentences(answering), strict=True)
        for row in rows
    ]
    return 100 * float(np.mean(right))


def selective(name: str, lists: Questions, as2: Scores, model: System) -> Iterator[tuple[str, float]]:
    """Risk against coverage over all questions, those without an answer included."""

    def confidence(passages: dict[str, float], sentences: dict[str, tuple[str, float]]) -> tuple[str, float]:
        best = max(passages, key=lambda key: passages[key])
        chosen, log_p = sentences.get(best, ("", 0.0))
        logit = answer_logit(np.array([passages[best]]), np.array([log_p]))
        return chosen, float(model.pr.calibration(logit)[0])

    first: dict[str, list[tuple[str, float]]] = {
        "as2": [max(scores.items(), key=lambda item: item[1]) for scores in as2],
        "shipped": list(map(confidence, model.pr.passages(lists), model.easi.sentences(lists))),
    }
    for label, chosen in first.items():
        right = np.array(
            [float(sentence_labels(rows).get(key, 0)) for rows, (key, _) in zip(lists, chosen, strict=True)]
        )
        yield f"{label}_{name}_aurc", risk_coverage(np.array([sure for _, sure in chosen]), right).aurc
        yield f"{label}_{name}_right", 100 * float(right.mean())


def examples(lists: Questions, as2: Scores, answers: Sequence[str]) -> dict[str, float | int | str]:
    """The numbers of questions where one of PEASI and AS2 is right alone, and the first of each by hash: the
    question, and either's sentence and passage, empty if there is no such question."""
    cases: dict[str, dict[str, tuple[str, str]]] = {"better": {}, "worse": {}}
    by_id = {rows[0].question_id: rows for rows in lists}
    for rows, scores, answer in zip(lists, as2, answers, strict=True):
        best, labels = max(scores, key=lambda key: scores[key]), sentence_labels(rows)
        right = bool(labels.get(answer, 0)), bool(labels[best])
        if right[0] != right[1]:
            cases["better" if right[0] else "worse"][rows[0].question_id] = answer, best

    keys: dict[str, float | int | str] = {}
    for case, ids in cases.items():
        keys[f"{case}_questions"] = len(ids)
        for key in by_hash(ids)[:1]:
            keys[f"{case}_question"] = by_id[key][0].question
            for model, sentence_id in zip(("peasi", "as2"), ids[key], strict=True):
                texts = {s.sentence_id: (s.text, row.text) for row in by_id[key] for s in row.sentences}
                keys[f"{case}_{model}"], keys[f"{case}_{model}_passage"] = texts.get(sentence_id, ("", ""))
    return keys


def windows(lists: Sequence[LongList], documents: Folder[Document]) -> dict[str, Questions]:
    """Windows around the best sentences of at most WINDOW_QUESTIONS questions with an answer among these, by
    group; the questions of all groups are the same."""
    plan = first_of_plan(train_lists.SAMPLE)
    plan[-1] = replace(plan[-1], keep=peasi_data.SENTENCES)
    outcomes = run_stages([question.passages for question in lists], plan)
    best = {
        question.asked.question_id: (question.asked, outcome.kept.candidates)
        for question, outcome in zip(lists, outcomes, strict=True)
        if not question.gold.isdisjoint(c.candidate_id for c in outcome.kept.candidates)
    }
    chosen = drawn(best, WINDOW_QUESTIONS)
    groups = peasi_data.in_windows([best[key] for key in chosen], documents)
    return {str(group): group_lists for group, group_lists in groups.items()}


def window_rows(
    name: str, groups: Mapping[str, Questions], model: System, as2: Scores
) -> dict[str, float | int | str]:
    """Figures of PR and EASI trained apart on windows, by group (Table 3). `as2`: scores of the sentences of
    group 'all'."""
    keys: dict[str, float | int | str] = {f"{name}_window_questions": len(groups["all"])}
    by_group: dict[str, Rows] = {}

    for group, lists in groups.items():
        rows = by_group[group] = Rows(f"{name}_{group}", lists)
        scores = [
            {key: known[key] for key in sentence_labels(asked)}
            for asked, known in zip(lists, as2, strict=True)
        ]
        rows.rank("answer", "as2", scores)
        extracted = model.easi.sentences(lists)
        rows.rank("answer", "slot_to_as2", list(map(only, scores, extracted)))
        rows.first("slot", model.easi.answers(lists, model.pr.passages(lists)))
        rows.over("answer", "slot_to_as2", "as2")
        rows.over("answer", "slot", "as2", "slot_to_as2")
        rows.keys[f"{name}_{group}_answerable"] = int(rows.kept.sum())
        rows.keys[f"{name}_{group}_passages"] = sum(map(len, lists))
        rows.keys[f"slot_{name}_{group}_easi_accuracy"] = accuracy(lists, model.easi)
        keys |= rows.keys

    every = by_group["all"]
    for group in ("center", "random"):
        both = every.kept & by_group[group].kept
        a, b = (rows.p1("answer", "slot")[both] for rows in (every, by_group[group]))
        keys |= compared(f"slot_{name}_{group}_answer_over_all", a, b)
    return keys


def measured(data: Path, work: Path, body: Body) -> dict[str, float | int | str]:
    train = work / "train"
    result: dict[str, float | int | str] = dict(learnt(train, body))
    models = systems(train, body)
    documents = DOCUMENTS.open(long_lists.retrieve(data, work))
    lists = read_lists(data, work, "test")
    if body == "small":
        dev = read_passages(train / "passages-dev.parquet")
        result |= product_rows("dev", dev, models["shipped"])

    for name in TESTS:
        of_set = [question for question in lists if question.asked.source == name]
        every = [rows for rows in peasi_data.retrieved(of_set) if rows]
        answerable = [rows for rows in every if any(row.label for row in rows)]
        result[f"{name}_questions"] = len(every)
        result |= retrieved_rows(name, answerable, models, as2_models(train, body, answerable))
        if body == "small":
            result |= product_rows(name, answerable, models["shipped"])
            as2 = as2_scores(train / "as2", every, work)
            result |= selective(name, every, as2, models["shipped"])
        shown = {key: value for key, value in result.items() if key.endswith(f"{name}_answer_p1")}
        say(", ".join(f"{key} {float(value):.1f}" for key, value in shown.items()))

        groups = windows(of_set, documents)
        as2 = as2_scores(train / trained_name("as2", body), groups["all"], work)
        result |= window_rows(name, groups, models["slot"], as2)

    return result | {"body": body, "trained_by": trained_by(train)}


def learnt(train: Path, body: Body) -> Iterator[tuple[str, float | int]]:
    """What the models learnt from, their steps, and their dev scores."""
    rows = pq.read_table(train / "passages-train.parquet", columns=["question_id", "label"])
    yield "train_questions", len(pc.unique(rows["question_id"]))
    yield "train_passages", len(rows)
    yield "train_right_passages", int(pc.sum(rows["label"]).as_py() or 0)
    for name in MODELS:
        history = json.loads((train / trained_name(name, body) / HISTORY).read_text(encoding="utf-8"))
        yield f"{name}_steps", history["step"]
        yield f"{name}_dev_mrr", 100 * max(evaluation["dev"] for evaluation in history["evaluations"])


def train(data: Path, work: Path, body: Body, questions: int) -> None:
    """Train the models that are missing."""
    folder, first = work / "train", (trainings.BEGINNINGS[0], trainings.SETS[0])
    folders = {name: folder / trained_name(name, body) for name in MODELS}
    waiting = [name for name, out in folders.items() if not (out / HISTORY).is_file()]
    files = {file for name in waiting for file in peasi_trainings.FILES[name]}
    if not all((folder / f"{file}.parquet").is_file() for file in files):
        trainings.prepare(data, work, waiting, trainings.SETS[0], questions)
    for name in waiting:
        trainings.ran(trainings.training(folder, name, data, *first, body=body), folders[name])


def small(data: Path, work: Path) -> None:
    """Set random models, one step of history, and few windows, for --smoke."""
    train_lists.small_lists()
    shrink(globals(), WINDOW_QUESTIONS=2, SHIPPED_PEASI=Path(small_checkpoint("peasi")))
    for name in MODELS:
        folder = work / "train" / name
        shutil.copytree(small_checkpoint("cascade" if name in AS2 else "peasi"), folder)
        (folder / HISTORY).write_text('{"step": 1, "evaluations": [{"dev": 0.5}]}', encoding="utf-8")
    for file in peasi_trainings.PASSAGES:
        peasi_data.write_dev(read_lists(data, work, "dev"), work / f"train/{file}.parquet")


def main() -> None:
    options = arguments(
        "peasi_quality",
        __doc__ or "",
        paths={"work": "folder that keeps lists, checkpoints and scores; out/long_lists"},
        numbers={"questions": f"of L-train, drawn by hash; {peasi_data.QUESTIONS} if absent"},
        choices={"body": tuple(peasi_trainings.BODIES)},
    )
    torch.set_num_threads(1)
    data, body = options.data.resolve(), options.body
    with work_folder(options, "long_lists") as work:
        if options.smoke:
            small(data, work)
        else:
            train(data, work, body, int(options.questions or peasi_data.QUESTIONS))
        result = measured(data, work, body)
    name = "peasi_quality" if body == "small" else f"peasi_quality_{body}"
    finish(name, result, options.save, MEASURED_MODELS[name])


if __name__ == "__main__":
    main()
