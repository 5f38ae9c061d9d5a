"""The folders that each step writes into a run, and the record of each: read without the steps' code, which is slow to load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from answermill.schemas.annotation import Annotation, Conflict, ResolvedLabel, Task
from answermill.schemas.corpus import Document, Passage, Question, Rejected
from answermill.schemas.labels import DocumentLabel, LabelConflict, PassageLabel, SentenceLabel, WindowLabel
from answermill.schemas.ranked import Answer, Hit, ScoredCandidate
from answermill.schemas.record import Record

Outputs: TypeAlias = Mapping[str, type[Record]]
"""Folder below the run folder → the record that it holds."""

INPUTS, PACK_SUMMARY, AGREEMENT, OPEN_TASKS = "inputs.json", "packs.json", "agreement.json", "adjudication.csv"
"""Files that are no rows: of ingest in the run folder, of annotate in packs/, and two of collect in collected/."""
REPORT_PAGE, REPORT = "report.html", "report.json"
"""The run's report, for people, and its figures."""

INGEST: Outputs = {"documents": Document, "passages": Passage, "rejects": Rejected}
INDEX: Outputs = {"shards": Passage}
RETRIEVE: Outputs = {"questions": Question, "retrieved": Hit, "questions_rejects": Rejected}
RERANK: Outputs = {"scored": ScoredCandidate, "answers": Answer, "scored_rejects": Rejected}
ANNOTATE: Outputs = {"tasks": Task}
COLLECT: Outputs = {
    "collected/annotations": Annotation,
    "collected/labels": ResolvedLabel,
    "collected/conflicts": Conflict,
    "collected/rejects": Rejected,
}
PROPAGATE: Outputs = {
    "labels/sentences": SentenceLabel,
    "labels/passages": PassageLabel,
    "labels/documents": DocumentLabel,
    "labels/windows": WindowLabel,
    "labels/conflicts": LabelConflict,
    "labels/rejects": Rejected,
}
