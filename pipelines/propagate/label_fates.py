"""What became of each given label: used, or kept in labels/rejects with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from indexing.labels.given_labels import GivenLabels
from indexing.labels.hash_join import Ints
from pipelines.execution.parquet_folder import PartWriter
from pipelines.execution.step import Report, Step
from schemas.corpus import Rejected

USED, CHANGED, REPEATED = 1, 2, 3


def fates_of(numbers: Ints, fate: int) -> Ints:
    """[2, n]: numbers of given labels, each once, and what became of them."""
    found = np.unique(numbers)
    return np.stack([found, np.full(len(found), fate)])


def fates_file(this: Step, unit: int) -> Path:
    return this.work / f"fates-{unit:05d}.npy"


def reject(given: GivenLabels, this: Step, units: int, largest: int, file: str) -> Report:
    """Keep the labels that are not used, by line, with the reason; reports as the unit after the last."""
    fate = np.zeros(largest + 1, np.uint8)
    for unit in range(units):
        numbers, fates = np.load(fates_file(this, unit), allow_pickle=False)
        for each in (CHANGED, USED):
            fate[numbers[fates == each]] = each
    again, first = given.repeated()
    fate[again] = REPEATED
    counts: Counter[str] = Counter()
    writer = PartWriter(this.run / "labels/rejects", Rejected, units)
    with writer:
        for batch in given.read():
            counts["used"] += int((fate[batch.column("number").to_numpy()] == USED).sum())
            for row in batch.filter(pa.array(fate[batch.column("number").to_numpy()] != USED)).to_pylist():
                number = row["number"]
                if fate[number] == REPEATED:
                    reason, detail = "duplicate", f"line {first[np.searchsorted(again, number)]} says the same"
                else:
                    reason, detail = _refusal(row, int(fate[number]))
                counts[f"rejected.{reason}"] += 1
                writer.write([Rejected(file, number, row["question_id"], "", reason, detail)])
    counts["rejects"] = writer.part.rows
    return Report(units, {"labels/rejects": writer.part}, counts)


def _refusal(row: Mapping[str, Any], fate: int) -> tuple[str, str]:
    if fate == CHANGED:
        return "text_changed", f"sentence id {row['sentence_id']!r} does not read {row['text']!r} in passages/"
    what = f"sentence {row['text']!r}" if row["sentence_id"] is None else f"sentence id {row['sentence_id']!r}"
    return "unknown_sentence", f"{what} is not in passages/"
