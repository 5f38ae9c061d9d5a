"""The steps that a job can have, one line each: its section in a job file, its command, and where its code is.

Sections and code are named by their place and imported when they are used, so that neither `--help` nor a job file that is
read imports what the steps need. The places are constants of the code: configuration never names a module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from answermill.pipelines.config.job_file import Job
    from answermill.pipelines.config.outputs import Outputs
    from answermill.schemas.section import Section


@dataclass(frozen=True, slots=True)
class StepCode:
    """What a step's module says of itself, as its `STEP`."""

    outputs: Outputs
    """What it writes."""
    run: Callable[[Job, Path, Sequence[str]], str]
    """Runs the step (job, run folder, Beam's options), unless it is complete; returns its summary line."""
    check: Callable[[Job, Path], object]
    """Refuses, on the launching machine and before any step runs, what the step would refuse. Raises with what to type."""
    is_wanted: Callable[[Job, Path | None], bool] | None = None
    """Whether `answermill run` runs the step; None = if the job has its section."""
    foresee: Callable[[Job], str] | None = None
    """What the step will read, and what it will ask of stores and servers, in one line for people; for `run --dry-run`."""
    refuses_first: bool = False
    """Whether `run` itself begins with the check; then it is not called for the first step that runs."""


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """A step's line in the registry."""

    name: str
    """Of the step, of its command, and of its section in a job file."""
    about: str
    """Help text of its command; the first line is in the list of commands."""
    settings: str
    """'module:Class' of the Section that a job file has under the step's name."""
    code: str
    """'module:NAME' of the StepCode."""
    folders: str = ""
    """'module:NAME' of its Outputs, in a module that loads fast; '' = they are in its code only."""
    reads: tuple[str, ...] = ()
    """Folders of other steps without which it cannot begin."""

    @property
    def section(self) -> type[Section]:
        """The class of its settings; the module is imported now."""
        section: type[Section] = resolve_name(self.settings)
        return section

    def load(self) -> StepCode:
        """Its code; the module is imported now."""
        code: StepCode = resolve_name(self.code)
        return code

    @property
    def outputs(self) -> Outputs:
        """What it writes, if possible without its code."""
        return resolve_name(self.folders) if self.folders else self.load().outputs


_SECTIONS, _OUTPUTS = "answermill.pipelines.config.job_file", "answermill.pipelines.config.outputs"
STEPS: dict[str, StepDefinition] = {
    step.name: step
    for step in (
        StepDefinition(
            "ingest",
            "Read crawled files; write documents/, passages/ and rejects/.",
            f"{_SECTIONS}:Ingest",
            "answermill.pipelines.steps.ingest.ingest:STEP",
            f"{_OUTPUTS}:INGEST",
        ),
        StepDefinition(
            "index",
            "Read passages/; write shards/, each with a Lucene and a FAISS index.",
            f"{_SECTIONS}:Index",
            "answermill.pipelines.steps.index.index:STEP",
            f"{_OUTPUTS}:INDEX",
            ("passages",),
        ),
        StepDefinition(
            "retrieve",
            "Read questions and shards/; write questions/ and retrieved/.",
            f"{_SECTIONS}:Retrieve",
            "answermill.pipelines.steps.retrieve.retrieve:STEP",
            f"{_OUTPUTS}:RETRIEVE",
            ("shards",),
        ),
        StepDefinition(
            "rerank",
            "Read retrieved/; write scored/ and answers.jsonl.",
            f"{_SECTIONS}:Rerank",
            "answermill.pipelines.steps.rerank.rerank:STEP",
            f"{_OUTPUTS}:RERANK",
            ("retrieved",),
        ),
        StepDefinition(
            "annotate",
            "Read scored/ and retrieved/; write tasks/, and packs/ for Label Studio, Argilla, Prodigy and spreadsheets.\n\n"
            "A job without [annotate] gets the defaults: the 15 best sentences of each question, and 2 random ones below them.",
            f"{_SECTIONS}:Annotate",
            "answermill.pipelines.steps.annotate.annotate:STEP",
            f"{_OUTPUTS}:ANNOTATE",
            ("scored", "retrieved"),
        ),
        StepDefinition(
            "propagate",
            "Read sentence labels and passages/; write labels/.",
            f"{_SECTIONS}:Propagate",
            "answermill.pipelines.steps.propagate.propagate:STEP",
            f"{_OUTPUTS}:PROPAGATE",
            ("passages",),
        ),
    )
}
"""Name → step, in the order in which they run."""


def makers(folders: Collection[str]) -> list[str]:
    """The steps that write one of these folders, in the order in which they run."""
    return [name for name, step in STEPS.items() if not step.outputs.keys().isdisjoint(folders)]


def folders() -> dict[str, Outputs]:
    """Step → the folders that it writes, with the record of each; and so for `collect`, a command that follows `annotate`."""
    outputs = {}
    for name, step in STEPS.items():
        outputs[name] = step.outputs
        if name == "annotate":
            outputs["collect"] = resolve_name(f"{_OUTPUTS}:COLLECT")
    return outputs
