"""Files and folders that are there complete or not at all, and stay after a power loss.

A file is written under a temporary name beside its own, `.NAME.<random>.tmp`, brought to the disk (fsync),
renamed, and then its folder, which holds the name, is brought to the disk as well. What a killed process
leaves has such a temporary name. A file of an object store is put there whole (`store.py`). What was written
is read again with suspicion: JSON of a known shape, and files by their size and SHA-256.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from answermill.files.store import creating, put, store_of
from answermill.files.store import sha256 as sha256
from answermill.files.store import sync as sync

T = TypeVar("T")
_FORMER = ".former"


@contextlib.contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A temporary path to write to. The file there becomes `file` when the block ends well, and is deleted
    when it fails.

    Raises FileExistsError if `file` is a device, a pipe or a descriptor: those are never replaced.
    """
    if _is_stream(file):
        raise FileExistsError(errno.EEXIST, "a device or a pipe, where a file is to be written", str(file))
    with creating(file) as temporary:
        yield temporary
        put(temporary, file)


def write_text(file: Path, text: str, replace: bool = True) -> bool:
    """Write a whole file. With `replace` False an existing file stays, and the result is False."""
    if replace:
        with whole_text(file) as write:
            write(text)
        return True
    with creating(file) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        return put(temporary, file, replace=False)


@contextlib.contextmanager
def whole_text(file: Path) -> Iterator[Callable[[str], object]]:
    """A function that appends text; the file gets its name when the block ends well. A device, a pipe or a
    descriptor, such as /dev/stdout, is written to as it is."""
    if _is_stream(file):
        with file.open("a", encoding="utf-8", newline="\n") as stream:
            yield stream.write
        return
    with replacing(file) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as opened:
        yield opened.write


def _is_stream(file: Path) -> bool:
    """Whether the name stands for a device, a pipe or a descriptor: a file in its place would take it from
    all."""
    if not store_of(file).is_local:
        return False
    descriptors = Path("/proc")
    if descriptors in file.parent.resolve().parents or (
        file.is_symlink() and descriptors in file.readlink().parents
    ):
        return True
    return file.exists() and not file.is_file() and not file.is_dir()


def replace_folder(new: Path, folder: Path) -> None:
    """Give the complete folder `new` the name `folder`, on the same file system; what had the name before is
    deleted.

    Of several that do so at once the last one stays. After a kill between the two renamings `recover_folder`
    brings the former folder back, which all who read the folder or replace it call first.
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
    """Bring back what `replace_folder` had moved away when it was killed, unless the new folder got its name;
    and delete what it had left. Safe at any time: another process that is replacing the folder at this moment
    succeeds all the same."""
    left = list(folder.parent.glob(f".{folder.name}.*{_FORMER}"))
    for former in left:
        with contextlib.suppress(OSError):  # another process was faster, or only reading is allowed here
            former.rename(folder)
    if folder.exists():
        for former in left:
            shutil.rmtree(former, ignore_errors=True)


def _moved_away(folder: Path) -> Path:
    """The name that the folder has now, if there was one."""
    former = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{_FORMER}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(former)
    return former


def _renamed(new: Path, folder: Path) -> bool:
    """Whether `new` has got the name; it has not if another folder got it meanwhile."""
    try:
        new.rename(folder)
    except OSError as e:
        if e.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True


class WrongShape(ValueError):
    """A JSON file is not one that this program wrote. `fault`: what is wrong with `file`, a clause."""

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
    """The content of a JSON file that holds a `shape`: a dataclass, `dict[str, int]`, ….

    Raises FileNotFoundError; WrongShape if it is not UTF-8, not JSON, or of another shape.
    """
    return parse_json(file, file.read_bytes(), shape)


def parse_json(file: Path, content: bytes, shape: type[T]) -> T:
    """The value of a content that the file was read to have, as `read_json` gives it."""
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
    """Building one takes longer than reading a small file."""
    return TypeAdapter(shape)


def changes(folder: Path, files: Mapping[str, ListedFile], checksums: bool) -> Iterator[str]:
    """Changes to the files since they were listed: a clause for each that is missing or other, beginning with
    its path.

    Sizes are compared and, with `checksums`, every byte.
    """
    for name, file in files.items():
        path = folder / name
        if not path.is_file():
            yield f"{path} is missing"
        elif (size := path.stat().st_size) != file.size:
            yield f"{path} has {size:,} bytes, {file.size:,} were written"
        elif checksums and sha256(path) != file.sha256:
            yield f"{path} was changed since it was written (SHA-256)"
