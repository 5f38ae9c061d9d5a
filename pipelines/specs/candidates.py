"""Candidates, a command: labelled data sets in; a run of their questions and candidates out, in other steps'
folders."""

from __future__ import annotations

from dataclasses import dataclass, replace

from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.spec import Maker, StepSpec
from answermill.pipelines.specs import ingest, retrieve


@dataclass(frozen=True)
class CandidatesCounts(StepCounts):
    """Counts of candidates."""

    questions: int = 0
    candidates: int = 0


MAKER = Maker(
    "candidates", command="candidates FILE --out {run}", removes=("documents", "questions", "retrieved")
)
DOCUMENTS = replace(ingest.DOCUMENTS, maker=MAKER, rows="")
"""Stays empty: a data set has no pages."""
QUESTIONS = replace(retrieve.QUESTIONS, maker=MAKER)
RETRIEVED = replace(retrieve.RETRIEVED, maker=MAKER, rows="")

CANDIDATES = StepSpec(
    MAKER,
    "Read labelled data sets; write documents/, questions/ and retrieved/.",
    (DOCUMENTS, QUESTIONS, RETRIEVED),
    CandidatesCounts,
    item="candidates",
)
