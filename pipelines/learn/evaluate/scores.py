"""The scores of a file or folder: a scored/ folder, a TREC run, or a table of question_id, candidate_id,
score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from answermill.pipelines.data.inputs.columns import AS_NAMED, SCORES, Columns
from answermill.pipelines.data.inputs.text_lines import bad
from answermill.pipelines.errors import INPUT_MISSING, USAGE, JobError
from answermill.pipelines.learn.evaluate.candidate_values import (
    CandidateValues,
    SureValue,
    read_parquet,
    read_text,
)
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.specs.rerank import SCORED
from answermill.schemas.ranked import answer_kind

FINAL, POSITION = "final", "position"


def read_scores(path: Path, by: str = FINAL, columns: Columns = AS_NAMED) -> CandidateValues:
    """The scores of a file or folder. `by` is for a scored/ folder: `final` is the order of the plan's end,
    with the dropped candidates after the kept ones, the last to be dropped first; `position` is the original
    order; another name is the stage whose scores count; and an ensemble, such as '0.5 * a + 0.5 * b', counts
    for the candidates that all its stages have scored.

    Raises JobError: 66 if nothing is there, 65 if it is not readable as scores, 2 if `by` is neither a stage
    nor an ensemble.
    """
    if not path.exists():
        raise JobError(f"{path}: no such file or folder", INPUT_MISSING)
    if path.is_dir():
        if (path / SCORED.name).is_dir():
            raise JobError(f"{path} is a run; give its folder {path / SCORED.name}", INPUT_MISSING)
        return _folder(path, by)
    if by != FINAL:
        raise JobError(f"--by {by} is for a scored/ folder; {path} has one score per candidate", USAGE)
    return (
        read_parquet(path, SCORES, columns)
        if path.name.endswith(".parquet")
        else CandidateValues.from_rows(path, read_text(path, SCORES, columns, _trec_line))
    )


def bar_of(path: Path) -> float | None:
    """Bar of rerank.answers in the run whose scored/ folder it is; None if it has none, or is a file."""
    rule = Folder.open(path, SCORED).manifest.settings.get("answer_rule") if path.is_dir() else None
    return None if rule is None else float(rule["bar"])


def _trec_line(path: Path, number: int, text: str) -> tuple[str, str, str]:
    """Question, candidate and score of a line of a TREC run, between any white space; ids that hold blanks
    stand between tabs. The score decides, as in trec_eval; the rank is not read."""
    cells, tabs = text.split(), [cell.strip() for cell in text.split("\t")]
    if len(tabs) == 6 and all(tabs):
        cells = tabs
    if len(cells) != 6:
        columns = "question Q0 candidate rank score tag, or a header with question_id, candidate_id, score"
        raise bad(path, number, f"{len(cells)} columns, where a TREC run has 6 ({columns})")
    return cells[0], cells[2], cells[4]


def _folder(path: Path, by: str) -> CandidateValues:
    folder = Folder.open(path, SCORED)
    columns = ["question_id", "candidate_id", "unit", "rank", "position", "fused_score", "stages"]
    stages: set[str] = set()
    values: list[SureValue] = []
    files = []

    for part in folder.parts:
        number = 0
        rows = (row for batch in read_batches(path, part, columns) for row in batch.to_pylist())
        for _, group in groupby(rows, key=lambda row: row["question_id"]):
            question = list(group)
            for n, score, confidence in _list_scores(question, by, stages):
                values.append(
                    (number + n, question[n]["question_id"], question[n]["candidate_id"], score, confidence)
                )
            number += len(question)
        files.append((path / part.file, len(values)))

    if stages and not values:
        unknown = [name for name in _weights(by) if name not in stages] or [by]
        raise JobError(
            f"{path}: no stage {', '.join(map(repr, unknown))}; known: {FINAL}, {POSITION}, "
            f"{', '.join(sorted(stages))}, or a sum such as '0.5 * a + 0.5 * b'",
            USAGE,
        )

    return replace(CandidateValues.from_rows(path, values), files=tuple(files))


def _list_scores(
    rows: Sequence[Mapping[str, Any]], by: str, stages: set[str]
) -> Iterator[tuple[int, float, float | None]]:
    """(row number, score, confidence) of one question's rows, which are the kept ones best first, then the
    departed ones, the last to leave first. Stages that are met are added to `stages`.

    All are of one kind, that in which the plan ends: passages that left a plan of sentences are not among its
    answers, even where it has kept no sentence. The confidence of a place in the final order is its last
    stage's score, and None for departed ones; of a position, retrieval's.
    """
    kind = answer_kind((row["unit"], row["rank"]) for row in rows)

    for n, row in ((n, row) for n, row in enumerate(rows) if row["unit"] == kind):
        if by in (FINAL, POSITION):
            yield (
                (n, float(-n), _last_score(row))
                if by == FINAL
                else (n, float(-row["position"]), row["fused_score"])
            )
            continue

        scores = {stage["stage"]: stage["score"] for stage in row["stages"] if stage["rank"] is not None}
        stages.update(scores)
        weights = {by: 1.0} if by in scores else _weights(by)
        if weights.keys() <= scores.keys():
            score = sum(weight * scores[stage] for stage, weight in weights.items())
            yield n, score, score


def _weights(by: str) -> dict[str, float]:
    """'0.5 * a + b' as {'a': 0.5, 'b': 1}. Raises JobError (2) if a weight is no number, or a stage occurs
    twice."""
    weights: dict[str, float] = {}
    for term in by.split("+"):
        weight, times, stage = term.partition("*")
        name = (stage if times else term).strip()
        try:
            weights[name] = float(weight) if times else 1.0
        except ValueError as e:
            raise JobError(
                f"--by {by}: {weight.strip()!r} is no number; write e.g. '0.5 * a + 0.5 * b'", USAGE
            ) from e

    if len(weights) <= by.count("+"):
        raise JobError(f"--by {by}: a stage is named twice", USAGE)

    return weights


def _last_score(row: Mapping[str, Any]) -> float | None:
    if row["rank"] is None:
        return None
    return float(row["stages"][-1]["score"] if row["stages"] else row["fused_score"])
