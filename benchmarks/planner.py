"""How far a plan is off: predicted before a run, from a part of its input, against what the run then takes and writes.

The held-out job is the sample's, whole; the planner sees at most PAGES of its 70 pages and QUESTIONS of its 90 questions.
Seconds are those of the processor, each step's in a new process on one core, so that other work on the machine counts little.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks.harness import arguments, finish, processes, say, shrink
from pipelines.config.job_file import Job, load
from pipelines.config.step_registry import STEPS
from pipelines.planning import measure, plan
from pipelines.planning.actual import actual
from pipelines.planning.measure import PLANNED, one_thread, processor_seconds
from pipelines.planning.prediction import compared
from pipelines.sample import copy_to

PAGES, QUESTIONS, STEP_S = 40, 30, 15.0
SETTINGS: tuple[str, ...] = ()
"""Laid over the sample's job."""


def take_step(job: Job, run: Path, step: str) -> float:
    """Processor seconds of one step on one core."""
    with one_thread():
        began = processor_seconds()
        STEPS[step].load().run(job, run, ())
        return processor_seconds() - began


def error(predicted: float, came: float) -> float:
    """In percent of what came."""
    return 100 * (predicted - came) / max(came, 1e-9)


def main() -> None:
    options = arguments("planner", "predicted against actual, on a job that the plan was not fitted on", needs_data=False)
    if options.smoke:
        shrink(globals(), PAGES=12, QUESTIONS=4, STEP_S=0.5, SETTINGS=("retrieve.max_questions=6",))
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        file = copy_to(Path(folder))
        if options.smoke:
            text = file.read_text(encoding="utf-8")
            start, end = text.index("[[rerank.stages]]"), text.index("[propagate]")
            file.write_text(
                text[:start] + '[[rerank.stages]]\nreranker = "overlap"\nkeep = 5\n\n' + text[end:], encoding="utf-8"
            )
        job, run = load(file, SETTINGS), Path(folder) / "run"
        say("plan")
        former = plan.PAGES, plan.QUESTIONS, measure.STEP_S
        plan.PAGES, plan.QUESTIONS, measure.STEP_S = PAGES, QUESTIONS, STEP_S
        predicted, _ = plan.plan_of(job)
        plan.PAGES, plan.QUESTIONS, measure.STEP_S = former
        came: dict[str, float] = {}
        for step in PLANNED:
            say(f"run {step}")
            with processes(1, inline=options.smoke) as pool:
                came[step] = pool.submit(take_step, job, run, step).result()
        result: dict[str, float] = {"pages_drawn": predicted.drawn, "pages": predicted.counts["pages"]}
        for step in PLANNED:
            result |= {f"predicted_{step}_s": predicted.seconds[step], f"actual_{step}_s": came[step]}
            result[f"error_{step}"] = error(predicted.seconds[step], came[step])
        for name, (expected, value) in compared(predicted, actual(run)).items():
            if not name.startswith("seconds of "):
                result[f"error_{name.replace(' of ', '_')}"] = error(expected, value)
    finish("planner", result, options.save)


if __name__ == "__main__":
    main()
