"""Verification of a run's manifests against each other: all folders of a step are there, each was made of the
present ones, and incoming numbers equal outgoing ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set

from answermill.pipelines.errors import JobError
from answermill.pipelines.look.verify.finding import Finding, Remedy
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.parquet_folder import digest_of
from answermill.pipelines.specs.registry import folder_specs, spec_of

_DIGEST = re.compile("[0-9a-f]{32}")


def check(
    manifests: Mapping[str, Manifest], unreadable: set[str], kept: Set[str] = frozenset()
) -> Iterator[Finding]:
    """Contradictions between the manifests of a run's folders; `unreadable` folders are left out. `kept`:
    steps whose output stays when what it was made of is made anew."""
    yield from _absent(manifests, unreadable)
    yield from _stale(
        {name: it for name, it in manifests.items() if it.step not in kept}, manifests, unreadable
    )
    for folder, manifest in manifests.items():
        for wrong in _wrong_sums(folder, manifest):
            yield Finding(folder, wrong, manifest.step, Remedy.REDO)
    for folder, manifest in manifests.items():
        other = manifests.get(folder_specs()[folder].same_rows_as)
        if other is not None and other.rows != manifest.rows:
            wrong = f"has {manifest.rows:,} rows, {other.folder} {other.rows:,}"
            yield Finding(folder, wrong, manifest.step, Remedy.REDO)


def _absent(manifests: Mapping[str, Manifest], unreadable: set[str]) -> Iterator[Finding]:
    """Missing folders of steps that have written others, and steps whose folders are of different jobs."""
    for step in dict.fromkeys(manifest.step for manifest in manifests.values()):
        written = {folder: manifest for folder, manifest in manifests.items() if manifest.step == step}
        first, spec = next(iter(written)), spec_of(step)
        for folder in spec.absent(written) if spec is not None else ():
            if folder not in unreadable:
                yield Finding(
                    folder, f"is not there or not complete, {first} of the same step is", step, Remedy.AGAIN
                )
        if len({manifest.fingerprint for manifest in written.values()}) > 1:
            yield Finding(first, f"and other folders of {step} are of different jobs", step, Remedy.REDO)


def _stale(
    checked: Mapping[str, Manifest], manifests: Mapping[str, Manifest], unreadable: set[str]
) -> Iterator[Finding]:
    """Folders among `checked` that were made of other folders than the present ones."""
    known = folder_specs()
    reported: set[tuple[str, str]] = set()
    for folder, manifest in checked.items():
        for name, digest in manifest.inputs.items():
            if (
                name not in known
                or name in unreadable
                or not _DIGEST.fullmatch(digest)
                or (manifest.step, name) in reported
            ):
                continue

            reported.add((manifest.step, name))
            if name not in manifests:
                maker = known[name].maker.step
                yield Finding(
                    name, f"is not there or not complete, and {folder} was made of it", maker, Remedy.AGAIN
                )
            elif digest not in (digest_of(manifests[name]), manifests[name].fingerprint):
                yield Finding(
                    folder, f"was made of another {name} than is there now", manifest.step, Remedy.REDO
                )


def _wrong_sums(folder: str, manifest: Manifest) -> Iterator[str]:
    """Numbers of one manifest that contradict each other."""
    by_parts = sum(part.rows for part in manifest.parts)
    if by_parts != manifest.rows:
        yield f"has {manifest.rows:,} rows by its manifest, {by_parts:,} by its parts"
    spec = spec_of(manifest.step)
    if spec is None:
        return

    try:
        counts = spec.counts_of(manifest)
    except JobError as e:
        yield f"has counts of no {manifest.step}: {e}"
        return

    own = next((other for other in spec if other.name == folder), None)
    if own is not None and own.rows and getattr(counts, own.rows) != manifest.rows:
        yield f"has {manifest.rows:,} rows, {getattr(counts, own.rows):,} {own.rows} were counted"
    if folder == spec.folders[0].name:  # its step's counts are in each manifest
        yield from (f"counts {wrong}" for wrong in counts.wrong_sums())
