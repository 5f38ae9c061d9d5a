"""A data-set format: a line `Q: question`, then lines with its answers, `+ right` or `- wrong`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from answermill.pipelines.data.formats.format import FileHead, Format, Options
from answermill.pipelines.data.formats.rows_in_order import Row
from answermill.pipelines.data.inputs.text_lines import bad, lines


def read(path: Path, counted: Counter[str], options: Options) -> Iterator[Row]:
    """The answers of a file, those of a question one after the other."""
    number, question = 0, ""
    for line, text in lines(path):
        mark, _, rest = text.partition(" ")
        if not text.strip():
            continue
        if mark == "Q:":
            number, question = number + 1, rest
        elif mark in ("+", "-") and question:
            yield Row(line, f"faq-{number}", question, rest, int(mark == "+"))
        else:
            raise bad(path, line, "a line begins with 'Q: ', '+ ' or '- ', and the first with 'Q: '")


def is_faq(head: FileHead) -> bool:
    """True for a file that begins with a question."""
    return head.text.startswith("Q: ")


FORMAT = Format("faq", "lines of Q: question, + right answer, - wrong answer", read, Options, is_faq)
