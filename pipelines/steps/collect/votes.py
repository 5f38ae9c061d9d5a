"""Annotations of all exports → votes and rejects, and the agreement of the annotators."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from answermill.pipelines.data.annotation_tools.tool import ExportedLabel
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.specs.collect import CollectCounts
from answermill.pipelines.steps.collect import annotator_agreement
from answermill.pipelines.steps.collect.annotator_agreement import Figure, Share, Votes
from answermill.pipelines.steps.collect.asked_tasks import AskedTasks
from answermill.pipelines.steps.collect.people import Identity, People, identity
from answermill.schemas.corpus import Rejected

SHOWN_PAIRS = 20
NAME_WIDTH = 40
"""Letters of an annotator's name in a table for people."""


class Vote(NamedTuple):
    """An annotator's latest label of a task so far, and its place in the exports."""

    file: int
    record: int
    label: int
    changed_at: float | None
    identity: Identity


class NoVote(NamedTuple):
    """Reason why an annotation is no vote, and the values that decided."""

    reason: str
    detail: str


class CollectedVotes:
    """The annotations of all exports, each either one annotator's vote on a task of the run, or a reject."""

    def __init__(self, tasks: AskedTasks, files: Sequence[Path], people: People | None = None) -> None:
        """`people`: of the same files; if absent, as their tools name them."""
        self._files, self.people = files, people or People(files)
        self.number: dict[str, int] = {}
        """Task.task_id → its place among the tasks."""
        self.expected: list[int] = []
        """The known label of each task; -1 if there is none."""
        self._hashes: list[str] = []

        for task_id, text_hash, expected in tasks.values("task_id", "text_hash", "expected"):
            self.number[task_id] = len(self._hashes)
            self._hashes.append(text_hash)
            self.expected.append(-1 if expected is None else expected)

        if len(self.number) != tasks.rows:
            raise JobError(
                f"{tasks.path}: {tasks.rows} tasks have {len(self.number)} ids; make them again", BAD_DATA
            )

        self.votes: dict[tuple[int, str], Vote] = {}
        """(task, annotator) → the vote."""
        self.rejects: list[tuple[int, Rejected]] = []
        """(file, reject)."""
        self._tally = Counter[str]()

    @property
    def counts(self) -> CollectCounts:
        """The annotations that were added, those that are used, and the others by reason."""
        rejected = Counter(reject.reason for _, reject in self.rejects)
        tally = {**self._tally, "votes": len(self.votes), "unknown_annotators": self.people.unknown}
        return CollectCounts.from_json({**tally, "rejected": dict(rejected)})

    def add(self, file: int, exported: ExportedLabel) -> None:
        """Add an annotation of file number `file`. The later of two by one annotator on one task holds.

        Raises JobError (65) if the annotator is a number that must be two people.
        """
        self._tally["annotations"] += 1
        self._tally["unchecked_text"] += not exported.text_hash
        self._tally["unknown_status"] += not exported.submitted
        task_id = exported.task_id
        if (refusal := self._refusal(exported)) is not None:
            name = self.people.known_name(file, exported)
            self._reject(file, exported.record, task_id, name, refusal)
            return

        assert exported.label is not None
        annotator = self.people.name(file, exported)
        key, new = (
            (self.number[task_id], annotator),
            Vote(file, exported.record, exported.label, exported.changed_at, identity(exported)),
        )
        old = self.votes.setdefault(key, new)

        if old is not new:
            if old.identity.differs_from(new.identity):
                self.people.refuse_two(exported, old.file, file)
            timed = (
                old.changed_at is not None and new.changed_at is not None and old.changed_at != new.changed_at
            )
            later, earlier = (
                (new, old) if not timed or (new.changed_at or 0) > (old.changed_at or 0) else (old, new)
            )
            self.votes[key] = later
            detail = (
                f"label {earlier.label}; {self._files[later.file]}, record {later.record}, says "
                f"{later.label} later"
            )
            self._reject(earlier.file, earlier.record, task_id, annotator, NoVote("duplicate", detail))

    def _refusal(self, exported: ExportedLabel) -> NoVote | None:
        number = self.number.get(exported.task_id)
        if number is None:
            rounded = re.fullmatch(r"\d+([.,]\d+)?E\+?\d+", exported.task_id, re.IGNORECASE)
            remedy = "a spreadsheet made a number of the id: open the file with this column as text"
            return NoVote(
                "unknown_task", f"task {exported.task_id[:40]!r}: {remedy if rounded else 'not in tasks/'}"
            )
        if exported.text_hash and exported.text_hash != self._hashes[number]:
            return NoVote(
                "text_changed", f"text_hash {exported.text_hash[:40]!r}, {self._hashes[number]!r} in tasks/"
            )
        return NoVote(exported.reason, exported.detail) if exported.label is None else None

    def _reject(self, file: int, record: int, task_id: str, annotator: str, refusal: NoVote) -> None:
        source, detail = str(self._files[file]), f"by {annotator}: {refusal.detail}"
        self.rejects.append((file, Rejected(source, record, task_id, "", refusal.reason, detail)))

    def annotators(self) -> list[str]:
        return sorted({annotator for _, annotator in self.votes})

    def by_task(self) -> dict[int, dict[str, int]]:
        """Task → annotator → label, annotators in order."""
        votes: dict[int, dict[str, int]] = {}
        for (task, annotator), vote in sorted(self.votes.items()):
            votes.setdefault(task, {})[annotator] = vote.label
        return votes


@dataclass(frozen=True, slots=True)
class AnnotatorAgreement:
    """Agreement of the annotators, the adjudicator left out."""

    krippendorff: Figure
    fleiss: Figure
    fleiss_votes: int
    """Votes on each of the tasks that Fleiss' kappa is computed from."""
    annotators: Mapping[str, annotator_agreement.Annotator]
    weights: Mapping[str, float]
    pairs: Mapping[tuple[str, str], Figure]

    @classmethod
    def among(cls, collected: CollectedVotes, adjudicator: str | None) -> AnnotatorAgreement:
        names = [name for name in collected.annotators() if name != adjudicator]
        place = {name: n for n, name in enumerate(names)}
        without_adjudicator = (
            (task, place[name], vote.label)
            for (task, name), vote in collected.votes.items()
            if name != adjudicator
        )
        votes = Votes.of(without_adjudicator)
        table = votes.table()

        expected = np.array(collected.expected, np.int64)[votes.items]
        figures = annotator_agreement.annotators(votes, expected)
        votes_per_task, same_table = annotator_agreement.same_votes(table)
        weights = annotator_agreement.weights([figures[n].controls for n in range(len(names))])
        return cls(
            krippendorff=annotator_agreement.krippendorff(table),
            fleiss=annotator_agreement.fleiss(same_table),
            fleiss_votes=votes_per_task,
            annotators={names[n]: annotator for n, annotator in figures.items()},
            weights=dict(zip(names, weights, strict=True)),
            pairs={(names[a], names[b]): kappa for (a, b), kappa in annotator_agreement.pairs(votes).items()},
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "krippendorff_alpha": _figure_json(self.krippendorff),
            "fleiss_kappa": {**_figure_json(self.fleiss), "votes_per_task": self.fleiss_votes or None},
            "annotators": {
                name: {
                    "tasks": annotator.items,
                    "positive": annotator.positive / annotator.items,
                    "with_majority_of_others": _share_json(annotator.with_others),
                    "controls": _share_json(annotator.controls),
                    "weight": self.weights[name],
                }
                for name, annotator in self.annotators.items()
            },
            "cohen_kappa": [
                {"annotators": pair, **_figure_json(kappa)} for pair, kappa in self.pairs.items()
            ],
        }

    def lines(self) -> Iterator[str]:
        """The figures as tables for people."""
        votes_each = f" of {self.fleiss_votes} each" if self.fleiss_votes else ""
        yield f"Krippendorff's alpha {_figure_text(self.krippendorff)}"
        yield f"Fleiss' kappa        {_figure_text(self.fleiss)}{votes_each}"
        shown = {
            name: name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 1]}…"
            for name in self.annotators
        }
        width = max(map(len, ("annotator", *shown.values())))
        yield ""
        yield (
            f"{'annotator':<{width}}  tasks  correct  as the others  controls  right (95 % interval)    "
            "weight"
        )

        for name, annotator in self.annotators.items():
            others, controls = annotator.with_others.value, annotator.controls
            as_others = "-" if others is None else f"{others:.1%}"
            judged = f"{controls.right}/{controls.total}" if controls.total else "-"
            interval = controls.interval
            right = f"{controls.value:.1%} ({interval[0]:.1%} to {interval[1]:.1%})" if interval else "-"
            positive = annotator.positive / annotator.items
            shares = f"{annotator.items:>5,}  {positive:>7.1%}  {as_others:>13}"
            yield f"{shown[name]:<{width}}  {shares}  {judged:>8}  {right:<23}  {self.weights[name]:>6.2f}"

        if self.pairs:
            yield ""
            shown_pairs = sorted(self.pairs.items(), key=lambda item: (-item[1].items, item[0]))[:SHOWN_PAIRS]
            yield "Cohen's kappa" + (
                f", the {SHOWN_PAIRS} pairs of most tasks" if len(self.pairs) > SHOWN_PAIRS else ""
            )
            yield from (f"{a} and {b}: {_figure_text(kappa)}" for (a, b), kappa in shown_pairs)


def _figure_json(figure: Figure) -> dict[str, Any]:
    return {
        "value": figure.value,
        "tasks": figure.items,
        "votes": figure.votes,
        "undefined": figure.reason or None,
    }


def _share_json(share: Share) -> dict[str, Any]:
    return {"right": share.right, "of": share.total, "share": share.value, "interval_95": share.interval}


def _figure_text(figure: Figure) -> str:
    if figure.value is None:
        return f"undefined: {figure.reason}" + (f" ({figure.items:,} tasks)" if figure.items else "")
    return f"{figure.value:.3f}  {figure.items:,} task{'s'[: figure.items != 1]}, {figure.votes:,} votes"
