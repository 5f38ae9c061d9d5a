"""JSON files that carry their own SHA-256: what says how other files were written says so of itself.

The last member, "sha256", is the digest of every byte before it, and what follows is always the same; so each
byte of the file, be it a blank, is compared when the file is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from answermill.files.atomic_files import WrongShape, parse_json, write_text

T = TypeVar("T")
_LAST = b',\n "sha256": "'


def sealed(values: Mapping[str, Any], indent: int | None = None) -> str:
    """The text of the file; `values` has at least one member, and none with this name."""
    text = json.dumps(values, indent=indent, ensure_ascii=False).removesuffix("}").rstrip("\n")
    return text + _last(text.encode()).decode()


def write_sealed(file: Path, values: Mapping[str, Any], replace: bool = True, indent: int | None = 1) -> bool:
    """Write the file, as `atomic_files.write_text` does."""
    return write_text(file, sealed(values, indent), replace)


def read_sealed(file: Path, shape: type[T]) -> T:
    """The content, as `atomic_files.read_json` gives it; raises WrongShape too if a byte is not as it was
    written."""
    return parse_sealed(file, file.read_bytes(), shape)


def parse_sealed(file: Path, content: bytes, shape: type[T]) -> T:
    """The value of a content that the file was read to have, as `read_sealed` gives it."""
    value = parse_json(file, content, shape)
    text, last, _ = content.rpartition(_LAST)
    if not last or content != text + _last(text):
        raise WrongShape(file, "was changed since it was written (SHA-256)", " ")
    return value


def _last(text: bytes) -> bytes:
    return _LAST + hashlib.sha256(text).hexdigest().encode() + b'"}\n'
