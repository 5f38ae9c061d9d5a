"""The folder of an earlier run that a section's key `since` names."""

from __future__ import annotations

from pathlib import Path

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import SETTINGS, JobError


def former_run(job: Job, section: str, run: Path) -> Path | None:
    """The earlier run of a section; None if it names none. Raises JobError (78) if it names this run
    itself."""
    since = getattr(job.section(section), "since", None)
    if since is None:
        return None
    earlier = job.path(since)
    if earlier.resolve() == run.resolve():
        raise JobError(
            f"{section}.since: {earlier} is the run itself; name an earlier one, or give another --out",
            SETTINGS,
        )
    return earlier
