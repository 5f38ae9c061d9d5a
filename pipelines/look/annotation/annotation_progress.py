"""Figures of a run's annotation: who has which tasks, what they have judged, how far they agree, and the
conflicts with their texts. Read from tasks/, packs/ and collected/."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from answermill.pipelines.specs.annotate import TASKS
from answermill.pipelines.specs.collect import (
    AGREEMENT,
    ANNOTATIONS,
    COLLECT,
    COLLECT_REJECTS,
    COLLECTED,
    CONFLICTS,
)
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.collect.asked_tasks import AskedTasks, dealt_tasks, read_of_run

_NO_LABEL = frozenset({"skipped", "cancelled"})
"""Reasons of rejects whose task a person has seen, and given no label."""


@dataclass(frozen=True, slots=True)
class PersonFigures:
    """Progress and agreement of one person."""

    name: str
    dealt: int | None
    """Tasks that were dealt to them; None if tasks were dealt to nobody of that name."""
    judged: int
    no_label: int
    """Tasks of theirs that they skipped, or could not tell."""
    open: int | None
    positive: float | None
    """Share of their labels that say 'correct'; None before the first."""
    with_others: float | None
    """Share of their labels that the majority of the others gives too; None where no two have judged."""
    controls: tuple[int, int]
    """Labels like the known one, and tasks whose label is known."""


@dataclass(frozen=True, slots=True)
class PairFigures:
    """Agreement of two people on the tasks that both have judged."""

    people: tuple[str, str]
    tasks: int
    kappa: float | None


@dataclass(frozen=True, slots=True)
class AnnotationFigures:
    """Annotation of a run as it stands."""

    tasks: int
    is_collected: bool
    fates: Mapping[str, int]
    """Fate of tasks, 'labelled', 'open', … → their number; all 'not_judged' before the first collect."""
    votes: int
    conflicts: int
    alpha: float | None
    """Krippendorff's alpha; None if undefined."""
    alpha_reason: str
    """Why it is; '' if it is not."""
    people: tuple[PersonFigures, ...]
    pairs: tuple[PairFigures, ...]


@dataclass(frozen=True, slots=True)
class ConflictRow:
    """A task whose votes disagree, with its texts."""

    task_id: str
    question_id: str
    question: str
    sentence: str
    title: str
    url: str
    votes: tuple[tuple[str, str], ...]
    """(annotator, 'correct' or 'wrong')."""
    label: str
    """'correct' or 'wrong', as it was resolved; '' if it is open."""

    @property
    def state(self) -> str:
        return "decided" if self.label else "open"


def annotation_figures(run: Run) -> AnnotationFigures | None:
    """Figures of the run; None if it has no tasks. Raises JobError (65) if people.json or agreement.json is
    damaged."""
    if run.get(TASKS) is None:
        return None
    tasks = AskedTasks.of(run.path)
    work = {name: _Work(dealt) for name, dealt in dealt_tasks(run.path).items()}
    if not run.is_complete(COLLECT):
        people = tuple(work[name].figures(name, None) for name in sorted(work))
        fates = {"not_judged": tasks.rows}
        return AnnotationFigures(tasks.rows, False, fates, 0, 0, None, "nothing is collected", people, ())

    _add_judged(run, work)
    agreement = read_of_run(run.path / COLLECTED / AGREEMENT, _Agreement)
    counts = run.counts(COLLECT)
    return AnnotationFigures(
        tasks=tasks.rows,
        is_collected=True,
        fates=dict(counts.fates),
        votes=counts.votes,
        conflicts=counts.conflicts,
        alpha=agreement.krippendorff_alpha.value,
        alpha_reason=agreement.krippendorff_alpha.undefined or "",
        people=tuple(work[name].figures(name, agreement.annotators.get(name)) for name in sorted(work)),
        pairs=tuple(PairFigures(pair.annotators, pair.tasks, pair.value) for pair in agreement.cohen_kappa),
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """Tasks of one person."""

    dealt: Collection[str] | None = None
    labels: dict[str, int] = field(default_factory=dict)
    """Task → their label."""
    unlabelled: set[str] = field(default_factory=set)
    """Tasks that they have seen and given no label, whatever they said later."""

    def figures(self, name: str, agreement: _Annotator | None) -> PersonFigures:
        """Their figures; `agreement` is None for an adjudicator, and for who has not judged yet."""
        labels, seen = self.labels, self.labels.keys() | self.unlabelled
        return PersonFigures(
            name=name,
            dealt=None if self.dealt is None else len(self.dealt),
            judged=len(labels),
            no_label=len(seen) - len(labels),
            open=None if self.dealt is None else len(set(self.dealt) - seen),
            positive=sum(labels.values()) / len(labels) if labels else None,
            with_others=agreement.with_majority_of_others.share if agreement is not None else None,
            controls=(agreement.controls.right, agreement.controls.total)
            if agreement is not None
            else (0, 0),
        )


def _add_judged(run: Run, work: dict[str, _Work]) -> None:
    """Add what people have judged, and what they have given no label, to their work."""
    for vote in run[ANNOTATIONS].read():
        work.setdefault(vote.annotator, _Work()).labels[vote.task_id] = vote.label
    for reject in run[COLLECT_REJECTS].read():
        if reject.reason in _NO_LABEL:
            # The detail begins with 'by NAME: ', and a name may hold a colon; who has only skipped is new.
            known = [name for name in work if reject.detail.startswith(f"by {name}: ")]
            names = known or [reject.detail.removeprefix("by ").partition(": ")[0]]
            for name in names:
                work.setdefault(name, _Work()).unlabelled.add(reject.source_record)


def conflict_rows(run: Run) -> Iterator[ConflictRow]:
    """The conflicts of a run that is collected, those that are open first, each with its texts."""
    conflicts = sorted(run[CONFLICTS].read(), key=lambda conflict: conflict.label is not None)
    wanted = {conflict.task_id for conflict in conflicts}
    columns = ("task_id", "question_id", "title", "url")
    texts = {row[0]: row[1:] for row in AskedTasks.of(run.path).values(*columns) if row[0] in wanted}
    for conflict in conflicts:
        question_id, title, url = texts[conflict.task_id]
        votes = [vote.rpartition("=") for vote in conflict.votes]
        yield ConflictRow(
            conflict.task_id,
            question_id,
            conflict.question,
            conflict.sentence,
            title,
            url,
            tuple((name, _word(int(label))) for name, _, label in votes),
            "" if conflict.label is None else _word(conflict.label),
        )


def _word(label: int) -> str:
    return "correct" if label else "wrong"


@dataclass(frozen=True, slots=True)
class _Share:
    right: int
    total: Annotated[int, Field(alias="of")]
    share: float | None


@dataclass(frozen=True, slots=True)
class _Annotator:
    with_majority_of_others: _Share
    controls: _Share


@dataclass(frozen=True, slots=True)
class _Coefficient:
    value: float | None
    undefined: str | None


@dataclass(frozen=True, slots=True)
class _Pair:
    annotators: tuple[str, str]
    tasks: int
    value: float | None


@dataclass(frozen=True, slots=True)
class _Agreement:
    """Content of agreement.json, as far as it is shown."""

    krippendorff_alpha: _Coefficient
    annotators: dict[str, _Annotator]
    cohen_kappa: list[_Pair]
