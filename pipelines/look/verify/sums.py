"""The manifests of a run against one another: all folders of a step, made of each other, and what came in is what went out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from answermill.pipelines.config.step_registry import STEPS, folders
from answermill.pipelines.look.verify.finding import Finding, Remedy
from answermill.pipelines.runs.manifests.failures import FAILED_UNITS
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.parquet_folder import digest_of

CANDIDATES = ("documents", "questions", "retrieved")
"""What `answermill candidates` writes."""
IF_FAILED = "scored_rejects"
"""Is there only if units have failed."""
SUMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ingest": {"pages": ("documents", "rejects"), "rejects": ("rejected.*",), "records": ("records_read", "records_failed")},
    "retrieve": {"questions_given": ("questions", "questions_rejects"), "questions_rejects": ("rejected.*",)},
    "rerank": {"candidates": ("kept", "grouped", "dropped")},
    "annotate": {"tasks": ("top", "random", "control")},
    "collect": {"annotations": ("votes", "rejects"), "rejects": ("rejects_*",)},
    "propagate": {"labels": ("used", "rejects")},
}
"""Step → a count of its manifests → the counts that it is the sum of; 'rejected.*' are all whose names begin so."""
ROWS: Mapping[str, Mapping[str, str]] = {
    "ingest": {"documents": "documents", "passages": "passages", "rejects": "rejects"},
    "index": {"shards": "passages"},
    "retrieve": {"questions": "questions", "retrieved": "hits", "questions_rejects": "questions_rejects"},
    "rerank": {"scored": "candidates", "scored_rejects": "rejects"},
    "annotate": {"tasks": "tasks"},
    "collect": {"collected/annotations": "votes", "collected/rejects": "rejects", "collected/conflicts": "conflicts"},
    "propagate": {f"labels/{name}": name for name in ("sentences", "passages", "documents", "conflicts", "rejects")},
}
"""Step → folder → the count that is the number of its rows."""
SAME_ROWS = (("passages", "shards"), ("questions", "answers"))
"""Folders with as many rows, whichever of them a run has."""
_DIGEST = re.compile("[0-9a-f]{32}")


def check(manifests: Mapping[str, Manifest], unreadable: set[str]) -> Iterator[Finding]:
    """What does not fit in the manifests of a run's folders; of `unreadable` folders nothing is said."""
    yield from _absent(manifests, unreadable)
    yield from _stale(manifests, unreadable)
    for folder, manifest in manifests.items():
        for wrong in _wrong_sums(folder, manifest):
            yield Finding(folder, wrong, manifest.step, Remedy.REDO)
    for first, second in SAME_ROWS:
        if first in manifests and second in manifests and manifests[first].rows != manifests[second].rows:
            wrong = f"has {manifests[second].rows:,} rows, {first} {manifests[first].rows:,}"
            yield Finding(second, wrong, manifests[second].step, Remedy.REDO)


def _absent(manifests: Mapping[str, Manifest], unreadable: set[str]) -> Iterator[Finding]:
    """Folders that others of the same step, and the same job, should have beside them."""
    for step in dict.fromkeys(manifest.step for manifest in manifests.values()):
        mine = {folder: manifest for folder, manifest in manifests.items() if manifest.step == step}
        for folder in missing(step, mine):
            if folder not in unreadable:
                yield Finding(
                    folder, f"is not there or not complete, {next(iter(mine))} of the same step is", step, Remedy.AGAIN
                )
        if len({manifest.fingerprint for manifest in mine.values()}) > 1:
            yield Finding(next(iter(mine)), f"and other folders of {step} are of different jobs", step, Remedy.REDO)


def missing(step: str, manifests: Mapping[str, Manifest]) -> list[str]:
    """The folders of a step that it has not committed; `manifests` are those that it has."""
    failed = any(FAILED_UNITS in manifest.counts for manifest in manifests.values())
    outputs = CANDIDATES if step == "candidates" else folders().get(step, ())
    return [folder for folder in outputs if folder not in manifests and (failed or folder != IF_FAILED)]


def _stale(manifests: Mapping[str, Manifest], unreadable: set[str]) -> Iterator[Finding]:
    """Folders that were made of something else than what is there now."""
    known = {folder for step in STEPS.values() for folder in step.outputs}
    said: set[tuple[str, str]] = set()
    for folder, manifest in manifests.items():
        for name, digest in manifest.inputs.items():
            if name not in known or name in unreadable or not _DIGEST.fullmatch(digest) or (manifest.step, name) in said:
                continue
            said.add((manifest.step, name))
            if name not in manifests:
                maker = next(step for step, outputs in folders().items() if name in outputs)
                yield Finding(name, f"is not there or not complete, and {folder} was made of it", maker, Remedy.AGAIN)
            elif digest not in (digest_of(manifests[name]), manifests[name].fingerprint):
                yield Finding(folder, f"was made of another {name} than is there now", manifest.step, Remedy.REDO)


def _wrong_sums(folder: str, manifest: Manifest) -> Iterator[str]:
    counts = manifest.counts
    if sum(part.rows for part in manifest.parts) != manifest.rows:
        yield f"has {manifest.rows:,} rows by its manifest, {sum(part.rows for part in manifest.parts):,} by its parts"
    of_rows = ROWS.get(manifest.step, {}).get(folder)
    if of_rows is not None and counts.get(of_rows, 0) != manifest.rows:
        yield f"has {manifest.rows:,} rows, {counts.get(of_rows, 0):,} {of_rows} were counted"
    if folder != next(iter(folders().get(manifest.step, ())), None):
        return  # its step's counts are in each manifest
    for whole, names in SUMS.get(manifest.step, {}).items():
        addends = {each: n for each, n in counts.items() if any(_is_named(each, name) for name in names)}
        if counts.get(whole, 0) != sum(addends.values()):
            yield f"counts {counts.get(whole, 0):,} {whole}, but {' + '.join(f'{n:,} {name}' for name, n in addends.items())}"


def _is_named(count: str, name: str) -> bool:
    return count.startswith(name[:-1]) if name.endswith("*") else count == name
