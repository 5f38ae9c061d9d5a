"""Damage to files: each function returns a `Harm`, which damages the first file of a name's pattern in a
`Place`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.step import MARK, WORK
from benchmarks.fault_list.fault import Harm, Place


def changed(pattern: str, change: Callable[[bytes], bytes]) -> Harm:
    """Change a file's bytes."""

    def harm(place: Place) -> None:
        path = place.file(pattern)
        path.write_bytes(change(path.read_bytes()))

    return harm


def flipped(pattern: str) -> Harm:
    """Flip one bit in the middle; the size stays."""

    def flip(whole: bytes) -> bytes:
        middle = len(whole) // 2
        return whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]

    return changed(pattern, flip)


def cut(pattern: str) -> Harm:
    """Cut off the second half."""
    return changed(pattern, lambda whole: whole[: len(whole) // 2])


def emptied(pattern: str) -> Harm:
    return changed(pattern, lambda whole: b"")


def zeroed(pattern: str) -> Harm:
    """Fill 100 KB in the middle with zeros."""

    def zero(whole: bytes) -> bytes:
        first = max(0, len(whole) // 2 - 50_000)
        return whole[:first] + bytes(len(whole[first : first + 100_000])) + whole[first + 100_000 :]

    return changed(pattern, zero)


def written(name: str, content: str | bytes) -> Harm:
    """Write a file with this content below the place's folder."""

    def harm(place: Place) -> None:
        path = place.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return harm


def overwritten(pattern: str, content: str | bytes) -> Harm:
    return changed(pattern, lambda whole: content.encode() if isinstance(content, str) else content)


def replaced(pattern: str, old: str, new: str) -> Harm:
    """Replace a text by another; it must be in the file."""

    def replace(whole: bytes) -> bytes:
        if old.encode() not in whole:
            raise ValueError(f"{old!r} is not in {pattern}; mend the fault")
        return whole.replace(old.encode(), new.encode())

    return changed(pattern, replace)


def removed(*patterns: str) -> Harm:
    """Remove the first file or folder of each pattern."""

    def harm(place: Place) -> None:
        for pattern in patterns:
            path = place.file(pattern)
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return harm


def interrupted(step: str, folder: str, report: str) -> Harm:
    """Make a step look stopped: its folder has no manifest, and its first unit a report with this content."""

    def harm(place: Place) -> None:
        manifest = place.run / folder / MANIFEST
        fingerprint = json.loads(manifest.read_text(encoding="utf-8"))["fingerprint"]
        manifest.unlink()
        for name, content in ((MARK, fingerprint), ("unit-00000.json", report)):
            written(f"run/{WORK}/{step}-{fingerprint[:8]}/{name}", content)(place)

    return harm


def manifest_emptied(run: str = "run") -> Harm:
    """Let the manifest of a run's scored rows say nothing."""
    return overwritten(f"{run}/scored/{MANIFEST}", "{}")


def all_of(*harms: Harm) -> Harm:
    """Do several damages in order."""

    def harm(place: Place) -> None:
        for one_harm in harms:
            one_harm(place)

    return harm


def weight(pattern: str, value: float, keep_sums: bool = False) -> Harm:
    """Change one number of a model's last tensor. The digests beside it are removed, unless `keep_sums`."""

    def harm(place: Place) -> None:
        from safetensors.torch import load_file, save_file

        path = place.file(pattern)
        tensors = load_file(path)
        tensors[sorted(tensors)[-1]].view(-1)[0] = value
        save_file(tensors, path, {"format": "pt"})
        if not keep_sums:
            (path.parent / "sha256.json").unlink(missing_ok=True)

    return harm


def json_changed(pattern: str, change: Callable[[Any], object]) -> Harm:
    """Change a JSON file's value in place."""

    def rewrite(whole: bytes) -> bytes:
        value = json.loads(whole)
        change(value)
        return json.dumps(value, indent=1).encode()

    return changed(pattern, rewrite)


def copied(pattern: str, name: str) -> Harm:
    """Copy a file to another name."""

    def harm(place: Place) -> None:
        target: Path = place.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(place.file(pattern), target)

    return harm
