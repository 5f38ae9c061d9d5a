"""Lines of a command: text for people, or JSON objects for collectors of logs. Loads next to nothing."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Literal

Form = Literal["text", "json"]
_form: list[Form] = ["text"]


def choose(form: Form) -> None:
    """Set the form of the lines that this process writes from now on."""
    _form[0] = form


def is_json() -> bool:
    """True if lines are for collectors."""
    return _form[0] == "json"


def line(message: str, level: str = "info", text: str | None = None, **more: object) -> str:
    """A line with its end: for people `text`, or the message if there is none; for collectors level, message,
    and `more`."""
    return (_object(level, message, more) if is_json() else message if text is None else text) + "\n"


def write(message: str, level: str = "info", text: str | None = None, **more: object) -> None:
    """Write the `line` of these arguments to stderr."""
    sys.stderr.write(line(message, level, text, **more))
    sys.stderr.flush()


def _object(level: str, message: str, more: dict[str, object]) -> str:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return json.dumps({"time": now, "level": level, "message": message, **more}, ensure_ascii=False)


class Formatter(logging.Formatter):
    """Formatter of the records that libraries log."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return _object(record.levelname.lower(), text, {"logger": record.name}) if is_json() else text
