"""PEASI beside plain AS2, in the form of its Tables 2 and 3, on MiniLM-L6 as the body. All learn from the
same questions.

The models are those of `experiments.trainings` in WORK/train, which are trained there if they are missing:
`as2`, which reads the sentence alone, like the paper's; `pr`, `easi`, and `peasi`, which is both in one
("joint"). All begin with the cascade, whose last exit is AS2 with context.

Questions are SQuAD's and WikiQA's of L-test and, for choices, those of L-dev by which trainings stop.
Protocols (`peasi_data`): the first passages that BM25 retrieves; and, for a part of the questions, drawn by
hash, all windows around the best sentences, as in the paper. There `_all`, `_center` and `_random` are groups
of windows on which the same models are measured (Table 3).

Passages are ranked by BM25, by the best of their sentences (`as2max`), and by p(q, p). Answers are ranked by
`as2`, over all sentences; by `all_as2`, over those that EASI extracts; by `top1`, EASI's sentence of the best
passage, then of the next; and by `product`, p(q, p) · p(s | p) among the first FIRST passages. `listwise` is
the product with a softmax over the question's passages for p(q, p). `_context`: by AS2 with context.
`top1_apart`: by `pr` and `easi`. `_shipped`: by the checkpoint that ships, which learnt from as many
questions and began with an earlier cascade.

Keys: `passage_…` are passage-level and compare with each other alone; `answer_…` are answer-level. P@1, MAP
and MRR in percent over the questions whose passages hold an answer. `B_over_A…`: the difference in P@1, its
95 % interval (`_low`, `_high`) and `_p` of a paired randomisation test. `easi_accuracy_…`: of the passages
that hold an answer, those whose extracted one is right. `aurc_…`: area under risk against coverage over all
questions, those without an answer included. Keys without a set are of `squad`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.data.inputs.tables import read_passages
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.ranking.entry import SHIPPED
from answermill.ranking.evaluation.calibration import UNCALIBRATED
from answermill.ranking.evaluation.risk_coverage import risk_coverage
from answermill.ranking.plan import run_stages
from answermill.ranking.rerankers.peasi.answer_logit import answer_logit
from answermill.ranking.rerankers.peasi.peasi_model import load
from answermill.ranking.training.state import HISTORY
from answermill.schemas.corpus import Document
from answermill.schemas.ranked import Candidate
from experiments import long_lists, peasi_data, peasi_trainings, train_lists, trainings
from experiments.first_stage import first_of_plan
from experiments.long_lists import LongList, read_lists
from experiments.peasi_rows import (
    PeasiScores,
    Questions,
    Rows,
    Scores,
    answers,
    as2_scores,
    peasi_scores,
    top1,
)
from experiments.question_sets.gold import drawn
from testing.harness import arguments, finish, say, shrink, trained_by, work_folder
from testing.smoke_data import small_checkpoint

TAKES = "hours of training, kept in --work"
MEASURED_MODELS = ("cascade", "cosinet", "peasi")
DECIDED = (
    'The order of `score = "log_odds"`, chosen on L-dev, where it is more often right first than the '
    "product. The default plan leaves PEASI out: its answers are not shown to be ahead of AS2's."
)

TESTS = ("squad", "wikiqa")
"""Sources of L-test."""
WINDOW_QUESTIONS = 50
SHIPPED_PEASI = SHIPPED / "peasi"
MODELS = tuple(peasi_trainings.FILES)
SHORT = (
    "answer_p1_as2",
    "answer_p1_as2_context",
    "answer_p1_top1",
    "answer_p1_all_as2",
    "answer_p1_product",
    "passage_p1_pr",
)
"""Keys that are given without a set too."""


def retrieved_rows(name: str, lists: Questions, train: Path) -> dict[str, float | int]:
    """Figures on the passages that BM25 retrieves."""
    rows = Rows(name, lists)
    rows.keys[f"{name}_questions"] = len(lists)
    rows.keys[f"{name}_answerable"] = sum(any(row.label for row in question_rows) for question_rows in lists)
    rows.keys[f"{name}_passages"] = sum(map(len, lists))
    rows.keys[f"{name}_sentences"] = sum(
        len(row.sentences) for question_rows in lists for row in question_rows
    )
    as2, context = as2_scores(train / "as2", lists), as2_scores(peasi_trainings.cascade(train), lists)
    pr, easi, joint = (peasi_scores(train / model, lists) for model in ("pr", "easi", "peasi"))
    shipped = peasi_scores(SHIPPED_PEASI, lists)
    rankings = {
        "bm25": [
            {row.passage_id: -float(n) for n, row in enumerate(question_rows)} for question_rows in lists
        ]
    }

    for suffix, scores in (("", as2), ("_context", context)):
        rankings[f"as2max{suffix}"] = [
            {
                row.passage_id: max((known[s.sentence_id] for s in row.sentences), default=-np.inf)
                for row in question_rows
            }
            for question_rows, known in zip(lists, scores, strict=True)
        ]

    for label, scores in (
        rankings | {"pr": pr.passages, "joint": joint.passages, "shipped": shipped.passages}
    ).items():
        rows.add("passage", label, scores)

    for a in rankings:
        rows.over("passage", "joint", a)
    rows.over("passage", "joint", "pr")
    answers(rows, joint, context, "_context")
    answers(rows, joint, as2)
    rows.add("answer", "top1_apart", list(map(top1, pr.passages, easi.sentences)))
    rows.add("answer", "top1_shipped", list(map(top1, shipped.passages, shipped.sentences)))
    for b in ("top1_apart", "top1_shipped"):
        rows.over("answer", b, "as2")

    rows.over("answer", "top1_shipped", "as2_context")
    rows.over("answer", "top1_shipped", "top1")
    rows.over("answer", "listwise", "product")
    for label, model in (("easi", easi), ("joint", joint), ("shipped", shipped)):
        rows.keys[f"{name}_easi_accuracy_{label}"] = accuracy(lists, model)
    rows.keys |= dict(selective(name, lists, as2, joint, train / "peasi"))

    return rows.keys


def accuracy(lists: Questions, model: PeasiScores) -> float:
    """Percentage of the passages with an answer whose extracted sentence is one."""
    right = [
        any(s.label for s in row.sentences if s.sentence_id == chosen.get(row.passage_id, ("", 0.0))[0])
        for question_rows, chosen in zip(lists, model.sentences, strict=True)
        for row in question_rows
        if row.label
    ]
    return 100 * float(np.mean(right))


def selective(
    name: str, lists: Questions, as2: Scores, joint: PeasiScores, folder: Path
) -> Iterator[tuple[str, float]]:
    """Risk against coverage over all questions, those without an answer included."""
    calibration = load(folder, find_model)[0].calibration or UNCALIBRATED

    def confidence(passages: dict[str, float], sentences: dict[str, tuple[str, float]]) -> tuple[str, float]:
        best = max(passages, key=lambda key: passages[key])
        chosen, log_p = sentences.get(best, ("", 0.0))
        return chosen, float(calibration(answer_logit(np.array([passages[best]]), np.array([log_p])))[0])

    first: dict[str, list[tuple[str, float]]] = {
        "as2": [max(scores.items(), key=lambda item: item[1]) for scores in as2],
        "joint": list(map(confidence, joint.passages, joint.sentences)),
    }
    for label, chosen in first.items():
        labels = [{s.sentence_id: s.label for row in rows for s in row.sentences} for rows in lists]
        right = np.array([float(known.get(key, 0)) for known, (key, _) in zip(labels, chosen, strict=True)])
        yield f"{name}_aurc_{label}", risk_coverage(np.array([sure for _, sure in chosen]), right).aurc
        yield f"{name}_right_{label}", 100 * float(right.mean())


def window_rows(
    name: str, lists: Sequence[LongList], documents: Folder[Document], train: Path
) -> dict[str, float | int]:
    """Figures on the windows around the best sentences, by group."""
    plan = first_of_plan(train_lists.SAMPLE)
    plan[-1] = replace(plan[-1], keep=peasi_data.SENTENCES)
    best: list[tuple[Any, Sequence[Candidate]]] = [
        (question.asked, outcome.kept.candidates)
        for question, outcome in zip(
            lists, run_stages([question.passages for question in lists], plan), strict=True
        )
    ]
    groups = peasi_data.in_windows(best, documents)
    as2, joint = as2_scores(train / "as2", groups["all"]), peasi_scores(train / "peasi", groups["all"])
    keys: dict[str, float | int] = {}

    for group, group_lists in groups.items():
        rows = Rows(f"{name}_{group}", group_lists)
        shown = [{row.passage_id for row in question_rows} for question_rows in group_lists]
        inside = [
            {s.sentence_id for row in question_rows for s in row.sentences} for question_rows in group_lists
        ]
        in_group = PeasiScores(
            list(map(among, joint.passages, shown)), list(map(among, joint.sentences, shown))
        )
        answers(rows, in_group, list(map(among, as2, inside)))
        rows.keys[f"{name}_{group}_answerable"] = sum(
            any(row.label for row in question_rows) for question_rows in group_lists
        )
        rows.keys[f"{name}_{group}_passages"] = sum(map(len, group_lists))
        rows.keys[f"{name}_{group}_easi_accuracy"] = accuracy(group_lists, in_group)
        keys |= rows.keys

    return keys


def among(known: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    return {key: value for key, value in known.items() if key in keys}


def measured(data: Path, work: Path) -> dict[str, float | int | str]:
    torch.set_num_threads(1)
    train = work / "train"
    result: dict[str, float | int | str] = {}
    documents = DOCUMENTS.open(long_lists.retrieve(data, work))
    lists = read_lists(data, work, "test")
    sets = {name: [question for question in lists if question.asked.source == name] for name in TESTS}
    passages = {
        name: [rows for rows in peasi_data.retrieved(set_lists) if rows] for name, set_lists in sets.items()
    }
    passages["dev"] = read_passages(train / "passages-dev.parquet")

    for name, set_lists in passages.items():
        result |= retrieved_rows(name, set_lists, train)
        if name in sets:
            some = set(drawn((question.asked.question_id for question in sets[name]), WINDOW_QUESTIONS))
            chosen = [question for question in sets[name] if question.asked.question_id in some]
            result |= window_rows(name, chosen, documents, train)
        shown = {key: value for key, value in result.items() if key.startswith(f"{name}_answer_p1")}
        say(", ".join(f"{key} {float(value):.1f}" for key, value in shown.items()))

    result |= {key: result[f"squad_{key}"] for key in SHORT}
    return result | {"passage_p1_pr_easi": result["squad_passage_p1_joint"], "trained_by": trained_by(train)}


def train(data: Path, work: Path) -> None:
    """Train the models that are missing."""
    waiting = [name for name in MODELS if not (work / "train" / name / HISTORY).is_file()]
    if waiting:
        trainings.prepare(data, work, waiting, trainings.SETS[0], peasi_data.QUESTIONS)
    for name in waiting:
        trainings.trained(work / "train", name, data, trainings.BEGINNINGS[0], trainings.SETS[0])


def small(data: Path, work: Path) -> None:
    """Set random models and few windows, for --smoke."""
    train_lists.small_lists()
    shrink(globals(), WINDOW_QUESTIONS=2, SHIPPED_PEASI=work / "train/peasi")
    for name in ("cascade", *MODELS):
        kind = "cascade" if name in ("cascade", "as2") else "peasi"
        shutil.copytree(small_checkpoint(kind), work / "train" / name)
    peasi_data.write_dev(read_lists(data, work, "dev"), work / "train/passages-dev.parquet")


def main() -> None:
    paths = {"work": "folder that keeps lists and checkpoints; out/long_lists"}
    options = arguments("peasi_quality", __doc__ or "", paths=paths)
    data = options.data.resolve()
    with work_folder(options, "long_lists") as work:
        if options.smoke:
            small(data, work)
        else:
            train(data, work)
        result = measured(data, work)
        context = peasi_trainings.cascade(work / "train")
    models = [name for name in MEASURED_MODELS if name != "cascade" or context == SHIPPED / name]
    finish("peasi_quality", result, options.save, models)


if __name__ == "__main__":
    main()
