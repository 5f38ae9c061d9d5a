"""answers/ and answers.jsonl: the best candidate of each question, with its page and its place in the crawl,
and the pages that say the same.

A unit of rerank writes its questions' part of answers/; answers.jsonl, for people, is the parts one after the
other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import whole_text
from answermill.pipelines.config.caps import Caps, Source
from answermill.pipelines.config.job_file import Job, Rerank
from answermill.pipelines.config.rerank_section import AnswerSettings
from answermill.pipelines.errors import counted, setting_error
from answermill.pipelines.runs.parquet_folder import Folder, Part
from answermill.pipelines.specs.rerank import ANSWERS, ANSWERS_FILE
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.ranking.rerankers.baselines.same_answer import groups
from answermill.ranking.rerankers.probability import ProbabilityStage
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import OPTIONAL, Answer, Hit, OtherAnswer, RankedList, ScoredCandidate

PLACE = ("source_file", "source_offset", "source_record")
"""Columns of a page's place in the crawl."""


ONE_ANSWER = AnswerSettings()


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """Which answers are given."""

    settings: AnswerSettings = ONE_ANSWER
    """How many of a question, and how many from one source."""
    probability_stage: str | None = None
    """Key of the last stage if its scores are probabilities."""
    bar: float = 0.0
    """Least probability of an answer that is given."""
    promise: str = ""
    """What the bar promises, and on which labels; '' if nothing."""

    @classmethod
    def of(cls, job: Job, plan: Rerank) -> AnswerRule:
        """Rule of a checked plan. Raises JobError (78) if no bar can promise what it asks for."""
        last, answers = plan.stages[-1], plan.answers
        if not isinstance(last, ProbabilityStage):
            return cls(answers)
        if answers.max_wrong is None:
            return cls(answers, last.key, answers.min_probability or 0.0)
        # Late: it needs SciPy, which takes long to load.
        from answermill.ranking.rerankers.probability.calibration_file import CalibrationFile

        try:
            calibration = CalibrationFile.read(job.path(last.calibration_file))
            bar = calibration.bar(answers.max_wrong, answers.confidence)
        except ValueError as e:
            raise setting_error(e, f"rerank.answers.max_wrong = {answers.max_wrong:g}") from e
        return cls(answers, last.key, bar.probability, f"{bar.statement()}, on {calibration.labels}")

    def is_given(self, row: ScoredCandidate) -> bool:
        """True unless the candidate's probability is below the bar."""
        probability = self.probability(row)
        return probability is None or probability >= self.bar

    def probability(self, row: ScoredCandidate) -> float | None:
        """Probability that a candidate is right; None in a plan without probabilities."""
        return row.stages[-1].score if self.probability_stage is not None else None


ALL_GIVEN = AnswerRule()


def questions_of(run: Path, retrieved: Folder[Hit]) -> Folder[Question]:
    """questions/, whose parts have the questions of the parts of retrieved/, and those without hits.

    Raises JobError (66) if the folder does not exist.
    """
    questions = QUESTIONS.open(run)
    if len(questions.parts) != len(retrieved.parts):
        raise RuntimeError(
            f"{len(questions.parts)} parts in {questions.path}, {len(retrieved.parts)} in {retrieved.path}"
        )
    return questions


@dataclass(frozen=True, slots=True)
class SameAnswers:
    """Candidates of a question that say the same: one answer, for which the best ranked stands."""

    rows: tuple[ScoredCandidate, ...]
    """The kept one of the best rank, then the others, in the order of scored/."""
    dates: tuple[str, ...]
    """Dates of their pages that are known, ascending."""

    @property
    def row(self) -> ScoredCandidate:
        return self.rows[0]

    def columns(self) -> dict[str, Any]:
        """Columns `pages` to `same` of `Answer` and `OtherAnswer`."""
        sources = [Source.of(row.url, row.doc_id) for row in self.rows]
        pages, sites, domains = (
            len({name for name in names if name}) for names in zip(*sources, strict=True)
        )
        return {
            "pages": pages,
            "sites": sites,
            "domains": domains,
            "first_date": self.dates[0] if self.dates else None,
            "last_date": self.dates[-1] if self.dates else None,
            "same": tuple(row.candidate_id for row in self.rows),
        }

    def __str__(self) -> str:
        """Pages, sites and dates for people: '3 pages of 2 sites, 2019-03-02 to 2021-11-30'."""
        columns = self.columns()
        parts = [counted(columns["pages"], "page")]
        if columns["sites"]:
            parts[0] += f" of {counted(columns['sites'], 'site')}"
        if self.dates:
            days = list(dict.fromkeys((self.dates[0][:10], self.dates[-1][:10])))
            parts.append(" to ".join(days))
        return ", ".join(parts)


def answers_of(
    rows: Sequence[ScoredCandidate], passages: Mapping[str, Passage], most: int, caps: Caps
) -> list[SameAnswers]:
    """The first `most` answers of a question, best first, within the caps.

    `rows`: its rows of scored/; `passages`: the retrieved ones, by id. Candidates that a stage has dropped
    are counted with the kept one that they say the same as, and are no answers by themselves.
    """
    if not rows or rows[0].rank is None:
        return []
    same_kind = [row for row in rows if row.unit == rows[0].unit]
    by_first: dict[int, list[ScoredCandidate]] = {}
    for row, first in zip(same_kind, groups([row.text for row in same_kind]), strict=True):
        by_first.setdefault(first, []).append(row)

    kept = [members for members in by_first.values() if members[0].rank is not None]
    sources = [Source.of(members[0].url, members[0].doc_id) for members in kept]
    return [_same_answers(kept[n], passages) for n in caps.choose(sources, most)]


def _same_answers(rows: Sequence[ScoredCandidate], passages: Mapping[str, Passage]) -> SameAnswers:
    dates = {passages[row.passage_id].date for row in rows}
    return SameAnswers(tuple(rows), tuple(sorted(date for date in dates if date)))


def best_of(
    lists: Sequence[RankedList], rows: Sequence[ScoredCandidate], rule: AnswerRule
) -> dict[str, Answer]:
    """Question id → its answers, or the one that is declined, for the lists with a kept candidate. `rows`:
    the result of a plan on the lists."""
    passages = {
        ranked.question.question_id: {c.hit.passage.passage_id: c.hit.passage for c in ranked.candidates}
        for ranked in lists
    }
    best, settings = {}, rule.settings
    for question_id, question_rows in groupby(rows, key=attrgetter("question_id")):
        rows_of_question = list(question_rows)
        if answers := answers_of(rows_of_question, passages[question_id], settings.most, settings):
            first = answer_of(answers[0], passages[question_id], rule)
            others = tuple(other_answer_of(answer) for answer in answers[1:] if rule.is_given(answer.row))
            best[question_id] = replace(first, others=others)
    return best


def answer_of(answer: SameAnswers, passages: Mapping[str, Passage], rule: AnswerRule) -> Answer:
    """The first answer of a question, given or declined, with its place in the crawl; `passages`: by id."""
    row = answer.row
    passage = passages[row.passage_id]
    place = {name: getattr(passage, name) for name in PLACE} if passage.source_file else {}
    columns = _page_columns(row) | answer.columns() | place
    if not rule.is_given(row):
        columns["declined"], columns["answer"] = columns["answer"], None
    return Answer(row.question_id, row.question, unit=row.unit, probability=rule.probability(row), **columns)


def other_answer_of(answer: SameAnswers) -> OtherAnswer:
    row = answer.row
    assert row.rank is not None  # `answers_of` gives kept ones alone
    return OtherAnswer(rank=row.rank, **_page_columns(row), **answer.columns())


def _page_columns(row: ScoredCandidate) -> dict[str, Any]:
    names = ("title", "url", "candidate_id", "passage_id", "doc_id", "start", "end")
    score = row.stages[-1].score if row.stages else None
    return {"answer": row.text, "score": score} | {name: getattr(row, name) for name in names}


def write_jsonl(run: Path, parts: Sequence[Part]) -> Part:
    """Write answers.jsonl from the parts of answers/, row by row; return its lines, bytes and SHA-256.

    One line per question, in the questions' order; `answer` is null if nothing was retrieved, all of it was
    dropped, or the best candidate is below the bar, which then is `declined`.
    """
    with whole_text(run / ANSWERS_FILE) as write:
        for part in parts:
            for answer in ANSWERS.read_part(run, part):
                write(json.dumps(line_of(answer), ensure_ascii=False) + "\n")
    return Part.of(run, ANSWERS_FILE, sum(part.rows for part in parts))


def line_of(answer: Answer) -> dict[str, Any]:
    """An answer as in answers.jsonl: without values that are null for want of an answer, of a probability, or
    of a place in the crawl."""
    values = answer.to_dict()
    names = list(values)
    if answer.candidate_id is None:
        names = names[: names.index("answer") + 1]
    elif answer.source_file is None:
        names = names[: names.index("source_file")]
    absent = {name for name in OPTIONAL if values[name] is None} | (
        {"others"} if not answer.others else set()
    )
    return {name: values[name] for name in names if name not in absent}
