"""Units of ingest that are parts of an earlier run's documents (`ingest.since`)."""

from __future__ import annotations

from pathlib import Path

from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.manifests.part import Part
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.steps.ingest.parse_and_cut import IngestStep


class EarlierPartWork(UnitWork):
    """A unit is the number of a part of `documents`, the earlier run's folder."""

    skips_reported = False

    def __init__(self, step: IngestStep, documents: Path) -> None:
        super().__init__(step.name, step.work)
        self._documents = documents

    def load(self) -> None:
        self._folder = Folder.open(self._documents, DOCUMENTS)

    def part(self, unit: int) -> Part:
        return self._folder.parts[unit]
