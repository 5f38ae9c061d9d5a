"""Errors that Beam's runners hand over as text, a traceback; a user needs the error's message and exit code.

What a worker raises for a user is a JobError by then (unit_work.py), so its last lines are enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from answermill.pipelines.errors import IO, UNAVAILABLE, EngineEnded, JobError
from answermill.pipelines.revision import revision

_TRACEBACK = "Traceback (most recent call last):\n"
_JOB_ERROR = re.compile(
    r"^answermill\.pipelines\.errors\.JobError: (.*?)\nexit code (\d+)$", re.DOTALL | re.MULTILINE
)
_JOB_SERVER = re.compile(
    r"Unable to fetch remote job server jar at (\S+): (.*?)\. (?:Also failed|If no)", re.DOTALL
)
_PRISM = re.compile(r"Unable to fetch remote prism binary at (\S+): (.*)")
_NOT_STARTED = "Service failed to start up with error "
_NO_JAR = re.compile(r'Unable to parse jar URL "(.*?)"')
_STEP = re.compile(r" \[while running '[^']*'\]$")
_ENGINE = re.compile(r"Pipeline \S+ failed in state (\w+): (.*)")
_AGAIN = "see the engine's logs; the same command goes on where it was"
_OTHER_PACKAGE = re.compile(
    r"^((?:\w+Error: No module named|AttributeError: Can't get .* <module) 'answermill[.'].*)$", re.MULTILINE
)
"""Errors of a worker that has another package than the command, or none."""


@contextmanager
def restored_errors() -> Iterator[None]:
    """Raise a worker's JobError in the place of Beam's RuntimeError with its traceback as text.

    Any error of this process itself is restored. A cluster's job server that Beam could not fetch or start is
    a JobError (69); one that is gone, or an engine that lost its workers, is a JobError (74).
    """
    try:
        yield
    except JobError as e:
        raise JobError(_STEP.sub("", str(e)), e.code) from None
    except RuntimeError as e:
        if type(e) is not RuntimeError:
            raise
        if _STEP.search(str(e)) and e.__context__ is not None:
            raise e.__context__  # noqa: B904 — of this process: Beam could not put the step into its message
        error = error_in(str(e))
        if error is None:
            raise
        raise error from None
    except ValueError as e:
        if (jar := _NO_JAR.match(str(e))) is None:
            raise
        raise JobError(
            f"{jar[1]}: no such file; a job server's jar is a file here, or a whole URL", UNAVAILABLE
        ) from None
    except grpc.FutureTimeoutError:
        raise JobError(
            "no job server answers; look at --job_endpoint, or give it more --job_server_timeout", IO
        ) from None
    except grpc.RpcError as e:
        raise EngineEnded(
            f"the job server does not answer any more ({e.code().name}); {_AGAIN}", IO
        ) from None


def error_in(text: str) -> JobError | None:
    """The error in a text that a user can mend; None if there is none."""
    if match := _JOB_SERVER.search(text):
        advice = "download it elsewhere and name it with --flink_job_server_jar or --spark_job_server_jar"
        return JobError(f"Beam's job server {match[1]} cannot be fetched: {match[2]}; {advice}", UNAVAILABLE)

    if match := _PRISM.search(text):
        advice = "download it elsewhere and name it with --prism_location"
        return JobError(f"Beam's prism {match[1]} cannot be fetched: {match[2]}; {advice}", UNAVAILABLE)

    if text.startswith(_NOT_STARTED):
        code = text.removeprefix(_NOT_STARTED)
        advice = "start its jar by hand, `java -jar JAR`, to see why"
        return JobError(
            f"Beam's job server ended with {code} before it could be asked; {advice}", UNAVAILABLE
        )

    _, is_traceback, raised = text.rpartition(_TRACEBACK)
    if (failed := _ENGINE.match(text)) and not is_traceback:
        return EngineEnded(f"the engine ended the job as {failed[1]}: {failed[2]}; {_AGAIN}", IO)
    if match := _JOB_ERROR.search(raised):
        return JobError(_STEP.sub("", match[1]), int(match[2]))

    if match := _OTHER_PACKAGE.search(raised):
        problem = _STEP.sub("", match[1])
        return JobError(
            f"a worker has no answermill, or another than revision {revision()} of the command: {problem}",
            UNAVAILABLE,
        )

    return None
