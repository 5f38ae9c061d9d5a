"""Steps of a few folders, for tests of what every step has; without the code of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.manifests.reports import Report, Reports
from answermill.pipelines.runs.spec import FolderSpec, Maker, StepSpec
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.registry import maker_of
from answermill.schemas.record import Record

Folders = Mapping[str, type[Record]]


@dataclass(frozen=True)
class Rows(StepCounts):
    """Counts of a step in a test."""

    rows: int = 0
    others: int = 0


def made_spec(name: str, folders: Folders, counts: type[StepCounts] = Rows, **more: Any) -> StepSpec[Any]:
    """The description of a step that writes these folders."""
    maker = maker_of(name) if maker_of(name).step else Maker(name)
    return StepSpec(
        maker, "", tuple(FolderSpec.of(n, record, maker) for n, record in folders.items()), counts, **more
    )


def made_step(
    run: Path,
    name: str,
    folders: Folders,
    settings: Mapping[str, Any] = {},
    inputs: Mapping[str, str] = {},
    **more: Any,
) -> Step[Any]:
    """A step of the run that writes these folders."""
    return Step(run, made_spec(name, folders, **more), settings, inputs)


def reports_of(work: Path, home: Path | None = None) -> Reports[Rows]:
    """The reports in a work folder."""
    return Reports(work, Rows, home)


def report(unit: int, parts: Mapping[str, Any] = {}, **counts: int) -> Report[Rows]:
    """A unit's report."""
    return Report(unit, parts, Rows(**counts))


class NoUnits(UnitWork):
    """Work that ends before its first unit."""

    def work(self, unit: int, *rest: Any) -> None:
        raise AssertionError(f"unit {unit} was begun")
