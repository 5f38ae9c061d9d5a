"""End of a command: an error or a signal becomes a line and an exit code; a defect of ours also a file with
its traceback.

Importing this module loads next to nothing, since it also handles errors of loading everything else.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from answermill.files.store import store_of
from answermill.pipelines.cli.streams import lenient_streams
from answermill.pipelines.errors import DISK, IO, UNEXPECTED, JobError, Stopped, causes, disk_message
from answermill.pipelines.runs.watch import log_lines, stopping

if TYPE_CHECKING:
    from answermill.pipelines.runs.watch.failure_hook import OnFailure

STOPPED = "answermill: stopped; the same command goes on where it was\n"
STOPPING = "\nanswermill: stops when the units at work are done; a second Ctrl-C stops at once\n"


@dataclass(slots=True)
class Command:
    """The command that runs."""

    folder: Path | None = None
    """Its --out."""
    beam_options: Sequence[str] = ()
    """Its arguments after `--`."""
    signal: int | None = None
    """Number of the signal that stops it."""
    at_end: list[Callable[[int], object]] = field(default_factory=list)
    """Functions that are called with its exit code."""
    stage: str = ""
    """The stage of a night."""
    message: str = ""
    """The line that explains why it failed."""
    on_failure: Callable[[int, str], object] | None = None
    """What is done last, with exit code and message, if it fails."""

    def arm(
        self, option: str | None, timeout_s: float | None, hook: OnFailure | None, job_file: Path
    ) -> None:
        """Do what an option says, or else a job's hook, if the command fails. Raises JobError: 2 if the
        option is wrong, 78 if the hook's code is not allowed."""
        from answermill.pipelines.runs.watch import failure_hook

        if option is not None:
            hook = failure_hook.typed(option, failure_hook.TIMEOUT_S if timeout_s is None else timeout_s)
        else:
            failure_hook.refuse_unallowed(hook)

        def fail(code: int, message: str) -> None:
            folder = "" if self.folder is None else str(self.folder)
            facts = failure_hook.FailureFacts(code, message, str(job_file), folder, self.stage)
            failure_hook.run_hook(hook, facts)

        self.on_failure = fail

    def fail(self, code: int) -> None:
        """Do what is to be done if it fails; nothing if `code` is 0."""
        if code and self.on_failure is not None:
            self.on_failure(code, self.message)


def run_to_the_end(work: Callable[[Command], int], is_process: bool) -> NoReturn:
    """Do the work and exit with the exit code that it returns. An error exits with its own code, and a line
    on stderr explains it.

    `is_process`: the process is ours, and when it is stopped it ends without waiting for the threads of
    libraries.
    """
    command = Command()
    log_lines.choose("text")

    with lenient_streams() as stdout, _signals(command):
        try:
            code = work(command)
        except BaseException as error:
            code = _report(error, command)

        # Writing the result or the metrics may fail as well; the first error decides the code.
        sys.stdout.flush()
        if stdout.error is not None and not isinstance(stdout.error, BrokenPipeError):
            code = code or IO
            _write_reason(f"standard output: {stdout.error.strerror}", code)

        for end in command.at_end:
            try:
                end(code)
            except OSError as e:
                code = code or IO
                _write_reason(disk_message(e, None), code)
        command.fail(code)

    if is_process and command.signal is not None:
        os._exit(code)
    sys.exit(code)


def _report(error: BaseException, command: Command) -> int:
    """Write the reason of the end to stderr; returns the exit code."""
    if isinstance(error, KeyboardInterrupt) and command.signal is None:
        command.signal = signal.SIGINT
    if command.signal is not None:
        _write_reason(_message(STOPPED), 128 + command.signal, "warning")
        return 128 + command.signal

    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)

    if (known := message_of(error, command.folder)) is not None:
        command.message, code = known
        _write_reason(command.message, code)
        return code

    command.message = f"unexpected error, {_last_line(error)}"
    _write_reason(
        f"{command.message}\n"
        f"The traceback is in {_write_traceback(error, command.folder)}\n"
        "This is a defect of AnswerMill: please report it with that file. The same command goes on where it "
        "was.",
        UNEXPECTED,
    )

    return UNEXPECTED


def _write_reason(message: str, code: int, level: str = "error") -> None:
    """Write the reason of the end to stderr, with its exit code."""
    log_lines.write(message, level, text=f"answermill: {message}", code=code)


def _message(line: str) -> str:
    """The message of a line for people."""
    return line.strip().removeprefix("answermill: ")


def message_of(error: BaseException, folder: Path | None) -> tuple[str, int] | None:
    """Message for users, and the exit code; None for a defect of ours. `folder`: folder that the command
    writes."""
    for cause in causes(error):
        if isinstance(cause, JobError):
            return str(cause), cause.code
        if isinstance(code := getattr(cause, "exit_code", None), int):
            return str(cause), code
    for cause in causes(error):
        if isinstance(cause, OSError):
            return disk_message(cause, folder), IO
    text = str(error)
    codes = [DISK[words] for words in DISK if words in text]
    return (disk_message(OSError(codes[0], os.strerror(codes[0])), folder), IO) if codes else None


def _last_line(error: BaseException) -> str:
    """Type and message of an error; the last line if it holds the traceback of another, as Beam's do."""
    text = "".join(traceback.format_exception_only(error)).strip()
    lines = text.splitlines()
    line = lines[-1] if "Traceback (most recent call last)" in text else lines[0]
    return re.sub(r" \[while running '[^']*'\]$", "", line)[:500]


def _write_traceback(error: BaseException, folder: Path | None) -> str:
    """Write an error's traceback into the run folder if there is one, else into the current or the temporary
    folder; returns the path."""
    text = "".join(traceback.format_exception(error))
    name = f"answermill-error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    places = [Path(), Path(tempfile.gettempdir())]
    is_present = folder is not None and store_of(folder).is_local and folder.is_dir()
    for place in [folder, *places] if folder is not None and is_present else places:
        try:
            (place / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
        return str((place / name).resolve())
    sys.stderr.write(text)
    return "the lines above: no folder could be written to"


@contextmanager
def _signals(command: Command) -> Iterator[None]:
    """Handle SIGINT and SIGTERM in the block: raise Stopped in the main thread, or let the units at work end
    first. A second signal ends the process at once, as a line says on a terminal."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if command.signal is not None:
            line = log_lines.line(_message(STOPPED), "warning", STOPPED.rstrip("\n"), code=128 + number)
            os.write(2, line.encode())
            os._exit(128 + number)
        command.signal = number
        logging.disable(logging.CRITICAL)  # libraries log errors while everything shuts down
        if not stopping.request_stop():
            raise Stopped(f"signal {number}")
        if os.isatty(2) and not log_lines.is_json():
            os.write(2, STOPPING.encode())

    former = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    level = logging.root.manager.disable
    try:
        yield
    finally:
        logging.disable(level)
        for number, handler in former.items():
            signal.signal(number, handler)
