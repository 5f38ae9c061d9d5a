"""PEASI beside the plain AS2 baseline, in the form of its Tables 2 and 3, on MiniLM-L6 as the body.

Passages of `corpus-wiki`, the first DEPTH that BM25 finds for a question; `peasi_data` says which. Variants learn from the
windows around the answer sentence (one, at random) and NEGATIVES windows that begin as the first retrieved passages do.

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
Keys without a set are of `squad`; `answer_p1_top1` and `answer_p1_all_as2` are of `best`, the variant whose top-1 answers are
best on dev.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import cascade_quality, peasi_data
from benchmarks.cascade_quality import small_dev
from benchmarks.cascade_quality import training as as2_training
from benchmarks.harness import arguments, finish, processes, say, shrink, tell, trained_by, work_folder
from benchmarks.peasi_data import prepare
from benchmarks.smoke_data import small_encoder
from indexing.shards.dense import find_model
from pipelines.config.training_file import TrainJob
from pipelines.inputs.tables import read_passages
from pipelines.train.train import run as train_run
from ranking.cascade.cascade import Cascade
from ranking.cascade.cascade_model import load as load_as2
from ranking.evaluation.metrics import Judged, measure
from ranking.evaluation.risk_coverage import risk_coverage
from ranking.lists import ranked_passages
from ranking.peasi.calibration import UNCALIBRATED, answer_logit
from ranking.peasi.passage_reader import AskedPassage, Reader, per_list
from ranking.peasi.peasi_model import load
from ranking.plan import to_sentences
from schemas.labels import LabelledPassage

SLOTS, SLOTS_JOINT = 5, 3
FEWER = (3, 2, 1)
RATE_PR, RATE_EASI, RATE_JOINT = 5e-5, 1e-4, 1e-5
RATE_POINT = 2e-4
BOTH = ("mtl0", "mtl1", "joint")
"""The variants that rank passages and extract."""
VARIANTS = ("pr", "easi_wide", *BOTH)
GROUPS = {"easi": "random", "easi_center": "center", "easi_all": "all"}
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


def training(work: Path, name: str) -> TrainJob:
    easi, alone = name.startswith("easi"), name == "pr" or name.startswith("easi")
    begun = "as2" if name in ("pr", "easi_point") else "easi_point" if easi else "easi_wide" if name == "mtl0" else "pr"
    section: dict[str, Any] = {"variant": "easi" if easi else name, "encoder": str(work / begun)}
    section |= {"words": "source", "store": "fp16"}
    if name != "pr":
        section["slots"] = SLOTS if easi else SLOTS_JOINT
    if name in ("mtl1", "joint"):
        section["easi"] = str(work / "easi_wide")
    tokens = 1_000 if alone else 1_300 if name == "joint" else 1_200  # a passage for PR counts with all that EASI reads of it
    section |= {"tokens": tokens, "classifier_rate": 10.0 if alone else 3.0}
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
    if name == "as2":
        small_dev(data, work)
    *_, last = train_run(job, work / name)
    return f"{name}: {last}"


class Table(NamedTuple):
    """What a model says of a set's passages, question by question."""

    passages: list[np.ndarray]  # logits of p(q, p); empty without a PR
    sentence: list[np.ndarray]  # the extracted sentence's number, -1 = none; empty without an EASI
    log_p: list[np.ndarray]


def scored(work: Path, name: str, test: str, slots: int | None = None) -> Table:
    """`slots`: how many sentences EASI reads at once; None: as many as it was trained with."""
    torch.set_num_threads(1)
    lists = [ranked_passages(rows) for rows in read_passages(work / f"{test}.parquet")]
    model, tokeniser = load(work / name, find_model)
    model.slots = slots or model.slots
    reader = Reader(model, tokeniser)
    asked = [AskedPassage.from_candidate(ranked, c) for ranked in lists for c in ranked.candidates]
    passages = per_list(lists, reader.passages(asked)) if model.reads_passages else []
    if not model.reads_sentences:
        return Table(passages, [], [])
    chosen = reader.sentences(asked)
    return Table(passages, per_list(lists, chosen.sentence), per_list(lists, chosen.log_p))


def as2(work: Path, test: str) -> list[dict[str, float]]:
    """The baseline's score of each sentence."""
    torch.set_num_threads(1)
    ranker = Cascade(*load_as2(work / "as2", "pointwise", find_model))
    lists = [to_sentences(ranked_passages(rows)) for rows in read_passages(work / f"{test}.parquet")]
    scores = ranker.exit_scores(lists)
    return [
        {c.candidate_id: float(score) for c, score in zip(ranked.candidates, rows.scores[:, -1], strict=True)}
        for ranked, rows in zip(lists, scores, strict=True)
    ]


def metrics(judged: Iterable[tuple[Sequence[float], Sequence[int]]]) -> dict[str, float]:
    """P@1, MAP, MRR in percent over the lists that hold something right."""
    lists = Judged.of([(list(scores), list(labels)) for scores, labels in judged])
    kept = lists.kept("answerable")
    names = {"P@1": "p1", "MAP": "map", "MRR": "mrr"}
    return {names[metric]: 100 * float(v.expected[kept].mean()) for metric, v in measure(lists, tuple(names)).items()}


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
            values = metrics(
                (scores.tolist(), [r.label for r in rows]) for rows, scores in zip(lists, table.passages, strict=True)
            )
            yield from ((f"{test}_passage_{metric}_{name}", value) for metric, value in values.items())
        if not table.sentence:
            continue
        yield f"{test}_easi_accuracy_{name}", accuracy(lists, table)
        picked = [
            {rows[n].sentences[number].sentence_id for n, number in enumerate(best.tolist()) if number >= 0}
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
        bool(rows[n].sentences[number].label) if number >= 0 else False
        for rows, best in zip(lists, table.sentence, strict=True)
        for n, number in enumerate(best.tolist())
        if rows[n].label
    ]
    return 100 * float(np.mean(right))


def of_top(test: str, name: str, lists: list[list[LabelledPassage]], table: Table) -> Iterator[tuple[str, float]]:
    """The pipeline 'top-1': the sentence of PR's best passage, then that of the next, and so on."""
    judged = []
    for rows, scores, best in zip(lists, table.passages, table.sentence, strict=True):
        extracted: dict[str, float] = {}
        for n in np.argsort(-scores, kind="stable").tolist():
            if best[n] >= 0:
                extracted.setdefault(rows[n].sentences[best[n]].sentence_id, float(scores[n]))
        judged.append(answers(rows, lambda _, e=extracted: e))  # type: ignore[misc]
    yield from ((f"{test}_answer_{metric}_top1_{name}", value) for metric, value in metrics(judged).items())


def selective(
    test: str, work: Path, lists: list[list[LabelledPassage]], tables: dict[str, Table], as2_scores: list[dict[str, float]]
) -> Iterator[tuple[str, float]]:
    """Risk against coverage over all questions, those without an answer too."""
    labels = [{s.sentence_id: s.label for row in rows for s in row.sentences} for rows in lists]
    best = [max(scores, key=lambda key: scores[key]) for scores in as2_scores]
    right = np.array([known[key] for known, key in zip(labels, best, strict=True)], np.float64)
    confidence = np.array([scores[key] for scores, key in zip(as2_scores, best, strict=True)])
    curve = risk_coverage(confidence, right)
    yield f"{test}_aurc_as2", curve.aurc
    yield f"{test}_right_as2", 100 * float(right.mean())
    for name, table in tables.items():
        if not (table.passages and table.sentence):
            continue
        calibration = load(work / name, find_model)[0].calibration or UNCALIBRATED
        confidence_, right_, is_answered = [], [], []
        for rows, scores, chosen, log_p in zip(lists, table.passages, table.sentence, table.log_p, strict=True):
            top = int(np.argmax(scores))
            there = chosen[top] >= 0
            is_answered.append(there)
            confidence_.append(float(calibration(answer_logit(scores[[top]], log_p[[top]]))[0]) if there else 0.0)
            right_.append(float(rows[top].sentences[chosen[top]].label) if there else 0.0)
        curve = risk_coverage(confidence_, right_, is_answered)
        yield f"{test}_aurc_{name}", curve.aurc
        yield f"{test}_right_{name}", 100 * float(np.mean(right_))


def main() -> None:
    paths = {"work": "folder of the trainings, which stay; out/peasi_quality"}
    options = arguments("peasi_quality", __doc__ or "", paths=paths)
    if options.smoke:
        shrink(vars(cascade_quality), ENCODER=small_encoder())
        shrink(vars(peasi_data), DEV_ARTICLES=6)
    with work_folder(options, "peasi_quality") as work:
        result = trained_and_measured(options.data.resolve(), work, options.smoke)
    finish("peasi_quality", result, options.save)


def trained_and_measured(data: Path, work: Path, smoke: bool) -> dict[str, float | int | str]:
    prepare(data, work)
    result: dict[str, float | int | str] = {}
    with processes(inline=smoke) as pool:
        for names in (("as2",), ("easi_point", "pr"), ("easi_wide", *GROUPS)):
            tell([pool.submit(train, data, work, name) for name in names])
        stage_two = [pool.submit(train, data, work, name) for name in reversed(BOTH)]
        tests, alone = ("dev", "squad", "wikiqa"), ("pr", "easi_wide", *GROUPS)
        tables = {(test, name): pool.submit(scored, work, name, test) for test in tests for name in alone}
        baselines = {test: pool.submit(as2, work, test) for test in tests}
        fewer = {(test, k): pool.submit(scored, work, "easi_wide", test, k) for test in tests for k in FEWER}
        tell(stage_two)
        tables |= {(test, name): pool.submit(scored, work, name, test) for test in tests for name in BOTH}
        for (test, k), table in fewer.items():
            lists = read_passages(work / f"{test}.parquet")
            result[f"{test}_easi_accuracy_easi_wide_k{k}"] = accuracy(lists, table.result())
        for test in tests:
            by_model = {name: tables[test, name].result() for name in (*VARIANTS, *GROUPS)}
            result |= rows_of(test, work, by_model, baselines[test].result())
            say(f"{test}: " + ", ".join(f"{key} {value:.2f}" for key, value in result.items() if key.startswith(test)))
    best = max(BOTH, key=lambda name: float(result[f"dev_answer_p1_top1_{name}"]))
    return result | {
        "best": best,
        "trained_by": trained_by(work),
        "answer_p1_as2": result["squad_answer_p1_as2"],
        "answer_p1_top1": result[f"squad_answer_p1_top1_{best}"],
        "answer_p1_all_as2": result[f"squad_answer_p1_all_as2_{best}"],
        "passage_p1_pr": result["squad_passage_p1_pr"],
        "passage_p1_pr_easi": result["squad_passage_p1_joint"],
    }


if __name__ == "__main__":
    main()
