"""The repair of a damaged run: files that are removed, steps that then run, and the commands to type.

The rows that come are those that were there, so what later steps have made of them stays, unless it was made
of something else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from answermill.pipelines.errors import BAD_DATA, JobError, counted
from answermill.pipelines.look.verify.files import PLACES
from answermill.pipelines.look.verify.finding import Finding, Remedy
from answermill.pipelines.look.verify.verify import Verification
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.runs.manifests.manifest import SHARD_FILE
from answermill.pipelines.runs.manifests.run_folder import following
from answermill.pipelines.specs.registry import SPECS, STAND_INS, folder_specs, job_steps, maker_of

Mode = Literal["look", "plan", "remove"]
"""Whether a damaged run is only looked at, also gets a plan of its repair, or has its damaged files
removed."""


def mend(run: Path, mode: Mode, run_job: Callable[[str | None], object] | None = None) -> Iterator[str]:
    """Verify a run and repair it as far as `mode` allows; yields lines for people.

    `run_job` runs the run's job after the removal, with its argument, if any, as the step to redo. Ends well
    if the run is as it was written; else raises JobError (65), which says what is left to do. Else as
    `Verification.findings` and `claimed` do.
    """
    # The files removed are those wrong now.
    with claimed(run) if mode == "remove" and run.is_dir() else nullcontext():
        plan = yield from _looked_at(run)
        if mode != "look":
            yield from plan.lines()
        if mode == "remove":
            yield from plan.carry_out()
            if plan.findings and not run_job and not plan.commands():
                plan = yield from _looked_at(run)

    if plan.findings and run_job:  # which claims the run itself
        for step in plan.redo or (None,):
            run_job(step)
        plan = yield from _looked_at(run)

    if plan.findings:
        raise JobError(plan.error(mode), BAD_DATA)


def _looked_at(run: Path) -> Generator[str, None, Repair]:
    """Yields a line for each thing that is wrong with a run, or its summary; returns the repair."""
    verification, findings = Verification(run), []
    for finding in verification.findings():
        findings.append(finding)
        yield f"wrong      {finding}"
    if not findings:
        yield verification.summary()
    return Repair(run, findings)


@dataclass(frozen=True)
class Repair:
    """`removed`: paths below the run; `again` and `redo`: steps that run again, for what is missing or
    wholly."""

    run: Path
    findings: Sequence[Finding]

    def of(self, *remedies: Remedy) -> list[Finding]:
        """The findings with one of these remedies."""
        return [finding for finding in self.findings if _remedy(finding) in remedies]

    @cached_property
    def removed(self) -> list[str]:
        """Files that are damaged, or nobody's. Of a damaged shard its shard.json, without which it is built
        again."""
        damaged = [_listing(finding.path) for finding in self.of(Remedy.AGAIN, Remedy.REWRITE)]
        return list(dict.fromkeys([*damaged, *(finding.path for finding in self.of(Remedy.STRAY))]))

    @cached_property
    def again(self) -> list[str]:
        """Steps that make again what is then missing; and commands that replace what is damaged."""
        damaged, kept = self.of(Remedy.AGAIN, Remedy.REWRITE), self.of(Remedy.PEOPLE)
        replaced = {step for step, spec in SPECS.items() if spec.replaced_whole}
        return _steps([*damaged, *(finding for finding in kept if finding.step in replaced)])

    @cached_property
    def redo(self) -> list[str]:
        """Steps whose whole output, and what was made of it, is removed and made again; none that follows
        from one before."""
        first: list[str] = []
        followers: set[str] = set()
        for step in _steps(self.of(Remedy.REDO)):
            if step not in followers:
                first.append(step)
                folders = [folder.name for folder in SPECS.get(step, ())]
                followers |= {manifest.step for manifest in following(self.run, folders).values()}
        return first

    def lines(self) -> Iterator[str]:
        """The plan, for people."""
        for remedy in Remedy:
            for path in dict.fromkeys(finding.path for finding in self.of(remedy)):
                yield f"repair     {path} {remedy.value}"
        if steps := [*dict.fromkeys([*self.again, *self.redo])]:
            yield f"steps      {', '.join(steps)}"
        for command in self.commands():
            yield f"then       {command}"

    def commands(self) -> list[str]:
        """What to type when the files are removed, in order."""
        steps = job_steps()
        by_hand = [maker_of(step).line(self.run) for step in self.again if step not in steps]
        redo = [maker_of(step).again(self.run).removesuffix(" makes it again") for step in self.redo]
        runs = {finding.step for finding in self.of(Remedy.AGAIN, Remedy.REWRITE)}
        again = [f"`answermill run JOB.toml --out {self.run}`"] if runs & {*steps, ""} and not redo else []
        return [*redo, *again, *by_hand]

    def error(self, mode: Mode) -> str:
        """The message of a command that leaves something wrong: how much, and what makes it right."""
        wrong, verify = (
            f"{self.run}: {counted(len(self.findings), 'thing')} wrong",
            f"`answermill verify {self.run} --repair`",
        )
        if mode != "remove":
            return (
                f"{wrong}; {'the lines above say' if mode == 'plan' else f'{verify} says'} what makes it "
                "right"
            )
        if todo := self.commands():
            return f"{self.run} is not complete now; {', then '.join(todo)} makes it so"
        if kept := self.of(Remedy.PEOPLE):
            paths = ", ".join(dict.fromkeys(finding.path for finding in kept))
            return f"{self.run}: {paths} {Remedy.PEOPLE.value}; mend or move it by hand"
        return f"{wrong} that came meanwhile; {verify} says what makes it right"

    def carry_out(self) -> Iterator[str]:
        """Remove the files; yields a line for each. Needs the run locked since before it was looked at."""
        for path in self.removed:
            if (self.run / path).is_file():  # a folder that lacks its manifest is in nobody's way
                (self.run / path).unlink()
                yield f"removed    {path}"


def _remedy(finding: Finding) -> Remedy:
    """Its remedy. Nothing is removed of packs and of what was collected, whatever is wrong there: people
    judge in them."""
    return Remedy.PEOPLE if finding.path.partition("/")[0] in PLACES else finding.remedy


def _steps(findings: Sequence[Finding]) -> list[str]:
    """The steps that wrote what they are about, in the order in which they run."""
    wanted = {finding.step for finding in findings}
    return sorted((step for step in wanted if step), key=[*job_steps(), *SPECS, *STAND_INS].index)


def _listing(path: str) -> str:
    """Of a file in a shard the shard's listing."""
    first, *inside = path.split("/")
    spec = folder_specs().get(first)
    is_inside = spec is not None and spec.part_is_folder and len(inside) > 1 and inside[-1]
    return f"{first}/{inside[0]}/{SHARD_FILE}" if is_inside else path
