"""Files of this machine's disks and of mounted ones, which are opened in place."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from answermill.files.copies import digest_of

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from answermill.files.remote import Information


@dataclass(frozen=True, slots=True)
class DiskStore:
    """A path of a disk; see `store.Store`."""

    path: Path
    is_local: ClassVar[bool] = True
    has_locks: ClassVar[bool] = True
    has_half_written: ClassVar[bool] = True
    is_quick: ClassVar[bool] = True
    is_listed: ClassVar[bool] = True
    at_once: ClassVar[int] = 1

    def check(self) -> None:
        """Does nothing: a disk that cannot be written to raises its error on writing."""

    @contextlib.contextmanager
    def creating(self) -> Iterator[Path]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}.tmp")
        try:
            yield temporary
        finally:
            if temporary.is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            temporary.unlink(missing_ok=True)

    def put(self, new: Path, replace: bool) -> None:
        sync(new)
        if replace:
            new.replace(self.path)
        else:
            os.link(new, self.path)  # unlike a renaming it fails if the file exists
        sync(self.path.parent)

    @contextlib.contextmanager
    def publishing(self, last: str) -> Iterator[Path]:
        yield self.path

    def fetch(self, digest: str | None) -> Path:
        return self.path

    def fetch_tree(self, files: Mapping[str, str] | None) -> Path:
        return self.path

    def known(self) -> Path:
        if not self.path.is_file():
            raise FileNotFoundError(f"{self.path}: no such file")
        return self.path

    def stated(self) -> Information | None:
        return None

    def remember(self, information: Information) -> None:
        """Does nothing: a disk is read again."""

    def version(self) -> str:
        return digest_of(self.path)

    def files(self) -> Iterator[Path]:
        for top, _, names in os.walk(self.path, followlinks=True):
            yield from (Path(top) / name for name in names)

    def matches(self) -> Iterator[Path]:
        root = Path(self.path.anchor)
        with contextlib.suppress(ValueError):  # a part such as '**x' is no pattern before Python 3.13
            yield from root.glob(str(self.path.relative_to(root)))

    def read_range(self, start: int, end: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    def blocks(self, size: int) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            while block := file.read(size):
                yield block

    def parquet(self) -> ds.Dataset:
        import pyarrow.dataset as ds  # takes a while, and few commands need it

        return ds.dataset(str(self.path), format="parquet")

    def remove_tree(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def remove_if_empty(self) -> None:
        if not any(self.path.iterdir()):
            self.path.rmdir()


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, through to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
