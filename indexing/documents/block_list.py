"""Hosts and addresses whose pages are refused, from a list with one a line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from answermill.indexing.documents.domains import ascii_host

_HOST = re.compile(r"[\w.:-]+")
_PORT = re.compile(r"^(?:[a-z]+://)?[^/:\[]+:\d+(?:/|$)", re.IGNORECASE)
_BELOW = re.compile(r"^([a-z]+://)?(\*\.|\.)", re.IGNORECASE)


class BlockList:
    """Entries such as 'example.org', which blocks the host and all below it, or 'example.org/shop', which
    blocks the addresses below that path. '*.example.org' and '.example.org' are the same as the first. Empty
    lines and lines that begin with '#' are no entries; a scheme does not count."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Read the lines. Raises ValueError with the number of one without a host, or with other characters
        in it."""
        self._hosts: set[str] = set()
        self._paths: dict[str, set[str]] = {}
        """Host → the paths of its entries that have one."""

        for number, line in enumerate(lines, 1):
            entry = line.removeprefix("\ufeff").strip()
            if not entry or entry.startswith("#"):
                continue
            host, path = _parts(_BELOW.sub(r"\1", entry))
            if _PORT.search(entry):
                raise ValueError(
                    f"line {number}: a host is blocked on all its ports; leave out that of {entry!r}"
                )
            if not _HOST.fullmatch(host) or len(entry.split()) > 1:
                raise ValueError(
                    f"line {number}: no host in {entry!r}; give one such as example.org or example.org/shop"
                )
            if path:
                self._paths.setdefault(host, set()).add(path)
            else:
                self._hosts.add(host)

    def __len__(self) -> int:
        return len(self._hosts) + sum(map(len, self._paths.values()))

    def entry(self, url: str) -> str:
        """The entry that blocks a URL, that of the longest host and shortest path; '' if none does."""
        host, path = _parts(url)
        while host:
            if host in self._hosts:
                return host
            for blocked in sorted(self._paths.get(host, ())):
                if path == blocked or path.startswith(blocked + "/"):
                    return host + blocked
            host = host.partition(".")[2]
        return ""


def _parts(url: str) -> tuple[str, str]:
    """(host in lower case, path without '/' at its end) of a URL, with or without a scheme; ('', '') if it is
    no URL."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host = parts.hostname or ""
    except ValueError:
        return "", ""
    return ascii_host(host.rstrip(".")), parts.path.rstrip("/")
