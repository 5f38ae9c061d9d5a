"""Tune BM25: a run's shards and labelled questions -> its k1, b and title weight, each tried by a search.

All of them decide the search alone, so nothing is built. A question's value is the place of the first passage
that holds a right answer. The job's own setting is the one to beat: another is advised only where its gain is
outside the noise of all that were tried (ranking/evaluation/best_of_many.py).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from answermill.files.atomic_files import write_text
from answermill.indexing.passages.text import fold, holds
from answermill.indexing.shards.lucene.statistics import GlobalStatistics, Scoring
from answermill.indexing.shards.rank_fusion import Best, merge
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns
from answermill.pipelines.data.inputs.label_tables import label_batches
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.steps.retrieve.asked_questions import scoring_of, settings_of
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.retrieve import choose_questions
from answermill.ranking.evaluation.best_of_many import Differences, differences
from answermill.schemas.arrays import Floats
from answermill.schemas.corpus import Passage, Question

Ranks = npt.NDArray[np.int64]
"""[settings, questions]: place of the first passage with a right answer, from 1; 0 if none was found."""
_QUESTIONS = 500  # whose hits by all settings are in memory at once
_RECALL = re.compile(r"recall@([1-9]\d*)")
_NAMES = ("k1", "b", "title_weight")


@dataclass(frozen=True, slots=True)
class Trials:
    """The values that are tried, all with all, and the metric of the best."""

    k1: tuple[float, ...] = (0.3, 0.6, 0.9, 1.2, 1.6, 2.0)
    b: tuple[float, ...] = (0.1, 0.25, 0.4, 0.55, 0.75, 0.9)
    title_weight: tuple[float, ...] = ()
    """Nothing: the job's own."""
    metric: str = "MRR"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in _NAMES:
            most = 1.0 if name == "b" else np.inf
            if wrong := [value for value in getattr(self, name) if not 0 <= value <= most]:
                bounds = "from 0 to 1" if name == "b" else "of 0 or more"
                raise JobError(f"--{_option(name)} {wrong[0]:g}: give numbers {bounds}", USAGE)
        if self.metric != "MRR" and not _RECALL.fullmatch(self.metric):
            raise JobError(f"--metric {self.metric}: unknown; give MRR, or recall@K as in recall@10", USAGE)

    def settings(self, usual: Scoring) -> list[Scoring]:
        """The job's own setting, and then the others in order."""
        tried = product(
            self.k1 or (usual.k1,), self.b or (usual.b,), self.title_weight or (usual.title_weight,)
        )
        return [usual, *sorted({Scoring(*values) for values in tried} - {usual}, key=_values)]


@dataclass(frozen=True, slots=True)
class RightAnswers:
    """Right answers of a question: ids of sentences or passages, and texts of sentences, folded."""

    ids: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)

    def are_in(self, passage: Passage) -> bool:
        """True if the passage holds one of them."""
        if passage.passage_id in self.ids or any(one.sentence_id in self.ids for one in passage.sentences):
            return True
        return bool(self.texts) and any(holds(fold(passage.text), text) for text in self.texts)


@dataclass(frozen=True, slots=True)
class TunedBm25:
    """All settings on the labelled questions; the first is the job's own."""

    settings: Sequence[Scoring]
    ranks: Ranks
    depth: int
    metric: str
    without_text: int
    """Questions with a right answer that the job does not ask."""
    gains: Differences

    @property
    def chosen(self) -> Scoring:
        """The setting to use: the job's own, unless another is surely better."""
        best = self.gains.best()
        return self.settings[0] if best is None else self.settings[best]

    def lines(self) -> Iterator[str]:
        """The table for people, in percent, and the lines to write into the job."""
        yield (
            f"{self.ranks.shape[1]:,} questions with a right answer, the best {self.depth} passages of each; "
            f"{self.without_text:,} more that the job does not ask"
        )
        yield f"in percent; gain: of {self.metric} over the job's own setting, with the 95 % interval for all"
        yield ""
        metrics = list(dict.fromkeys((self.metric, "MRR", "recall@1", "recall@10", f"recall@{self.depth}")))
        heads = "".join(f"{name:>12}" for name in metrics)
        yield f"{'k1':>5}{'b':>6}{'title':>7}{heads}{'gain':>9}  interval"
        means = {name: 100 * values_of(self.ranks, name).mean(axis=1) for name in metrics}
        for n, (setting, *bounds) in enumerate(zip(self.settings, *self._percent(), strict=True)):
            cells = "".join(f"{means[name][n]:>12.2f}" for name in metrics)
            gain = "{:>+9.2f}  {:+.2f} to {:+.2f}".format(*bounds) if n else f"{'':>9}  the job's own"
            yield f"{setting.k1:>5g}{setting.b:>6g}{setting.title_weight:>7g}{cells}{gain}"
        yield ""
        yield from self._advice()

    def _percent(self) -> tuple[Floats, Floats, Floats]:
        return 100 * self.gains.mean, 100 * self.gains.low, 100 * self.gains.high

    def _advice(self) -> Iterator[str]:
        if self.gains.best() is None:
            yield "no setting is surely better than the job's own, so keep it:"
        else:
            yield "surely better than the job's own; for the job file:"
        yield ""
        yield "[retrieve]"
        for name, value in zip(_NAMES, _values(self.chosen), strict=True):
            yield f"{name} = {value:g}"

    def json(self) -> dict[str, Any]:
        """One object: what was chosen, and every setting; metrics from 0 to 1."""
        names = ("MRR", "recall@1", "recall@10", f"recall@{self.depth}", self.metric)
        means = {name: values_of(self.ranks, name).mean(axis=1).tolist() for name in names}
        rows = [
            dict(zip(_NAMES, _values(setting), strict=True))
            | {name: means[name][n] for name in means}
            | {"gain": float(self.gains.mean[n])}
            | {"gain_low": float(self.gains.low[n]), "gain_high": float(self.gains.high[n])}
            for n, setting in enumerate(self.settings)
        ]
        chosen = dict(zip(_NAMES, _values(self.chosen), strict=True))
        sizes = {"questions": self.ranks.shape[1], "depth": self.depth, "metric": self.metric}
        return {**chosen, "is_better": self.gains.best() is not None, **sizes, "settings": rows}

    def write(self, file: Path) -> None:
        """Write the object of `json` into a file."""
        write_text(file, json.dumps(self.json(), indent=1) + "\n")


def tune_bm25(job: Job, run: Path, labels: Path, trials: Trials, columns: Columns = AS_NAMED) -> TunedBm25:
    """Search the run's shards by every setting of the trials for the questions of the job that have a right
    answer.

    Raises JobError: 66 if shards/, the questions or the labels are missing; 65 if no question has a right
    answer, or fewer than two; 2 if the metric counts more passages than are searched; and as
    `RunShards.open`.
    """
    answers = right_answers(labels, columns)
    questions = [q for q in choose_questions(job).questions if q.question_id in answers]
    if len(questions) < 2:
        raise JobError(
            f"{labels} has right answers for {len(answers):,} questions, of which the job asks "
            f"{len(questions):,}; name their file with --set retrieve.questions=FILE",
            BAD_DATA,
        )

    depth, settings = settings_of(job).depth, trials.settings(scoring_of(settings_of(job)))
    if (cut := _RECALL.fullmatch(trials.metric)) and int(cut[1]) > depth:
        raise JobError(
            f"--metric {trials.metric}: only the best {depth} passages are searched; name a smaller number, "
            f"or --set retrieve.depth={cut[1]}",
            USAGE,
        )
    shards, by_block = RunShards.of(job, run), list[Ranks]()
    blocks = [questions[n : n + _QUESTIONS] for n in range(0, len(questions), _QUESTIONS)]
    with progress("tune-bm25", len(questions), lambda: sum(r.shape[1] for r in by_block), what="questions"):
        for block in blocks:
            by_block.append(_ranks(block, shards, settings, depth, answers))

    ranks = np.concatenate(by_block, axis=1)
    gains = differences(values_of(ranks, trials.metric), 0, seed=trials.seed)
    return TunedBm25(settings, ranks, depth, trials.metric, len(answers) - len(questions), gains)


def numbers(name: str, written: str) -> tuple[float, ...]:
    """'0.1,0.2' as numbers. Raises JobError (2) if a part is no number."""
    try:
        return tuple(float(part) for part in written.replace(",", " ").split())
    except ValueError as e:
        raise JobError(
            f"--{_option(name)} {written}: not numbers with commas between, e.g. 0.4,0.75", USAGE
        ) from e


def _option(name: str) -> str:
    return name.replace("_", "-")


def right_answers(labels: Path, columns: Columns = AS_NAMED) -> dict[str, RightAnswers]:
    """Question id → its right answers, by a file as of `propagate.labels` or a folder below labels/.

    Raises JobError: 66 if it is missing, 65 with the line if a row is wrong.
    """
    if not labels.exists():
        raise JobError(f"{labels}: no such file or folder", INPUT_MISSING)
    answers: defaultdict[str, RightAnswers] = defaultdict(RightAnswers)
    if labels.is_dir():
        values = read_labels(labels).values
        rows = zip(values.question_id.to_pylist(), values.candidate_id.to_pylist(), values.value, strict=True)
        for question_id, candidate_id, label in rows:
            if label > 0:
                answers[question_id].ids.add(candidate_id)
        return dict(answers)

    for batch in label_batches(labels, columns):
        for row in batch.to_pylist():
            if row["label"] != 1:
                continue
            # An id names one sentence; its text may stand elsewhere as well.
            if row["sentence_id"] is not None:
                answers[row["question_id"]].ids.add(row["sentence_id"])
            else:
                answers[row["question_id"]].texts.add(fold(row["text"]))
    return dict(answers)


def values_of(ranks: Ranks, metric: str) -> Floats:
    """[settings, questions]: MRR's 1 / rank, or 1 where a right passage is among the first K of recall@K.

    >>> [values_of(np.array([[1, 4, 0]]), metric).tolist() for metric in ("MRR", "recall@3")]
    [[[1.0, 0.25, 0.0]], [[1.0, 0.0, 0.0]]]
    """
    has_one = ranks > 0
    if match := _RECALL.fullmatch(metric):
        return (has_one & (ranks <= int(match[1]))).astype(np.float64)
    return np.divide(1.0, ranks, out=np.zeros(ranks.shape), where=has_one)


def _values(setting: Scoring) -> tuple[float, ...]:
    return tuple(getattr(setting, name) for name in _NAMES)


def _ranks(
    block: Sequence[Question],
    shards: RunShards,
    settings: Sequence[Scoring],
    depth: int,
    answers: Mapping[str, RightAnswers],
) -> Ranks:
    """Places of a block of questions, by all settings [settings, questions]."""
    texts = [question.text for question in block]
    total = GlobalStatistics()
    widest = max(settings, key=lambda setting: setting.title_weight)  # whose words are those of all
    for number in range(shards.count):
        with shards.open(number) as shard:
            shard.check_words(shards.job.index.language, widest.title_weight)
            total += shard.bm25.share(texts, widest)

    best: list[list[list[Best]]] = [[[] for _ in block] for _ in settings]
    for number in range(shards.count):
        with shards.open(number) as shard:
            for n, setting in enumerate(settings):
                for place, (rows, scores) in enumerate(shard.bm25.search(texts, depth, total, setting)):
                    hits = Best.of(number, rows, shard.passage_ids(rows), scores)
                    best[n][place] = [merge([*best[n][place], hits], depth)]

    lists = [[parts[0] for parts in of_setting] for of_setting in best]
    is_right = _right_places(block, lists, shards, answers)
    return np.array(
        [[_first(hits, is_right[place]) for place, hits in enumerate(of_setting)] for of_setting in lists],
        np.int64,
    )


def _right_places(
    block: Sequence[Question],
    lists: Sequence[Sequence[Best]],
    shards: RunShards,
    answers: Mapping[str, RightAnswers],
) -> list[set[tuple[int, int]]]:
    """(shard, row) of the right passages of each question, of all that any setting has found for it."""
    askers: dict[int, defaultdict[int, set[int]]] = {n: defaultdict(set) for n in range(shards.count)}
    for of_setting in lists:
        for place, hits in enumerate(of_setting):
            for number, row in zip(hits.shards.tolist(), hits.rows.tolist(), strict=True):
                askers[number][row].add(place)

    is_right: list[set[tuple[int, int]]] = [set() for _ in block]
    for number, places_of in askers.items():
        rows = sorted(places_of)
        with shards.open(number) as shard:
            for first in range(0, len(rows), 1_000):
                some = rows[first : first + 1_000]
                for row, passage in zip(some, shard.passages(some), strict=True):
                    for place in places_of[row]:
                        if answers[block[place].question_id].are_in(passage):
                            is_right[place].add((number, row))
    return is_right


def _first(hits: Best, right: set[tuple[int, int]]) -> int:
    """Place of the first right passage, from 1; 0 if there is none."""
    places = zip(hits.shards.tolist(), hits.rows.tolist(), strict=True)
    return next((place for place, key in enumerate(places, 1) if key in right), 0)
