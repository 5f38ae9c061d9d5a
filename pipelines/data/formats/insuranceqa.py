"""InsuranceQA v1 (HAS, "Datasets"): questions with a pool of 500 of the 24,981 answers. The original files,
and JSON lines.

The original's pools name the right answers first: P@1 is 100 for whatever breaks ties by this order, so it is
no evidence of anything. They also name some answers twice, five per pool; the later place is left out and
counted. Train has no pools: its candidates are the right answers alone, and training draws the wrong ones
from all answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from answermill.pipelines.data.formats.format import FileHead, Format, Options
from answermill.pipelines.data.formats.rows_in_order import Row, field
from answermill.pipelines.data.inputs.text_lines import bad, json_lines, lines
from answermill.pipelines.errors import INPUT_MISSING, JobError

_INDEXED = re.compile(r"(?:idx_\d+ *)+")
_IDS = re.compile(r"\d+(?: +\d+)* *")


_KEYS = {"question_id", "question", "positive_ids"}


class InsuranceqaOptions(Options):
    answers: Path | None = Field(None, description="file of all answers, if it is not beside the questions")
    vocabulary: Path | None = Field(None, description="file of the words, if it is not beside the questions")


class PooledQuestion(NamedTuple):
    """A question, the ids of its right answers, and those of its pool, in their order."""

    line: int
    question_id: str
    question: str
    right: Sequence[str]
    pool: Sequence[str]


def read_insuranceqa(path: Path, counted: Counter[str], options: InsuranceqaOptions) -> Iterator[Row]:
    """Candidates: the pool of each question. `path` is one of question.train.token_idx.label,
    question.{dev,test1,test2}.label.token_idx.pool, or JSON lines with question_id, question, positive_ids,
    and pool_ids or labelled_negative_ids. Answers and vocabulary are looked for beside it, as
    answers.label.token_idx and vocabulary, or answers.jsonl; all answers are held in memory. candidate_id is
    the answer's.

    Counts 'answers twice in a pool', 'right answers outside the pool' and 'pools without a right answer',
    which no protocol but `raw` measures.
    """
    if ".json" in path.name:
        texts = _answers_jsonl(options.answers or _beside(path, "answers.jsonl"))
        questions = _questions_jsonl(path)
    else:
        words = _vocabulary(options.vocabulary or _beside(path, "vocabulary"))
        texts = _answers(options.answers or _beside(path, "answers.label.token_idx"), words)
        questions = _questions(path, words)

    for line, question_id, question, right, pool in questions:
        unique = dict.fromkeys(pool)
        counted["answers twice in a pool"] += len(pool) - len(unique)
        counted["right answers outside the pool"] += len(set(right) - unique.keys())
        counted["pools without a right answer"] += unique.keys().isdisjoint(right)

        for answer_id in unique:
            if answer_id not in texts:
                raise bad(path, line, f"answer {answer_id!r} is not among the {len(texts)} answers")
            yield Row(
                line,
                question_id,
                question,
                texts[answer_id],
                int(answer_id in right),
                answer_id,
                asked_at=line,
            )


def is_insuranceqa(head: FileHead) -> bool:
    if head.first_character == "{":
        return head.first_object.keys() >= _KEYS
    return bool(head.lines) and _is_question_line(head.lines[0])


def _is_question_line(line: str) -> bool:
    """True for a line of an original question file."""
    cells = line.split("\t")
    return len(cells) in (2, 3) and all(
        (_INDEXED if len(cells) - n == 2 else _IDS).fullmatch(c) for n, c in enumerate(cells)
    )


def _questions(path: Path, words: Mapping[str, str]) -> Iterator[PooledQuestion]:
    """A line of train has the tokens and the ids of the right answers; of dev and test, these ids, the tokens
    and the pool."""
    for n, (line, text) in enumerate(lines(path)):
        if not _is_question_line(text):
            raise bad(path, line, f"neither `tokens, ids` nor `ids, tokens, pool`: {text[:60]!r}")
        *right, tokens, last = text.split("\t")
        pool = last.split()
        question = _joined(path, line, tokens, words)
        yield PooledQuestion(
            line, f"insuranceqa-{n:05d}", question, right[0].split() if right else pool, pool
        )


def _questions_jsonl(path: Path) -> Iterator[PooledQuestion]:
    for line, row in json_lines(path):
        right, wrong = _names(path, line, row, "positive_ids"), "labelled_negative_ids"
        pool = (
            _names(path, line, row, "pool_ids")
            if wrong not in row
            else right + _names(path, line, row, wrong)
        )
        question_id, question = (field(path, line, row, name, str) for name in ("question_id", "question"))
        yield PooledQuestion(line, question_id, question, right, pool)


def _names(path: Path, line: int, row: Mapping[str, Any], key: str) -> list[str]:
    """The ids of a list. Raises JobError (65) if it is none, or one of them is no text."""
    ids: list[Any] = field(path, line, row, key, list)
    if not all(isinstance(each, str) for each in ids):
        raise bad(path, line, f"{key} has an id that is no text; write all in quotes")
    return ids


def _answers(path: Path, words: Mapping[str, str]) -> dict[str, str]:
    texts = {}
    for line, text in lines(path):
        answer_id, tab, tokens = text.partition("\t")
        if not tab or answer_id in texts:
            raise bad(
                path, line, f"answer {answer_id!r} comes twice" if tab else f"not `id, tokens`: {text[:60]!r}"
            )
        texts[answer_id] = _joined(path, line, tokens, words)
    return texts


def _answers_jsonl(path: Path) -> dict[str, str]:
    texts = {}
    for line, row in json_lines(path):
        answer_id = field(path, line, row, "answer_id", str)
        if answer_id in texts:
            raise bad(path, line, f"answer {answer_id!r} comes twice")
        texts[answer_id] = field(path, line, row, "text", str)
    return texts


def _vocabulary(path: Path) -> dict[str, str]:
    words = {}
    for line, text in lines(path):
        index, tab, word = text.partition("\t")
        if not tab or not _INDEXED.fullmatch(index):
            raise bad(path, line, f"not `idx_N, word`: {text[:60]!r}")
        words[index] = word
    return words


def _joined(path: Path, line: int, tokens: str, words: Mapping[str, str]) -> str:
    try:
        return " ".join(words[token] for token in tokens.split())
    except KeyError as e:
        raise bad(path, line, f"token {e.args[0]!r} is not in the vocabulary") from e


def _beside(path: Path, name: str) -> Path:
    for file in (path.with_name(name), path.with_name(f"{name}.gz")):
        if file.is_file():
            return file
    raise JobError(f"{path.with_name(name)}: no such file, plain or .gz; {path.name} needs it", INPUT_MISSING)


FORMAT = Format(
    name="insuranceqa",
    about="insuranceQA v1, the original files or JSON lines: the pool of answers",
    read=read_insuranceqa,
    recognise=is_insuranceqa,
    options=InsuranceqaOptions,
)
