"""Whole files to and from their places, on a disk or in an object store; the only way in which this program
writes.

A file is created under another name, on a disk beside its place, for a store in a folder of this machine, and
gets its name whole: nothing is ever streamed to a name that others read. What must not be overwritten is put
with `replace=False`, and of several that do so at once one wins. What is read from a store is read from a
copy on this machine, whose SHA-256 is compared once, when it comes.

Where the rest of the program must know which kind of place a path is of, it asks `store_of(path)` a question
by its name, and never for the class of the path.
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
from answermill.files.object_store import each as each
from answermill.files.remote import Remote

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from answermill.files.remote import Information


class Store(Protocol):
    """A path, and the answers of its place: a disk, an object store, or a web server."""

    is_local: ClassVar[bool]
    """Whether files are opened where they are; those of other places are fetched first."""
    has_locks: ClassVar[bool]
    """Whether a lock keeps a run folder for one command. Without locks another command may be at work in it,
    and what no manifest names may be that command's: nobody sweeps before the manifests are there."""
    has_half_written: ClassVar[bool]
    """Whether a killed process leaves files and folders under temporary names."""
    is_quick: ClassVar[bool]
    """Whether small files may be written and listed every second; elsewhere each is a request, and costs."""
    is_listed: ClassVar[bool]
    """Whether the place says which files are in a folder."""
    at_once: ClassVar[int]
    """Files that are best asked for at the same time."""

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
        """The path of a file; a store's knows what the store says of it now. Raises FileNotFoundError if
        there is no file."""
        ...

    def stated(self) -> Information | None:
        """A web server's description of the file, which need not be asked again; None for a file of a store
        or a disk."""
        ...

    def remember(self, said: Information) -> None:
        """Take what was `stated` on another machine for what the server says."""
        ...

    def version(self) -> str:
        """Hex digits that are others for another content of the file."""
        ...

    def files(self) -> Iterator[Path]:
        """Every file below the folder, of folders that are links too."""
        ...

    def matches(self) -> Iterator[Path]:
        """The files and folders that the path is a pattern of; it is absolute."""
        ...

    def parquet(self) -> ds.Dataset:
        """The file, to be read in part."""
        ...


def store_of(path: Path) -> Store:
    """The one place where a path is asked for its class."""
    if not isinstance(path, Remote):
        return DiskStore(path)
    return WebServer(path) if path.is_web else ObjectStore(path)


def creating(path: Path) -> AbstractContextManager[Path]:
    """A path on this machine at which a file or folder can be created, to be `put` to `path` in the block;
    what is still there when it ends is deleted. On a disk it is beside `path`, so that it only has to be
    renamed."""
    return store_of(path).creating()


def is_temporary(name: str) -> bool:
    """Whether a file or folder has such a name: what a killed process left half-written."""
    return name.startswith(".") and name.endswith(".tmp")


def put(new: Path, path: Path, replace: bool = True) -> bool:
    """Give a finished file of this machine, from `creating`, its place: whole, or not at all. With `replace`
    False a file that is there stays, and the result is False."""
    try:
        store_of(path).put(new, replace)
    except FileExistsError:
        return False
    return True


def publishing(folder: Path, last: str) -> AbstractContextManager[Path]:
    """A path at which to create a folder that belongs at `folder`: there, or for a store on this machine, and
    it is put there when the block ends well, the file `last` at the end."""
    return store_of(folder).publishing(last)


def fetch(path: Path, digest: str | None = None) -> Path:
    """The file itself, or, of a store, this machine's copy of it; with a digest that whose SHA-256 this is,
    without one the present one. Raises FileNotFoundError, Changed, and OSError if the store cannot be
    read."""
    return store_of(path).fetch(digest)


def fetch_tree(path: Path, files: Mapping[str, str] | None = None) -> Path:
    """The folder itself, or, of a store, this machine's copy of these files of it, or of all: name in the
    folder → SHA-256.

    Files that are named must be those of a folder whose files never change. Raises as `fetch`.
    """
    return store_of(path).fetch_tree(files)


def remove_tree(folder: Path) -> None:
    """Remove a folder, if it is there."""
    store_of(folder).remove_tree()


def remove_if_empty(folder: Path) -> None:
    """Remove a folder that has no entry; a store has no such folders."""
    store_of(folder).remove_if_empty()


def requests_to(path: Path) -> int:
    """The number of files below `path` that are best asked for at the same time."""
    return store_of(path).at_once


def read_range(path: Path, start: int, end: int) -> bytes:
    """The bytes of a file from `start` up to, and without, `end`; fewer where it ends before. Raises
    FileNotFoundError, Refused where asking again is vain, and OSError."""
    return store_of(path).read_range(start, end)


def sha256(file: Path) -> str:
    """The digest of a file's content, 64 hex digits."""
    return digest_of(fetch(file))


def blocks_of(file: Path, size: int = 1 << 20) -> Iterator[bytes]:
    """The content of a file as it is now; of a store it is read there, whatever copy is here."""
    return store_of(file).blocks(size)
