"""Paths of object stores, such as s3://bucket/run, in Amazon S3 and stores with its protocol, Google Cloud
Storage and Azure; and of web servers, which are only read (web.py).

A `Remote` is a `Path`: it is joined, named and listed like a path of a disk. But its file cannot be opened:
`store.fetch` copies it to this machine, and `store.put` copies a finished file to the store.
"""

from __future__ import annotations

import glob
import hashlib
import os
import posixpath
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PosixPath
from stat import S_IFDIR, S_IFREG
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from answermill.files.extras import ExtraMissing
from answermill.files.store_errors import errors_of

EXTRAS = {"s3": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure"}
"""Scheme of URLs that are read and written → extra of this package that it needs."""
WEB = ("https", "http")
"""Schemes of URLs that are only read."""
WEB_REQUESTS = 4
"""Most requests of one process to a web server at the same time."""
_OPTIONS = {"s3": {"config_kwargs": {"retries": {"mode": "standard"}}}}
"""Options of fsspec, by scheme. Amazon's client tries three times, or AWS_MAX_ATTEMPTS, with growing pauses,
and waits 15 seconds for each answer."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")  # `Path` makes one slash of two
Information = dict[str, Any]
"""A store's description of an object or a folder: fsspec's "type" and "size", and what the store adds."""
_listings: list[tuple[Path, dict[Path, Information]]] = []
"""Listings of the open `listed` blocks of this process, for all of its threads."""


class NotHere(TypeError):
    """A path of another place was given where one of this machine is needed."""

    exit_code = 78


def scheme_of(written: str | Path) -> str:
    """Scheme of a URL, such as 's3'; '' for a path."""
    url = _URL.match(str(written))
    return url[1].lower() if url else ""


def as_path(written: str | Path) -> Path:
    """Path, or `Remote`, of a written path or URL; `~` is replaced. Raises NotHere for a URL of a scheme that
    is not read, ExtraMissing for one whose library is not installed."""
    scheme = scheme_of(written)
    if not scheme:
        return Path(written).expanduser()
    if scheme not in (*EXTRAS, *WEB):
        known = ", ".join(f"{name}://" for name in (*EXTRAS, *WEB))
        raise NotHere(
            f"{_with_slashes(str(written))}: of URLs only {known} are read; mount or copy it, and give that "
            "path"
        )
    remote = Remote(str(written))
    _filesystem(scheme, remote.bucket, os.getpid())
    return remote


class Status(NamedTuple):
    """Size, version and kind of an object or a folder, by the names of `os.stat_result`."""

    st_size: int
    st_mtime_ns: int
    """Not a time, but a number that changes with the content."""
    st_mode: int


class Remote(PosixPath):
    """A file or folder of an object store.

    It has the methods of Path that are used here; folders need not be created, and exist while a file is in
    them. All other methods that need a file of this machine, such as `open`, raise NotHere. Errors of the
    store are OSErrors. A path from a listing has the store's description of it at that time.
    """

    _written = ""  # URL of a web server's file, which the parts of a path do not give back

    def __new__(cls, *segments: Any) -> Remote:
        path = super().__new__(cls, *segments)
        if len(segments) == 1 and isinstance(segments[0], str) and scheme_of(segments[0]) in WEB:
            path._written = segments[0]
        return path

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Remote) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __truediv__(self, name: str | os.PathLike[str]) -> Remote:
        """A file below; of a web server, its URL and the name are joined as they are."""
        if not self._written or not isinstance(name, str):
            return super().__truediv__(name)
        return type(self)(f"{self._written.removesuffix('/')}/{name}")

    described: Information | None = None
    """The store's description at the time of a listing or of `known`; None if the store must be asked."""

    def __str__(self) -> str:
        return _with_slashes(self._written or super().__str__())

    def __fspath__(self) -> str:
        raise NotHere(
            f"{self}: a path on a mounted file system is needed here, no URL; copy it, and give that path"
        )

    @property
    def name(self) -> str:
        """The last name of the path; of a web server's file, without the query of its URL."""
        if not self._written:
            return super().name
        return urlsplit(self._written).path.rstrip("/").rpartition("/")[2]

    @property
    def bucket(self) -> str:
        return self.parts[1] if len(self.parts) > 1 else ""

    @property
    def scheme(self) -> str:
        return self.parts[0].removesuffix(":").lower()

    @property
    def is_web(self) -> bool:
        """True for a path of a web server, whose files are only read."""
        return self.scheme in WEB

    @property
    def filesystem(self) -> Any:
        """File system of fsspec, which holds the connections."""
        return _filesystem(self.scheme, self.bucket, os.getpid())

    @property
    def key(self) -> str:
        """Name of the path in `filesystem`."""
        return str(self.filesystem._strip_protocol(str(self)))

    def is_absolute(self) -> bool:
        return True

    def absolute(self) -> Remote:
        return self

    def resolve(self, strict: bool = False) -> Remote:
        """The path without '..'; a web server's is as it was written."""
        return (
            self
            if self._written or ".." not in self.parts
            else self.with_parts(posixpath.normpath("/".join(self.parts[1:])))
        )

    def with_parts(self, parts: str) -> Remote:
        """Another path of the same store. `parts`: bucket and names, with slashes."""
        return type(self)(f"{self.parts[0]}/{parts}")

    def exists(self, **_: Any) -> bool:
        return self.information() is not None

    def is_file(self, **_: Any) -> bool:
        return (self.information() or {}).get("type") == "file"

    def is_dir(self, **_: Any) -> bool:
        return (self.information() or {}).get("type") == "directory"

    def is_symlink(self) -> bool:
        return False

    def stat(self, **_: Any) -> Status:  # type: ignore[override]  # of the many fields of a disk's files it has three
        information = self.information()
        if information is None:
            raise FileNotFoundError(f"{self}: no such file")
        kind = S_IFREG if information["type"] == "file" else S_IFDIR
        return Status(information["size"], int(_version_of(information), 16), kind)

    def information(self) -> Information | None:
        """The store's description of the object, or of the folder; None if there is neither."""
        for folder, entries in _listings:
            if folder == self or folder in self.parents:
                return entries.get(self)
        if self.described is not None:
            return self.described
        with errors_of(self):
            try:
                return dict(self.filesystem.info(self.key))
            except FileNotFoundError:
                return None

    def known(self) -> Remote:
        """The same path, with the store's present description. Raises FileNotFoundError if it is no file."""
        path, information = type(self)(str(self)), self.information()
        if information is None or information.get("type") != "file":
            raise FileNotFoundError(f"{self}: no such file")
        path.described = information
        return path

    def version(self) -> str:
        """15 hex digits that change with the content."""
        return _version_of(self.information() or {})

    def iterdir(self) -> Generator[Remote]:
        """Raises FileNotFoundError if there is no such folder."""
        with errors_of(self):
            names = self.filesystem.ls(self.key, detail=False)
        yield from (self / posixpath.basename(name.rstrip("/")) for name in names)

    def glob(self, pattern: str, **_: Any) -> Generator[Remote]:
        with errors_of(self):
            names = self.filesystem.glob(f"{glob.escape(self.key)}/{pattern}", detail=True)
        yield from (self._below(name, information) for name, information in sorted(names.items()))

    def rglob(self, pattern: str, **_: Any) -> Generator[Remote]:
        """Files below, without folders; `pattern` matches their names alone."""
        yield from (path for path in self.files() if path.match(pattern))

    def files(self) -> list[Remote]:
        """All files below, by one listing."""
        with errors_of(self):
            names = self.filesystem.find(self.key, detail=True)
        return [self._below(name, information) for name, information in sorted(names.items())]

    def _below(self, name: str, information: Information) -> Remote:
        path = self / name[len(self.key) + 1 :]
        path.described = information
        return path

    def read_bytes(self) -> bytes:
        with errors_of(self):
            content: bytes = self.filesystem.cat_file(self.key)
        return content

    def read_text(self, encoding: str | None = None, errors: str | None = None, **_: Any) -> str:
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Does nothing: a folder exists when it has a file."""

    def rmdir(self) -> None:
        """Does nothing: a folder is gone when it has no file."""

    def check_bucket(self) -> None:
        """Raises an OSError if the store cannot be reached, refuses the credentials, or has no such bucket;
        NotHere if it is only read."""
        if self.is_web:
            raise NotHere(
                f"{self}: {self.scheme}:// is only read; give a folder, or a URL of {', '.join(EXTRAS)}"
            )
        if not self.exists():
            with errors_of(self):
                if not self.filesystem.exists(self.bucket):
                    raise FileNotFoundError("it is not among those that these credentials may see")

    def unlink(self, missing_ok: bool = False) -> None:
        self.described = None
        with errors_of(self):
            try:
                self.filesystem.rm_file(self.key)
            except FileNotFoundError:
                if not missing_ok:
                    raise


def name_from(path: Path, folder: Path) -> str:
    """Name of the path in a file of the folder: relative, or a URL if it is elsewhere."""
    if not isinstance(path, Remote) and not isinstance(folder, Remote):
        return os.path.relpath(path, folder)
    if path.parts[:2] != folder.parts[:2]:
        return str(path)
    return posixpath.relpath("/".join(path.parts[1:]), "/".join(folder.parts[1:]))


@contextmanager
def listed(folder: Path) -> Iterator[None]:
    """Take existence and size of files and folders below `folder` from one listing in the block. On a disk
    nothing is listed."""
    if not isinstance(folder, Remote):
        yield
        return

    entries: dict[Path, Information] = {path: path.described or {} for path in folder.files()}
    for path in list(entries):
        for parent in path.parents:
            if parent in entries:
                break
            entries[parent] = {"type": "directory", "size": 0}

    _listings.append((folder, entries))
    try:
        yield
    finally:
        _listings.pop()


def _version_of(information: Information) -> str:
    """15 hex digits that change with the content which the store describes."""
    tag = (
        information.get("ETag")
        or information.get("etag")
        or information.get("md5Hash")
        or information.get("created")
    )
    return hashlib.sha256(f"{information.get('size')} {tag}".encode()).hexdigest()[:15]


def _with_slashes(text: str) -> str:
    url = _URL.match(text)
    return f"{url[1]}://{text[url.end() :]}" if url else text


@cache
def _filesystem(scheme: str, bucket: str, process: int) -> Any:
    """File system of a bucket, one for all threads of a process."""
    from fsspec.core import url_to_fs

    if scheme in WEB:
        from answermill.files.web import WebFiles

        return WebFiles(scheme, bucket)

    try:
        filesystem = url_to_fs(f"{scheme}://{bucket}", use_listings_cache=False, **_OPTIONS.get(scheme, {}))[
            0
        ]
    except ImportError as e:
        extra = EXTRAS.get(scheme, "")
        raise ExtraMissing(
            f"{scheme}://{bucket}: {scheme}:// needs `pip install 'answermill[{extra}]'` ({e})"
        ) from None

    if scheme == "s3":
        filesystem.retries = 2  # beside the client's own, for a body that breaks off
    return filesystem
