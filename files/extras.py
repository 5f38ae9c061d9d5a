"""Libraries that only some commands need: each comes with an extra of the package, `pip install
'answermill[NAME]'`."""

from __future__ import annotations

from importlib.util import find_spec


class ExtraMissing(RuntimeError):
    """A library that comes with an extra is not installed; the message says what to type."""

    exit_code = 69


def need(library: str, extra: str, user: str) -> None:
    """Raises ExtraMissing if the library that `user` needs is not installed. Loads nothing, so it can be
    asked first."""
    if find_spec(library) is None:
        raise ExtraMissing(f"{user} needs {library}: pip install 'answermill[{extra}]'")
