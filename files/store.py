"""Copies of whole files to and from their places, on a disk or in an object store: the only way in which this
program writes.

A file is created under another name, on a disk beside its place, for a store in a folder of this machine, and
gets its name when it is whole: nothing is ever streamed to a name that others read. A file that must not be
overwritten is put with `replace=False`, and of several processes that do so at once one wins. A store's file
is read from a copy on this machine, whose SHA-256 is compared once, when it is copied.

Code that depends on the kind of place reads an attribute of `store_of(path)` and never the class of the path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from answermill.files.copies import CACHE as CACHE
from answermill.files.copies import digest_of
from answermill.files.copies import is_alive as is_alive
from answermill.files.disk_store import DiskStore
from answermill.files.disk_store import sync as sync
from answermill.files.object_store import REQUESTS as REQUESTS
from answermill.files.object_store import Changed as Changed
from answermill.files.object_store import ObjectStore, WebServer
from answermill.files.object_store import in_parallel as in_parallel
from answermill.files.remote import Remote

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from answermill.files.remote import Information


class Store(Protocol):
    """A path and the properties of its place: a disk, an object store, or a web server."""

    is_local: ClassVar[bool]
    """True if files are opened in place; those of other places are fetched first."""
    has_locks: ClassVar[bool]
    """True if a lock keeps a run folder for one command. Without locks another command may be at work in it,
    and files that no manifest names may be that command's: no command sweeps before the manifests exist."""
    has_half_written: ClassVar[bool]
    """True if a killed process leaves files and folders under temporary names."""
    is_quick: ClassVar[bool]
    """True if small files may be written and listed every second; elsewhere each is a request, and costs."""
    is_listed: ClassVar[bool]
    """True if the place lists the files of a folder."""
    at_once: ClassVar[int]
    """Best number of requests at the same time."""

    def check(self) -> None:
        """Raises an OSError if the place cannot be reached or refuses us; NotHere if it is only read."""

    def creating(self) -> AbstractContextManager[Path]: ...
    def put(self, new: Path, replace: bool) -> None: ...
    def publishing(self, last: str) -> AbstractContextManager[Path]: ...
    def fetch(self, digest: str | None) -> Path: ...
    def fetch_tree(self, files: Mapping[str, str] | None) -> Path: ...
    def read_range(self, start: int, end: int) -> bytes: ...
    def blocks(self, size: int) -> Iterator[bytes]: ...
    def remove_tree(self) -> None: ...
    def remove_if_empty(self) -> None: ...

    def known(self) -> Path:
        """Path of a file; a store's has the store's present description. Raises FileNotFoundError if there is
        no file."""
        ...

    def stated(self) -> Information | None:
        """A web server's description of the file, which need not be requested again; None for a file of a
        store or a disk."""
        ...

    def remember(self, information: Information) -> None:
        """Use a description that was `stated` on another machine in place of a request to the server."""
        ...

    def version(self) -> str:
        """Hex digits that change with the content of the file."""
        ...

    def files(self) -> Iterator[Path]:
        """All files below the folder; links to folders are followed."""
        ...

    def matches(self) -> Iterator[Path]:
        """Files and folders that match the path, an absolute pattern."""
        ...

    def parquet(self) -> ds.Dataset:
        """The file, to be read in part."""
        ...


def store_of(path: Path) -> Store:
    """Store of a path. Only this function depends on the class of the path."""
    if not isinstance(path, Remote):
        return DiskStore(path)
    return WebServer(path) if path.is_web else ObjectStore(path)


def creating(path: Path) -> AbstractContextManager[Path]:
    """Path on this machine at which a file or folder can be created, to be `put` to `path` in the block;
    leftovers are deleted at its end. On a disk it is beside `path`, so that it only has to be renamed."""
    return store_of(path).creating()


def is_temporary(name: str) -> bool:
    """True for a temporary name: a file or folder that a killed process left half-written."""
    return name.startswith(".") and name.endswith(".tmp")


def put(new: Path, path: Path, replace: bool = True) -> bool:
    """Give a finished file of this machine, from `creating`, its place: whole, or not at all. If not
    `replace`, an existing file stays, and the result is False."""
    try:
        store_of(path).put(new, replace)
    except FileExistsError:
        return False
    return True


def publishing(folder: Path, last: str) -> AbstractContextManager[Path]:
    """Path at which to create a folder that belongs at `folder`: `folder` itself, or for a store a path of
    this machine, which is put into the store when the block succeeds, the file `last` at the end."""
    return store_of(folder).publishing(last)


def fetch(path: Path, digest: str | None = None) -> Path:
    """The file itself or, for a store, this machine's copy: of the version with this SHA-256, or of the
    present one without a digest. Raises FileNotFoundError, Changed, and OSError if the store cannot be
    read."""
    return store_of(path).fetch(digest)


def fetch_tree(path: Path, files: Mapping[str, str] | None = None) -> Path:
    """The folder itself or, for a store, this machine's copy of all its files, or of `files`: name in the
    folder → SHA-256.

    Named files must be in a folder whose files never change. Raises the errors of `fetch`.
    """
    return store_of(path).fetch_tree(files)


def remove_tree(folder: Path) -> None:
    """Remove a folder, if it exists."""
    store_of(folder).remove_tree()


def remove_if_empty(folder: Path) -> None:
    """Remove a folder that has no entry; a store has no such folders."""
    store_of(folder).remove_if_empty()


def requests_to(path: Path) -> int:
    """Best number of requests for files below `path` at the same time."""
    return store_of(path).at_once


def read_range(path: Path, start: int, end: int) -> bytes:
    """Bytes of a file from `start` up to, and without, `end`; fewer if it ends before. Raises
    FileNotFoundError, Refused if another request would be in vain, and OSError."""
    return store_of(path).read_range(start, end)


def sha256(file: Path) -> str:
    """SHA-256 of a file's content, 64 hex digits."""
    return digest_of(fetch(file))


def blocks_of(file: Path, size: int = 1 << 20) -> Iterator[bytes]:
    """Blocks of a file's present content; a store's file is read there, not from a copy."""
    return store_of(file).blocks(size)
