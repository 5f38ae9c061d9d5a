"""Sheets of judged sentences, and how far their two readings agree.

A language model judged, not people: one model in one sitting, by the guidelines of the annotation packs, with
question, title and sentence before it, the page beside, and no score. The first reading went question by
question, the second in the order of a hash, without a look at the first; a third look settled what differed,
and its `reason` says why. So the agreement is of one reader with itself.

Four sheets are kept: `tools/sample_web/judgements.tsv`, whose labels the sample ships;
`experiments/judged_pool.tsv`, by which nothing is taught or chosen: its questions are for measuring; and
`experiments/sure.tsv` and `sure_base.tsv`, of first answers of two plans that count as wrong, as the reader
knew, with their neighbours in place of the page. Their questions of L-dev choose a bar, those of L-test only
measure.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from answermill.pipelines.steps.collect.annotator_agreement import Figure, cohen

LABELS = ("first", "second", "label", "former", "reason")
"""Columns of a sheet behind those that name the question and the sentence."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A row of a sheet. Labels are 1, correct, and 0, wrong."""

    place: tuple[str, ...]
    """Question and sentence, as the sheet names them."""
    first: int
    second: int
    label: int
    former: int | None = None
    """Label that the sentence had before the readings; None if it had none."""
    reason: str = ""
    """Why the label is what it is, where the readings or the former label differ; else empty."""

    @property
    def disputed(self) -> bool:
        labels = {self.first, self.second, self.label} | {self.former} - {None}
        return len(labels) > 1


def read_judgements(path: Path, place: Sequence[str]) -> list[Judgement]:
    """The rows of a sheet whose first columns are `place`.

    Raises ValueError, with the line, for a row that is not whole, is there twice, or lacks its reason, and
    for a label that nobody gave.
    """
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    names = [*place, *LABELS]
    if header.split("\t") != names:
        raise ValueError(f"{path}:1: the columns must be {', '.join(names)}")

    judgements: dict[tuple[str, ...], Judgement] = {}
    for number, cells in enumerate(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), 2):
        where = f"{path}:{number}"
        if len(cells) != len(names):
            raise ValueError(f"{where}: {len(cells)} cells; a row has {len(names)}")
        first, second, label, former, reason = cells[len(place) :]
        if not {first, second, label} <= {"0", "1"} or former not in ("", "0", "1"):
            raise ValueError(f"{where}: labels are 0 and 1, and the former one may be empty")
        if label not in (first, second, former):
            raise ValueError(f"{where}: the label is {label}, and both readings say {first}")

        old = int(former) if former else None
        key = tuple(cells[: len(place)])
        judgement = Judgement(key, int(first), int(second), int(label), old, reason)
        if judgement.disputed and not reason:
            raise ValueError(f"{where}: labels differ; give the reason for the settled one")
        if judgements.setdefault(key, judgement) is not judgement:
            raise ValueError(f"{where}: the sentence is judged twice for {key[0]}")

    return list(judgements.values())


def agreement(judgements: Iterable[Judgement]) -> Figure:
    """Cohen's kappa of the two readings."""
    confusion = np.zeros((2, 2), np.int64)
    for judgement in judgements:
        confusion[judgement.first, judgement.second] += 1
    return cohen(confusion)
