"""The code of a step, as the commands that run it see it; a step's description names it (`StepSpec.code`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from answermill.pipelines.config.growth import WholeStep
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.runs.spec import StepSpec
from answermill.pipelines.runs.step import Step


@dataclass(frozen=True, slots=True)
class StepCode:
    """Functions that a step's module gives, as its `STEP`."""

    run: Callable[[Job, Path, Sequence[str]], str]
    """Runs the step (job, run folder, Beam's options), unless it is complete; returns its summary line."""
    check: Callable[[Job, Path], object]
    """Refuses, on the launching machine and before any step runs, what the step would refuse. Raises with
    what to type."""
    step_of: Callable[[Job, Path], Step[Any]]
    """The step of the run, which knows its fingerprint; what it reads is complete. Raises with what to
    type."""
    check_read: Callable[[Job, Path], object] | None = None
    """Refuses what the step cannot use of the folders that it reads, if they are there: called before
    `--redo` removes its output, and by the step itself before any work. None if it takes all."""
    run_checked: Callable[[Job, Path, Sequence[str], Any], str] | None = None
    """Runs the step from the result of `check`, so that nothing is looked at twice; None if `run` has no use
    for the result."""
    is_wanted: Callable[[Job, Path | None], bool] | None = None
    """Decides if `answermill run` runs the step; None = it does if the job has its section."""
    foresee: Callable[[Job], str] | None = None
    """A clause for people on what the step will read, and will ask of stores and servers, after its name;
    for `run --dry-run`."""
    grow: Callable[[WholeStep], object] | None = None
    """Sets what of a whole job does not grow with the step's items; for `answermill plan`."""
    former: Callable[[Job, Path], object | None] | None = None
    """(job, a run of a sample of its input) → what `grow` needs to know of an earlier run, of which the step
    takes something over; None if there is none."""
    place: Callable[[Job, Path], Path] | None = None
    """The folder that holds its output, as a run holds that of other steps; None = the run itself."""
    join: Callable[[Job, Path, str, Any], object] | None = None
    """Makes the calls of a block of the step's work with a machine's own engine (job, run folder, name of the
    block, engine): the step is begun, and another machine leads. None if the step has no units."""
    refuses_first: bool = False
    """True if `run` itself begins with the check, which is then not called for the first of the steps that
    run now."""


def code_of(spec: StepSpec[Any]) -> StepCode:
    """The step's code; its module is imported now. The place is a constant of the code: configuration never
    names one."""
    code: StepCode = resolve_name(spec.code)
    return code
