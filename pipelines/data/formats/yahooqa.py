"""yahooQA in its published splits (Tay et al. 2017; HAS, "Datasets"): a question's five answers, one of them
right.

The splits are published as a pickle of {"train": {question: [[answer, label], ...], ...}, "dev": ..., "test":
...}. A pickle runs code when it is opened, so none is opened here. If you trust yours, write it as JSON, with
all splits or one:

    python -c "import json, pickle; json.dump(pickle.load(open('env.pkl', 'rb')), open('yahooqa.json', 'w'))"
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from answermill.pipelines.data.formats.format import FileHead, Format, Options
from answermill.pipelines.data.formats.rows_in_order import Row
from answermill.pipelines.data.inputs.text_lines import bad, lines, open_bytes, parse_json
from answermill.pipelines.errors import USAGE, JobError

SPLITS = ("train", "dev", "test")
_HEAD = re.compile(r'\{\s*("(?:train|dev|test)"\s*:\s*\{\s*)?"(?:[^"\\]|\\.)*"\s*:\s*\[\s*\[\s*"')


class YahooqaOptions(Options):
    split: str | None = Field(
        None, description="the split to read of a file that has several: train, dev or test"
    )


def is_yahooqa(head: FileHead) -> bool:
    return _HEAD.match(head.text.lstrip()) is not None


def read_yahooqa(path: Path, counted: Counter[str], options: YahooqaOptions) -> Iterator[Row]:
    """JSON {question: [[answer, label], ...]}, or {split: that}, of which `split` is read. Ids are the
    question's number in it.

    Counts 'questions without a right answer'. Raises JobError: 2 if `split` is missing or unknown, 65 on
    other JSON.
    """
    split = options.split
    with open_bytes(path) as file:
        if file.read(1) == b"\x80":
            raise bad(
                path,
                1,
                "a pickle, which runs code when it is opened; write it as JSON: `answermill dataset --help`",
            )

    content = parse_json(path, _text(path))
    if not isinstance(content, dict):
        raise bad(path, 1, "not a JSON object {question: [[answer, label], ...]}")

    # The names of splits could be questions, whose values are lists.
    has_splits = content and content.keys() <= set(SPLITS)
    if has_splits and all(isinstance(value, dict) for value in content.values()):
        if split not in content:
            raise JobError(
                f"{path}: give split, one of {', '.join(content)}" + (f", not {split!r}" if split else ""),
                USAGE,
            )
        content = content[split]
    elif split is not None:
        raise JobError(f"{path}: split {split!r} is given, but the file has one alone", USAGE)

    for n, (question, answers) in enumerate(content.items()):
        where = f"question {n}"
        if not isinstance(answers, list) or not answers:
            raise bad(path, where, f"no list of [answer, label]: {str(answers)[:60]!r}")

        counted["questions without a right answer"] += not any(
            isinstance(pair, list) and pair[-1:] == [1] for pair in answers
        )
        for pair in answers:
            if (
                not isinstance(pair, list)
                or len(pair) != 2
                or not isinstance(pair[0], str)
                or pair[1] not in (0, 1)
            ):
                raise bad(path, where, f"not [answer, 0 or 1]: {str(pair)[:60]!r}")
            yield Row(where, f"yahooqa-{n:05d}", question, pair[0], int(pair[1]), asked_at=where)


def _text(path: Path) -> str:
    """The whole file. Raises JobError if its gzip is cut short or it is not UTF-8."""
    return "\n".join(text for _, text in lines(path))


FORMAT = Format(
    name="yahooqa",
    about="yahooQA's splits as JSON, {question: [[answer, label], ...]}",
    read=read_yahooqa,
    recognise=is_yahooqa,
    options=YahooqaOptions,
)
