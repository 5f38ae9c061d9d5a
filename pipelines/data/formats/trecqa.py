"""TREC-QA (Wang et al. 2007) in the form of the jacana project: tags on lines of their own, tokens between
tabs.

    <QApairs id='32.1'>
    <question>
    Who   wrote   it   ?          the tokens; parts of speech, dependencies and entities follow, a line each
    </question>
    <positive>                    or <negative>: a candidate, its tokens first
    ...

It only looks like XML: '&' and '<' are not escaped, so lines are read and no entity is resolved. train,
train-all, and the raw and clean dev and test files have this one form. Tokens are joined by blanks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from answermill.pipelines.data.formats.format import FileHead, Format, Options
from answermill.pipelines.data.formats.rows_in_order import Row
from answermill.pipelines.data.inputs.text_lines import bad, lines

PAIRS = re.compile(r"<QApairs id=(['\"])(?P<id>[^'\"]+)\1>")
_BLOCKS = ("question", "positive", "negative")


def is_trecqa(head: FileHead) -> bool:
    return PAIRS.match(head.text.lstrip()) is not None


def read_trecqa(path: Path, counted: Counter[str], options: Options) -> Iterator[Row]:
    """Candidates: the positive and negative blocks, with the set's own question ids. Counts 'questions
    without candidates', which have no row."""
    numbered = ((line, text.strip(" ")) for line, text in lines(path))
    question_id = question = None
    line = asked_at = candidates = 0

    for line, text in numbered:
        if opening := PAIRS.fullmatch(text):
            if question_id is not None:
                raise bad(path, line, f"<QApairs> inside question {question_id!r}")
            question_id, question, asked_at, candidates = opening["id"], None, line, 0
        elif text == "</QApairs>" and question is not None:
            counted["questions without candidates"] += candidates == 0
            question_id = question = None
        elif question_id is not None and text[1:-1] in _BLOCKS and text == f"<{text[1:-1]}>":
            tokens = _block(path, line, text[1:-1], numbered)
            if text == "<question>" and question is None:
                question = tokens
            elif text != "<question>" and question is not None:
                yield Row(
                    line + 1, question_id, question, tokens, int(text == "<positive>"), asked_at=asked_at
                )
                candidates += 1
            else:
                raise bad(
                    path, line, f"{text} where question {question_id!r} has {'one' if question else 'none'}"
                )
        elif text:
            raise bad(path, line, f"unexpected outside a block: {text[:60]!r}")

    if question_id is not None:
        raise bad(path, line, f"ends inside question {question_id!r}")


def _block(path: Path, line: int, tag: str, numbered: Iterator[tuple[int, str]]) -> str:
    """The first line of a block, as text; reads on to its end."""
    tokens: str | None = None
    for _, text in numbered:
        if text == f"</{tag}>":
            if tokens is None:
                raise bad(path, line, f"<{tag}> without tokens")
            return tokens
        if tokens is None:
            tokens = " ".join(text.split("\t"))
        elif PAIRS.fullmatch(text) or text == "</QApairs>":
            break
    raise bad(path, line, f"<{tag}> is not closed")


FORMAT = Format(
    name="trecqa",
    about="TREC-QA as jacana's pseudo-XML: train, train-all, dev and test, raw or clean",
    read=read_trecqa,
    recognise=is_trecqa,
    options=Options,
)
