"""Check that an index can be built of the run's passages, before a former one is removed."""

from __future__ import annotations

from pathlib import Path

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.steps.models import check_vectors, passage_encoder
from answermill.pipelines.steps.since import given_lucene
from answermill.pipelines.steps.since.given_vectors import check_given, given_vectors


def check_read(job: Job, run: Path) -> None:
    """Refuse passages that are too few for the kind of dense index, or not those of `index.faiss` or
    `index.lucene`; nothing if there are none yet. Raises VectorsUnfit, and JobError as `given_vectors`,
    `check_given` and `given_lucene.check`."""
    if PASSAGES.manifest(run) is None:
        return
    passages = PASSAGES.open(run)
    if job.index.since is None:  # which has a quantizer that is trained already
        check_vectors(job, passages.rows)
    if job.index.faiss is not None:
        check_given(given_vectors(job, passage_encoder(job), passages), passage_encoder(job), passages)
    if job.index.lucene is not None:
        given_lucene.check(job, passages)
