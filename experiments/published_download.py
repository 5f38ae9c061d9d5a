"""Download of a published file: continued where it broke off, watched on stderr, and compared with its
SHA-256.

While it is incomplete a file has the name NAME.part, from which the next call continues. A server that does
not answer, or has no such file, is Unreachable: then the file has to be brought by hand.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, Retry, Timeout
from urllib3.exceptions import HTTPError

from answermill.files.atomic_files import sha256
from answermill.files.web import user_agent
from answermill.pipelines.errors import BAD_DATA, JobError
from experiments.published_sets import Source
from testing.harness import say

TIMEOUT = Timeout(connect=10, read=30)
BUSY = (429, 500, 502, 503, 504)
RETRIES = Retry(total=2, backoff_factor=0.5, status_forcelist=BUSY, raise_on_status=False)
BLOCK = 1 << 16
REPORT_SECONDS = 2.0


class Unreachable(Exception):
    """The source does not give the file. The message gives the reason."""


def downloaded(source: Source, folder: Path) -> Path:
    """File in `folder`, which is downloaded unless it exists.

    Raises Unreachable, and JobError (65) if it has another SHA-256 than is recorded; then it is deleted.
    """
    path = folder / source.name
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        _fetch(source, part)
        _check(
            source,
            part,
            "it was deleted; fetch it again, and if it differs again its publisher has changed it",
        )
        part.rename(path)
    return path


def checked(source: Source, path: Path) -> Path:
    """Check a file that was brought by hand. Raises JobError (65) if its SHA-256 is not the recorded one."""
    advice = "download it again, and if it differs again its publisher has changed it"
    _check(source, path, advice, delete=False)
    return path


def _check(source: Source, path: Path, advice: str, delete: bool = True) -> None:
    digest = sha256(path)
    if source.sha256 not in (None, digest):
        if delete:
            path.unlink()
        problem = f"SHA-256 is {digest}, not {source.sha256} as recorded"
        raise JobError(f"{source.name}: {problem}; {advice}", BAD_DATA)


def _fetch(source: Source, part: Path) -> None:
    """Append the missing bytes to `part`."""
    try:
        with _requested(source, part.stat().st_size if part.is_file() else 0) as response:
            if response.status == 416:  # nothing is left to send
                return
            if response.status not in (200, 206):
                raise Unreachable(f"HTTP {response.status} {response.reason or ''}".strip())
            continued = response.status == 206
            with part.open("ab" if continued else "wb") as file:
                for block in _watched(source, response, file.tell()):
                    file.write(block)
    except HTTPError as e:
        raise Unreachable(str(getattr(e, "reason", e))) from e


def _watched(source: Source, response: BaseHTTPResponse, begin: int) -> Iterator[bytes]:
    """Blocks of the body; now and then a line shows the number of bytes received."""
    received, length = begin, response.headers.get("Content-Length", "")
    whole = f" of {(begin + int(length)) / 1e6:,.1f}" if length.isdecimal() else ""
    reported = time.monotonic()
    for block in response.stream(BLOCK, decode_content=False):
        received += len(block)
        yield block
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            say(f"{source.name}: {received / 1e6:,.1f}{whole} MB")
    say(f"{source.name}: {received / 1e6:,.1f}{whole} MB")


@contextmanager
def _requested(source: Source, begin: int) -> Iterator[BaseHTTPResponse]:
    """Response to a request for the bytes from `begin` on, whose body is not read yet."""
    address = urlsplit(source.url)
    proxy = getproxies().get(address.scheme) if not proxy_bypass(address.hostname or "") else None
    headers = {"User-Agent": user_agent(), "Accept-Encoding": "identity"}

    with ProxyManager(proxy) if proxy else PoolManager() as pool:
        ranged = {**headers, "Range": f"bytes={begin}-"} if begin else headers
        response = pool.request(
            "GET",
            source.url,
            headers=ranged,
            timeout=TIMEOUT,
            retries=RETRIES,
            preload_content=False,
            enforce_content_length=True,
        )
        try:
            yield response
        finally:
            response.close()
