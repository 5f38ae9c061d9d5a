"""Fates of the given labels: each is used, or kept in labels/rejects with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from answermill.files.store import fetch
from answermill.indexing.labels.given_labels import GivenLabels
from answermill.indexing.labels.hash_join import Ints
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.propagate import LABEL_REJECTS, PropagateCounts
from answermill.schemas.corpus import Rejected
from answermill.schemas.labels import WRONG

USED, CHANGED, REPEATED = 1, 2, 3
"""Fates; 0 is that of a label whose sentence was not found."""


def fates_of(numbers: Ints, fate: int) -> Ints:
    """[2, n]: the numbers of given labels, each once, ascending; and their fate."""
    unique = np.unique(numbers)
    return np.stack([unique, np.full(len(unique), fate)])


def fates_file(step: Step[Any], unit: int) -> Path:
    """File in which a unit keeps the fates of the labels of its sentences."""
    return step.work / f"fates-{unit:05d}.npy"


def reject(
    given_labels: GivenLabels, step: Step[PropagateCounts], units: int, largest: int, file: str
) -> Report[PropagateCounts]:
    """Write the labels that were not used to labels/rejects, by line, with the reason.

    `largest` is the largest number of a label; `file` is the name of their file. Returns the report of one
    more unit, whose number is `units`.
    """
    fate = np.zeros(largest + 1, np.uint8)  # by number
    for unit in range(units):
        numbers, fates = np.load(fetch(fates_file(step, unit)), allow_pickle=False)
        for value in (CHANGED, USED):
            fate[numbers[fates == value]] = value

    repeated, first = given_labels.repeated()
    fate[repeated] = REPEATED
    rejected, used = Counter[str](), 0

    with LABEL_REJECTS.writer(step.run, units) as writer:
        for batch in given_labels.read():
            is_used = fate[batch.column("number").to_numpy()] == USED
            used += int(is_used.sum())
            for row in batch.filter(pa.array(~is_used)).to_pylist():
                number = row["number"]
                if fate[number] == REPEATED:
                    reason, detail = (
                        "duplicate",
                        f"line {first[np.searchsorted(repeated, number)]} says the same",
                    )
                else:
                    reason, detail = _refusal(row, int(fate[number]))
                rejected[reason] += 1
                writer.write([Rejected(file, number, row["question_id"], "", reason, detail)])

    counts = PropagateCounts(used=used, rejected=dict(rejected))
    return Report(units, {LABEL_REJECTS.name: writer.parts}, counts)


def _refusal(row: Mapping[str, Any], fate: int) -> tuple[str, str]:
    """(reason, detail), as in Rejected, of a label that was not used; the detail of a 0 begins with WRONG."""
    wrong = "" if row["label"] else WRONG
    if fate == CHANGED:
        return (
            "text_changed",
            f"{wrong}sentence id {row['sentence_id']!r} does not read {row['text']!r} in passages/",
        )
    what = (
        f"sentence {row['text']!r}" if row["sentence_id"] is None else f"sentence id {row['sentence_id']!r}"
    )
    return "unknown_sentence", f"{wrong}{what} is not in passages/"
