"""A step of a whole job as `answermill plan` foresees it, scaled up from a run of a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.runs.spec import StepSpec

if TYPE_CHECKING:
    from answermill.pipelines.specs.run import Run


class Cost(NamedTuple):
    """A part of a step's time: seconds and items in the sample, and items in the whole job."""

    seconds: float
    items: float
    whole_items: float


@dataclass(slots=True)
class WholeStep:
    """A step of a whole job. Its code sets what does not grow with `scale` (`StepCode.grow`)."""

    spec: StepSpec[Any]
    job: Job
    sample: Run
    before: dict[str, float]
    """Readable pages of the input, questions that are asked, and rows of the folders that steps before it
    write."""
    scale: float
    """Items of the whole job for each of the sample's."""
    units: int
    parts: int
    """Parts of each folder that it writes."""
    counts: dict[str, float]
    """Counts that the plan shows."""
    rows: dict[str, float]
    """Folder → its rows."""
    costs: dict[str, Cost]
    """Name → a part of its time; '' is the rest."""
    former: object | None = None
    """What the step takes over from an earlier run (`StepCode.former`); None if it takes nothing."""
