"""Rankings of PEASI and of plain AS2 on labelled passages, and their rows: scores of a model, ways to order
answers by them, and figures with what they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from answermill.indexing.shards.dense import find_model
from answermill.ranking.checkpoint import kind_of
from answermill.ranking.evaluation.metrics import Judged, measure
from answermill.ranking.evaluation.significance import compare
from answermill.ranking.lists import ranked_passages
from answermill.ranking.plan import to_sentences
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import load as load_as2
from answermill.ranking.rerankers.peasi.passage_reader import AskedPassage, Extracted, PassageReader
from answermill.ranking.rerankers.peasi.peasi_model import load
from answermill.schemas.labels import LabelledPassage

Questions = Sequence[Sequence[LabelledPassage]]
Scores = list[dict[str, float]]
FIRST = 5
"""Passages whose sentences the product ranks."""
METRICS = {"P@1": "p1", "MAP": "map", "MRR": "mrr"}


@dataclass(frozen=True, slots=True)
class PeasiScores:
    """Scores of each question's passages by PR and EASI, by passage id."""

    passages: Scores
    """Logits of p(q, p)."""
    sentences: list[dict[str, tuple[str, float]]]
    """Id of the extracted sentence, and its log p(s | p)."""


def peasi_scores(folder: Path, lists: Questions) -> PeasiScores:
    model, tokeniser = load(folder, find_model)
    reader = PassageReader(model, tokeniser)
    inputs = [AskedPassage.from_candidate(r, c) for r in map(ranked_passages, lists) for c in r.candidates]
    logits: npt.NDArray[np.float64] | None
    extracted: Extracted | None

    if model.at_once:
        logits, extracted = reader.both(inputs)
    else:
        logits = reader.passages(inputs) if model.pr is not None else None
        extracted = reader.sentences(inputs) if model.easi is not None else None

    passages: Scores = [{} for _ in lists]
    sentences: list[dict[str, tuple[str, float]]] = [{} for _ in lists]
    rows = [(n, row) for n, question_rows in enumerate(lists) for row in question_rows]

    for place, (n, row) in enumerate(rows):
        if logits is not None:
            passages[n][row.passage_id] = float(logits[place])
        if extracted is not None and (number := int(extracted.sentence[place])) >= 0:
            sentences[n][row.passage_id] = row.sentences[number].sentence_id, float(extracted.log_p[place])

    return PeasiScores(passages, sentences)


def as2_scores(folder: Path, lists: Questions) -> Scores:
    """Score of each sentence by the last exit."""
    ranker = Cascade(*load_as2(folder, kind_of(folder), find_model))
    ranked_sentences = [to_sentences(ranked_passages(rows)) for rows in lists]
    exits = ranker.exit_scores(ranked_sentences)
    return [
        {c.candidate_id: float(score) for c, score in zip(ranked.candidates, rows.scores[:, -1], strict=True)}
        for ranked, rows in zip(ranked_sentences, exits, strict=True)
    ]


def top1(passages: dict[str, float], sentences: dict[str, tuple[str, float]]) -> dict[str, float]:
    """Score of the sentence extracted from the best passage, then from the next, and so on."""
    scores: dict[str, float] = {}
    for key in sorted(passages, key=lambda key: -passages[key]):
        if key in sentences:
            scores.setdefault(sentences[key][0], passages[key])
    return scores


def product(
    passages: dict[str, float], sentences: dict[str, tuple[str, float]], listwise: bool = False
) -> dict[str, float]:
    """log p(q, p) + log p(s | p) of the sentences extracted from the first FIRST passages.

    p(q, p) is the probability that the passage answers, by itself; if `listwise`, that it rather than the
    question's other passages does.
    """
    scores: dict[str, float] = {}
    log_total = np.logaddexp.reduce(list(passages.values()))
    for key in sorted(passages, key=lambda key: -passages[key])[:FIRST]:
        if key in sentences:
            name, log_p = sentences[key]
            passage_log_p = passages[key] - log_total if listwise else -np.logaddexp(0.0, -passages[key])
            scores[name] = max(scores.get(name, -np.inf), log_p + float(passage_log_p))
    return scores


def only(scores: dict[str, float], sentences: dict[str, tuple[str, float]]) -> dict[str, float]:
    """AS2's scores of the extracted sentences."""
    return {name: scores[name] for name, _ in sentences.values() if name in scores}


def judged(lists: Questions, scores: Scores, unit: str) -> Judged:
    """All sentences, or passages, of each question, with their labels; those without a score rank below the
    others."""
    questions = []
    for rows, known in zip(lists, scores, strict=True):
        labels = (
            {row.passage_id: row.label for row in rows}
            if unit == "passage"
            else {s.sentence_id: s.label for row in rows for s in row.sentences}
        )
        lowest = min(known.values(), default=0.0) - 1
        questions.append(([known.get(key, lowest) for key in labels], list(labels.values())))
    return Judged.of(questions)


class Rows:
    """Rows of one set and protocol: their keys, and values for comparison question by question."""

    def __init__(self, prefix: str, lists: Questions) -> None:
        self.prefix, self._lists = prefix, lists
        self.keys: dict[str, float | int] = {}
        self._p1: dict[str, npt.NDArray[np.float64]] = {}

    def add(self, unit: str, name: str, scores: Scores) -> None:
        """Add a ranking. `unit`: 'passage' or 'answer'."""
        lists = judged(self._lists, scores, unit)
        kept = lists.kept("answerable")
        for metric, values in measure(lists, tuple(METRICS)).items():
            self.keys[f"{self.prefix}_{unit}_{METRICS[metric]}_{name}"] = 100 * float(
                values.expected[kept].mean()
            )
            if metric == "P@1":
                self._p1[f"{unit}_{name}"] = values.expected[kept]

    def over(self, unit: str, b: str, a: str) -> None:
        """Compare P@1 of two rankings."""
        c = compare(self._p1[f"{unit}_{a}"], self._p1[f"{unit}_{b}"])
        name = f"{self.prefix}_{unit}_{b}_over_{a}"
        self.keys |= {
            name: 100 * c.difference,
            f"{name}_low": 100 * c.low,
            f"{name}_high": 100 * c.high,
            f"{name}_p": c.p,
        }


def answers(rows: Rows, joint: PeasiScores, as2: Scores, suffix: str = "") -> None:
    """Add the rows of AS2, and of EASI's sentences ranked by it."""
    rows.add("answer", f"as2{suffix}", as2)
    rows.add("answer", f"all_as2{suffix}", list(map(only, as2, joint.sentences)))
    rows.add("answer", "top1", list(map(top1, joint.passages, joint.sentences)))
    rows.add("answer", "product", list(map(product, joint.passages, joint.sentences)))
    rows.add(
        "answer", "listwise", list(map(partial(product, listwise=True), joint.passages, joint.sentences))
    )
    for b in (f"all_as2{suffix}", "top1", "product", "listwise"):
        rows.over("answer", b, f"as2{suffix}")
