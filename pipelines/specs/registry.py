"""The steps of a run, a line each in the order in which they run, and look-ups over all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from answermill.pipelines.runs.spec import UNKNOWN, FolderSpec, Maker, SealedFile, StepSpec
from answermill.pipelines.specs.annotate import ANNOTATE
from answermill.pipelines.specs.candidates import CANDIDATES
from answermill.pipelines.specs.collect import COLLECT
from answermill.pipelines.specs.index import INDEX
from answermill.pipelines.specs.ingest import INGEST
from answermill.pipelines.specs.propagate import PROPAGATE
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import RETRIEVE

AnyStep: TypeAlias = StepSpec[Any]
SPECS: dict[str, AnyStep] = {
    spec.name: spec for spec in (INGEST, INDEX, RETRIEVE, RERANK, ANNOTATE, COLLECT, PROPAGATE)
}
"""Name → what writes folders of a run, in the order of the work: the steps of a job, and `collect`."""
STAND_INS: dict[str, AnyStep] = {CANDIDATES.name: CANDIDATES}
"""Commands that write the folders of some steps in their place."""
REPORT_PAGE, REPORT = "report.html", "report.json"
"""The run's report, for people, and its figures."""
REPORT_FILE = SealedFile(REPORT, needed_by=REPORT_PAGE)


def job_steps() -> dict[str, AnyStep]:
    """The steps that a job can have."""
    return {name: spec for name, spec in SPECS.items() if spec.settings}


def spec_of(step: str) -> AnyStep | None:
    """The description of the step or command of this name; None if there is none."""
    return SPECS.get(step) or STAND_INS.get(step)


def maker_of(step: str) -> Maker:
    """The maker of this name."""
    spec = spec_of(step)
    return spec.maker if spec is not None else UNKNOWN


def folders() -> Iterator[tuple[AnyStep, FolderSpec[Any]]]:
    """(step, folder) of every folder of a run, in the order in which they are written."""
    return ((spec, folder) for spec in SPECS.values() for folder in spec)


def folder_specs() -> Mapping[str, FolderSpec[Any]]:
    """Path below a run → the folder."""
    return {folder.name: folder for _, folder in folders()}


def makers(names: Collection[str]) -> list[str]:
    """The steps that write one of these folders, in the order in which they run."""
    return [spec.name for spec in SPECS.values() if any(folder.name in names for folder in spec)]
