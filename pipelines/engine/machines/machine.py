"""A machine at a run that several share: one of them leads, and the others follow.

The machine that leads runs the job's steps as if it were alone, from the checks to the manifests. Only when a
step opens an engine, the machines that follow are let in: they open the same block from what the step's work
folder holds, and share its units (shared_engine.py). They derive all work from their own job file; no code
passes through the folder.

Machines lead in terms (terms.py). When the machine of a term has ended, or is lost, another one begins the
next term, and goes on as after a kill. A machine that was only held up finds the later term before it commits
anything, and follows.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self

from answermill.files.remote import as_path
from answermill.files.store import remove_if_empty, remove_tree
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.config.step_code import code_of
from answermill.pipelines.engine.machines.members import (
    BEATS,
    MACHINES,
    Members,
    NotOurs,
    SharedBlock,
    State,
    states,
)
from answermill.pipelines.engine.machines.shared_engine import SharedEngine, shared_engine
from answermill.pipelines.engine.machines.terms import Leader, Terms
from answermill.pipelines.errors import (
    INTERRUPTED,
    OUTPUT_EXISTS,
    UNAVAILABLE,
    UNEXPECTED,
    USAGE,
    JobError,
    counted,
)
from answermill.pipelines.revision import revision
from answermill.pipelines.runs.lock import shared
from answermill.pipelines.runs.step import work_folders
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.runs.watch.stopping import at_work
from answermill.pipelines.specs.registry import SPECS
from answermill.pipelines.specs.run import Run

LAPSE_S = 120.0
"""Seconds without a sign of life after which a machine is lost, if nothing else is said. A network file
system may show another machine's file a minute late."""
LEAST_LAPSE_S = 1.0
_SAY_EVERY_S = 30.0
_OF_A_MACHINE = (UNAVAILABLE, UNEXPECTED, INTERRUPTED)
"""Codes of errors that other machines need not meet."""


class Machine:
    """This command among the machines at the run; a context manager around all its work."""

    def __init__(self, run: Path, job: Job, lapse_s: float = LAPSE_S) -> None:
        """`lapse_s`: seconds without a sign of life after which it is lost to the others."""
        if not LEAST_LAPSE_S <= lapse_s < math.inf:
            raise JobError(
                f"--lapse {lapse_s:g}: give the seconds after which a machine is lost, {LEAST_LAPSE_S:g} or "
                "more",
                USAGE,
            )
        self._run = as_path(run).absolute()
        self._members = Members(self._run, lapse_s)
        self._terms = Terms(self._members.folder)
        # Every machine may choose its own workers.
        self._settings = job.model_dump(mode="json", exclude={"workers"})
        self._processes = job.workers.processes or os.cpu_count() or 1
        self._term = self._followed = 0
        self._blocks, self._is_open = 0, False
        self._shared = set[str]()
        self._said, self._began_waiting, self._said_at = "", 0.0, 0.0
        self._confirmed_at = 0.0
        self._stack = ExitStack()
        self.has_led = False
        """True if it has led to the end, so that what follows a run is its to do."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(shared(self._run, self.confirm))
            stack.callback(self._remove_folder)
            stack.enter_context(self._members)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def _remove_folder(self) -> None:
        with suppress(OSError):  # it is gone, or others are there
            remove_if_empty(self._run / MACHINES)

    # Who leads

    def turn(self) -> Literal["lead", "over"] | SharedBlock:
        """Wait for what this machine does next: lead, share a block, or nothing, when the run is complete.

        Raises JobError: the one that ended the run for all; 73 if the machine that leads has another job, 69
        if it runs another revision of the package."""
        while True:
            self._members.look()
            term = self._members.last_term
            leader = self._terms.leader(term)
            if leader is None or self._members.has_left(leader.machine):
                if term and term == self._followed:
                    self._terms.raise_end(term)
                if self._terms.begin(term + 1, self._own()):
                    self._term, self._blocks = term + 1, 0
                    return "lead"
                continue

            state = self._members.state(leader.machine)
            if term != self._followed:
                leader.refuse_other(self._own(), state.who() if state is not None else "another machine")
                self._followed = term
            if state is not None and state.is_over:
                return "over"
            if state is not None and state.block is not None and state.block.attempt not in self._shared:
                return state.block
            self._say_waiting(state)
            self._pause()

    def _own(self) -> Leader:
        """What this machine would lead."""
        return Leader(self._members.name, str(self._run), revision(), self._settings)

    def confirm(self) -> None:
        """Raises NotOurs if another machine leads by now."""
        self._members.look()
        self._confirmed_at = time.monotonic()
        if self._members.last_term != self._term:
            raise NotOurs(f"another machine leads {self._run} by now")

    def _confirm_often(self) -> None:
        """`confirm`, but between two units no more often than one looks at the others."""
        if time.monotonic() - self._confirmed_at > self._members.poll_s:
            self.confirm()

    # The work

    @contextmanager
    def lead(self) -> Iterator[None]:
        """Lead in the block, to the end of the run. An error of the run is every machine's; one that only
        this machine may have met, within its units, or of its disk, leaves the run to the others."""
        self._is_open = False
        try:
            yield
        except JobError as e:
            if not self._is_open and e.code not in _OF_A_MACHINE:
                self._terms.end(self._term, e)
            raise
        finally:
            self._members.say(block=None, doing="")
        self.has_led = True
        self._members.say(is_over=True)
        self._wait_for_the_others()
        self._remove_late_work()
        remove_tree(self._members.folder)

    def _wait_for_the_others(self) -> None:
        """Let the others see that the run is complete; one that is held up is not waited for longer than
        until it would count as lost."""
        until, has_said = time.monotonic() + self._members.beat_s * BEATS, False
        while time.monotonic() < until:
            others = self._members.look().keys() - {self._members.name}
            waiting = [name for name in others if not self._members.has_left(name)]
            if not waiting:
                return
            if not has_said:
                print_line(
                    f"the run is complete; waits until {counted(len(waiting), 'other machine')} saw it"
                )
                has_said = True
            self._pause()

    def _remove_late_work(self) -> None:
        """Remove the work folders of complete steps that machines have made anew: one that comes late to a
        block, and is killed, cannot take its own back."""
        run = Run.open(self._run)
        for step, spec in SPECS.items():
            for folder in work_folders(self._run, step) if run.is_complete(spec) else ():
                remove_tree(folder)

    @property
    def has_followed(self) -> bool:
        """True if another machine has led meanwhile."""
        return self._followed > 0

    def begin_step(self, name: str) -> None:
        """Tell the others which step this machine is at."""
        self._members.say(doing=name)

    @contextmanager
    def opened(self, name: str, work: Path) -> Iterator[SharedEngine]:
        """The engine of the machine that leads, for a block that all machines share."""
        self._blocks += 1
        place = work.relative_to(self._run).as_posix()
        block = SharedBlock(name.partition("/")[0], name, place, self._members.name, self._term, self._blocks)
        self._members.say(block=block)
        self._is_open = True  # an error keeps it: it is one of a unit, on this machine
        with shared_engine(
            block,
            self._members,
            self._processes,
            confirm=self._confirm_often,
            pause=self._pause,
            shows_progress=False,
        ) as engine:
            yield engine
        self._is_open = False
        self._members.say(block=None)

    def share(self, block: SharedBlock, job: Job) -> None:
        """Do this machine's share of a block that another machine has opened."""
        print_line(f"shares {block.name} with {counted(len(self._members.look()) - 1, 'other machine')}")
        self._shared.add(block.attempt)
        self._said = ""
        self._members.say(doing=block.name)
        try:
            with (
                at_work(),
                shared_engine(
                    block,
                    self._members,
                    self._processes,
                    confirm=lambda: self._confirm_open(block),
                    pause=self._pause,
                    shows_progress=True,
                ) as engine,
            ):
                self._join(block, job, engine)
        except NotOurs:
            pass
        except Exception:
            # What a block has left may be gone when it is over.
            self._members.look()
            if self._is_still_open(block):
                raise
        finally:
            self._members.say(doing="")

    def _join(self, block: SharedBlock, job: Job, engine: SharedEngine) -> None:
        """Make the calls of the block. Raises JobError (73) if this machine's step is another one."""
        code = code_of(SPECS[block.step])
        own, place = code.step_of(job, self._run).work.relative_to(self._run), Path(block.work)
        if own not in (place, *place.parents):
            raise JobError(
                f"{block.step}: the machine that leads works in {place}, this one would in {own}: its "
                "inputs or checkpoints are others; give all machines the same",
                OUTPUT_EXISTS,
            )
        assert code.join is not None, f"{block.step} has opened {block.name}, and cannot join it"
        code.join(job, self._run, block.name, engine)

    def _confirm_open(self, block: SharedBlock) -> None:
        if not self._is_still_open(block):
            raise NotOurs(f"{block.name} is over")

    def _is_still_open(self, block: SharedBlock) -> bool:
        """True if the machine that leads said so at the last look; it may have been lost since."""
        state = self._members.state(block.machine)
        return self._members.last_term == block.term and state is not None and state.block == block

    def _pause(self) -> None:
        """Wait a little, and look at the other machines."""
        time.sleep(self._members.poll_s)
        with suppress(OSError):  # a store may answer the next time
            self._members.look()

    def _say_waiting(self, state: State | None) -> None:
        """A line whenever it is another thing that this machine waits for, and every half minute."""
        line = "waits for a machine that leads"
        if state is not None:
            alone = f"does alone what {state.doing or 'the job'} needs before or after its units"
            line = f"waits while {state.who()}, which leads, {alone}"
        now = time.monotonic()
        if line != self._said:
            self._said, self._began_waiting = line, now
        elif now - self._said_at < _SAY_EVERY_S:
            return
        self._said_at, waited = now, now - self._began_waiting
        print_line(f"{line}; {waited:,.0f} s so far" if waited else line)

    def summary(self) -> str:
        """One line for people, of a machine that has followed."""
        return f"shared     {counted(self._members.units, 'unit')} done by this machine; the run is complete"


_here: list[Machine] = []
"""The machine of this command, while it leads."""


def leading() -> Machine | None:
    """The machine of this command, if it leads a run that several share."""
    return _here[-1] if _here else None


def machines_at(run: Path) -> Iterator[str]:
    """A line for people on each machine that shares the run: who it is, what it does, its units."""
    states_by_name, term = states(run)
    leader = Terms(run / MACHINES).leader(term)
    for state in states_by_name.values():
        verb = "leads" if leader is not None and state.name == leader.machine else "follows"
        doing = "is gone" if state.has_ended() else f"{verb}, at {state.doing or 'nothing now'}"
        yield f"machine: {state.who()}, {doing}; {counted(state.units, 'unit')} done"


def together(machine: Machine, job: Job, lead: Callable[[], Iterator[str]]) -> Iterator[str]:
    """Do this machine's share of the run of a job until it is complete; yield lines for people. `lead` runs
    all steps."""
    with machine:
        while (turn := machine.turn()) != "over":
            if isinstance(turn, SharedBlock):
                machine.share(turn, job)
                continue

            _here.append(machine)
            try:
                with machine.lead():
                    yield from lead()
                return
            except NotOurs as e:
                print_line(f"{e}; this machine follows")
            finally:
                _here.remove(machine)
        yield machine.summary()
