"""Work of steps that fails where a file in the run folder says so, in any process, by an error that nobody
expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from answermill.pipelines.steps.ingest.ingest import CutPassages, ParsePages
from answermill.pipelines.steps.ingest.repeated.verdicts import FileKeys, FileVerdict, KeyBucket
from answermill.pipelines.steps.rerank.rerank import RunStages

FOR_EVER = 1_000


def fail(run: Path, unit: int, times: int = FOR_EVER, stage: str = "work") -> Path:
    """The work of a unit, or one stage of it (parse, cut), fails so often, or until the file is deleted that
    is returned."""
    run.mkdir(exist_ok=True)
    place = run / f"fail-{stage}-{unit}"
    place.write_text("x" * times)
    return place


def _fail_where_asked(work: Path, unit: int, stage: str = "work") -> None:
    """Raises KeyError if the unit shall fail. A unit is tried in one process, so nobody else counts at the
    same time."""
    place = work.parents[1] / f"fail-{stage}-{unit}"
    if place.is_file() and (left := len(place.read_text())):
        place.write_text("x" * (left - 1))
        raise KeyError(f"colour of unit {unit}")


class FailingParse(ParsePages):
    def work(self, unit: int) -> Iterator[tuple[KeyBucket, FileKeys]]:
        _fail_where_asked(self._work_folder, unit, "parse")
        yield from super().work(unit)


class FailingCut(CutPassages):
    def work(self, unit: int, members: Iterable[FileVerdict]) -> None:
        _fail_where_asked(self._work_folder, unit, "cut")
        super().work(unit, members)


class FailingStages(RunStages):
    def work(self, unit: int) -> None:
        _fail_where_asked(self._work_folder, unit)
        super().work(unit)
