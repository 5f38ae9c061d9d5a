"""Questions: a file of many in; those that a run asks, and the others with the reason why not, out (WQA §3.2)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from indexing.passages.passages import Splitter
from indexing.passages.question_rules import QuestionRules, refusal
from pipelines.config.job_file import Retrieve
from pipelines.errors import BAD_DATA, SETTINGS, JobError
from pipelines.inputs.tables import GivenQuestion, read_given_questions
from schemas.corpus import Question, Rejected


@dataclass(frozen=True, slots=True)
class Chosen:
    """The questions of a file, each in one of the two, in the file's order."""

    questions: tuple[Question, ...]
    rejects: tuple[Rejected, ...]

    @property
    def reasons(self) -> Counter[str]:
        return Counter(reject.reason for reject in self.rejects)


def choose(file: Path, settings: Retrieve) -> Chosen:
    """The questions of a file that the settings want.

    Raises JobError: 65 and 66 where the file cannot be read, 65 where a score is missing or no question is left, 78 where the
    bounds cannot be meant.
    """
    least, most = settings.question_words
    if least > most:
        raise JobError(f"retrieve.question_words = [{least}, {most}]: the first is the least", SETTINGS)
    given = read_given_questions(file)
    why = _why(settings, file)
    reasons = [why(each) for each in given]
    left = {each.question.question_id for each, reason in zip(given, reasons, strict=True) if reason is None}
    taken = sample(left, settings.max_questions, settings.question_seed)
    asked, rejects = [], []
    for each, reason in zip(given, reasons, strict=True):
        if reason is None and each.question.question_id in taken:
            asked.append(each.question)
        else:
            detail = each.question.text if each.well_formed is None else f"{each.well_formed:g}: {each.question.text}"
            rejects.append(Rejected(file.name, each.number, each.question.question_id, "", reason or "not_sampled", detail))
    made = Chosen(tuple(asked), tuple(rejects))
    if not asked:
        raise JobError(f"{file}: no question is left of {len(given)}: {told(made.reasons)}", BAD_DATA)
    return made


def told(reasons: Counter[str]) -> str:
    """Reasons for people, the most frequent first."""
    return ", ".join(f"{n:,} {reason}" for reason, n in sorted(reasons.items(), key=lambda each: (-each[1], each[0])))


def sample(ids: set[str], size: int, seed: int) -> set[str]:
    """So many of the ids, all where `size` is 0 or more than there are: those whose hash with the seed is smallest."""
    if not size or size >= len(ids):
        return ids
    return set(sorted(ids, key=lambda each: hashlib.sha256(f"{seed}:{each}".encode()).digest())[:size])


def _why(settings: Retrieve, file: Path) -> Callable[[GivenQuestion], str | None]:
    """What tells why a question is refused; nothing is loaded where nothing is asked for."""
    checks: list[Callable[[GivenQuestion], str | None]] = []
    least = settings.question_scores_above
    if least is not None:

        def by_score(given: GivenQuestion) -> str | None:
            if given.well_formed is None:
                raise JobError(
                    f"{file}:{given.number}: no `well_formed`, which retrieve.question_scores_above = {least} asks for; "
                    "give every question a number from 0 to 1",
                    BAD_DATA,
                )
            return None if given.well_formed > least else "low_score"

        checks.append(by_score)
    if settings.question_rules == "well_formed":
        splitter, rules = Splitter(), QuestionRules(*settings.question_words)
        checks.append(lambda given: refusal(given.question.text, lambda text: len(splitter.sentences("", text)), rules))
    return lambda given: _first(checks, given)


def _first(checks: Sequence[Callable[[GivenQuestion], str | None]], given: GivenQuestion) -> str | None:
    return next((reason for check in checks if (reason := check(given)) is not None), None)
