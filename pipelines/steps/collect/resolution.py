"""Resolution of several people's votes on a task into one label (WQA §3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from answermill.pipelines.errors import USAGE, JobError
from answermill.pipelines.steps.collect.annotator_agreement import resolve
from answermill.schemas.annotation import Task

Method = Literal["majority", "weighted", "adjudicate"]
Fate = Literal["labelled", "open", "control", "too_few_votes", "not_judged"]


@dataclass(frozen=True, slots=True)
class ResolutionRules:
    """The rules by which the votes on a task become its label."""

    method: Method = "majority"
    min_votes: int = 1
    adjudicator: str | None = None
    """The annotator whose label holds on every task they judged, whatever others say; agreement is measured
    without them."""

    def __post_init__(self) -> None:
        if self.min_votes < 1:
            raise JobError(f"--min-votes {self.min_votes}: give at least 1", USAGE)


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """Outcome of one task: its label, or the fate for which it has none."""

    fate: Fate
    label: int | None = None
    votes: int = 0
    positive: float = 0.0
    """Share of the votes, by weight, for label 1."""
    disputed: bool = False


def resolve_task(
    task: Task, votes: Mapping[str, int], rules: ResolutionRules, weights: Mapping[str, float]
) -> TaskOutcome:
    """The outcome of a task with these votes (annotator → label). `weights` of annotators count for
    `weighted` alone.

    The adjudicator's label holds. Otherwise fewer than min_votes give no label; a tie, votes without weight
    and, with `adjudicate`, any disagreement leave the task open. Controls are judged, not labelled.
    """
    if task.stratum == "control":
        return TaskOutcome("control", votes=len(votes))
    if not votes:
        return TaskOutcome("not_judged")

    disputed = len(set(votes.values())) > 1
    if rules.adjudicator is not None and (decision := votes.get(rules.adjudicator)) is not None:
        return TaskOutcome("labelled", decision, 1, float(decision), disputed)
    if len(votes) < rules.min_votes:
        return TaskOutcome("too_few_votes", votes=len(votes), disputed=disputed)

    weighted = rules.method == "weighted"
    label, positive = resolve([(label, weights[name] if weighted else 1.0) for name, label in votes.items()])
    if label is None or (disputed and rules.method == "adjudicate"):
        return TaskOutcome("open", None, len(votes), positive, True)

    return TaskOutcome("labelled", label, len(votes), positive, disputed)
