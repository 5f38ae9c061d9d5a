"""What makes a damaged run right again: files that are removed, steps that then run, and the commands to type.

The rows that come are those that were there, so what later steps have made of them stays, unless it was made of something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.config.step_registry import STEPS
from pipelines.execution.lock import claimed
from pipelines.execution.manifests.manifest import SHARD_FILE, repair
from pipelines.verify.finding import Finding, Remedy

_REMOVED = (Remedy.AGAIN, Remedy.STRAY, Remedy.REWRITE)


@dataclass(frozen=True)
class Repair:
    """`removed`: paths below the run; `again` and `redo`: steps that run again, for what is missing or wholly."""

    run: Path
    findings: Sequence[Finding]

    @property
    def removed(self) -> list[str]:
        """Files that are damaged, or nobody's. Of a shard its shard.json, without which it is built again."""
        return list(dict.fromkeys(_removed(finding.path) for finding in self.findings if finding.remedy in _REMOVED))

    @property
    def again(self) -> list[str]:
        """Steps that make again what is then missing."""
        return self._steps(Remedy.AGAIN, Remedy.REWRITE)

    @property
    def redo(self) -> list[str]:
        """Steps whose whole output, and what was made of it, is removed and made again."""
        return self._steps(Remedy.REDO)

    def _steps(self, *remedies: Remedy) -> list[str]:
        wanted = {finding.step for finding in self.findings if finding.remedy in remedies}
        return [step for step in (*STEPS, "collect", "candidates") if step in wanted]

    def lines(self) -> Iterator[str]:
        """The plan, for people."""
        for remedy in Remedy:
            of_kind = [finding for finding in self.findings if finding.remedy is remedy]
            for path in dict.fromkeys(finding.path for finding in of_kind):
                yield f"repair     {path} {remedy.value}"
        if steps := [*dict.fromkeys([*self.again, *self.redo])]:
            yield f"steps      {', '.join(steps)}"
        for command in self.commands():
            yield f"then       {command}"

    def commands(self) -> list[str]:
        """What to type when the files are removed, in order."""
        by_hand = [
            repair(step, self.run, option="").removesuffix(" makes it again") for step in self.again if step not in STEPS
        ]
        redo = [repair(step, self.run, option="redo").removesuffix(" makes it again") for step in self.redo]
        runs = {finding.step for finding in self.findings if finding.remedy in (Remedy.AGAIN, Remedy.REWRITE)}
        again = [f"`answermill run JOB.toml --out {self.run}`"] if runs & {*STEPS, ""} and not redo else []
        return [*redo, *again, *by_hand]

    def carry_out(self) -> Iterator[str]:
        """Remove the files; yields a line for each. Raises JobError (73) if another process is writing into the run."""
        with claimed(self.run):
            for path in self.removed:
                if not (self.run / path).is_dir():  # of a folder that lacks its manifest nothing stays in the way
                    (self.run / path).unlink(missing_ok=True)
                    yield f"removed    {path}"


def _removed(path: str) -> str:
    first, *inside = path.split("/")
    return f"{first}/{inside[0]}/{SHARD_FILE}" if first == "shards" and len(inside) > 1 and inside[-1] else path
