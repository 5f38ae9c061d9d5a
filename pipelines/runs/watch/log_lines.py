"""Lines on stderr: as people read them, or each a JSON object, as collectors of logs do. Loads next to nothing."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Literal

Form = Literal["text", "json"]
_form: list[Form] = ["text"]


def choose(form: Form) -> None:
    """How this process writes its lines from now on."""
    _form[0] = form


def is_json() -> bool:
    return _form[0] == "json"


def of(level: str, message: str, **more: object) -> str:
    """A line that says this; `more` is for collectors only."""
    if not is_json():
        return message
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return json.dumps({"time": now, "level": level, "message": message, **more}, ensure_ascii=False)


def write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Formatter(logging.Formatter):
    """What libraries log, in a line."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return of(record.levelname.lower(), text, logger=record.name) if is_json() else text
