"""Ballots: annotations of all exports → votes and rejects, and how far the annotators agree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from indexing.annotation import agreement
from indexing.annotation.agreement import Figure, Share, Votes
from pipelines.annotation_tools.tool import ExportedLabel
from pipelines.errors import BAD_DATA, JobError
from pipelines.execution.parquet_folder import Folder, read_batches
from schemas.annotation import Task
from schemas.corpus import Rejected

SHOWN_PAIRS = 20


class Vote(NamedTuple):
    """An annotation that holds so far; `file` and `where` are its place."""

    file: int
    where: int
    label: int
    at: float | None


class Ballots:
    """The annotations of all exports, each either one vote of an annotator on a task of the run, or a reject."""

    def __init__(self, tasks: Folder[Task], files: Sequence[Path]) -> None:
        self._files = files
        self.number: dict[str, int] = {}
        """Task.task_id → its place in tasks/."""
        self.expected: list[int] = []
        """By task; -1 where no label is known."""
        self._hashes: list[str] = []
        for part in tasks.parts:
            for batch in read_batches(tasks.path, part, ["task_id", "text_hash", "expected"]):
                for task_id, text_hash, expected in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    self.number[task_id] = len(self._hashes)
                    self._hashes.append(text_hash)
                    self.expected.append(-1 if expected is None else expected)
        if len(self.number) != tasks.rows:
            raise JobError(f"{tasks.path}: {tasks.rows} tasks have {len(self.number)} ids; make them again", BAD_DATA)
        self.votes: dict[tuple[int, str], Vote] = {}
        """(task, annotator) → the vote."""
        self.rejects: list[tuple[int, Rejected]] = []
        """(file, reject)."""
        self.counts = Counter(annotations=0, unchecked_text=0, unknown_status=0)

    def add(self, file: int, given: ExportedLabel) -> None:
        """Take an annotation of file number `file`. The later of two by one annotator on one task holds."""
        self.counts["annotations"] += 1
        refusal = self._refusal(given)
        if refusal is not None:
            self._reject(file, given.record, given.task_id, given.annotator, *refusal)
            return
        assert given.label is not None
        key, new = (self.number[given.task_id], given.annotator), Vote(file, given.record, given.label, given.changed_at)
        self.counts["unchecked_text"] += not given.text_hash
        self.counts["unknown_status"] += not given.submitted
        old = self.votes.setdefault(key, new)
        if old is not new:
            timed = old.at is not None and new.at is not None and old.at != new.at
            holds, gone = (new, old) if not timed or (new.at or 0) > (old.at or 0) else (old, new)
            self.votes[key] = holds
            told = f"label {gone.label}; {self._files[holds.file]}, record {holds.where}, says {holds.label} later"
            self._reject(gone.file, gone.where, given.task_id, given.annotator, "duplicate", told)

    def _refusal(self, given: ExportedLabel) -> tuple[str, str] | None:
        """Why an annotation is no vote: the reason, and the values that decided."""
        number = self.number.get(given.task_id)
        if number is None:
            as_number = re.fullmatch(r"\d+([.,]\d+)?E\+?\d+", given.task_id, re.IGNORECASE)
            told = (
                "a spreadsheet made a number of the id: open the file with this column as text"
                if as_number
                else "not in tasks/"
            )
            return "unknown_task", f"task {given.task_id[:40]!r}: {told}"
        if given.text_hash and given.text_hash != self._hashes[number]:
            return "text_changed", f"text_hash {given.text_hash[:40]!r}, {self._hashes[number]!r} in tasks/"
        return (given.reason, given.detail) if given.label is None else None

    def _reject(self, file: int, where: int, task_id: str, annotator: str, reason: str, detail: str) -> None:
        told = f"by {annotator}: {detail}"
        self.rejects.append((file, Rejected(str(self._files[file]), where, task_id, "", reason, told)))

    def annotators(self) -> list[str]:
        return sorted({annotator for _, annotator in self.votes})

    def by_task(self) -> dict[int, dict[str, int]]:
        """Task → annotator → label, annotators in order."""
        found: dict[int, dict[str, int]] = {}
        for (task, annotator), vote in sorted(self.votes.items()):
            found.setdefault(task, {})[annotator] = vote.label
        return found


@dataclass(frozen=True, slots=True)
class Agreed:
    """How far annotators agree, the adjudicator left out."""

    krippendorff: Figure
    fleiss: Figure
    fleiss_votes: int
    """Of each task that Fleiss' kappa is of."""
    annotators: Mapping[str, agreement.Annotator]
    weights: Mapping[str, float]
    pairs: Mapping[tuple[str, str], Figure]

    @classmethod
    def of(cls, ballots: Ballots, adjudicator: str | None) -> Agreed:
        names = [name for name in ballots.annotators() if name != adjudicator]
        place = {name: n for n, name in enumerate(names)}
        votes = Votes.of((task, place[name], vote.label) for (task, name), vote in ballots.votes.items() if name != adjudicator)
        table = votes.table()
        expected = np.array(ballots.expected, np.int64)[votes.items]
        of_each = agreement.annotators(votes, expected)
        in_common, same = agreement.same_votes(table)
        return cls(
            krippendorff=agreement.krippendorff(table),
            fleiss=agreement.fleiss(same),
            fleiss_votes=in_common,
            annotators={names[n]: figures for n, figures in of_each.items()},
            weights=dict(zip(names, agreement.weights([of_each[n].controls for n in range(len(names))]), strict=True)),
            pairs={(names[a], names[b]): kappa for (a, b), kappa in agreement.pairs(votes).items()},
        )

    def to_json(self) -> dict[str, Any]:
        def share(of: Share) -> dict[str, Any]:
            return {"right": of.right, "of": of.of, "share": of.value, "interval_95": of.interval}

        def figure(of: Figure) -> dict[str, Any]:
            return {"value": of.value, "tasks": of.items, "votes": of.votes, "undefined": of.reason or None}

        return {
            "krippendorff_alpha": figure(self.krippendorff),
            "fleiss_kappa": {**figure(self.fleiss), "votes_per_task": self.fleiss_votes or None},
            "annotators": {
                name: {
                    "tasks": of.items,
                    "positive": of.positive / of.items,
                    "with_majority_of_others": share(of.with_others),
                    "controls": share(of.controls),
                    "weight": self.weights[name],
                }
                for name, of in self.annotators.items()
            },
            "cohen_kappa": [{"annotators": pair, **figure(kappa)} for pair, kappa in self.pairs.items()],
        }

    def lines(self) -> Iterator[str]:
        """The figures as tables for people."""
        yield f"Krippendorff's alpha {_told(self.krippendorff)}"
        yield f"Fleiss' kappa        {_told(self.fleiss)}" + (f" of {self.fleiss_votes} each" if self.fleiss_votes else "")
        width = max(map(len, ("annotator", *self.annotators)))
        yield ""
        yield f"{'annotator':<{width}}  tasks  correct  as the others  controls  right (95 % interval)    weight"
        for name, of in self.annotators.items():
            others = "-" if of.with_others.value is None else f"{of.with_others.value:.1%}"
            controls = f"{of.controls.right}/{of.controls.of}" if of.controls.of else "-"
            interval = of.controls.interval
            right = f"{of.controls.value:.1%} ({interval[0]:.1%} to {interval[1]:.1%})" if interval else "-"
            shares = f"{of.items:>5,}  {of.positive / of.items:>7.1%}  {others:>13}"
            yield f"{name:<{width}}  {shares}  {controls:>8}  {right:<23}  {self.weights[name]:>6.2f}"
        if self.pairs:
            yield ""
            shown = sorted(self.pairs.items(), key=lambda item: (-item[1].items, item[0]))[:SHOWN_PAIRS]
            yield "Cohen's kappa" + (f", the {SHOWN_PAIRS} pairs of most tasks" if len(self.pairs) > SHOWN_PAIRS else "")
            yield from (f"{a} and {b}: {_told(kappa)}" for (a, b), kappa in shown)


def _told(of: Figure) -> str:
    if of.value is None:
        return f"undefined: {of.reason}" + (f" ({of.items:,} tasks)" if of.items else "")
    return f"{of.value:.3f}  {of.items:,} task{'s'[: of.items != 1]}, {of.votes:,} votes"
