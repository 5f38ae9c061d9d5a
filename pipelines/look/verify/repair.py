"""Repair of a damaged run: files that are removed, steps that then run, and the commands to type.

The new rows equal the former ones, so the output of later steps stays, unless it was made of other rows.
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

BATCHES = {spec.batches for spec in SPECS.values()} - {""}
"""Folders of further batches, in which people may work as in the first."""
Mode = Literal["look", "plan", "remove"]
"""Extent of a repair: only a look at the run, also a plan, or also the removal of damaged files."""


def mend(run: Path, mode: Mode, run_job: Callable[[str | None], object] | None = None) -> Iterator[str]:
    """Verify a run and repair it as far as `mode` allows; yields lines for people.

    `run_job` runs the run's job after the removal, with its argument, if any, as the step to redo. Raises
    JobError: 65 if faults remain, with a message that says what is left to do; and as `Verification.findings`
    and `claimed` do.
    """
    # The run is locked before the look, so that the removed files are those found wrong.
    with claimed(run) if mode == "remove" and run.is_dir() else nullcontext():
        plan = yield from _examine(run)
        if mode != "look":
            yield from plan.lines()
        if mode == "remove":
            yield from plan.carry_out()
            if plan.findings and not run_job and not plan.commands():
                plan = yield from _examine(run)

    if plan.findings and run_job:  # which claims the run itself
        for step in plan.redo or (None,):
            run_job(step)
        plan = yield from _examine(run)

    if plan.findings:
        raise JobError(plan.error(mode), BAD_DATA)


def _examine(run: Path) -> Generator[str, None, Repair]:
    """Yield a line for each fault of a run, or its summary; returns the repair."""
    verification, findings = Verification(run), []
    for finding in verification.findings():
        findings.append(finding)
        yield f"wrong      {finding}"
    if not findings:
        yield verification.summary()
    return Repair(run, findings)


@dataclass(frozen=True)
class Repair:
    """Plan of a run's repair. `removed`: paths below the run; `again`, `redo`: steps that make missing files,
    or all of their output, again."""

    run: Path
    findings: Sequence[Finding]

    def of(self, *remedies: Remedy) -> list[Finding]:
        """Findings with one of these remedies."""
        return [finding for finding in self.findings if _remedy(finding) in remedies]

    @cached_property
    def removed(self) -> list[str]:
        """Damaged files, and files that nothing names. For a damaged shard its shard.json, without which it
        is built again."""
        damaged = [_listing(finding.path) for finding in self.of(Remedy.AGAIN, Remedy.REWRITE)]
        return list(dict.fromkeys([*damaged, *(finding.path for finding in self.of(Remedy.STRAY))]))

    @cached_property
    def again(self) -> list[str]:
        """Steps that make missing files again, and commands that replace damaged ones."""
        damaged, kept = self.of(Remedy.AGAIN, Remedy.REWRITE), self.of(Remedy.PEOPLE)
        replaced = {step for step, spec in SPECS.items() if spec.replaced_whole}
        return _steps([*damaged, *(finding for finding in kept if finding.step in replaced)])

    @cached_property
    def redo(self) -> list[str]:
        """Steps whose whole output, and all that was made of it, is removed and made again, without steps
        that follow from an earlier one of these."""
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
        """Commands to type after the removal, in order."""
        steps = job_steps()
        by_hand = [maker_of(step).line(self.run) for step in self.again if step not in steps]
        redo = [maker_of(step).remedy(self.run) for step in self.redo]
        runs = {finding.step for finding in self.of(Remedy.AGAIN, Remedy.REWRITE)}
        again = [f"`answermill run JOB.toml --out {self.run}`"] if runs & {*steps, ""} and not redo else []
        return [*redo, *again, *by_hand, *self._of_batches()]

    def _of_batches(self) -> list[str]:
        """What to type for each damaged folder that a step writes for a further batch: batches/2/tasks."""
        written: dict[str, None] = {}
        for finding in self.of(Remedy.PEOPLE):
            place, *inside = Path(finding.path).parts
            folders = [folder.name for folder in SPECS.get(finding.step, ())]
            if place in BATCHES and len(inside) > 1 and inside[1] in folders:
                batch = self.run / place / inside[0]
                written[maker_of(finding.step).remedy(batch, folder=batch / inside[1])] = None
        return list(written)

    def error(self, mode: Mode) -> str:
        """Message of a command that leaves faults: their number, and the way to mend them."""
        wrong = f"{self.run}: {counted(len(self.findings), 'thing')} wrong"
        verify = f"`answermill verify {self.run} --repair`"
        if mode != "remove":
            says = "the lines above say" if mode == "plan" else f"{verify} says"
            return f"{wrong}; {says} what makes it right"

        if todo := self.commands():
            return f"{self.run} is not complete now; {', then '.join(todo)} makes it so"
        if kept := self.of(Remedy.PEOPLE):
            paths = ", ".join(dict.fromkeys(finding.path for finding in kept))
            return f"{self.run}: {paths} {Remedy.PEOPLE.value}; mend or move it by hand"
        return f"{wrong} that came meanwhile; {verify} says what makes it right"

    def carry_out(self) -> Iterator[str]:
        """Remove the files; yields a line for each. The run must have been locked since before the
        verification."""
        for path in self.removed:
            if (self.run / path).is_file():  # not a folder that lacks its manifest, which may stay
                (self.run / path).unlink()
                yield f"removed    {path}"


def _remedy(finding: Finding) -> Remedy:
    """Remedy of a finding. Nothing is removed from packs and from collected votes, whatever is wrong there:
    people judge in them."""
    return Remedy.PEOPLE if finding.path.partition("/")[0] in PLACES | BATCHES else finding.remedy


def _steps(findings: Sequence[Finding]) -> list[str]:
    """Steps that wrote the faulty files, in the order in which they run."""
    steps = {finding.step for finding in findings} - {""}
    return sorted(steps, key=[*job_steps(), *SPECS, *STAND_INS].index)


def _listing(path: str) -> str:
    """The shard's listing for a file in a shard; any other path itself."""
    folder, *inside = path.split("/")
    spec = folder_specs().get(folder)
    is_inside = spec is not None and spec.part_is_folder and len(inside) > 1 and inside[-1]
    return f"{folder}/{inside[0]}/{SHARD_FILE}" if is_inside else path
