"""A file of questions -> the questions that a run asks, and the others with the reason for refusal (WQA
§3.2)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from answermill.indexing.passages.passages import Splitter
from answermill.indexing.passages.question_rules import QuestionRules, refusal
from answermill.pipelines.config.job_file import Retrieve
from answermill.pipelines.data.inputs.columns import Columns
from answermill.pipelines.data.inputs.tables import GivenQuestion, read_given_questions
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError
from answermill.schemas.corpus import Question, Rejected

Refusal: TypeAlias = Callable[[GivenQuestion], str | None]
"""A question → the reason why it is refused, or None."""


@dataclass(frozen=True, slots=True)
class QuestionChoice:
    """The questions of a file: each is asked or rejected. Both are in the file's order."""

    questions: tuple[Question, ...]
    rejects: tuple[Rejected, ...]
    numbered: int = 0
    """Questions whose id is their line, since the file has nothing but their texts."""

    @property
    def reasons(self) -> Counter[str]:
        """Reason → number of rejects."""
        return Counter(reject.reason for reject in self.rejects)


def choose(file: Path, settings: Retrieve) -> QuestionChoice:
    """The questions of a file that the settings select.

    Raises JobError: 65 or 66 if the file cannot be read, 65 if a score is missing or no question remains, 78
    if the bounds on a question's words are the wrong way round.
    """
    least, most = settings.question_words
    if least > most:
        raise JobError(
            f"retrieve.question_words = [{least}, {most}]: the first number must not exceed the second",
            SETTINGS,
        )

    rows = read_given_questions(file, Columns.of(settings.columns, "retrieve.columns"))
    refuse = _refusal(settings, file)
    reasons = [refuse(row) for row in rows]
    accepted = {row.question.question_id for row, reason in zip(rows, reasons, strict=True) if reason is None}
    sampled = sample(accepted, settings.max_questions, settings.question_seed)

    chosen, rejects = [], []
    for row, reason in zip(rows, reasons, strict=True):
        if reason is None and row.question.question_id in sampled:
            chosen.append(row.question)
        else:
            detail = (
                row.question.text if row.well_formed is None else f"{row.well_formed:g}: {row.question.text}"
            )
            rejects.append(
                Rejected(file.name, row.number, row.question.question_id, "", reason or "not_sampled", detail)
            )

    choice = QuestionChoice(tuple(chosen), tuple(rejects), sum(row.is_numbered for row in rows))
    if not chosen:
        raise JobError(f"{file}: no question is left of {len(rows)}: {describe(choice.reasons)}", BAD_DATA)

    return choice


def describe(reasons: Counter[str]) -> str:
    """Reasons for people, the most frequent first."""
    ordered = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{n:,} {reason}" for reason, n in ordered)


def sample(ids: set[str], size: int, seed: int) -> set[str]:
    """`size` of the ids, those whose hash with the seed is smallest; all of them if `size` is 0 or exceeds
    their number."""
    if not size or size >= len(ids):
        return ids
    return set(
        sorted(ids, key=lambda question_id: hashlib.sha256(f"{seed}:{question_id}".encode()).digest())[:size]
    )


def _refusal(settings: Retrieve, file: Path) -> Refusal:
    """The checks of the settings as one; spaCy is loaded only if one of them needs it."""
    checks: list[Refusal] = []
    least = settings.question_scores_above
    if least is not None:

        def by_score(row: GivenQuestion) -> str | None:
            if row.well_formed is None:
                raise JobError(
                    f"{file}:{row.number}: no `well_formed`, which retrieve.question_scores_above = {least} "
                    "asks for; "
                    "give every question a number from 0 to 1",
                    BAD_DATA,
                )
            return None if row.well_formed > least else "low_score"

        checks.append(by_score)

    if settings.question_rules == "well_formed":
        splitter, rules = Splitter(), QuestionRules(*settings.question_words)
        checks.append(
            lambda row: refusal(row.question.text, lambda text: len(splitter.sentences("", text)), rules)
        )

    return lambda row: next((reason for check in checks if (reason := check(row)) is not None), None)
