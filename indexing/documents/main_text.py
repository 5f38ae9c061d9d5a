"""HTML -> title and main text, in a child process that can be killed; the extractors that it runs are in
html_text.py.

A page of some 100 KB of tags that are never closed may keep the parser, or an extractor, busy for seconds or
a minute, and no Python signal handler runs meanwhile. So the child arms a timer of its CPU seconds before
each page, and leaves the signal at its default: the kernel ends the process, and the parent sees a closed
pipe, starts another child at the next page, and goes on. The limit is CPU time, not wall time, so that a busy
machine refuses the same pages as an idle one.

A request is the page in UTF-8, an answer the title and the text, each with its length in four bytes before
it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from answermill.indexing.documents.html_text import load
from answermill.schemas import plug_ins

_LENGTH = struct.Struct("<I")
_PIPE = 1 << 20  # bytes
_REFUSED = 0xFFFFFFFF  # in place of the title's length: the page raised an error, whose text follows


class ExtractionFailed(Exception):
    """A page that cost its child process: `reason` as in Rejected, 'extraction_timeout' or
    'extraction_crashed'."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class TextExtractor:
    """The supervised child; it starts with the first page, and again after a page that it did not survive."""

    def __init__(
        self,
        deadline_s: float = 10.0,
        memory_gb: float = 2.0,
        by: str = "blocks",
        comments: bool = False,
    ) -> None:
        """A page gets at most `deadline_s` seconds of CPU and `memory_gb` of address space; the other
        arguments are those of `load`."""
        if deadline_s <= 0 or memory_gb <= 0:
            raise ValueError(f"deadline_s and memory_gb must be positive, not {deadline_s} and {memory_gb}")
        self._deadline_s = deadline_s
        self._memory_gb = memory_gb
        self._by = by
        self._comments = comments
        self._child: subprocess.Popen[bytes] | None = None

    def extract(self, html: str) -> tuple[str, str]:
        """(title, main text) of a page; a paragraph or other block is a line of the text."""
        child = self._child or self._start()
        request, answers = child.stdin, child.stdout
        assert request is not None and answers is not None

        try:
            _send(request, html.encode("utf-8", "replace"))
            request.flush()
            first = _size(answers)
            title = b"" if first == _REFUSED else _take(answers, first)
            text = _take(answers, _size(answers))
        except (BrokenPipeError, EOFError):
            raise self._cause_of_death(child) from None

        if first == _REFUSED:
            raise ExtractionFailed("extraction_crashed", text.decode("utf-8"))

        return title.decode("utf-8"), text.decode("utf-8")

    def close(self) -> None:
        """End the child; the next page would start another."""
        child, self._child = self._child, None
        if child is not None:
            _close(child)
            child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_child", None) is not None:
            self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        # A new interpreter, never a fork: the parent may hold a JVM and threads. It finds what the parent
        # finds.
        own_code = str(Path(__file__).absolute().parents[3])
        paths = os.pathsep.join([own_code, *(p for p in sys.path if p)])
        limits = f"{self._deadline_s!r}, {self._memory_gb!r}"
        settings = f"{limits}, {self._by!r}, {self._comments!r}, {plug_ins.is_allowed()!r}"
        code = f"from answermill.indexing.documents.main_text import serve; serve({settings})"
        self._child = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
        )

        if hasattr(fcntl, "F_SETPIPE_SZ"):  # Linux: a page goes over in one piece, not 64 KB at a time
            for pipe in (self._child.stdin, self._child.stdout):
                assert pipe is not None
                with contextlib.suppress(PermissionError):  # the user's pipes hold too much already
                    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)

        return self._child

    def _cause_of_death(self, child: subprocess.Popen[bytes]) -> ExtractionFailed:
        """Cause of the child's death, from its exit status."""
        self._child = None
        _close(child)
        code = child.wait()
        if code == -signal.SIGPROF:
            return ExtractionFailed("extraction_timeout", f"more than {self._deadline_s:g} s of CPU time")
        return ExtractionFailed("extraction_crashed", f"the extracting process ended with {_status(code)}")


def serve(deadline_s: float, memory_gb: float, by: str, comments: bool, code_is_allowed: bool) -> None:
    """The child: answer pages until the parent closes the pipe."""
    if code_is_allowed:
        plug_ins.allow()
    title_and_text = load(by, comments)
    memory = int(memory_gb * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    pages, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            html = _take(pages, _size(pages)).decode("utf-8")
        except EOFError:
            return

        signal.setitimer(signal.ITIMER_PROF, deadline_s)
        try:
            title, text = title_and_text(html)
        except (ValueError, MemoryError, RuntimeError) as e:  # Resiliparse's parser errors are ValueErrors
            answers.write(_LENGTH.pack(_REFUSED))
            _send(answers, f"{type(e).__name__}: {e}"[:300].encode("utf-8", "replace"))
        else:
            _send(answers, title.encode("utf-8", "replace"))
            _send(answers, text.encode("utf-8", "replace"))

        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.flush()


def _send(pipe: IO[bytes], content: bytes) -> None:
    pipe.write(_LENGTH.pack(len(content)))
    pipe.write(content)


def _size(pipe: IO[bytes]) -> int:
    return int(_LENGTH.unpack(_take(pipe, _LENGTH.size))[0])


def _take(pipe: IO[bytes], size: int) -> bytes:
    content = pipe.read(size)
    if len(content) < size:
        raise EOFError
    return content


def _close(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # bytes still to be sent to a child that has ended
                pipe.close()


def _status(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"status {code}"
