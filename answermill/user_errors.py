"""Errors of the API: what a user can cause is a `JobError`, whatever part of the code has noticed it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from answermill.pipelines.errors import SETTINGS, JobError

P = ParamSpec("P")
T = TypeVar("T")


def as_job_errors(call: Callable[P, T]) -> Callable[P, T]:
    """The same function, which raises a `JobError` where the command line would end with a message and an
    exit code, as for a missing model or a damaged file. A defect of ours stays what it is."""

    @functools.wraps(call)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except JobError:
            raise
        except Exception as e:
            from answermill.pipelines.cli.ending import message_of

            if (known := message_of(e, None)) is None:
                raise
            raise JobError(*known) from e

    return checked


def listed(values: Sequence[Any], name: str, example: str) -> Sequence[Any]:
    """The values. Raises JobError (78) if they are one string, whose letters they would be."""
    if isinstance(values, str | bytes):
        raise JobError(f"{name} is one string, {values!r:.40}; give a list, such as {example}", SETTINGS)
    return values
