"""A server with Amazon S3's protocol on this machine, which is moto's, with faults to order and a record of
its requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from answermill.files.remote import Remote, _filesystem

BUCKET = "bucket"
ERRORS = {404: "NoSuchKey", 403: "AccessDenied", 503: "SlowDown"}
"""Status → S3's code for it."""
Fault = Callable[[str, str], int | None]
"""(method, path) of a request → the status with which it is refused, 0 to close the connection; None to serve
it."""


@dataclass
class ObjectStore:
    """The server. `requests`: (method, path and query) of each, in order; `fault` decides which are
    refused."""

    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    fault: Fault = lambda method, path: None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which a process reaches it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "2",  # of each request, before fsspec asks again
        }

    def folder(self, name: str) -> Remote:
        return Remote(f"s3://{BUCKET}/{name}")

    def count(self, method: str = "", part: str = "") -> int:
        """Requests with this method, or of any, whose path and query have this part."""
        return sum((not method or method == own) and part in path for own, path in self.requests)

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        former, self.fault = self.fault, fault
        try:
            yield
        finally:
            self.fault = former

    def application(self, served: Any) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
            query = environ.get("QUERY_STRING", "")
            with self._lock:
                self.requests.append((method, f"{path}?{query}" if query else path))
                status = self.fault(method, path)

            if status is None:
                return served(environ, start_response)  # type: ignore[no-any-return]

            if status == 0:
                # `close` would leave it open for the server's files.
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                return []

            start_response(f"{status} {ERRORS[status]}", [("Content-Type", "application/xml")])
            return [
                b""
                if method == "HEAD"
                else f"<Error><Code>{ERRORS[status]}</Code><Message>-</Message></Error>".encode()
            ]

        return answer


class _Silent(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def serving() -> Iterator[ObjectStore]:
    """The server, with an empty BUCKET, until the block ends."""
    import boto3
    import s3fs

    _filesystem.cache_clear()  # of another server in this process
    s3fs.S3FileSystem.clear_instance_cache()
    store = ObjectStore()
    served = DomainDispatcherApplication(create_backend_app)
    server: BaseWSGIServer = make_server(
        "127.0.0.1", 0, store.application(served), threaded=True, request_handler=_Silent
    )
    store.url = f"http://127.0.0.1:{server.port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    try:
        names = {
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing",
            "region_name": "us-east-1",
        }
        boto3.client("s3", endpoint_url=store.url, **names).create_bucket(Bucket=BUCKET)
        yield store
    finally:
        server.shutdown()
        thread.join()
        _filesystem.cache_clear()
        s3fs.S3FileSystem.clear_instance_cache()
