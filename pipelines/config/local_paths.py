"""Paths are of file systems that are mounted; a URL is refused before anything is created under its name."""

from __future__ import annotations

import re
from pathlib import Path

from pipelines.errors import SETTINGS, JobError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")  # `Path` makes one slash of two


def local_path(written: str | Path) -> Path:
    """The path as it is written, `~` replaced. Raises JobError (78) for a URL, such as s3://bucket/run."""
    if url := _URL.match(str(written)):
        place = f"{url[1]}://{str(written)[url.end() :]}"
        raise JobError(f"{place}: paths on mounted file systems only, no URLs; mount or copy it, and give that path", SETTINGS)
    return Path(written).expanduser()
