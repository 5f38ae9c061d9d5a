"""Files of object stores, and of web servers, which are only read: they are copied to this machine, and
finished files are put into a store whole."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from answermill.files.copies import CACHE, digest_of
from answermill.files.remote import WEB_REQUESTS, Information, Remote
from answermill.files.store_errors import errors_of

if TYPE_CHECKING:
    import pyarrow.dataset as ds

P = TypeVar("P")
T = TypeVar("T")
REQUESTS = 16
"""Most requests to a store at the same time."""
PATIENCE_S, SLOWEST = 120, 1_000_000
"""Seconds, and bytes a second, in which a file must be put: Amazon's client would wait for ever for a store
that accepts a request and never answers 100 Continue."""


class Changed(OSError):
    """A file is not the one that was written."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A path of an object store; see `store.Store`."""

    path: Remote
    is_local: ClassVar[bool] = False
    has_locks: ClassVar[bool] = False
    has_half_written: ClassVar[bool] = False
    is_quick: ClassVar[bool] = False
    is_listed: ClassVar[bool] = True
    at_once: ClassVar[int] = REQUESTS

    def check(self) -> None:
        self.path.check_bucket()

    @contextlib.contextmanager
    def creating(self) -> Iterator[Path]:
        with CACHE.scratch() as folder:
            yield folder / self.path.name

    def put(self, new: Path, replace: bool) -> None:
        limit = PATIENCE_S + new.stat().st_size / SLOWEST
        with errors_of(self.path):
            mode = "overwrite" if replace else "create"
            self.path.filesystem.put_file(str(new), self.path.key, mode=mode, timeout=limit)

    @contextlib.contextmanager
    def publishing(self, last: str) -> Iterator[Path]:
        with self.creating() as new:
            yield new
            self.put_tree(new, last)

    def put_tree(self, new: Path, last: str) -> None:
        """Put the files of a finished folder of this machine here, at the end the one named `last`, which
        lists them."""
        files = [file for file in sorted(new.rglob("*")) if file.is_file() and file != new / last]
        for _ in in_parallel(
            lambda file: self.below(file.relative_to(new).as_posix()).put(file, True), files, self.at_once
        ):
            pass
        self.below(last).put(new / last, True)

    def fetch(self, digest: str | None) -> Path:
        path = self.path.known() if digest is None else self.path
        return _copy(path, CACHE.entry(path, digest or path.version()) / path.name, digest)

    def fetch_tree(self, files: Mapping[str, str] | None) -> Path:
        present = [] if files is not None else self.path.files()
        if files is None and not present:
            raise FileNotFoundError(f"{self.path}: no such folder")

        # A copy belongs to the versions of all its files, or to those of files that never change.
        versions = "".join(f"{file} {file.version()}\n" for file in present)
        entry = CACHE.entry(self.path, versions) / self.path.name
        digests: list[tuple[str, str | None]] = [
            (file.relative_to(self.path).as_posix(), None) for file in present
        ]
        digests += (files or {}).items()

        for _ in in_parallel(
            lambda file: _copy(self.path / file[0], entry / file[0], file[1]), digests, self.at_once
        ):
            pass

        return entry

    def below(self, name: str) -> ObjectStore:
        """Store of a file in this folder."""
        return ObjectStore(self.path / name)

    def known(self) -> Path:
        return self.path if self.path.described is not None else self.path.known()

    def stated(self) -> Information | None:
        return None

    def remember(self, information: Information) -> None:
        self.path.described = information

    def version(self) -> str:
        return self.path.version()

    def files(self) -> Iterator[Path]:
        return iter(self.path.files())

    def matches(self) -> Iterator[Path]:
        return self.path.with_parts(self.path.bucket).glob("/".join(self.path.parts[2:]))

    def read_range(self, start: int, end: int) -> bytes:
        with errors_of(self.path):
            content: bytes = self.path.filesystem.cat_file(self.path.key, start=start, end=end)
        return content

    def blocks(self, size: int) -> Iterator[bytes]:
        with (
            errors_of(self.path),
            self.path.filesystem.open(self.path.key, "rb", cache_type="none", block_size=size) as opened,
        ):
            while block := opened.read(size):
                yield block

    def parquet(self) -> ds.Dataset:
        import pyarrow.dataset as ds
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        with errors_of(self.path):
            filesystem = PyFileSystem(FSSpecHandler(self.path.filesystem))
            return ds.dataset([self.path.key], filesystem=filesystem, format="parquet")

    def remove_tree(self) -> None:
        with errors_of(self.path), contextlib.suppress(FileNotFoundError):
            self.path.filesystem.rm(self.path.key, recursive=True)

    def remove_if_empty(self) -> None:
        """Does nothing: a folder exists as long as it has files."""


class WebServer(ObjectStore):
    """A URL of a web server; see `store.Store`."""

    is_listed = False
    at_once = WEB_REQUESTS

    def stated(self) -> Information | None:
        return self.path.described


def _copy(path: Remote, copy: Path, digest: str | None) -> Path:
    """Copy the file to this machine, unless it was copied before; returns `copy`."""
    if copy.is_file():
        return copy

    with CACHE.scratch() as folder:
        new = folder / path.name
        with errors_of(path):
            path.filesystem.get_file(path.key, str(new))

        # A file with a known digest is compared with it; else the size shows a file that was cut off or
        # replaced meanwhile.
        if digest is not None and digest_of(new) != digest:
            raise Changed(f"{path} was changed since it was written (SHA-256)")
        if digest is None and (size := new.stat().st_size) != path.stat().st_size:
            raise Changed(f"{path} has {size:,} bytes, it had {path.stat().st_size:,} when it was looked up")

        copy.parent.mkdir(parents=True, exist_ok=True)
        new.replace(copy)

    CACHE.shrink()
    return copy


def in_parallel(work: Callable[[P], T], items: Iterable[P], at_once: int) -> Iterator[T]:
    """Results of `work` on each item, in their order, `at_once` at a time."""
    if at_once == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(work, items)
