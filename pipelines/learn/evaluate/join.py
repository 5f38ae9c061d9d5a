"""Scores joined with labels by question id and candidate id, as the arrays that the metrics read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from answermill.pipelines.errors import BAD_DATA, JobError, counted
from answermill.pipelines.learn.evaluate.candidate_values import CandidateValues
from answermill.pipelines.learn.evaluate.reference_labels import ReferenceLabels
from answermill.ranking.evaluation.metrics import UNJUDGED, Judged
from answermill.schemas.arrays import Bools, Floats, Ints


class NothingJudged(JobError):
    """The labels are of other questions or candidates than the scores (65)."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The questions that have labels, in the labels' order, with all their judged and all their ranked
    candidates."""

    question_ids: tuple[str, ...]
    texts: tuple[str, ...]
    """The questions; '' for each if the labels do not have their texts."""
    firsts: tuple[str, ...]
    """Id of each question's first candidate by score, the first in the file of those that tie; '' without
    one."""
    judged: Judged
    confidence: Floats
    """The ranker's confidence in each candidate of `judged`; 0 for one that is no answer."""
    is_answer: Bools
    """True for each that may be the answer; False if the ranker has dropped it, or has not ranked it."""
    unknown_questions: int
    """Questions of the scores that the labels do not have: left out."""


def join(scores: CandidateValues, labels: ReferenceLabels) -> Joined:
    """Join scores with labels. Raises JobError (65), with file and line, on a score or confidence that is not
    finite, a candidate that occurs twice, or an id that a closed data set does not have; NothingJudged if no
    question or no candidate of the scores has a label, or there is no score at all."""
    question_ids, label_question, score_question = _number(labels.values.question_id, scores.question_id)
    names, label_candidate, score_candidate = _number(labels.values.candidate_id, scores.candidate_id)
    keys, label = _unique_labels(labels.values, label_question * len(names) + label_candidate)
    questions = int(label_question.max()) + 1
    key = score_question * len(names) + score_candidate

    place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    known = keys[place] == key
    _check_scores(scores, key, known if labels.closed else None, labels.source)
    labelled = score_question < questions

    if not labelled.any():
        count = len(set(score_question.tolist()))
        problem = (
            f"{counted(count, 'question')}, none with a label in {labels.source}"
            if len(scores)
            else "no score in it"
        )
        (path, _), *others = scores.files
        more = f" and {counted(len(others), 'more file')}" if others else ""
        raise NothingJudged(f"{path}{more}: {problem}", BAD_DATA)

    if not known.any():
        raise NothingJudged(
            f"{scores.files[0][0]}: none of {counted(int(labelled.sum()), 'candidate')} has a label in "
            f"{labels.source}; are the labels of passages, and the scores of sentences, or of another run?",
            BAD_DATA,
        )

    missing = ~np.isin(keys, key[known])
    judged = Judged(
        questions,
        np.concatenate([score_question[labelled], keys[missing] // len(names)]),
        np.concatenate([scores.value[labelled], np.zeros(missing.sum())]),
        np.concatenate([np.where(known, label[place], UNJUDGED)[labelled], label[missing]]),
        np.concatenate([np.ones(labelled.sum(), np.bool_), np.zeros(missing.sum(), np.bool_)]),
    )
    confidence, is_answer = _confidences(scores)
    first = _first_rows(score_question[labelled], scores.value[labelled], questions)
    first_names = [names[n] for n in score_candidate[labelled][first]]

    return Joined(
        question_ids=tuple(question_ids[:questions]),
        texts=tuple(labels.questions.get(q, "") for q in question_ids[:questions]),
        firsts=tuple(name if n >= 0 else "" for n, name in zip(first, first_names, strict=True)),
        judged=judged,
        confidence=np.concatenate([confidence[labelled], np.zeros(missing.sum())]),
        is_answer=np.concatenate([is_answer[labelled], np.zeros(missing.sum(), np.bool_)]),
        unknown_questions=len(np.unique(score_question[~labelled])),
    )


def _number(first: pa.Array, second: pa.Array) -> tuple[list[str], Ints, Ints]:
    """(the different strings, those of `first` first; the number of each of `first`; of each of `second`)."""
    encoded = pa.chunked_array([pa.concat_arrays([first, second])]).dictionary_encode().combine_chunks()
    numbers: npt.NDArray[np.int64] = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return encoded.dictionary.to_pylist(), numbers[: len(first)], numbers[len(first) :]


def _unique_labels(values: CandidateValues, key: Ints) -> tuple[Ints, Ints]:
    """(keys ascending, their labels). A candidate may be labelled twice, but not with two labels."""
    order = np.argsort(key, kind="stable")
    keys, label = key[order], values.value[order].astype(np.int64)
    repeated = np.concatenate([[False], keys[1:] == keys[:-1]])
    for n in np.flatnonzero(repeated & (label != np.roll(label, 1)))[:1]:
        row, first = int(order[n]), int(label[n - 1])
        candidate = f"{values.candidate_id[row]} of question {values.question_id[row]}"
        raise JobError(f"{values.where(row)}: {candidate} is labelled {first} and {label[n]}", BAD_DATA)
    return keys[~repeated], np.maximum(label[~repeated], 0)  # TREC's negative judgements are kinds of wrong


def _first_rows(question: Ints, value: Floats, questions: int) -> Ints:
    """[questions]: the row of each question's highest value, the first of those that tie; -1 without a row.

    >>> _first_rows(np.array([0, 0, 2, 0]), np.array([1.0, 3.0, 2.0, 3.0]), 3).tolist()
    [1, -1, 2]
    """
    best = np.full(questions, -np.inf)
    np.maximum.at(best, question, value)
    rows = np.flatnonzero(value == best[question])[::-1]  # the first last, which then stays
    first = np.full(questions, -1, np.int64)
    first[question[rows]] = rows
    return first


def _confidences(scores: CandidateValues) -> tuple[Floats, Bools]:
    """([n] the ranker's confidence in each score's candidate; [n] True if it may be the answer)."""
    confidence = scores.value if scores.confidence is None else scores.confidence
    return confidence, np.ones(len(scores), np.bool_) if scores.is_answer is None else scores.is_answer


def _check_scores(scores: CandidateValues, key: Ints, known: Bools | None, source: str) -> None:
    """Raise JobError (65) for the first score that is wrong."""
    first = np.zeros(len(key), np.bool_)
    first[np.unique(key, return_index=True)[1]] = True
    infinite, unsure = ~np.isfinite(scores.value), ~np.isfinite(_confidences(scores)[0])
    unknown = np.zeros(len(key), np.bool_) if known is None else ~known

    for n in np.flatnonzero(infinite | unsure | ~first | unknown)[:1]:
        candidate = f"candidate {scores.candidate_id[n]} of question {scores.question_id[n]}"
        if infinite[n]:
            problem = f"score {scores.value[n]} for {candidate}"
        elif unsure[n]:
            problem = f"confidence {_confidences(scores)[0][n]} for {candidate}"
        else:
            problem = f"{candidate} is not in {source}" if unknown[n] else f"{candidate} comes twice"
        raise JobError(f"{scores.where(n)}: {problem}", BAD_DATA)
