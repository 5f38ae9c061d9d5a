"""Messages about a step that cannot go on: units that have failed, and folders of other jobs that are in the
way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from answermill.pipelines.runs.manifests.failures import Failure, Failures
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.manifests.run_folder import SHOWN, differences, following, shortened
from answermill.pipelines.runs.spec import StepSpec


def named(step: str, units: Sequence[int]) -> str:
    """Some units of a step.

    >>> named("sorting", [3, 4])
    'units 3, 4 of sorting'
    """
    shown = ", ".join(map(str, units[:10])) + (f" and {len(units) - 10} more" if len(units) > 10 else "")
    return f"unit{'s' if len(units) > 1 else ''} {shown} of {step}"


def too_many_failed(
    work: Path, step: str, failures: Sequence[Failure], done: tuple[int, int], may_fail: bool
) -> str:
    """Message that more units have failed than may. `done`: number of units that are done, and of all;
    `may_fail`: True if the step could go on without some."""
    reasons = "; ".join(f"unit {failure.unit}: {failure.reason}" for failure in failures[:SHOWN])
    more = f"; and {len(failures) - SHOWN} more" if len(failures) > SHOWN else ""
    instead = f", and workers.max_failed_units = {len(failures)} lets it end without them" if may_fail else ""
    return (
        f"{named(step, [failure.unit for failure in failures])} failed, {done[0]} of {done[1]} are done: "
        f"{reasons}{more}. The "
        f"tracebacks are in {Failures(work).folder}. The same command tries again what failed{instead}"
    )


def conflict(
    run: Path,
    spec: StepSpec[Any],
    others: Mapping[str, Manifest],
    settings: Mapping[str, Any],
    inputs: Mapping[str, str],
) -> str:
    """Message that folders of a step are committed under another fingerprint: the differences of that job,
    the folders that were made of them, and what to type."""
    name, other = next(iter(others.items()))
    followers = following(run, others)
    made_of_them = [
        f"{follower} (its input {', '.join(sorted({*others, *followers} & manifest.inputs.keys()))})"
        for follower, manifest in followers.items()
        # People's judgements are never in the way.
        if manifest.step != spec.name and not manifest.maker.command
    ]
    in_the_way = f"in the way: {', '.join([*others, *made_of_them])}"
    redo = spec.maker.remedy(run) + ("" if spec.maker.command else ", with the same --set,")
    places = {run / file.place for file in spec.files if file.place}
    if worked_on := sorted(str(place) for place in places if place.exists()):
        redo = f"people may have worked in {' and '.join(worked_on)}: move it away, then {redo}"
    adds = f"; or {spec.adds}" if spec.adds else ""
    remedy = f"{redo} makes it again; or give another --out{adds}"
    return (
        f"{run / name} holds the output of another job: {_difference(other, spec, settings, inputs)}; "
        f"{in_the_way}. {remedy}"
    )


def _difference(
    manifest: Manifest, spec: StepSpec[Any], settings: Mapping[str, Any], inputs: Mapping[str, str]
) -> str:
    """The difference between the step of a manifest and this one."""
    if manifest.step != spec.name:
        return f"{manifest.step} wrote it"
    if manifest.revision != spec.revision:
        revisions = f"revision {manifest.revision} there, {spec.revision} here"
        return f"the code of {spec.name} gives another output since ({revisions})"
    clauses = [
        f"settings {clause}"
        for clause in differences(manifest.settings, json.loads(json.dumps(settings)), "")
    ]
    clauses += [f"input {clause}" for clause in differences(manifest.inputs, inputs, "")]
    return shortened(clauses) if clauses else "written with another version's records"
