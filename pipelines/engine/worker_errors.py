"""Errors of worker processes. Beam hands them over as text, a traceback; a user needs the error's message and exit code."""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pkgutil import resolve_name

import grpc

from answermill.pipelines.errors import IO, UNAVAILABLE, JobError
from answermill.pipelines.revision import revision

_JOB_ERROR = re.compile(r"answermill\.pipelines\.errors\.JobError: (.*?)\nexit code (\d+)$", re.DOTALL | re.MULTILINE)
_JOB_SERVER = re.compile(r"Unable to fetch remote job server jar at (\S+): (.*?)\. (?:Also failed|If no)", re.DOTALL)
_NOT_STARTED = "Service failed to start up with error "
_NO_JAR = re.compile(r'Unable to parse jar URL "(.*?)"')
_TRACEBACK = "Traceback (most recent call last):\n"
_FRAMES = re.compile(r"\A(?:[ \t].*\n)*")
_NEXT = re.compile(r"\n+(The above exception was the direct cause|During handling of the above exception).*", re.DOTALL)
_ERROR = re.compile(r"([A-Za-z_][\w.]*): (.*?)(?: \[while running .*)?$", re.MULTILINE)
_STEP = re.compile(r" \[while running '[^']*'\]$")
_ENGINE = re.compile(r"Pipeline \S+ failed in state (\w+): (.*)")
_AGAIN = "see the engine's logs; the same command goes on where it was"
_OTHER_PACKAGE = re.compile(r"(\w+Error: No module named|AttributeError: Can't get .* <module) 'answermill[.']")
"""Which only a worker has that runs another package than the command, or none."""
_ERRNO = re.compile(r"\[Errno (\d+)\] .*?(?:: '(.*)')?$")


class EngineEnded(JobError):
    """An engine ended the job, for a reason that is none of a unit's, such as a worker that was lost."""


@contextmanager
def restored_errors() -> Iterator[None]:
    """Raise the error that a worker process raised in the place of Beam's RuntimeError with its traceback as text.

    Restores JobError, the errors of `indexing`, `ranking` and `schemas` that have an exit code, and OSError; others stay as
    they are, but for what this process itself raised, which is restored whatever it is. A cluster's job server that Beam could
    not fetch or start is a JobError (69); one that is gone, or an engine that lost its workers, is a JobError (74).
    """
    try:
        yield
    except JobError as e:
        raise JobError(_STEP.sub("", str(e)), e.code) from None
    except RuntimeError as e:
        if type(e) is RuntimeError and _STEP.search(str(e)) and e.__context__ is not None:
            raise e.__context__  # noqa: B904 — of this process: Beam could not put the step into its message
        error = error_in(str(e)) if type(e) is RuntimeError else None
        if error is None:
            raise
        raise error from None
    except ValueError as e:
        if (jar := _NO_JAR.match(str(e))) is None:
            raise
        raise JobError(f"{jar[1]}: no such file; a job server's jar is a file here, or a whole URL", UNAVAILABLE) from None
    except grpc.FutureTimeoutError:
        raise JobError("no job server answers; look at --job_endpoint, or give it more --job_server_timeout", IO) from None
    except grpc.RpcError as e:
        raise EngineEnded(f"the job server does not answer any more ({e.code().name}); {_AGAIN}", IO) from None


def error_in(text: str) -> Exception | None:
    """The error that the text's traceback ends with, or what it was raised from, if a user can mend it; else None."""
    if match := _JOB_SERVER.search(text):
        advice = "download it elsewhere and name it with --flink_job_server_jar or --spark_job_server_jar"
        return JobError(f"Beam's job server {match[1]} cannot be fetched: {match[2]}; {advice}", UNAVAILABLE)
    if text.startswith(_NOT_STARTED):
        code = text.removeprefix(_NOT_STARTED)
        advice = "start its jar by hand, `java -jar JAR`, to see why"
        return JobError(f"Beam's job server ended with {code} before it could be asked; {advice}", UNAVAILABLE)
    if (failed := _ENGINE.match(text)) and _TRACEBACK not in text:
        return EngineEnded(f"the engine ended the job as {failed[1]}: {failed[2]}; {_AGAIN}", IO)
    return next((error for error in map(_known, _chain(text)) if error is not None), None)


def _chain(text: str) -> Iterator[str]:
    """Type and message of the error that was raised, of what it was raised from, and so on, as `raise … from` links them.

    What was merely being handled when an error was raised is no cause of it; but of an error that Beam has raised again, to say
    in which step it was, the error before it is the original.
    """
    is_beams = False
    for block in reversed(text.split(_TRACEBACK)):
        error = _FRAMES.sub("", block)
        link = _NEXT.search(error)
        if link is not None and link[1].startswith("During") and not is_beams:
            return
        error = _NEXT.sub("", error)
        is_beams = " [while running '" in error
        yield error


def _known(error: str) -> Exception | None:
    """The error that this is the type and message of; None if it is none that a user can mend."""
    if match := _JOB_ERROR.match(error):
        return JobError(_STEP.sub("", match[1]), int(match[2]))
    if _OTHER_PACKAGE.match(error):
        what = _STEP.sub("", error.strip().splitlines()[0])
        return JobError(
            f"a worker has no answermill, or another than revision {revision()} of the command: {what}", UNAVAILABLE
        )
    match = _ERROR.match(error)
    kind = _class_of(match[1]) if match else None
    if match is None or kind is None:
        return None
    if issubclass(kind, OSError) and (number := _ERRNO.match(match[2])):
        return OSError(int(number[1]), os.strerror(int(number[1])), number[2])
    return kind(match[2])


def _class_of(name: str) -> type[Exception] | None:
    """The class of that name: one of our RuntimeErrors, or an OSError of Python's; None for all others."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, OSError):
        return kind
    if not name.startswith(("answermill.files.", "answermill.indexing.", "answermill.ranking.", "answermill.schemas.")):
        return None
    try:
        kind = resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return None
    return kind if isinstance(kind, type) and issubclass(kind, RuntimeError) else None
