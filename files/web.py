"""Files of web servers, which are only read: whole, or some bytes of them, politely and with patience.

Every request names its sender (User-Agent), and a process has few requests open to a server at a time. A
request that is answered by 429, 500, 502, 503 or 504, or not at all, is sent again after growing pauses, or
after Retry-After; a body that breaks off is requested again from that byte on. An error that would repeat is
raised at once.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin
from urllib.request import getproxies, proxy_bypass

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, Retry, Timeout
from urllib3.exceptions import HTTPError

from answermill.files.remote import WEB_REQUESTS
from answermill.files.store_errors import Refused

TRIES = 7
"""Most requests for the same bytes; the count restarts when a body breaks off after at least PROGRESS
bytes."""
PROGRESS = 1 << 20
PAUSE_S, LONGEST_PAUSE_S, LONGEST_RETRY_AFTER_S = 1.0, 60.0, 600
TIMEOUT_S = 60.0
"""Seconds without a byte after which a request fails."""
BLOCK = 1 << 18
_PASSING = (408, 425, 429)
"""Statuses below 500 of errors that pass. By others, and 501, servers refuse a HEAD whose GET they answer,
such as those of signed URLs."""


class WebFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """File system of fsspec for one server's files, whose names are URLs. Folders cannot be listed.

    Raises FileNotFoundError (404, 410), PermissionError (401, 403), Refused, and OSError for passing errors.
    """

    protocol = ("https", "http")
    cachable = False

    def __init__(self, scheme: str, host: str) -> None:
        super().__init__()
        self._retry = Retry(
            total=TRIES - 1,
            status_forcelist=(429, 500, 502, 503, 504),
            raise_on_status=False,
            backoff_factor=PAUSE_S,
            backoff_jitter=PAUSE_S,
            backoff_max=LONGEST_PAUSE_S,
            retry_after_max=LONGEST_RETRY_AFTER_S,
        )

        settings: dict[str, Any] = {
            "maxsize": WEB_REQUESTS,
            "block": True,
            "timeout": Timeout(connect=TIMEOUT_S, read=TIMEOUT_S),
            "headers": {"User-Agent": user_agent(), "Accept-Encoding": "identity"},
        }

        proxy = getproxies().get(scheme) if not proxy_bypass(host) else None
        self._pool = ProxyManager(proxy, **settings) if proxy else PoolManager(**settings)
        self._asks_for_urls = bool(proxy) and scheme == "http"  # of its proxy

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        """Name of a file: the URL itself."""
        return path

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """The description of a file, by HEAD. A server that refuses HEAD, or names no length, or 0 for what
        it has not looked up, is asked for the first byte, which gives the length as well, and one that
        ignores that for the whole file."""
        with self._answered("HEAD", path) as response:
            response.drain_conn()  # there is no body; the connection can be used again
            size = response.headers.get("Content-Length", "")
            if response.status < 300 and size.isdecimal() and int(size):
                return {"name": path, "type": "file", "size": int(size), "ETag": _tag(response)}
            is_refusal = 400 <= response.status < 500 and response.status not in _PASSING
            if not is_refusal and response.status != 501:
                _check(response)

        with self._answered("GET", path, {"Range": "bytes=0-0"}) as response:
            if response.status != 416:  # the answer for an empty file
                _check(response)
            return {"name": path, "type": "file", "size": _size(response), "ETag": _tag(response)}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        raise Refused("a web server lists no folder; name each file, or give a list of paths")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Bytes from `start` up to, and without, `end`; fewer if the file ends before."""
        body = io.BytesIO()
        self._read(path, body, start or 0, end)
        return body.getvalue()

    def get_file(self, rpath: str, lpath: str, **_: Any) -> None:
        with Path(lpath).open("wb") as file:
            self._read(rpath, file)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> _WebFile:
        return _WebFile(self, path, mode, **options)

    def _read(self, path: str, out: BinaryIO, start: int = 0, end: int | None = None) -> None:
        """Write the bytes from `start` up to `end` into an empty file."""
        retry, tag = self._retry, None
        while True:
            before = out.tell()
            first = start + before
            ranged = (
                {"Range": f"bytes={first}-{'' if end is None else end - 1}"}
                if first or end is not None
                else {}
            )

            with self._requested("GET", path, ranged) as response:
                if tag not in (None, _tag(response)):
                    raise OSError("the file was changed while it was read")

                tag = _tag(response)
                if ranged and response.status != 206:
                    if end is not None or start:
                        raise Refused(
                            f"the server ignores Range and answers {response.status} with the whole file"
                        )
                    before = out.seek(0)
                    out.truncate()

                try:
                    for block in response.stream(BLOCK, decode_content=False):
                        out.write(block)
                    return
                except HTTPError as e:
                    retry = self._retry if out.tell() >= before + PROGRESS else retry
                    retry = retry.increment("GET", path, error=e)

            retry.sleep()

    @contextmanager
    def _requested(
        self, method: str, path: str, headers: Mapping[str, str] | None = None
    ) -> Iterator[BaseHTTPResponse]:
        """Response, whose body is not read yet; the part that the block does not read is dropped."""
        with self._answered(method, path, headers) as response:
            _check(response)
            yield response

    @contextmanager
    def _answered(
        self, method: str, path: str, headers: Mapping[str, str] | None = None
    ) -> Iterator[BaseHTTPResponse]:
        """As `_requested`, whatever the status."""
        settings: dict[str, Any] = {
            "headers": {**self._pool.headers, **(headers or {})},
            "retries": self._retry,
            "preload_content": False,
        }

        if self._asks_for_urls:
            response = self._pool.request(method, path, **settings)
        else:
            # The pool of all servers would drop `./` from the URL, and its signature would be wrong.
            target = "/" + path.partition("://")[2].partition("/")[2].partition("#")[0]
            server = self._pool.connection_from_url(path)
            response = server.urlopen(method, target, redirect=False, assert_same_host=False, **settings)
            if location := response.get_redirect_location():
                response.drain_conn()
                response = self._pool.request(method, urljoin(path, location), **settings)

        try:
            yield response
        finally:
            response.close()
            response.release_conn()  # or the pool would wait for it


class _WebFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read in parts."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        content: bytes = self.fs.cat_file(self.path, start, end)
        return content


def user_agent() -> str:
    """Name and version in requests, such as 'AnswerMill/0.1.0'."""
    try:
        return f"AnswerMill/{version('answermill')}"
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "AnswerMill/uninstalled"


def _check(response: BaseHTTPResponse) -> None:
    """Raises the error of a status other than success."""
    if response.status < 300:
        return
    answer = f"HTTP {response.status} {response.reason or ''}".strip()
    if response.status in (404, 410):
        raise FileNotFoundError(answer)
    if response.status in (401, 403):
        raise PermissionError(answer)
    raise (Refused if 400 <= response.status < 500 and response.status not in _PASSING else OSError)(answer)


def _size(response: BaseHTTPResponse) -> int:
    """Bytes of the file of which the first was asked for."""
    total = response.headers.get("Content-Range", "").rpartition("/")[2]
    if response.status != 200 and total.isdecimal():
        response.drain_conn()
        return int(total)
    length = response.headers.get("Content-Length", "")
    if response.status == 200 and length.isdecimal():
        return int(length)
    if response.status != 200:
        raise Refused(f"the server answers {response.status} and does not say how large the file is")
    return sum(map(len, response.stream(BLOCK, decode_content=False)))


def _tag(response: BaseHTTPResponse) -> str:
    """Tag that changes with the content; '' if the server gives none."""
    return response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
