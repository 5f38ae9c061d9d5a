"""Refusal of URLs where only paths of mounted file systems will do, before anything is created under the
name."""

from __future__ import annotations

from pathlib import Path

from answermill.files.remote import Remote, scheme_of
from answermill.pipelines.errors import SETTINGS, JobError


def local_path(written: str | Path) -> Path:
    """The path as it is written, `~` replaced. Raises JobError (78) for a URL, such as s3://bucket/run."""
    if scheme_of(written):
        url = Remote(str(written))
        raise JobError(
            f"{url}: paths on mounted file systems only here, no URLs; copy it, and give that path", SETTINGS
        )
    return Path(written).expanduser()
