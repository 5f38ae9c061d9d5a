"""Libraries that only some commands need; an extra of the package installs each, `pip install
'answermill[NAME]'`."""

from __future__ import annotations

from importlib.util import find_spec


class ExtraMissing(RuntimeError):
    """A library of an extra is not installed. The message gives the command that installs it."""

    exit_code = 69


def need(library: str, extra: str, user: str) -> None:
    """Raises ExtraMissing if the library that `user` needs is not installed. Loads nothing, so it can be
    called first."""
    if find_spec(library) is None:
        raise ExtraMissing(f"{user} needs {library}: pip install 'answermill[{extra}]'")
