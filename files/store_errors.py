"""Errors of stores and servers, as OSErrors that name the file."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Refused(OSError):
    """An error that a store or server will repeat, so that waiting is in vain."""


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Turn the errors of a store's library in the block into OSErrors that name the object and the store's
    answer; Refused stays Refused."""
    store, bucket = ("server", "") if str(path).startswith("http") else ("store", ", or no such bucket")

    try:
        yield
    except FileExistsError:
        raise
    except FileNotFoundError as e:
        raise FileNotFoundError(f"{path}: no such file in the {store}{bucket} ({_said(e)})") from e
    except PermissionError as e:
        raise PermissionError(
            f"{path}: the {store} refuses the credentials, or what they ask for ({_said(e)})"
        ) from e
    except Exception as e:
        # S3 gives EINVAL for a range beyond the file's end.
        is_refused = isinstance(e, Refused) or getattr(e, "errno", None) == errno.EINVAL
        kind = Refused if is_refused else OSError
        raise kind(f"{path}: the {store} did not do it ({_said(e)})") from e


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
