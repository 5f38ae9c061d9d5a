"""Whole files to and from their places, on a disk or in an object store; the only way in which this program writes.

What is written is created under another name, on a disk beside its place, for a store in a folder of this machine, and gets
its name whole: nothing is ever streamed to a name that others read. What must not be overwritten is put with `replace=False`,
and of several that do so at once one wins. What is read from a store is read from a copy on this machine, whose SHA-256 is
compared once, when it comes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from answermill.files.remote import WEB_REQUESTS, Remote
from answermill.files.store_errors import errors_of

P = TypeVar("P")
T = TypeVar("T")
REQUESTS = 16
"""To a store, at the same time."""
PATIENCE_S, SLOWEST = 120, 1_000_000
"""Seconds, and bytes a second, in which a file must be put: Amazon's client would wait for ever for a store that takes the
request and never says that it may go on."""
IN_USE_S = 600
"""Seconds for which a copy stays at least after it was asked for: who asked for it opens it meanwhile."""


class Changed(OSError):
    """A file is not the one that was written."""


@dataclass
class Cache:
    """The copies of objects on this machine, which all its processes share: those that were used last, as many as `limit` bytes
    hold, and what is in use."""

    limit: int = 20_000_000_000

    @property
    def folder(self) -> Path:
        """In the temporary folder, which TMPDIR names. Raises PermissionError if another user has it."""
        folder = Path(tempfile.gettempdir()) / f"answermill-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} is another user's; set TMPDIR to a folder of yours")
        return folder

    def entry(self, path: Path | str, version: str) -> Path:
        """The folder for copies of this version of an object or folder, which is used now."""
        entry = self.folder / hashlib.sha256(f"{path}\n{version}".encode()).hexdigest()[:32]
        entry.mkdir(exist_ok=True)
        os.utime(entry)
        return entry

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A new folder, which is gone when the block ends."""
        folder = self.folder / f"new-{os.getpid()}-{uuid.uuid4().hex}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def shrink(self) -> None:
        """Delete copies that were not used for longest until `limit` holds the others; and what killed processes left."""
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


@contextlib.contextmanager
def creating(path: Path) -> Iterator[Path]:
    """A path on this machine at which a file or folder can be created, to be `put` to `path` in the block; what is still there
    when it ends is deleted. On a disk it is beside `path`, so that it only has to be renamed."""
    if isinstance(path, Remote):
        with CACHE.scratch() as folder:
            yield folder / path.name
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        temporary.unlink(missing_ok=True)


def is_temporary(name: str) -> bool:
    """Whether a file or folder has such a name: what a killed process left half-written."""
    return name.startswith(".") and name.endswith(".tmp")


def put(new: Path, path: Path, replace: bool = True) -> bool:
    """Give a finished file of this machine, from `creating`, its place: whole, or not at all. With `replace` False a file that
    is there stays, and the result is False."""
    try:
        if isinstance(path, Remote):
            limit = PATIENCE_S + new.stat().st_size / SLOWEST
            with errors_of(path):
                path.filesystem.put_file(str(new), path.key, mode="overwrite" if replace else "create", timeout=limit)
            return True
        sync(new)
        if replace:
            new.replace(path)
        else:
            os.link(new, path)  # unlike a renaming it fails if the file exists
        sync(path.parent)
    except FileExistsError:
        return False
    return True


def put_tree(new: Path, path: Remote, last: str) -> None:
    """Put the files of a finished folder of this machine to a store, at the end the one named `last`, which lists them."""
    files = [file for file in sorted(new.rglob("*")) if file.is_file() and file != new / last]
    for _ in each(lambda file: put(file, path / file.relative_to(new)), files, at_once=REQUESTS):
        pass
    put(new / last, path / last)


@contextlib.contextmanager
def publishing(folder: Path, last: str) -> Iterator[Path]:
    """Where to create a folder that belongs at `folder`: there, or for a store on this machine, and it is put there when the
    block ends well, the file `last` at the end."""
    if not isinstance(folder, Remote):
        yield folder
        return
    with CACHE.scratch() as scratch:
        yield scratch / folder.name
        put_tree(scratch / folder.name, folder, last)


def fetch(path: Path, digest: str | None = None) -> Path:
    """The file itself, or, of a store, this machine's copy of it; with a digest that whose SHA-256 this is, without one the
    present one. Raises FileNotFoundError, Changed, and OSError if the store cannot be read."""
    if not isinstance(path, Remote):
        return path
    path = path.known() if digest is None else path
    return _copy(path, CACHE.entry(path, digest or path.version()) / path.name, digest)


def fetch_tree(path: Path, files: Mapping[str, str] | None = None) -> Path:
    """The folder itself, or, of a store, this machine's copy of these files of it, or of all: name in the folder → SHA-256.

    Files that are named must be those of a folder whose files never change. Raises as `fetch`.
    """
    if not isinstance(path, Remote):
        return path
    present = [] if files is not None else path.files()
    if files is None and not present:
        raise FileNotFoundError(f"{path}: no such folder")
    versions = "".join(f"{file} {file.version()}\n" for file in present)
    entry = CACHE.entry(path, versions) / path.name
    wanted = [(name, digest) for name, digest in files.items()] if files is not None else []
    wanted += [(file.relative_to(path).as_posix(), "") for file in present]
    for _ in each(lambda file: _copy(path / file[0], entry / file[0], file[1] or None), wanted, at_once=REQUESTS):
        pass
    return entry


def _copy(path: Remote, copy: Path, digest: str | None) -> Path:
    """The copy, brought here unless it was before."""
    if copy.is_file():
        return copy
    with CACHE.scratch() as folder:
        new = folder / path.name
        with errors_of(path):
            path.filesystem.get_file(path.key, str(new))
        if digest is not None and sha256(new) != digest:
            raise Changed(f"{path} was changed since it was written (SHA-256)")
        if digest is None and (size := new.stat().st_size) != path.stat().st_size:
            raise Changed(f"{path} has {size:,} bytes, it had {path.stat().st_size:,} when it was looked up")
        copy.parent.mkdir(parents=True, exist_ok=True)
        new.replace(copy)
    CACHE.shrink()
    return copy


def remove_tree(folder: Path) -> None:
    """Remove a folder, if it is there."""
    if not isinstance(folder, Remote):
        shutil.rmtree(folder, ignore_errors=True)
        return
    with errors_of(folder), contextlib.suppress(FileNotFoundError):
        folder.filesystem.rm(folder.key, recursive=True)


def each(work: Callable[[P], T], items: Iterable[P], at_once: int) -> Iterator[T]:
    """What `work` makes of each item, in their order, several at a time."""
    if at_once == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(work, items)


def requests_to(path: Path) -> int:
    """How many files below `path` are best asked for at the same time."""
    if not isinstance(path, Remote):
        return 1
    return WEB_REQUESTS if path.is_web else REQUESTS


def read_range(path: Path, start: int, end: int) -> bytes:
    """The bytes of a file from `start` up to, and without, `end`; fewer where it ends before. Raises FileNotFoundError, Refused
    where asking again is vain, and OSError."""
    if isinstance(path, Remote):
        with errors_of(path):
            content: bytes = path.filesystem.cat_file(path.key, start=start, end=end)
        return content
    with path.open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def sha256(file: Path) -> str:
    """The digest of a file's content, 64 hex digits."""
    with fetch(file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def blocks_of(file: Path, size: int = 1 << 20) -> Iterator[bytes]:
    """The content of a file as it is now; of a store it is read there, whatever copy is here."""
    with contextlib.ExitStack() as stack:
        if isinstance(file, Remote):
            stack.enter_context(errors_of(file))
            opened = stack.enter_context(file.filesystem.open(file.key, "rb", cache_type="none", block_size=size))
        else:
            opened = stack.enter_context(file.open("rb"))
        while block := opened.read(size):
            yield block


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_alive(process: int) -> bool:
    """Whether there is a process of this id on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
