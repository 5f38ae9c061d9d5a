"""Candidates: labelled data sets -> a run with their questions and candidates, ready for `answermill rerank`.

Each candidate is a sentence of a retrieved passage: candidates of one document that stand together are a
passage. A candidate whose neighbours the set gives is a passage by itself, since every sentence of a
retrieved passage is a candidate. So a plan of rerankers runs over a data set as over a crawl, with the same
workers and resumption, and scored/ has the data set's own ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

from answermill.pipelines.data.formats import code_of_form, read_dataset, row_count
from answermill.pipelines.data.formats.format import Form, table_form
from answermill.pipelines.errors import BAD_DATA, JobError, check_file, counted
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.progress import reading
from answermill.pipelines.specs.candidates import CANDIDATES, QUESTIONS, RETRIEVED, CandidatesCounts
from answermill.ranking.lists import ranked_list
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import RankedList

QUESTIONS_OF_PART = 256


def write_candidates(files: Sequence[Path], out: Path, form: Form = None) -> str:
    """Write documents/, questions/ and retrieved/ of the run, unless they are there byte for byte; returns a
    line for people.

    Raises JobError: 65 if two of the files have the same question id, 73 if `out` holds another job's output
    or another process is writing there; else as `read_dataset` does.
    """
    for file in files:
        check_file(file)

    inputs = {
        f"{n}: {file.name}": table_form(form).columns.digest(file) for n, file in enumerate(files, 1)
    } | code_of_form(form)  # names may repeat
    step = Step(out, CANDIDATES, {"form": table_form(form).name}, inputs)
    commit = Commit(step)

    with claimed(out):
        if commit.is_complete(checksums=True):
            return f"candidates {out} (complete)"

        commit.begin()
        outcome = Outcome(CandidatesCounts())

        with reading("candidates", _rows(files, form), row_count(files)) as rows:
            lists = _lists(rows)
            for unit, block in enumerate(iter(lambda: list(islice(lists, QUESTIONS_OF_PART)), [])):
                with QUESTIONS.writer(out, unit) as question_part, RETRIEVED.writer(out, unit) as hit_part:
                    question_part.write([ranked.question for ranked in block])
                    for ranked in block:
                        hit_part.write(
                            [hit for hit, _ in groupby(candidate.hit for candidate in ranked.candidates)]
                        )
                counts = CandidatesCounts(
                    questions=len(block), candidates=sum(len(ranked.candidates) for ranked in block)
                )
                parts = {QUESTIONS.name: question_part.parts, RETRIEVED.name: hit_part.parts}
                outcome.add(Report(unit, parts, counts))

        commit.finish(outcome)

    names, counts = ", ".join(file.name for file in files), outcome.counts
    written = f"{counted(counts.questions, 'question')}, {counted(counts.candidates, 'candidate')}"
    return f"candidates {names}: {written}; now `answermill rerank JOB.toml --out {out}`"


def _rows(files: Sequence[Path], form: Form) -> Iterator[tuple[Path, LabelledCandidate]]:
    for file in files:
        yield from ((file, row) for row in read_dataset(file, form))


def _lists(rows: Iterable[tuple[Path, LabelledCandidate]]) -> Iterator[RankedList]:
    first_files: dict[str, Path] = {}
    for (file, question_id), group in groupby(rows, key=lambda pair: (pair[0], pair[1].question_id)):
        candidates = [row for _, row in group]
        _check_new(candidates, first_files.setdefault(question_id, file), file)
        yield ranked_list(candidates, neighbours=False)


def _check_new(rows: Sequence[LabelledCandidate], first: Path, here: Path) -> None:
    if first is not here:
        raise JobError(
            f"{here}: question id {rows[0].question_id!r} is in {first} already; write a run for each of "
            "the files",
            BAD_DATA,
        )
