"""A hub on this machine that speaks the protocol of the Hugging Face hub as far as huggingface_hub uses it to
upload: tree, create, preupload, LFS with basic transfers, and commit."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_ofTheTests"
POLL_S = 0.02
_PART = re.compile(r"/api/(?P<kind>dataset|model)s/(?P<name>[^/]+/[^/]+)(?P<rest>.*)")


@dataclass
class Hub:
    """Repositories by (kind, name), each path → bytes. `refuse` tells which content is refused with 400, by
    its SHA-256; it may wait before it answers."""

    url: str = ""
    repositories: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    private: dict[tuple[str, str], bool] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    """SHA-256 → content that was uploaded, committed or not."""
    received: list[str] = field(default_factory=list)
    """SHA-256 of each content that was sent, as often as it was."""
    commits: list[str] = field(default_factory=list)
    may_write: bool = True
    refuse: Callable[[str], bool] = lambda digest: False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        match = _PART.fullmatch(self.path.partition("?")[0])
        key = (match["kind"], match["name"]) if match else ("", "")
        if key not in self.hub.repositories:
            self._answer({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        elif match and match["rest"].startswith("/tree/"):
            self._answer([_entry(*item) for item in sorted(self.hub.repositories[key].items())])
        else:
            self._answer({"id": key[1], "sha": "0" * 40})

    def do_PUT(self) -> None:
        digest = self.path.rpartition("/")[2]
        content = self._body()
        if self.hub.refuse(digest):
            self._answer({"error": "no"}, 400)
            return
        assert hashlib.sha256(content).hexdigest() == digest
        self.hub.received.append(digest)
        self.hub.stored[digest] = content
        self._answer({})

    def do_POST(self) -> None:
        body = self._body()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}" or not self.hub.may_write:
            self._answer({"error": "Forbidden"}, 403)
            return
        lines = [json.loads(line) for line in body.splitlines()]
        path = self.path.partition("?")[0]
        match = _PART.fullmatch(path)
        if path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            self._create(lines[0])
        elif path.endswith("/info/lfs/objects/batch"):
            self._answer(
                {"transfer": "basic", "objects": [self._action(each) for each in lines[0]["objects"]]}
            )
        elif match and match["rest"].startswith("/preupload/"):
            files = self.hub.repositories[match["kind"], match["name"]]
            self._answer({"files": [_mode(each, files) for each in lines[0]["files"]]})
        elif match and match["rest"].startswith("/commit/"):
            self._commit((match["kind"], match["name"]), lines)

    def _create(self, asked: dict[str, Any]) -> None:
        key = asked.get("type") or "model", f"{asked['organization']}/{asked['name']}"
        status = 409 if key in self.hub.repositories else 200
        if status == 200:
            self.hub.repositories[key] = {".gitattributes": b"*.parquet lfs\n"}
            self.hub.private[key] = asked.get("visibility") == "private" or bool(asked.get("private"))
        self._answer({"url": self._page(key)}, status)

    def _action(self, file: dict[str, Any]) -> dict[str, Any]:
        """Where to upload a content; nowhere if it is stored."""
        upload = {"upload": {"href": f"{self.hub.url}/lfs/{file['oid']}"}}
        return file | ({} if file["oid"] in self.hub.stored else {"actions": upload})

    def _commit(self, key: tuple[str, str], lines: list[dict[str, Any]]) -> None:
        files = self.hub.repositories[key]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.stored[value["oid"]]
            else:
                self.hub.commits.append(value["summary"])
        commit = f"{len(self.hub.commits):040}"
        self._answer({"commitUrl": f"{self._page(key)}/commit/{commit}", "commitOid": commit})

    def _page(self, key: tuple[str, str]) -> str:
        """URL of a repository."""
        return f"{self.hub.url}/{'datasets/' if key[0] == 'dataset' else ''}{key[1]}"

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _answer(self, content: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _is_large(path: str) -> bool:
    return path.endswith((".parquet", ".safetensors"))


def _blob(content: bytes) -> str:
    """Git's name of a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _mode(file: dict[str, Any], files: dict[str, bytes]) -> dict[str, Any]:
    """How a file is uploaded, and what the repository has under its path."""
    path = file["path"]
    known = files.get(path)
    name = None if known is None else hashlib.sha256(known).hexdigest() if _is_large(path) else _blob(known)
    mode = "lfs" if _is_large(path) else "regular"
    return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": name}


def _entry(path: str, content: bytes) -> dict[str, Any]:
    """A file as a repository's tree lists it."""
    entry = {"type": "file", "path": path, "size": len(content), "oid": _blob(content)}
    if _is_large(path):
        digest = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
    return entry


@contextmanager
def serving() -> Iterator[Hub]:
    """The hub, until the block ends."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    server.block_on_close = False
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
