"""Files and folders that exist complete or not at all, and survive a power loss.

A file is written under a temporary name beside its own, `.NAME.<random>.tmp`, written through to the disk
(fsync) and renamed; then its folder, which holds the name, is written through as well. Leftovers of a killed
process have such a temporary name. A file of an object store is put there whole (`store.py`). Written files
are checked when they are read: JSON by its shape, other files by their size and SHA-256.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from answermill.files.store import creating, put, store_of
from answermill.files.store import sha256 as sha256
from answermill.files.store import sync as sync

T = TypeVar("T")
_FORMER = ".former"


@contextlib.contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Temporary path to write to. The file there becomes `file` when the block succeeds, and is deleted when
    it fails.

    Raises FileExistsError if `file` is a device, a pipe or a descriptor: those are never replaced.
    """
    if _is_stream(file):
        raise FileExistsError(errno.EEXIST, "a device or a pipe, where a file is to be written", str(file))
    with creating(file) as temporary:
        yield temporary
        put(temporary, file)


def write_text(file: Path, text: str, replace: bool = True) -> bool:
    """Write a whole file. If not `replace`, an existing file stays, and the result is False."""
    if replace:
        with whole_text(file) as write:
            write(text)
        return True
    with creating(file) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        return put(temporary, file, replace=False)


@contextlib.contextmanager
def whole_text(file: Path) -> Iterator[Callable[[str], object]]:
    """Function that appends text; the file gets its name when the block succeeds. A device, a pipe or a
    descriptor, such as /dev/stdout, is written to directly."""
    if _is_stream(file):
        with file.open("a", encoding="utf-8", newline="\n") as stream:
            yield stream.write
        return
    with replacing(file) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as opened:
        yield opened.write


def _is_stream(file: Path) -> bool:
    """True if the path names a device, a pipe or a descriptor, which a file in its place would take from all
    processes."""
    if not store_of(file).is_local:
        return False
    descriptors = Path("/proc")
    if descriptors in file.parent.resolve().parents or (
        file.is_symlink() and descriptors in file.readlink().parents
    ):
        return True
    return file.exists() and not file.is_file() and not file.is_dir()


def link_or_copy(file: Path, new: Path) -> None:
    """Give a file that never changes a second name, in a folder that is made if need be; on another file
    system, or one without such names, a copy."""
    new.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, new)
    except OSError:
        shutil.copyfile(file, new)


def replace_folder(new: Path, folder: Path) -> None:
    """Give the complete folder `new` the name `folder`, on the same file system; the former folder is
    deleted.

    Of several processes that do so at once the last one wins. After a kill between the two renamings
    `recover_folder` restores the former folder; all readers and writers of the folder call it first.
    """
    recover_folder(folder)
    for path in (*new.rglob("*"), new):
        sync(path)
    formers = [_moved_away(folder)]
    while not _renamed(new, folder):
        formers.append(_moved_away(folder))
    sync(folder.parent)
    for former in formers:
        shutil.rmtree(former, ignore_errors=True)


def recover_folder(folder: Path) -> None:
    """Restore the folder that a killed `replace_folder` had moved away, unless the new one got its name, and
    delete its leftovers. Safe at any time: another process that is replacing the folder at this moment
    succeeds all the same."""
    left = list(folder.parent.glob(f".{folder.name}.*{_FORMER}"))
    for former in left:
        with contextlib.suppress(OSError):  # another process was faster, or only reading is allowed here
            former.rename(folder)
    if folder.exists():
        for former in left:
            shutil.rmtree(former, ignore_errors=True)


def _moved_away(folder: Path) -> Path:
    """Move a folder away, if there is one; returns its name from now on."""
    former = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{_FORMER}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(former)
    return former


def _renamed(new: Path, folder: Path) -> bool:
    """Rename `new` to `folder`; False if another folder got the name meanwhile."""
    try:
        new.rename(folder)
    except OSError as e:
        if e.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True


class WrongShape(ValueError):
    """A JSON file is not one that this program wrote. `fault`: the fault of `file`, as a clause."""

    def __init__(self, file: Path, fault: str, joint: str = ": ") -> None:
        super().__init__(file, fault, joint)
        self.file, self.fault, self._joint = file, fault, joint

    def __str__(self) -> str:
        return f"{self.file}{self._joint}{self.fault}"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """Size and digest of a file when it was written: bytes, and 64 hex digits."""

    size: int
    sha256: str


def read_json(file: Path, shape: type[T]) -> T:
    """Content of a JSON file that holds a `shape`: a dataclass, `dict[str, int]`, ….

    Raises FileNotFoundError; WrongShape if it is not UTF-8, not JSON, or of another shape.
    """
    return parse_json(file, file.read_bytes(), shape)


def parse_json(file: Path, content: bytes, shape: type[T]) -> T:
    """Value of the file's `content`, like `read_json`."""
    form: Any = shape
    try:
        value: T = _adapter(form).validate_json(content, strict=True)
        return value
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        place = ".".join(str(key) for key in first["loc"])
        raise WrongShape(file, f"{place + ': ' if place else ''}{first['msg']}") from None


@lru_cache(maxsize=64)
def _adapter(shape: Any) -> TypeAdapter[Any]:
    """Adapter of a shape, cached since building one takes longer than reading a small file."""
    return TypeAdapter(shape)


def file_size(path: Path) -> int | None:
    """Bytes of a file, looked up once; None if there is no file at `path`."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size if S_ISREG(status.st_mode) else None


def changes(folder: Path, files: Mapping[str, ListedFile], checksums: bool) -> Iterator[str]:
    """Changes to the files since they were listed, as of `change_of`, for each missing or changed file."""
    for name, file in files.items():
        if (change := change_of(folder / name, file, checksums)) is not None:
            yield change


def change_of(path: Path, file: ListedFile, checksums: bool) -> str | None:
    """Change to a file since it was listed: a clause that begins with its path; None if there is none.

    Sizes are compared and, with `checksums`, every byte.
    """
    size = file_size(path)
    if size is None:
        return f"{path} is missing"
    if size != file.size:
        return f"{path} has {size:,} bytes, {file.size:,} were written"
    if checksums and sha256(path) != file.sha256:
        return f"{path} was changed since it was written (SHA-256)"
    return None
