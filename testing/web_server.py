"""A web server on this machine that serves files and ranges of them, with faults to order and a record of its
requests."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from answermill.files.remote import _filesystem

POLL_S = 0.02
"""Seconds until a server that is to stop notices it, which each test waits for."""


class Request(NamedTuple):
    method: str
    path: str
    range: tuple[int, int | None] | None
    """First byte, and the one after the last."""
    user_agent: str


@dataclass(frozen=True)
class Fault:
    """A fault of the server: it answers with another `status`, waits first, breaks the body off after `cut`
    bytes, ignores ranges, names no length, or claims that the file had other bytes than it sends, or another
    version."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    cut: int | None = None
    whole: bool = False
    no_length: bool = False
    tag: str = '"1"'


@dataclass
class WebServer:
    """Serves the files below `root`. `fault` gives the fault of the n-th request (from 0) for a path."""

    root: Path
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    sent: int = 0
    """Bytes of bodies."""
    sent_pages: int = 0
    """Bytes of the bodies of WARC files."""
    open_now: int = 0
    open_most: int = 0
    """Most requests at the same time."""
    fault: Callable[[Request, int], Fault | None] = lambda request, n: None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, method: str) -> int:
        return sum(request.method == method for request in self.requests)

    def forget(self) -> None:
        """Reset the requests and counts."""
        self.requests.clear()
        self.sent = self.sent_pages = self.open_most = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: WebServer

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has closed the connection
            super().handle()

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        with self.web.lock:
            self.web.open_now += 1
            self.web.open_most = max(self.web.open_most, self.web.open_now)
        try:
            self._serve()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with self.web.lock:
                self.web.open_now -= 1

    def _serve(self) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        span = (int(match[1]), int(match[2]) + 1 if match[2] else None) if match else None
        request = Request(self.command, self.path, span, self.headers.get("User-Agent", ""))

        with self.web.lock:
            before = sum(
                former.path == request.path and former.method == request.method
                for former in self.web.requests
            )
            self.web.requests.append(request)
            fault = self.web.fault(request, before) or Fault()

        time.sleep(fault.wait_s)
        file = self.web.root / self.path.partition("?")[0].lstrip("/")
        status = fault.status or (200 if file.is_file() else 404)
        content = file.read_bytes() if status == 200 else b"no\n"
        headers = {"ETag": fault.tag, **fault.headers}

        if status == 200 and span is not None and not fault.whole:
            first, end = span[0], min(span[1] or len(content), len(content))
            status = 206 if first < len(content) else 416
            headers["Content-Range"] = (
                f"bytes {first}-{end - 1}/{len(content)}" if status == 206 else f"bytes */{len(content)}"
            )
            content = content[first:end]

        self.send_response(status)
        lengths = {"Connection": "close"} if fault.no_length else {"Content-Length": str(len(content))}
        for name, value in {**lengths, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

        if self.command == "GET":
            body = content if fault.cut is None else content[: fault.cut]
            with self.web.lock:  # before it is sent, since a test may read the count at once
                self.web.sent += len(body)
                self.web.sent_pages += len(body) * self.path.endswith(".warc.gz")
            self.wfile.write(body)
            self.close_connection = fault.cut is not None or fault.no_length


@contextmanager
def serving(root: Path) -> Iterator[WebServer]:
    """The server, until the block ends."""
    web = WebServer(root)
    handler = type("Handler", (_Handler,), {"web": web})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    web.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    _filesystem.cache_clear()

    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        _filesystem.cache_clear()
