"""What the units of a step have reported, added up while it is read: of a report no more is held than its rows in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Self

from answermill.pipelines.runs.manifests.arrow_columns import COUNTS, NAMES, PARTS, Growing, Named, Parts
from answermill.pipelines.runs.manifests.reports import Report, add_counts


class Outcome:
    """`counts` are the sums of the units' counts, as `add_counts` adds them up."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self._parts: dict[str, Growing] = {}
        self._digests, self._units = Growing(NAMES), Growing(COUNTS)

    @classmethod
    def of(cls, reports: Iterable[Report]) -> Self:
        """The sum of these, which come in the order of their units."""
        outcome = cls()
        for report in reports:
            outcome.add(report)
        return outcome

    def add(self, report: Report) -> None:
        """Add a unit's report, after those of the units before it."""
        self.include(report)
        self._units.append(str(report.unit), list(report.counts.items()))

    def include(self, report: Report) -> None:
        """Add what the command itself has written, after all units; it does so again when a unit is done again."""
        add_counts(self.counts, report.counts)
        for folder, parts in report.parts.items():
            rows = self._parts.setdefault(folder, Growing(PARTS))
            for part in parts:
                rows.append(part.file, part.rows, part.bytes, part.sha256)
        for name, digest in report.digests.items():
            self._digests.append(name, digest)

    def parts(self, folder: str) -> Parts:
        """All parts of an output folder, in the order of the units."""
        return Parts(self._parts.get(folder, Growing(PARTS)).table)

    @property
    def digests(self) -> Named[str]:
        """SHA-256 of the input files that the units have read, by name."""
        return Named(self._digests.table)

    @property
    def units(self) -> Named[dict[str, int]]:
        """Unit number → its counts."""
        return Named(self._units.table)
