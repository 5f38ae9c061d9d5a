"""A night: a job's run of this date, verified, compared with the last good run, and published if it is not
worse.

A night is a list of stages, and each may be done again: the same command goes on where a killed one was.
Whatever the end, but a kill, old nights are removed: refused ones stay no longer than others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from answermill.pipelines.errors import INPUT_MISSING, WORSE, JobError, counted
from answermill.pipelines.look.verify.repair import mend
from answermill.pipelines.nights.gate import Bars, measure
from answermill.pipelines.nights.night_folder import GOOD, NightRecord, Nights

STAGES = ("run", "verify", "gate", "publish", "retain")


@dataclass(slots=True)
class Night:
    """A night of a job. `run_job` does the job's steps in a run folder, with the good run's path, or None."""

    nights: Nights
    record: NightRecord
    run_job: Callable[[Path, Path | None], object]
    command: str
    """What is typed to do this night, for messages."""
    bars: Bars = field(default_factory=Bars)
    keep: int = 7
    accept: bool = False
    """True if a run that the gate refuses becomes the good one all the same."""
    on_stage: Callable[[str], object] = lambda stage: None
    on_figures: Callable[[Mapping[str, float]], object] = lambda figures: None

    @property
    def path(self) -> Path:
        return self.nights.run(self.record.night)

    @property
    def former(self) -> Path | None:
        """The good run when the night began."""
        name = self.record.former
        return None if name is None or name == self.record.night else self.nights.run(name)

    def lines(self) -> Iterator[str]:
        """Do all stages; yields lines for people. Raises JobError: 3 if the gate refuses the run; 65 if files
        of it are damaged; and as the job's steps."""
        try:
            for stage in (self._run, self._verify, self._gate, self._publish):
                self._enter(stage.__name__.removeprefix("_"))
                yield from stage()
        except Exception:
            with suppress(OSError, JobError):  # a store that is not reached; the first error is to be known
                yield from self._retain()
            raise
        self._enter("retain")
        yield from self._retain()

    def end(self, code: int) -> None:
        """Write into night.json how the night ended."""
        self.record = replace(self.record, code=code)
        self.nights.write(self.record)

    def _enter(self, stage: str) -> None:
        self.record = replace(self.record, stage=stage, code=None)
        self.nights.write(self.record)
        self.on_stage(stage)

    def _run(self) -> Iterator[str]:
        self.run_job(self.path, self.former)
        yield from ()

    def _verify(self) -> Iterator[str]:
        yield from mend(self.path, "look")

    def _gate(self) -> Iterator[str]:
        if self.nights.good() == self.record.night:
            yield f"gate       {self.record.night} is the good run already"
            return
        if self.former is None:
            yield "gate       no good run yet, so there is nothing to compare with"
            return
        if not self.former.is_dir():
            if self.accept:
                yield f"gate       {self.former} is gone, and the run is accepted without a comparison"
                return
            raise JobError(
                f"{self.former}, the last good run when this night began, is gone; {self._acceptance()}",
                INPUT_MISSING,
            )

        figures = measure(self.former, self.path, self.bars)
        self.record = replace(self.record, figures={figure.name: figure.value for figure in figures})
        self.on_figures(self.record.figures)
        yield f"gate       against {self.former.name}: {self.bars.line()}"
        if not any(figure.name == "loss" for figure in figures):
            yield "gate       no question is labelled in both runs, so quality is not compared"
        for figure in figures:
            # Rows and rejects that are the same say nothing.
            if figure.value or figure.name in ("loss", "changed"):
                yield f"gate       {'over the bar: ' if figure.is_over else ''}{figure.text}"

        refused = [figure.text for figure in figures if figure.is_over]
        if refused and not self.accept:
            raise JobError(
                f"night {self.record.night} is refused, and {self.former.name} stays {GOOD}: "
                f"{'; '.join(refused)}; {self._acceptance()}",
                WORSE,
            )
        if refused:
            yield f"gate       accepted all the same: {counted(len(refused), 'figure')} over the bar"

    def _acceptance(self) -> str:
        return f"`{self.command} --accept` makes it the good run all the same"

    def _publish(self) -> Iterator[str]:
        if not self.accept and (later := self._later()) is not None:
            yield f"publish    {later} stays {GOOD}, a night that began later; {self._acceptance()}"
            return
        self.nights.publish(self.record.night)
        yield f"publish    {self.nights.folder / GOOD} is {self.record.night}"

    def _later(self) -> str | None:
        """The good run if it is of a night that began later: this one was typed again."""
        good = self.nights.good()
        record = None if good in (None, self.record.night) else self.nights.read(str(good))
        return good if record is not None and record.began > self.record.began else None

    def _retain(self) -> Iterator[str]:
        for name in self.nights.surplus(self.keep, self.record.night):
            self.nights.remove(name)
            yield f"retain     removed {self.nights.folder / name}"


def foreseen(nights: Nights, name: str, keep: int, bars: Bars) -> Iterator[str]:
    """Lines on what a night will do beside the steps of its job; nothing is changed."""
    record = nights.read(name)
    former = nights.good() if record is None else record.former
    if former is None or former == name:
        yield "dry run    gate: no good run yet, so there is nothing to compare with"
    else:
        yield f"dry run    gate, against {former}: {bars.line()}"
    yield f"dry run    publish: {nights.folder / GOOD} becomes {name}"
    surplus = nights.surplus(keep if record is not None else keep - 1, name)
    yield f"dry run    retain: removes {', '.join(surplus) or 'nothing'}"
