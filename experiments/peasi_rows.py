"""Rankings of PEASI and of plain AS2 on labelled passages, and their rows: scores of a model, ways to order
answers by them, and figures with what they are compared with.

What a model has said of a text is kept below --work, so that a stopped run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from answermill.files.model_files import folder_digest
from answermill.indexing.shards.dense import find_model
from answermill.ranking.checkpoint import kind_of
from answermill.ranking.evaluation.calibration import UNCALIBRATED
from answermill.ranking.evaluation.metrics import Judged, measure
from answermill.ranking.evaluation.significance import compare
from answermill.ranking.lists import ranked_passages
from answermill.ranking.plan import Stage, to_sentences
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import load as load_as2
from answermill.ranking.rerankers.peasi.passage_reader import AskedPassage, PassageReader
from answermill.ranking.rerankers.peasi.peasi_model import load
from answermill.schemas.arrays import Bools, Floats
from answermill.schemas.labels import LabelledPassage
from experiments.percents import gain
from experiments.question_sets.memory import Memory, encoded, remember

Questions = Sequence[Sequence[LabelledPassage]]
Scores = list[dict[str, float]]
Extractions = list[dict[str, tuple[str, float]]]
"""Of each question, passage id → (id of the extracted sentence, its log p(s | p)), where there is one."""
FIRST = 5
"""Passages whose sentences the product ranks."""
METRICS = {"P@1": "p1", "MAP": "map", "MRR": "mrr"}
T = TypeVar("T")


class Reader:
    """A checkpoint of PEASI that reads each passage once."""

    def __init__(self, checkpoint: Path, work: Path) -> None:
        model, tokeniser = load(checkpoint, find_model)
        self._reader, self._at_once = PassageReader(model, tokeniser), model.at_once
        self._folder = work / f"scores-{folder_digest(checkpoint)}"
        self.calibration = model.calibration or UNCALIBRATED

    def passages(self, lists: Questions) -> Scores:
        """PR: logits of p(q, p), by passage id."""
        rows = self._both(lists) if self._at_once else self._kept(lists, "passages", 1, self._pr)
        return by_passage(lists, [float(row[0]) for row in rows])

    def sentences(self, lists: Questions) -> Extractions:
        """EASI: the sentence of each passage."""
        rows = self._both(lists) if self._at_once else self._kept(lists, "sentences", 2, self._easi)
        places = by_passage(lists, [(int(row[-2]), float(row[-1])) for row in rows])
        return [
            {
                row.passage_id: (row.sentences[number].sentence_id, log_p)
                for row in question_rows
                for number, log_p in [known[row.passage_id]]
                if number >= 0
            }
            for question_rows, known in zip(lists, places, strict=True)
        ]

    def answers(self, lists: Questions, passages: Scores) -> list[str]:
        """Id of the sentence that is extracted from each question's best passage; '' if there is none."""
        best = [
            [max(rows, key=lambda row: known[row.passage_id])]
            for rows, known in zip(lists, passages, strict=True)
        ]
        return [next(iter(extracted.values()), ("", 0.0))[0] for extracted in self.sentences(best)]

    def _both(self, lists: Questions) -> Floats:
        def read(asked: Sequence[AskedPassage]) -> Floats:
            logits, extracted = self._reader.both(asked)
            return np.column_stack([logits, extracted.sentence, extracted.log_p])

        return self._kept(lists, "both", 3, read)

    def _pr(self, asked: Sequence[AskedPassage]) -> Floats:
        return self._reader.passages(asked)[:, None]

    def _easi(self, asked: Sequence[AskedPassage]) -> Floats:
        extracted = self._reader.sentences(asked)
        return np.column_stack([extracted.sentence, extracted.log_p])

    def _kept(
        self, lists: Questions, name: str, width: int, read: Callable[[Sequence[AskedPassage]], Floats]
    ) -> Floats:
        """[passages of all lists, width]: rows of the folder, after those that it lacks are computed."""
        ranked_lists = map(ranked_passages, filter(None, lists))
        asked = [AskedPassage.from_candidate(ranked, c) for ranked in ranked_lists for c in ranked.candidates]
        texts = ["\0".join([p.question, p.title, p.passage, *p.sentences]) for p in asked]
        by_text = dict(zip(texts, asked, strict=True))

        def encode(missing: Sequence[str]) -> Any:
            return read([by_text[text] for text in missing])

        return cast(Floats, encoded(texts, Memory(self._folder / name, width), encode))


def by_passage(lists: Questions, values: Sequence[T]) -> list[dict[str, T]]:
    """Values of the passages of all lists, one after the other, by passage id in each list."""
    rest = iter(values)
    return [{row.passage_id: next(rest) for row in rows} for rows in lists]


def as2_scores(folder: Path, lists: Questions, work: Path) -> Scores:
    """Score of each sentence by the last exit."""
    cascade = Cascade(*load_as2(folder, kind_of(folder), find_model))
    (stage,) = remember([Stage("as2", cascade, checkpoint=folder)], work)
    ranked_sentences = [to_sentences(ranked_passages(rows)) for rows in lists]
    exits = cast(Cascade, stage.reranker).exit_scores(ranked_sentences)
    return [
        {c.candidate_id: float(score) for c, score in zip(ranked.candidates, rows.scores[:, -1], strict=True)}
        for ranked, rows in zip(ranked_sentences, exits, strict=True)
    ]


def best_sentence(lists: Questions, scores: Scores) -> Scores:
    """AS2 as a ranker of passages: the score of the best of a passage's sentences."""
    return [
        {
            row.passage_id: max((known[s.sentence_id] for s in row.sentences), default=-np.inf)
            for row in question_rows
        }
        for question_rows, known in zip(lists, scores, strict=True)
    ]


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


def sentence_labels(rows: Sequence[LabelledPassage]) -> dict[str, int]:
    return {s.sentence_id: s.label for row in rows for s in row.sentences}


def judged(lists: Questions, scores: Scores, unit: str) -> Judged:
    """All sentences, or passages, of each question, with their labels; those without a score rank below the
    others."""
    questions = []
    for rows, known in zip(lists, scores, strict=True):
        labels = {row.passage_id: row.label for row in rows} if unit == "passage" else sentence_labels(rows)
        lowest = min(known.values(), default=0.0) - 1
        questions.append(([known.get(key, lowest) for key in labels], list(labels.values())))
    return Judged.of(questions)


class Rows:
    """Rows of one set and protocol: their keys, and P@1 for comparison question by question."""

    def __init__(self, prefix: str, lists: Questions) -> None:
        self.prefix, self._lists = prefix, lists
        self.kept: Bools = np.array([any(row.label for row in rows) for rows in lists], np.bool_)
        self.keys: dict[str, float | int | str] = {}
        self._p1: dict[str, Floats] = {}

    def rank(self, unit: str, name: str, scores: Scores) -> None:
        """Add a ranking. `unit`: 'passage' or 'answer'."""
        for metric, values in measure(judged(self._lists, scores, unit), tuple(METRICS)).items():
            self._add(unit, METRICS[metric], name, values.expected)

    def first(self, name: str, answers: Sequence[str]) -> None:
        """Add a first answer for each question, by id, of which there is P@1 alone."""
        right = [
            float(sentence_labels(rows).get(key, 0)) for rows, key in zip(self._lists, answers, strict=True)
        ]
        self._add("answer", "p1", name, np.array(right))

    def over(self, unit: str, b: str, *others: str) -> None:
        """Compare P@1 of a row with that of others."""
        for a in others:
            key = f"{b}_{self.prefix}_{unit}_over_{a}"
            self.keys |= compared(key, self.p1(unit, a)[self.kept], self.p1(unit, b)[self.kept])

    def p1(self, unit: str, name: str) -> Floats:
        """[questions]: of all, those without an answer included."""
        return self._p1[f"{unit} {name}"]

    def _add(self, unit: str, metric: str, name: str, values: Floats) -> None:
        self.keys[f"{name}_{self.prefix}_{unit}_{metric}"] = 100 * float(values[self.kept].mean())
        if metric == "p1":
            self._p1[f"{unit} {name}"] = values


def compared(key: str, a: Floats, b: Floats) -> dict[str, float | str]:
    """B's P@1 less A's over the same questions, in percent, its 95 % interval, p, and what these show.

    >>> always, never = np.ones(20), np.zeros(20)
    >>> compared("b_over_a", never, always)["b_over_a"], compared("b_over_a", never, always)["b_over_a_shows"]
    (100.0, 'ahead')
    >>> compared("b_over_a", always, always)["b_over_a_shows"]
    'no difference'
    """
    c = compare(a, b)
    return {
        **gain(key, c),
        f"{key}_shows": "ahead" if c.low > 0 else "behind" if c.high < 0 else "no difference",
    }
