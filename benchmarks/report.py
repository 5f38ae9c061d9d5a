"""The report of a run of 10,000 questions with 400 candidates each, by a plan of four stages: seconds,
memory, bytes.

`seconds` is all of `answermill report`, in a new process, and `cpu_seconds` its processor time; `peak_gb` is
its highest memory, and `peak_gb_tenth` that for a tenth of the questions; `html_bytes` and `json_bytes` are
the files', `answers_html_bytes` those of the table of all answers beside them. The rows are drawn; those of a
part are those of the first, with other ids of questions.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Part, PartWriter
from answermill.pipelines.runs.spec import AnyCounts
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.rerank import RERANK, RerankCounts, StageCounts
from answermill.pipelines.specs.retrieve import RETRIEVE, RetrieveCounts
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.ranked import Answer, Hit, ScoredCandidate, StageScore
from answermill.schemas.record import Record
from testing.harness import arguments, finish, processes, run_command, say, shrink

TAKES = "ten minutes, 2 GB in TMPDIR"

QUESTIONS, CANDIDATES, SENTENCES, PER_PART = 10_000, 400, 8, 500
"""Questions in all; candidates of a question; sentences of a passage; questions in a part of the folders."""
STAGES = {"cosinet": 400, "first": 25, "cascade": 11, "last": 11}
"""Stage → the candidates that it leaves."""


def main() -> None:
    options = arguments("report", __doc__ or "", needs_data=False)
    if options.smoke:
        shrink(globals(), QUESTIONS=20, CANDIDATES=40, PER_PART=10, STAGES={"cosinet": 40, "last": 5})
    seconds, peaks = {}, {}

    with tempfile.TemporaryDirectory() as folder:
        for questions in (max(1, QUESTIONS // 10), QUESTIONS):
            run = Path(folder) / str(questions)
            # A fork would begin with this process's memory.
            with processes(1, inline=options.smoke) as pool:
                pool.submit(write_run, run, questions).result()
            labels = Path(folder) / "labels.qrels"
            names = (question_id(n // PER_PART, n % PER_PART) for n in range(questions))
            labels.write_text(
                "".join(f"{name} 0 {sentence_id(n % PER_PART, 3)} 1\n" for n, name in enumerate(names))
            )
            say(f"{questions:,} questions are written")

            began, before = time.perf_counter(), sum(os.times()[:4])
            peaks[questions] = run_command("report", run, "--labels", labels, inline=options.smoke)
            seconds[questions], cpu = time.perf_counter() - began, sum(os.times()[:4]) - before
            say(f"{questions:,} questions: {seconds[questions]:.1f} s, {peaks[questions]:.2f} GB")

        quality = json.loads((run / "report.json").read_text(encoding="utf-8"))["quality"]
        if quality["questions"] != QUESTIONS:
            raise SystemExit(f"the report counts {quality['questions']:,} of {QUESTIONS:,} questions")

        sizes = {name: (run / name).stat().st_size for name in ("report.html", "report.json", "answers.html")}

    finish(
        "report",
        {
            "questions": QUESTIONS,
            "candidates": QUESTIONS * CANDIDATES,
            "seconds": seconds[QUESTIONS],
            "cpu_seconds": cpu,
            "peak_gb": peaks[QUESTIONS],
            "peak_gb_tenth": peaks[max(1, QUESTIONS // 10)],
            "html_bytes": sizes["report.html"],
            "json_bytes": sizes["report.json"],
            "answers_html_bytes": sizes["answers.html"],
        },
        options.save,
    )


def question_id(unit: int, number: int) -> str:
    return f"u{unit:05d}-{number}"


def sentence_id(number: int, place: int) -> str:
    return f"{_doc_id(number, place // SENTENCES)}@{place % SENTENCES * 90}"


def _doc_id(number: int, passage: int) -> str:
    return f"{number:08x}{passage:08x}"


def write_run(run: Path, questions: int) -> None:
    """Write questions/, retrieved/, scored/ and answers/, as retrieve and rerank write them."""
    plan = [{"reranker": "overlap", "name": stage, "keep": keep} for stage, keep in STAGES.items()]
    tables = first_part(min(questions, PER_PART))

    def carry_out(step: Step[AnyCounts], counts_of: Callable[[int], AnyCounts]) -> None:
        commit = Commit(step)
        commit.begin()
        units = -(-questions // PER_PART)
        for unit in range(units):
            size = min(PER_PART, questions - unit * PER_PART)
            parts = {
                folder.name: _write(run / folder.name, tables[folder.name], folder.record, unit, size)
                for folder in step.spec
                if folder.name in tables
            }
            step.reports.write(Report(unit, parts, counts_of(size)))
        commit.finish(commit.reported(units))

    carry_out(Step(run, RETRIEVE, {}, {}), retrieve_counts)
    carry_out(Step(run, RERANK, {"stages": plan}, {}), rerank_counts)


def passages() -> int:
    """Passages of a question."""
    return -(-CANDIDATES // SENTENCES)


def retrieve_counts(questions: int) -> RetrieveCounts:
    return RetrieveCounts(questions_given=questions, questions=questions, hits=questions * passages())


def rerank_counts(questions: int) -> RerankCounts:
    """Counts of stages of which each reads the candidates that the one before keeps, at 50 µs a candidate."""
    stages, alive = {}, questions * CANDIDATES
    for stage, keep in STAGES.items():
        stages[stage] = StageCounts(incoming=alive, outgoing=questions * keep, microseconds=50 * alive)
        alive = questions * keep

    candidates = questions * CANDIDATES
    return RerankCounts(
        questions=questions,
        passages=questions * passages(),
        candidates=candidates,
        kept=alive,
        dropped=candidates - alive,
        stages=stages,
    )


def _write(folder: Path, table: pa.Table, record: type[Record], unit: int, size: int) -> tuple[Part, ...]:
    """Write the rows of the first `size` questions as a unit's part."""
    column = table.schema.get_field_index("question_id")
    rows = len(table) if size == PER_PART else int(np.searchsorted(_numbers(table), size))
    ids = pc.replace_substring(table.column(column), "u00000", f"u{unit:05d}")
    with PartWriter(folder, record, unit) as writer:
        writer.write_table(table.set_column(column, table.schema.field(column), ids).slice(0, rows))
    return writer.parts


def _numbers(table: pa.Table) -> np.ndarray:
    """Number of each row's question, within its part."""
    return np.array([int(name.partition("-")[2]) for name in table.column("question_id").to_pylist()])


def first_part(questions: int) -> dict[str, pa.Table]:
    """Folder → the rows of the first part."""
    generator = np.random.default_rng(0)
    asked, hits, rows, answers = list[Question](), list[Hit](), list[ScoredCandidate](), list[Answer]()
    for n in range(questions):
        name, text = question_id(0, n), f"What does page {n} say of the matter that was asked about?"
        asked.append(Question(name, text))
        for p in range(passages()):
            hits.append(Hit(name, text, p + 1, 1 / (61 + p), 9.0, p + 1, 0.5, p + 1, _passage(n, p)))
        question_rows = _candidates(name, text, n, generator)
        rows += question_rows
        first = question_rows[0]
        answers.append(
            Answer(
                name,
                text,
                first.text,
                unit="sentence",
                score=1.0,
                title=first.title,
                url=first.url,
                candidate_id=first.candidate_id,
            )
        )

    return {
        "questions": Question.table(asked),
        "retrieved": Hit.table(hits),
        "scored": ScoredCandidate.table(rows),
        "answers": Answer.table(answers),
    }


def _candidates(name: str, text: str, n: int, generator: np.random.Generator) -> list[ScoredCandidate]:
    """Rows of a question: each stage orders its candidates anew, and keeps the first ones."""
    alive = list(range(CANDIDATES))
    scores: dict[int, list[StageScore]] = {place: [] for place in alive}
    dropped: list[tuple[int, str | None]] = []
    for stage, keep in STAGES.items():
        values = dict(zip(alive, generator.normal(size=len(alive)).round(6).tolist(), strict=True))
        ranked = sorted(alive, key=lambda place: -values[place])
        for rank, place in enumerate(ranked, 1):
            scores[place].append(StageScore(stage, values[place], rank))
        dropped = [*((place, stage) for place in ranked[keep:]), *dropped]
        alive = ranked[:keep]
    kept = [_row(name, text, n, place, rank, None, scores[place]) for rank, place in enumerate(alive, 1)]
    return kept + [_row(name, text, n, place, None, stage, scores[place]) for place, stage in dropped]


def _row(
    name: str, text: str, n: int, place: int, rank: int | None, stage: str | None, scores: list[StageScore]
) -> ScoredCandidate:
    passage = _passage(n, place // SENTENCES)
    sentence = passage.sentences[place % SENTENCES]
    page = (
        passage.passage_id,
        passage.doc_id,
        passage.url,
        passage.title,
        sentence.start,
        sentence.end,
        sentence.text,
    )

    passage_rank = place // SENTENCES + 1
    fate = "kept" if stage is None else "dropped"
    ranks = (1 / (60 + passage_rank), 9.0, passage_rank, 0.5, passage_rank)
    return ScoredCandidate(
        name,
        text,
        "sentence",
        sentence.sentence_id,
        *page,
        rank,
        fate,
        stage,
        place,
        passage_rank,
        *ranks,
        tuple(scores),
    )


@cache
def _passage(n: int, number: int) -> Passage:
    doc_id = _doc_id(n, number)
    texts = [
        f"Sentence {place} of passage {number} says at some length what pages say of such matters."
        for place in range(SENTENCES)
    ]
    sentences = tuple(
        Sentence(f"{doc_id}@{90 * place}", 90 * place, 90 * place + len(text), text)
        for place, text in enumerate(texts)
    )
    text, url = "".join(text.ljust(90) for text in texts), f"https://pages.example/{doc_id}"

    return Passage(
        f"{doc_id}#0", doc_id, url, f"Page {number}", 0, len(text), text, sentences, "pages.warc.gz", 1000 * n
    )


if __name__ == "__main__":
    main()
