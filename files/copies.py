"""Copies of objects on this machine, which all its processes share, and folders for files that are created
here and put into a store later."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

IN_USE_S = 600
"""Seconds that a copy stays at least after a call; the caller opens it within this time."""


@dataclass
class Cache:
    """Copies of objects on this machine, which all its processes share: the last used ones up to `limit`
    bytes, and those in use."""

    limit: int = 20_000_000_000

    @property
    def folder(self) -> Path:
        """Folder of all copies, within the one that TMPDIR names. Raises PermissionError if it belongs to
        another user."""
        folder = Path(tempfile.gettempdir()) / f"answermill-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} is another user's; set TMPDIR to a folder of yours")
        return folder

    def entry(self, path: Path | str, version: str) -> Path:
        """Folder for copies of this version of an object or folder; it counts as used now."""
        entry = self.folder / hashlib.sha256(f"{path}\n{version}".encode()).hexdigest()[:32]
        entry.mkdir(exist_ok=True)
        os.utime(entry)
        return entry

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """New folder, which is removed when the block ends."""
        folder = self.folder / f"new-{os.getpid()}-{uuid.uuid4().hex}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def shrink(self) -> None:
        """Delete the copies unused for longest until the rest fit into `limit`, and the leftovers of killed
        processes."""
        entries = []
        for entry in self.folder.iterdir():
            if entry.name.startswith("new-"):
                if not is_alive(int(entry.name.split("-")[1])):
                    shutil.rmtree(entry, ignore_errors=True)
                continue
            with contextlib.suppress(FileNotFoundError):  # another process is shrinking as well
                size = sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
                entries.append((entry.stat().st_mtime, size, entry))

        total = sum(size for _, size, _ in entries)
        for used, size, entry in sorted(entries):
            if total <= self.limit or used > time.time() - IN_USE_S:
                break
            shutil.rmtree(entry, ignore_errors=True)
            total -= size


CACHE = Cache()


def digest_of(*files: Path) -> str:
    """SHA-256 of files of this machine, one after the other: 64 hex digits."""
    hashed = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                hashed.update(block)
    return hashed.hexdigest()


def is_alive(process: int) -> bool:
    """True if there is a process of this id on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
