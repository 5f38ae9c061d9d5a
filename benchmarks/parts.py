"""A tiny job of all steps, shared by five machines whose clocks are hours apart, of which some are killed
(SIGKILL) at random moments: does the run end with the bytes of one machine?

A machine is a forked process that cannot see the processes of the others: it knows them by their files in the
run folder alone, and takes one to be lost whose count stands still. Whenever one is killed, another joins.
When the machines of a run have come to their end, the run is compared with that of a command alone, and the
next begins. `mismatches` counts runs that have other files or bytes (Lucene's aside, whose ids are drawn), in
which `verify` finds something wrong or `clean` something left over, and machines that ended with an error.
`blocks_shared` counts how often a machine did its share of work that another one had opened, and
`leaders_replaced` how often one took the place of a machine that led.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.kills import command, differs, forked, has_ended, load_libraries
from testing import tiny_job
from testing.harness import arguments, finish, processes, say
from testing.smoke_data import small_encoder

TAKES = "half an hour on a busy machine; [--kills 200]"

MACHINES = 5
KILLS = 40
KILLS_OF_A_RUN = 4
"""Most kills of one run, so that it comes to its end."""
LAPSE_S = 3.0
HOURS_APART = 7
SEED = 17


def machine(job_file: Path, run: Path, number: int) -> int:
    """Start the number-th machine at the run; returns its process id."""
    from answermill.pipelines.config.job_file import load
    from answermill.pipelines.engine.machines import members
    from answermill.pipelines.engine.machines.machine import Machine
    from answermill.pipelines.steps.chain import run_steps, steps_of

    job, ours = load(job_file), time.time

    def work() -> None:
        vars(members)["this_place"] = lambda: ""
        hours = HOURS_APART * (number % MACHINES - MACHINES // 2)
        vars(time)["time"] = lambda: ours() + 3600 * hours
        list(run_steps(job, run, steps_of(job), (), machine=Machine(run, job, LAPSE_S)))

    return forked(work, log_of(run, number))


def log_of(run: Path, number: int) -> Path:
    return run.with_name(f"{run.name}-{number:02d}.log")


class Machines:
    """The machines at one run."""

    def __init__(self, job_file: Path, run: Path) -> None:
        self._job_file, self._run = job_file, run
        self._started, self.at_work, self.errors = 0, dict[int, int](), list[str]()
        for _ in range(MACHINES):
            self.start()

    def start(self) -> None:
        process = machine(self._job_file, self._run, self._started)
        self.at_work[process] = self._started
        self._started += 1

    def kill(self, dice: random.Random) -> int:
        """Kill one of them, and let another join; returns how many were killed."""
        process = dice.choice(sorted(self.at_work))
        os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        number = self.at_work.pop(process)
        if not os.WIFSIGNALED(status):  # it had ended by itself
            self._note(number, status)
            return 0
        self.start()
        return 1

    def wait(self, seconds: float) -> None:
        """Let them work; machines that have ended are no longer at work."""
        until = time.monotonic() + seconds
        while self.at_work and time.monotonic() < until:
            for process in list(self.at_work):
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    self._note(self.at_work.pop(process), status)
            time.sleep(0.01)

    def count(self, line: str) -> int:
        """How many lines the machines have written that begin so."""
        logs = (log_of(self._run, number).read_text(encoding="utf-8") for number in range(self._started))
        return sum(each.startswith(line) for log in logs for each in log.splitlines())

    def _note(self, number: int, status: int) -> None:
        if status:
            log = log_of(self._run, number).read_text(encoding="utf-8")
            self.errors.append(f"machine {number} ended with status {status}: {log[-500:]}")


def measure(folder: Path, kills: int) -> dict[str, float | int]:
    load_libraries()
    dice, alone = random.Random(SEED), folder / "alone"
    job_file = tiny_job.write(folder / "job", small_encoder())
    began = time.monotonic()
    has_ended(command(job_file, alone), 1e9)
    seconds = time.monotonic() - began

    usual = seconds
    killed = runs = mismatches = shared = terms = 0
    while killed < kills:
        run = folder / f"run-{runs:04d}"
        machines, of_this_run, began = Machines(job_file, run), 0, time.monotonic()
        while machines.at_work:
            goes_on = of_this_run < min(KILLS_OF_A_RUN, kills - killed)
            machines.wait(dice.uniform(0, usual / 2) if goes_on else 1e9)
            if machines.at_work:
                of_this_run += machines.kill(dice)
        # The machine may be busier at one time than at another.
        usual = min(usual, time.monotonic() - began)
        killed, runs = killed + of_this_run, runs + 1
        shared, terms = shared + machines.count("shares "), terms + machines.count("leads now")

        wrong = "; ".join([*machines.errors, *filter(None, [differs(run, alone)])])
        mismatches += bool(wrong)
        say(f"run {runs} came to its end; {killed} kills so far{f'; IT DIFFERS: {wrong}' if wrong else ''}")

    return {
        "machines": MACHINES,
        "kills": killed,
        "runs": runs,
        "blocks_shared": shared,
        "leaders_replaced": terms,
        "mismatches": mismatches,
        "hours_apart": HOURS_APART * (MACHINES - 1),
        "seconds_alone": seconds,
    }


def main() -> None:
    options = arguments(
        "parts", __doc__ or "", needs_data=False, numbers={"kills": f"how many; {KILLS} if absent"}
    )
    kills = 1 if options.smoke else int(options.kills or KILLS)
    with tempfile.TemporaryDirectory() as folder, processes(1) as pool:  # which has no thread, and no JVM
        result = pool.submit(measure, Path(folder).resolve(), kills).result()
    finish("parts", result, options.save)


if __name__ == "__main__":
    main()
