"""A run of given rows, written as the steps write theirs, for what a real one cannot be made to hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.spec import StepSpec
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.ingest import INGEST, IngestCounts
from answermill.pipelines.specs.rerank import RERANK, RerankCounts, StageCounts
from answermill.pipelines.specs.retrieve import RETRIEVE, RetrieveCounts
from answermill.schemas.corpus import Passage, Question, Rejected, Sentence
from answermill.schemas.ranked import Answer, CandidateKind, Hit, ScoredCandidate, StageScore
from answermill.schemas.record import Record

Rows = Mapping[str, Sequence[Record]]


def commit(
    run: Path,
    spec: StepSpec[Any],
    rows: Rows,
    counts: StepCounts,
    inputs: Mapping[str, str] = {},
    **settings: Any,
) -> None:
    """Write the folders of a step as one unit, and commit them."""
    step = Step(run, spec, settings, inputs)
    Commit(step).begin()
    parts = {}
    for folder in spec:
        with PartWriter(run / folder.name, folder.record, 0) as writer:
            writer.write(list(rows.get(folder.name, ())))
        parts[folder.name] = writer.parts
    step.reports.write(Report(0, parts, counts))
    Commit(step).finish(Commit(step).reported(1))


def passage(
    text: str, url: str = "https://a.example/", title: str = "A", source_file: str = "web.warc.gz"
) -> Passage:
    """A passage of one sentence after the word 'Before'."""
    start, whole = len("Before "), f"Before {text} after."
    sentence = Sentence(f"d@{start}", start, start + len(text), text)
    return Passage("d#0", "d", url, title, 0, len(whole), whole, (sentence,), source_file, 7, "")


def write_run(
    run: Path,
    question: str,
    page: Passage,
    stages: Sequence[str] = ("first", "last"),
    reason: str = "too_short",
    question_id: str = "q",
    unit: CandidateKind = "sentence",
    more: Mapping[str, StageCounts] = {},
    inputs: Mapping[str, str] = {},
) -> Path:
    """A run with one question, whose answer is a passage, or its only sentence; `stages` score it, and drop
    nothing. `more`: further counts of a stage; `inputs`: those of ingest."""
    (sentence,) = page.sentences
    hit = Hit(question_id, question, 1, 0.1, 2.0, 1, None, None, page)
    scores = tuple(StageScore(stage, 0.5 * n, 1) for n, stage in enumerate(stages, 1))
    place = (page.passage_id, page.doc_id, page.url, page.title, sentence.start, sentence.end, sentence.text)
    candidate_id = sentence.sentence_id if unit == "sentence" else page.passage_id
    row = ScoredCandidate(
        question_id,
        question,
        unit,
        candidate_id,
        *place,
        1,
        "kept",
        None,
        0,
        1,
        0.1,
        2.0,
        1,
        None,
        None,
        scores,
    )

    answer = Answer(
        question_id,
        question,
        sentence.text,
        unit="sentence",
        score=1.0,
        title=page.title,
        url=page.url,
        candidate_id=sentence.sentence_id,
    )
    rejects = [Rejected(page.source_file, 0, "", page.url, reason, "")]
    commit(
        run,
        INGEST,
        {"passages": [page], "rejects": rejects},
        IngestCounts(pages=2, documents=1, rejected={reason: 1}),
        inputs,
    )

    asked = {"questions": [Question(question_id, question)], "retrieved": [hit]}
    commit(run, RETRIEVE, asked, RetrieveCounts(questions_given=1, questions=1))
    spent = {
        stage: StageCounts(incoming=1, outgoing=1, microseconds=n * 1_000_000)
        + more.get(stage, StageCounts())
        for n, stage in enumerate(stages, 1)
    }
    counts = RerankCounts(questions=1, passages=1, candidates=1, kept=1, stages=spent)
    plan = [{"reranker": "overlap", "name": stage, "keep": None} for stage in stages]
    commit(run, RERANK, {"scored": [row], "answers": [answer]}, counts, stages=plan)

    return run
