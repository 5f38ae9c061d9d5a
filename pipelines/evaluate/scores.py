"""Scores and labels, from the files that people have, joined by question id and candidate id.

Scores: a scored/ folder, a TREC run, a Parquet of question_id, candidate_id, score. Labels: an AS2 data set, a labels/
folder, TREC or BEIR qrels, a Parquet of question_id, candidate_id, label. A data set is closed: an id that it does not have
is an error. The others are open: what they do not name is unjudged, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.datasets import read_dataset, recognise
from pipelines.datasets.lines import lines
from pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from pipelines.execution.parquet_folder import MANIFEST, Folder, read_batches, read_manifest
from ranking.evaluation.metrics import UNJUDGED, Judged
from schemas.labels import DocumentLabel, PassageLabel, SentenceLabel
from schemas.ranked import ScoredCandidate
from schemas.record import Record

FINAL = "final"
_IDS: Mapping[type[Record], str] = {SentenceLabel: "sentence_id", PassageLabel: "passage_id", DocumentLabel: "doc_id"}
_LEAST, _MOST = -100, 100
_WANTED = "a data set, a labels/ folder, TREC or BEIR qrels, or a Parquet of question_id, candidate_id, label"


@dataclass(frozen=True, slots=True)
class Rows:
    """A value per question id and candidate id, [n] each, and where each row stands."""

    question_id: pa.Array
    candidate_id: pa.Array
    value: npt.NDArray[np.float64]
    number: npt.NDArray[np.int64]
    """The line from 1 in text, the row from 0 in Parquet."""
    files: tuple[tuple[Path, int], ...]
    """(file, rows up to its end), in order."""
    confidence: npt.NDArray[np.float64] | None = None
    """How sure the ranker is of each, where `value` is but its place in an order; NaN where it is no answer."""

    @classmethod
    def of(cls, path: Path, rows: Iterable[tuple[int, str, str, float] | tuple[int, str, str, float, float]]) -> Rows:
        """From (number, question id, candidate id, value), with or without a confidence, per row of one file."""
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
        number, questions, candidates, values, *rest = columns
        ids = (pa.array(questions, pa.string()), pa.array(candidates, pa.string()))
        confidence = np.array(rest[0], np.float64) if rest else None
        return cls(*ids, np.array(values, np.float64), np.array(number, np.int64), ((path, len(number)),), confidence)

    def __len__(self) -> int:
        return len(self.value)

    def at(self, n: int) -> str:
        """File and line of row n, for people."""
        file = next(path for path, end in self.files if n < end)
        where = int(self.number[n])
        return f"{file}, row {where}" if file.name.endswith(".parquet") else f"{file}:{where}"


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels by question and candidate: 0 = wrong, 1 or more = correct, by so much; checked."""

    rows: Rows
    closed: bool
    questions: Mapping[str, str]
    """question id → its text, where the file has it."""

    @property
    def source(self) -> str:
        return str(self.rows.files[0][0])

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise JobError(f"{self.source}: no label in it", BAD_DATA)
        label = self.rows.value
        for n in np.flatnonzero(~((label == np.round(label)) & (label >= _LEAST) & (label <= _MOST)))[:1]:
            raise JobError(
                f"{self.rows.at(n)}: label {label[n]:g}; it must be a whole number from {_LEAST} to {_MOST}", BAD_DATA
            )


@dataclass(frozen=True, slots=True)
class Joined:
    """The questions that have labels, in the labels' order, with all their judged and all their ranked candidates."""

    question_ids: tuple[str, ...]
    texts: tuple[str, ...]
    judged: Judged
    confidence: npt.NDArray[np.float64]
    """How sure the ranker is of each candidate of `judged`; NaN where it is not ranked."""
    unknown_questions: int
    """Questions of the scores that the labels do not have: left out."""


def read_labels(path: Path, form: str | None = None) -> Labels:
    """Raises JobError: 66 where the file is missing, 65 with the line where a row is wrong or there is no label at all."""
    if not path.exists():
        raise JobError(f"{path}: no such file or folder", INPUT_MISSING)
    if path.is_dir():
        return Labels(_folder_labels(path), closed=False, questions={})
    if form or recognise(path):
        texts: dict[str, str] = {}
        return Labels(Rows.of(path, _dataset_rows(path, form, texts)), closed=True, questions=texts)
    rows = _parquet_rows(path, "label") if path.name.endswith(".parquet") else Rows.of(path, _qrels(path))
    return Labels(rows, closed=False, questions={})


def read_scores(path: Path, by: str = FINAL) -> Rows:
    """The scores of a file or folder. `by` is for a scored/ folder: `final` is the plan's own order, what was dropped last
    first after what was kept; `position` the original order; else the score of the stage of that name, or an ensemble's, such
    as '0.5 * a + 0.5 * b', of the candidates that all its stages have scored.

    Raises JobError: 66 where nothing is there, 65 where it is not readable as scores, 2 where `by` is of no use.
    """
    if not path.exists():
        raise JobError(f"{path}: no such file or folder", INPUT_MISSING)
    if path.is_dir():
        return _folder_scores(path, by)
    if by != FINAL:
        raise JobError(f"--by {by} is for a scored/ folder; {path} has one score per candidate", USAGE)
    return _parquet_rows(path, "score") if path.name.endswith(".parquet") else Rows.of(path, _run(path))


def join(scores: Rows, labels: Labels) -> Joined:
    """Raises JobError (65), with file and line, on a score that is not finite, a candidate that comes twice, an id that a
    closed data set does not have; and where no question of the scores has a label, or there is no score at all."""
    ids, asked, question = _codes(labels.rows.question_id, scores.question_id)
    names, held, candidate = _codes(labels.rows.candidate_id, scores.candidate_id)
    keys, label = _unique_labels(labels.rows, asked * len(names) + held)
    questions = int(asked.max()) + 1
    key = question * len(names) + candidate

    place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    known = keys[place] == key
    _check_scores(scores, key, known if labels.closed else None, labels.source)
    ours = question < questions
    if not ours.any():
        met = f"none of its {len(set(question.tolist()))} questions has a label in {labels.source}"
        raise JobError(f"the scores: {met if len(scores) else 'no score in it'}", BAD_DATA)
    missing = ~np.isin(keys, key[known])
    judged = Judged(
        questions,
        np.concatenate([question[ours], keys[missing] // len(names)]),
        np.concatenate([scores.value[ours], np.zeros(missing.sum())]),
        np.concatenate([np.where(known, label[place], UNJUDGED)[ours], label[missing]]),
        np.concatenate([np.ones(ours.sum(), np.bool_), np.zeros(missing.sum(), np.bool_)]),
    )
    sure = scores.value if scores.confidence is None else scores.confidence
    return Joined(
        question_ids=tuple(ids[:questions]),
        texts=tuple(labels.questions.get(q, "") for q in ids[:questions]),
        judged=judged,
        confidence=np.concatenate([sure[ours], np.full(missing.sum(), np.nan)]),
        unknown_questions=len(np.unique(question[~ours])),
    )


def _codes(first: pa.Array, second: pa.Array) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(the different strings, those of `first` first; the number of each of `first`; of each of `second`)."""
    encoded = pa.chunked_array([pa.concat_arrays([first, second])]).dictionary_encode().combine_chunks()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return encoded.dictionary.to_pylist(), codes[: len(first)], codes[len(first) :]


def _unique_labels(rows: Rows, key: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(keys ascending, their labels). A candidate may be labelled twice, but not with two labels."""
    order = np.argsort(key, kind="stable")
    keys, label = key[order], rows.value[order].astype(np.int64)
    again = np.concatenate([[False], keys[1:] == keys[:-1]])
    for n in np.flatnonzero(again & (label != np.roll(label, 1)))[:1]:
        row, first = int(order[n]), int(label[n - 1])
        who = f"{rows.candidate_id[row]} of question {rows.question_id[row]}"
        raise JobError(f"{rows.at(row)}: {who} is labelled {first} and {label[n]}", BAD_DATA)
    return keys[~again], np.maximum(label[~again], 0)  # TREC's negative judgements are kinds of wrong


def _check_scores(scores: Rows, key: npt.NDArray[np.int64], known: npt.NDArray[np.bool_] | None, source: str) -> None:
    """Raises JobError (65) for the first row that is wrong."""
    first = np.zeros(len(key), np.bool_)
    first[np.unique(key, return_index=True)[1]] = True
    infinite = ~np.isfinite(scores.value)
    strange = np.zeros(len(key), np.bool_) if known is None else ~known
    for n in np.flatnonzero(infinite | ~first | strange)[:1]:
        who = f"candidate {scores.candidate_id[n]} of question {scores.question_id[n]}"
        if infinite[n]:
            what = f"score {scores.value[n]} for {who}"
        else:
            what = f"{who} is not in {source}" if strange[n] else f"{who} comes twice"
        raise JobError(f"{scores.at(n)}: {what}", BAD_DATA)


# Labels.


def _dataset_rows(path: Path, form: str | None, texts: dict[str, str]) -> Iterator[tuple[int, str, str, float]]:
    for n, row in enumerate(read_dataset(path, form)):
        texts.setdefault(row.question_id, row.question)
        yield n, row.question_id, row.candidate_id, row.label


def _folder_labels(path: Path) -> Rows:
    manifest = read_manifest(path)
    record = next((r for r in _IDS if manifest and r.__name__ == manifest.record), None)
    if record is None:
        inside = f"holds {manifest.record}" if manifest else f"has no {MANIFEST}"
        raise JobError(f"{path} {inside}; give one of the folders below labels/, which `answermill propagate` writes", BAD_DATA)
    rows = (row.to_dict() for row in Folder.open(path, record, "propagate").read())
    return Rows.of(path, ((n, row["question_id"], row[_IDS[record]], row["label"]) for n, row in enumerate(rows)))


def _qrels(path: Path) -> Iterator[tuple[int, str, str, float]]:
    """TREC: question, iteration, candidate, label between blanks. BEIR: a header; question, candidate, label between tabs."""
    for number, text in lines(path):
        cells = text.split("\t") if "\t" in text else text.split()
        if not cells or (number == 1 and cells[:2] == ["query-id", "corpus-id"]):
            continue
        if len(cells) not in (3, 4):
            raise JobError(f"{path}:{number}: {len(cells)} columns, where qrels have 4 (BEIR's 3); give {_WANTED}", BAD_DATA)
        yield number, cells[0], cells[-2], _number(path, number, "label", cells[-1])


# Scores.


def _folder_scores(path: Path, by: str) -> Rows:
    folder = Folder.open(path, ScoredCandidate, "rerank")
    columns = ["question_id", "candidate_id", "unit", "rank", "position", "fused_score", "stages"]
    stages: set[str] = set()
    made: list[tuple[int, str, str, float, float]] = []
    files = []
    for part in folder.parts:
        number = 0
        rows = (row for batch in read_batches(path, part, columns) for row in batch.to_pylist())
        for _, group in groupby(rows, key=lambda row: row["question_id"]):
            of_question = list(group)
            for place, score, confidence in _list_scores(of_question, by, stages):
                row = of_question[place]
                made.append((number + place, row["question_id"], row["candidate_id"], score, confidence))
            number += len(of_question)
        files.append((path / part.file, len(made)))
    if stages and not made:
        raise JobError(f"{path}: no stage {by!r}; known: {FINAL}, position, {', '.join(sorted(stages))}", USAGE)
    found = Rows.of(path, made)
    return replace(found, files=tuple(files))


def _list_scores(rows: Sequence[Mapping[str, Any]], by: str, stages: set[str]) -> Iterator[tuple[int, float, float]]:
    """(row number, score, confidence). The rows of a question stand best first, then those that left, the last to leave first.

    All are of one unit, that of what the plan leaves: passages that left a plan of sentences are not among its answers.
    The confidence of a place in the final order is its last stage's score, and NaN for what left; of a position, retrieval's.
    """
    unit = next((row["unit"] for row in rows if row["rank"] is not None), rows[0]["unit"])
    for n, row in ((n, row) for n, row in enumerate(rows) if row["unit"] == unit):
        if by in (FINAL, "position"):
            yield (n, float(-n), _last_score(row)) if by == FINAL else (n, float(-row["position"]), row["fused_score"])
            continue
        scores = {stage["stage"]: stage["score"] for stage in row["stages"]}
        stages.update(scores)
        wanted = {by: 1.0} if by in scores else _weights(by)
        if wanted.keys() <= scores.keys():
            score = sum(weight * scores[stage] for stage, weight in wanted.items())
            yield n, score, score


def _weights(by: str) -> dict[str, float]:
    """'0.5 * a + b' as {'a': 0.5, 'b': 1}. Raises JobError (2) where a weight is no number, or a stage comes twice."""
    made: dict[str, float] = {}
    for term in by.split("+"):
        weight, times, stage = term.partition("*")
        name = (stage if times else term).strip()
        try:
            made[name] = float(weight) if times else 1.0
        except ValueError as e:
            raise JobError(f"--by {by}: {weight.strip()!r} is no number; write e.g. '0.5 * a + 0.5 * b'", USAGE) from e
    if len(made) <= by.count("+"):
        raise JobError(f"--by {by}: a stage is named twice", USAGE)
    return made


def _last_score(row: Mapping[str, Any]) -> float:
    if row["rank"] is None:
        return np.nan
    return float(row["stages"][-1]["score"] if row["stages"] else row["fused_score"])


def _run(path: Path) -> Iterator[tuple[int, str, str, float]]:
    """A TREC run's score decides, as in trec_eval; its rank is not read."""
    for number, text in lines(path):
        cells = text.split()
        if not cells:
            continue
        if len(cells) != 6:
            columns = "question Q0 candidate rank score tag"
            raise JobError(f"{path}:{number}: {len(cells)} columns, where a TREC run has 6 ({columns})", BAD_DATA)
        yield number, cells[0], cells[2], _number(path, number, "score", cells[4])


# Files.


def _number(path: Path, line: int, what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise JobError(f"{path}:{line}: {what} {text!r} is no number", BAD_DATA) from None


def _parquet_rows(path: Path, value: str) -> Rows:
    """The rows of a Parquet file with question_id, an id of the candidate, and `value`."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            ids = next((n for n in ("candidate_id", "sentence_id", "passage_id", "doc_id") if n in names), "candidate_id")
            columns = ("question_id", ids, value)
            if missing := [n for n in columns if n not in names]:
                raise JobError(f"{path}: no column {', '.join(missing)}; it has {', '.join(names)}", BAD_DATA)
            table = file.read(columns=list(columns)).combine_chunks()
    except (pa.ArrowInvalid, OSError) as e:
        raise JobError(f"{path}: not readable as Parquet: {e}", BAD_DATA) from e
    for name in columns:
        for n in np.flatnonzero(table.column(name).is_null().to_numpy())[:1]:
            raise JobError(f"{path}, row {n}: null where {', '.join(columns)} are needed", BAD_DATA)
    try:
        kinds = (pa.string(), pa.string(), pa.float64())
        made = [table.column(name).cast(kind) for name, kind in zip(columns, kinds, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise JobError(f"{path}: {value} is no number, or an id no text: {e}", BAD_DATA) from e
    question_id, candidate_id, values = (column.combine_chunks() for column in made)
    numbers = np.arange(len(table), dtype=np.int64)
    return Rows(question_id, candidate_id, values.to_numpy(zero_copy_only=False), numbers, ((path, len(table)),))
