"""What can happen to a file: each function returns what does it to the first file of a name's pattern in a
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
    """The file's bytes are replaced."""

    def harm(place: Place) -> None:
        path = place.file(pattern)
        path.write_bytes(change(path.read_bytes()))

    return harm


def flipped(pattern: str) -> Harm:
    """One bit in the middle is another; the size stays."""

    def flip(whole: bytes) -> bytes:
        middle = len(whole) // 2
        return whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]

    return changed(pattern, flip)


def cut(pattern: str) -> Harm:
    """The second half is lost."""
    return changed(pattern, lambda whole: whole[: len(whole) // 2])


def emptied(pattern: str) -> Harm:
    return changed(pattern, lambda whole: b"")


def zeroed(pattern: str) -> Harm:
    """100 KB in the middle are zeros."""

    def zero(whole: bytes) -> bytes:
        first = max(0, len(whole) // 2 - 50_000)
        return whole[:first] + bytes(len(whole[first : first + 100_000])) + whole[first + 100_000 :]

    return changed(pattern, zero)


def written(name: str, content: str | bytes) -> Harm:
    """A file of this name below the place's folder has this content."""

    def harm(place: Place) -> None:
        path = place.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return harm


def overwritten(pattern: str, content: str | bytes) -> Harm:
    return changed(pattern, lambda whole: content.encode() if isinstance(content, str) else content)


def replaced(pattern: str, old: str, new: str) -> Harm:
    """A text is replaced by another; it must be there."""

    def replace(whole: bytes) -> bytes:
        if old.encode() not in whole:
            raise ValueError(f"{old!r} is not in {pattern}; mend the fault")
        return whole.replace(old.encode(), new.encode())

    return changed(pattern, replace)


def removed(*patterns: str) -> Harm:
    """The first file or folder of each pattern is not there any more."""

    def harm(place: Place) -> None:
        for pattern in patterns:
            path = place.file(pattern)
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return harm


def interrupted(step: str, folder: str, report: str) -> Harm:
    """The step was stopped: its folder has no manifest, and its first unit has a report of this content."""

    def harm(place: Place) -> None:
        manifest = place.run / folder / MANIFEST
        fingerprint = json.loads(manifest.read_text(encoding="utf-8"))["fingerprint"]
        manifest.unlink()
        for name, content in ((MARK, fingerprint), ("unit-00000.json", report)):
            written(f"run/{WORK}/{step}-{fingerprint[:8]}/{name}", content)(place)

    return harm


def all_of(*harms: Harm) -> Harm:
    """One after the other."""

    def harm(place: Place) -> None:
        for each in harms:
            each(place)

    return harm


def weight(pattern: str, value: float, keep_sums: bool = False) -> Harm:
    """One number of a model's last tensor is another. The digests beside it go, unless they are kept."""

    def harm(place: Place) -> None:
        from safetensors.torch import load_file, save_file

        path = place.file(pattern)
        tensors = load_file(path)
        tensors[sorted(tensors)[-1]].view(-1)[0] = value
        save_file(tensors, path, {"format": "pt"})
        if not keep_sums:
            (path.parent / "sha256.json").unlink(missing_ok=True)

    return harm


def of_json(pattern: str, change: Callable[[Any], object]) -> Harm:
    """A JSON file's value is changed in place."""

    def rewrite(whole: bytes) -> bytes:
        value = json.loads(whole)
        change(value)
        return json.dumps(value, indent=1).encode()

    return changed(pattern, rewrite)


def copied(pattern: str, name: str) -> Harm:
    """The file is there a second time."""

    def harm(place: Place) -> None:
        target: Path = place.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(place.file(pattern), target)

    return harm
