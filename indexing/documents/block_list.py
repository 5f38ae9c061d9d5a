"""Hosts and addresses whose pages are refused, from a list of one a line."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit


class BlockList:
    """Entries such as 'example.org', which blocks the host and all below it, or 'example.org/shop', which blocks the addresses
    below that path. Empty lines and lines that begin with '#' are no entries; a scheme does not count."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Raises ValueError with the number of a line that has no host."""
        self._paths: dict[str, set[str]] = {}
        for number, line in enumerate(lines, 1):
            entry = line.removeprefix("\ufeff").strip()
            if not entry or entry.startswith("#"):
                continue
            host, path = _parts(entry)
            if not host or " " in entry:
                raise ValueError(f"line {number}: no host in {entry!r}; give one such as example.org or example.org/shop")
            self._paths.setdefault(host, set()).add(path)

    def __len__(self) -> int:
        return sum(map(len, self._paths.values()))

    def entry(self, url: str) -> str:
        """The entry that blocks a URL, that of the longest host and shortest path; '' if none does."""
        host, path = _parts(url)
        while host and self._paths:
            for blocked in sorted(self._paths.get(host, ())):
                if not blocked or path == blocked or path.startswith(blocked + "/"):
                    return host + blocked
            host = host.partition(".")[2]
        return ""


def _parts(url: str) -> tuple[str, str]:
    """(host in lower case, path without '/' at its end) of a URL, with or without a scheme; ('', '') of what is no URL."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host = parts.hostname or ""
    except ValueError:
        return "", ""
    return host.lower().rstrip("."), parts.path.rstrip("/")
