"""The committed folders of a run: which were made of which others, and differences between two of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.runs.manifests.manifest import MANIFEST, Manifest, read_manifest

SHOWN = 3
"""Clauses, or damaged files, that a message lists; further ones it counts."""


def check_run(run: Path, advice: str = "") -> None:
    """Raise JobError (66) if there is no such folder, or a file in its place. `advice`: in place of the
    command that makes it."""
    if not run.is_dir():
        if run.exists():
            raise JobError(f"{run} is a file; give the folder of a run", INPUT_MISSING)
        way_out = advice or f"`answermill run JOB.toml --out {run}` makes it"
        raise JobError(f"no folder {run}; {way_out}", INPUT_MISSING)


def committed(run: Path) -> dict[str, Manifest]:
    """Folder below the run folder → its manifest, for all that are committed; unreadable ones are left
    out."""
    manifests = {}
    for path in sorted(path for pattern in ("*", "*/*") for path in run.glob(f"{pattern}/{MANIFEST}")):
        folder = path.parent.relative_to(run)
        if not folder.parts[0].startswith(("_", ".")):
            with suppress(JobError):
                manifests[folder.as_posix()] = read_manifest(path.parent)
    return {name: manifest for name, manifest in manifests.items() if manifest is not None}


def following(run: Path, folders: Collection[str]) -> dict[str, Manifest]:
    """The committed folders that were made of these folders, directly or by way of others."""
    manifests, sources = committed(run), set(folders)
    followers: dict[str, Manifest] = {}
    while new := {
        name: manifest
        for name, manifest in manifests.items()
        if name not in followers and name not in folders and sources & manifest.inputs.keys()
    }:
        followers |= new
        sources |= new.keys()
    return followers


def differences(there: Any, here: Any, key: str, sides: tuple[str, str] = ("there", "here")) -> Iterator[str]:
    """Differences between two settings, as JSON values: a clause for each key, 'stages.cascade.keep = 3
    there, 5 here'.

    `sides`: names of the two.
    """
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for name in sorted({*there, *here}):
            yield from differences(there.get(name), here.get(name), f"{key}.{name}" if key else name, sides)
    elif _are_same_stages(there, here):
        for former, new in zip(there, here, strict=True):
            yield from differences(former, new, f"{key}.{stage_name(new)}", sides)
    elif there != here:
        by_side = dict(zip(sides, (there, here), strict=True))
        known = {side: value for side, value in by_side.items() if value is not None}
        if not all(map(_is_digest, known.values())):
            yield f"{key} = {_short(there)} {sides[0]}, {_short(here)} {sides[1]}"
        elif len(known) == 2:
            yield f"{key} has other content"
        else:
            yield f"{key} is only {next(iter(known))}"


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{32,64}", value) is not None


def shortened(clauses: Sequence[str]) -> str:
    """The clauses in a line; of many, the first ones and the number of the others."""
    return ", ".join(clauses[:SHOWN]) + (f" and {len(clauses) - SHOWN} more" if len(clauses) > SHOWN else "")


def stage_name(stage: Mapping[str, Any]) -> str:
    """Name of a stage in the settings of a manifest: its own, or else its reranker's."""
    return str(stage.get("name") or stage["reranker"])


def _are_stages(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(stage, Mapping) and "reranker" in stage for stage in value
    )


def _are_same_stages(there: Any, here: Any) -> bool:
    """True if both are lists of stages with the same names in the same order."""
    if not (_are_stages(there) and _are_stages(here)):
        return False
    return list(map(stage_name, there)) == list(map(stage_name, here))


def _short(value: Any) -> str:
    if value and _are_stages(value):
        return ", ".join(map(stage_name, value))
    text = "absent" if value is None else repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
