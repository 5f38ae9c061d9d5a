"""The sum of the reports of a step's units, added up while they are read; of a report only its rows in tables
are held."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Generic

from answermill.pipelines.runs.counts import C
from answermill.pipelines.runs.manifests.arrow_columns import NAMES, PARTS, Growing, Named, Parts
from answermill.pipelines.runs.manifests.reports import Report


class Outcome(Generic[C]):
    """The parts of all units, and the sum of their counts."""

    def __init__(self, counts: C) -> None:
        """`counts`: the counts to begin with."""
        self.counts = counts
        self._parts: dict[str, Growing] = {}
        self._digests, self._units = Growing(NAMES), Growing(NAMES)

    @classmethod
    def of(cls, counts: C, reports: Iterable[Report[C]]) -> Outcome[C]:
        """The sum of these reports, which are in the order of their units."""
        outcome = cls(counts)
        for report in reports:
            outcome.add(report)
        return outcome

    def add(self, report: Report[C]) -> None:
        """Add a unit's report, after those of the units before it."""
        self.include(report)
        self._units.append(str(report.unit), json.dumps(report.counts.to_json()))

    def include(self, report: Report[C]) -> None:
        """Add the command's own output, after all units; the command writes it again when a unit is done
        again."""
        self.counts = self.counts + report.counts
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
    def digests(self) -> Named:
        """SHA-256 of the input files that the units have read, by name."""
        return Named(self._digests.table)

    @property
    def units(self) -> Named:
        """Unit number → its counts as JSON."""
        return Named(self._units.table)
