"""Errors of the API: what a user can cause is a `JobError`, whatever part of the code has noticed it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from answermill.pipelines.errors import SETTINGS, JobError

P = ParamSpec("P")
T = TypeVar("T")


def as_job_errors(call: Callable[P, T]) -> Callable[P, T]:
    """The same function, which raises a `JobError` where the command line would end with a message and an
    exit code, as for a missing model or a damaged file; and where one string is given for a list, a parameter
    whose annotation begins with Sequence. A defect of ours stays what it is."""
    kinds = {name: str(each.annotation) for name, each in inspect.signature(call).parameters.items()}

    @functools.wraps(call)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name, value in (*zip(kinds, args, strict=False), *kwargs.items()):
            if (kind := kinds.get(name, "")).startswith("Sequence["):
                listed(value, name, f"[{value!r:.40}]" if kind.startswith("Sequence[str") else "")
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


def listed(values: Any, name: str, example: str) -> Any:
    """The values. Raises JobError (78) if they are one string, whose letters they would be."""
    if isinstance(values, str | bytes):
        such = f", such as {example}" if example else ""
        raise JobError(f"{name} is one string, {values!r:.40}; give a list{such}", SETTINGS)
    return values
