"""HTML -> title and main text, in a child process that can be killed; the extractors that it runs are in
html_text.py.

A page of some 100 KB of tags that are never closed may keep the parser, or an extractor, busy for seconds or
a minute, and no Python signal handler runs meanwhile. So the child arms a timer of its CPU seconds before
each page, and leaves the signal at its default: the kernel ends the process, and the parent sees a closed
pipe, starts another child at the next page, and goes on. The limit is CPU time, not wall time, so that a busy
machine refuses the same pages as an idle one.

A request is the page in UTF-8, an answer the title and the text, each with its length in four bytes before
it. What the code of an extractor prints goes nowhere, since it would be taken for an answer.
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

from answermill.indexing.documents.html_text import TitleAndText, load
from answermill.schemas import plug_ins

_LENGTH = struct.Struct("<I")
_PIPE = 1 << 20  # bytes
_REFUSED = 0xFFFFFFFF  # in place of the title's length: the page raised an error, whose text follows
_UNUSABLE = 0xFFFFFFFE  # the extractor itself raised one when it was loaded


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
        """(title, main text) of a page; a paragraph or other block is a line of the text. Raises
        ExtractionFailed, and PlugInFailed if a plug-in cannot be loaded."""
        child = self._child or self._start()
        request, answers = child.stdin, child.stdout
        assert request is not None and answers is not None

        try:
            _send(request, html.encode("utf-8", "replace"))
            request.flush()
            first = _size(answers)
            title = b"" if first in (_REFUSED, _UNUSABLE) else _take(answers, first)
            text = _take(answers, _size(answers))
        except (BrokenPipeError, EOFError):
            raise self._cause_of_death(child) from None

        if first == _UNUSABLE:
            raise plug_ins.PlugInFailed(text.decode("utf-8"))
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
        plug_ins.allow_code()
    pages, answers = (os.fdopen(os.dup(n), mode) for n, mode in ((0, "rb"), (1, "wb")))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)

    title_and_text = _loaded(by, comments, answers)
    memory = int(memory_gb * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    while True:
        try:
            html = _take(pages, _size(pages)).decode("utf-8")
        except EOFError:
            return

        signal.setitimer(signal.ITIMER_PROF, deadline_s)
        try:
            title, text = (_utf8(part) for part in title_and_text(html))
        except Exception as e:  # Resiliparse's parser errors are ValueErrors; a plug-in raises anything
            answers.write(_LENGTH.pack(_REFUSED))
            _send(answers, _utf8(plug_ins.said(e)[:300]))
        else:
            _send(answers, title)
            _send(answers, text)

        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.flush()


def _loaded(by: str, comments: bool, answers: IO[bytes]) -> TitleAndText:
    """The extractor; an error of a plug-in that is loaded is the answer to the first page."""
    try:
        with plug_ins.running(f"the extractor {by!r} cannot be loaded", _module_of(by)):
            extractor = load(by, comments)
            if not callable(extractor):
                raise TypeError(f"it gave a {type(extractor).__name__}, and no function of a page")
            return extractor
    except plug_ins.PlugInFailed as e:
        answers.write(_LENGTH.pack(_UNUSABLE))
        _send(answers, _utf8(str(e)))
        answers.flush()
        sys.exit(1)


def _module_of(by: str) -> str:
    is_plug_in = plug_ins.is_known(plug_ins.EXTRACTORS, by)
    return plug_ins.place_of(plug_ins.EXTRACTORS, by).partition(":")[0] if is_plug_in else __name__


def _utf8(text: str) -> bytes:
    """Bytes of a text. Raises TypeError if it is none."""
    if not isinstance(text, str):
        raise TypeError(f"an extractor gives a title and a text, and not a {type(text).__name__}")
    return text.encode("utf-8", "replace")


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
