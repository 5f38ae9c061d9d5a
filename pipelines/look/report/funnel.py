"""Funnel of a run: from pages to passages, and from retrieved passages to kept candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from answermill.pipelines.errors import counted
from answermill.pipelines.look.report.figures import Amount
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST, PASSAGES
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED
from answermill.pipelines.specs.run import Run

RETRIEVED_PASSAGES = "retrieved passages"


def corpus(run: Run) -> Iterator[Amount]:
    """Amounts from pages to passages."""
    counts = run.counts(INGEST)
    if counts.pages:
        yield Amount("pages", counts.pages, f"{counted(counts.rejects, 'page')} refused")
    for folder in (DOCUMENTS, PASSAGES):
        if (manifest := run.get(folder)) is not None:
            sentences = (
                counted(counts.sentences, "sentence") if folder is PASSAGES and counts.sentences else ""
            )
            yield Amount(folder.name, manifest.rows, sentences)


def candidates(run: Run, dropped: Mapping[str, int]) -> Iterator[Amount]:
    """Amounts from retrieved passages to kept candidates. `dropped`: stage, in the plan's order → number of
    candidates that it dropped."""
    retrieved, counts = run.get(RETRIEVED), run.counts(RERANK)
    if retrieved is not None:
        questions = run.get(QUESTIONS)
        note = f"for {counted(questions.rows, 'question')}" if questions else ""
        yield Amount(RETRIEVED_PASSAGES, retrieved.rows, note)

    if not run.is_complete(RERANK):
        return

    yield Amount("candidates", counts.candidates, "sentences or passages")
    for stage, number in dropped.items():
        outgoing = counts.stages[stage].outgoing if stage in counts.stages else 0
        yield Amount(f"after {stage}", outgoing, f"{number:,} dropped" if number else "none dropped")

    yield Amount("kept", counts.kept, f"for {counted(counts.questions, 'question')}")
