"""JSON files that carry their own SHA-256, such as manifests, which hold the digests of other files.

The last member, "sha256", is the digest of every byte before it, and the bytes after it are always the same;
so each byte of the file, even a blank, is compared when the file is read.
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
    """Text of the file; `values` has at least one member, and none named "sha256"."""
    text = json.dumps(values, indent=indent, ensure_ascii=False).removesuffix("}").rstrip("\n")
    return text + _last(text.encode()).decode()


def write_sealed(file: Path, values: Mapping[str, Any], replace: bool = True, indent: int | None = 1) -> bool:
    """Write the file like `atomic_files.write_text`."""
    return write_text(file, sealed(values, indent), replace)


def read_sealed(file: Path, shape: type[T]) -> T:
    """Content of the file, like `atomic_files.read_json`; raises WrongShape also if a byte was changed since
    it was written."""
    return parse_sealed(file, file.read_bytes(), shape)


def parse_sealed(file: Path, content: bytes, shape: type[T]) -> T:
    """Value of the file's `content`, like `read_sealed`."""
    value = parse_json(file, content, shape)
    text, last, _ = content.rpartition(_LAST)
    if not last or content != text + _last(text):
        raise WrongShape(file, "was changed since it was written (SHA-256)", " ")
    return value


def _last(text: bytes) -> bytes:
    return _LAST + hashlib.sha256(text).hexdigest().encode() + b'"}\n'
