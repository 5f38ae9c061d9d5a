"""Predicted against actual: figures of a run's plan beside those of its manifests."""

from __future__ import annotations

from answermill.pipelines.look.estimate.plan_file import RunEstimate
from answermill.pipelines.specs.registry import AnyStep, job_steps
from answermill.pipelines.specs.run import Run

TAKEN = ("taken_over", "vectors_taken_over", "tombstones")
"""Counts of what the index step takes over from an earlier run."""


def predicted_and_actual(run: Run) -> dict[str, tuple[float, float]]:
    """Name → (predicted, actual): figures of the run's plan and of its complete steps; empty if it has no
    plan."""
    plan = RunEstimate.read(run.path)
    return {} if plan is None else compared(plan, actual(run))


def compared(plan: RunEstimate, values: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Name → (predicted, actual) of the figures in both: counts by their names, 'bytes of FOLDER' and
    'seconds of STEP', predicted ones of the processor and actual ones by the clock within the workers."""
    predicted: dict[str, float] = dict(plan.counts)
    predicted |= {f"bytes of {folder}": size for folder, size in plan.bytes.items()}
    predicted |= {f"seconds of {step}": seconds for step, seconds in plan.seconds.items()}
    return {name: (value, values[name]) for name, value in predicted.items() if name in values}


def actual(run: Run) -> dict[str, float]:
    """Counts of a run's complete steps, bytes of their folders, and the steps' seconds, named as by
    `compared`."""
    values: dict[str, float] = {}
    for spec in job_steps().values():
        if not run.is_complete(spec):
            continue
        values = counts_of(run, spec) | values  # of two steps' counts of one name the earlier stays
        values |= {
            f"bytes of {name}": sum(part.bytes for part in folder.parts)
            for name, folder in run.of(spec).items()
        }
        if seconds := run.counts(spec).seconds:
            values[f"seconds of {spec.name}"] = seconds
    return values


def counts_of(run: Run, spec: AnyStep) -> dict[str, float]:
    """The step's counts that people see: its items, its folders' rows, its shards, and layers × tokens."""
    counts = run.counts(spec)
    named = {name: getattr(counts, name, 0) for name in (spec.item, "layer_tokens", *TAKEN)}
    folders = [folder for folder in spec if folder.name in run.manifests]
    named |= {folder.rows: run.manifests[folder.name].rows for folder in folders if folder.rows != "rejects"}
    named |= {
        folder.name: len(run.manifests[folder.name].parts) for folder in folders if folder.part_is_folder
    }
    return {name: number for name, number in named.items() if name and number}
