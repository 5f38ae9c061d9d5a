"""Figures of a run's steps from its manifests: rows, settings, rejects, time of work, slowest units."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from answermill.pipelines.look.report.figures import Missing, Rejects, StepCost, StepFigures, UnitFigures
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.parquet_folder import read_batches
from answermill.pipelines.runs.step import work_folders
from answermill.pipelines.runs.watch.clock import step_times
from answermill.pipelines.specs.registry import SPECS, STAND_INS, AnyStep
from answermill.pipelines.specs.run import Run
from answermill.schemas.corpus import Rejected

_INPUTS = 10
_SLOWEST = 10


def missing_steps(run: Run) -> Iterator[Missing]:
    """Incomplete steps, of those that were begun or that every run has, with what each does or lacks."""
    specs = list(SPECS.values())
    # Another command wrote what a step writes, so the steps before it never run here.
    stood_in = [
        n for n, spec in enumerate(specs) if any(it.step in STAND_INS for it in run.of(spec).values())
    ]
    for number, spec in enumerate(specs):
        lacking = [(writer, absent) for writer, absent in run.lacking(spec) if absent]
        for writer, absent in lacking:
            yield Missing(writer.name, f"has not committed {', '.join(absent)}")
        is_expected = spec.is_main and number > max(stood_in, default=-1)
        if not lacking and not run.is_complete(spec) and (is_expected or work_folders(run.path, spec.name)):
            yield Missing(spec.name, run.state(spec))


def complete_steps(run: Run) -> Iterator[tuple[AnyStep, dict[str, Manifest]]]:
    """Complete steps with their folders' manifests."""
    return ((spec, run.of(spec)) for spec in SPECS.values() if run.is_complete(spec))


def step_figures(run: Run) -> Iterator[StepFigures]:
    """Figures of the complete steps."""
    times = step_times(run.path)
    for spec, written in complete_steps(run):
        first, time = next(iter(written.values())), times.get(spec.name)
        yield StepFigures(
            step=spec.name,
            rows={name: manifest.rows for name, manifest in written.items()},
            bytes=sum(part.bytes for manifest in written.values() for part in manifest.parts),
            version=first.version,
            revision=first.revision,
            fingerprint=first.fingerprint,
            settings=dict(first.settings),
            inputs={name: first.inputs[name] for name in heapq.nsmallest(_INPUTS, first.inputs)},
            more_inputs=max(0, len(first.inputs) - _INPUTS),
            environment=dict(first.environment),
            counts=dict(run.counts(spec).flat()),
            ended=time.ended if time is not None else None,
            clock_seconds=time.seconds if time is not None else None,
        )


def rejects(run: Run) -> Iterator[Rejects]:
    """Records that each step refused. Reasons are counted from the folder if the counts lack some."""
    for spec, written in complete_steps(run):
        for name, manifest in written.items():
            if manifest.record != Rejected.__name__ or not manifest.rows:
                continue
            reasons = Counter(run.counts(spec).rejected)
            if reasons.total() != manifest.rows:
                reasons = _reasons(run.path / name, manifest)
            yield Rejects(
                name, manifest.rows, dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))
            )


def _reasons(folder: Path, manifest: Manifest) -> Counter[str]:
    reasons: Counter[str] = Counter()
    for part in manifest.parts:
        for batch in read_batches(folder, part, ["reason"], rows=65_536):
            for pair in batch.column("reason").value_counts().to_pylist():
                reasons[pair["values"]] += pair["counts"]
    return reasons


def failed_units(run: Run) -> dict[str, int]:
    """Step → number of failed units, whose records are among the rejects."""
    return {spec.name: n for spec, _ in complete_steps(run) if (n := run.counts(spec).failed_units)}


def step_work(run: Run, price_per_hour: float | None) -> Iterator[StepCost]:
    """Time that each step counted, without the plan's stages, which have figures of their own."""
    for spec, _ in complete_steps(run):
        for time, seconds, items in run.counts(spec).times():
            item = time.item.replace("_", " ")
            yield StepCost(
                f"{spec.name}: {time.work}", items, item, seconds, dollars(seconds, price_per_hour)
            )


def dollars(seconds: float | None, price_per_hour: float | None) -> float | None:
    """Price of a worker's seconds; None if one of the two is unknown."""
    return None if seconds is None or price_per_hour is None else seconds / 3600 * price_per_hour


def slowest_units(run: Run) -> tuple[UnitFigures, ...]:
    """Slowest units of each step whose units count their time."""
    units: list[UnitFigures] = []
    for spec, written in complete_steps(run):
        counts = {
            int(unit): spec.counts.from_json(json.loads(value))
            for unit, value in written[spec.folders[0].name].units.items()
        }
        mean = sum(unit_counts.seconds for unit_counts in counts.values()) / max(1, len(counts))
        for unit in heapq.nsmallest(_SLOWEST, counts, key=lambda unit: (-counts[unit].seconds, unit)):
            if seconds := counts[unit].seconds:
                units.append(
                    UnitFigures(
                        spec.name, unit, seconds, seconds / mean, getattr(counts[unit], spec.item), spec.item
                    )
                )

    return tuple(units)
