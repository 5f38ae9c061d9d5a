"""Preview of a pack: guidelines and first tasks in one page, as its annotators will see them, though each
tool has its own looks. The page loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from markdown_it import MarkdownIt

from answermill.pipelines.data.annotation_tools.tool import LABELS, WORDING, Model, marked_html
from answermill.schemas.annotation import Task

SHOWN = 10
"""First tasks of a pack that its preview has."""
_BEFORE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Preview of a pack</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
body { overflow-wrap: anywhere; }
h2, p, li { unicode-bidi: plaintext; }
article { border-top: 1px solid; padding: 1rem 0; }
fieldset { border: 0; padding: 0; }
label { margin-right: 1rem; }
</style>
</head>
<body>
"""


def instructions(guidelines: str) -> str:
    """Guidelines in Markdown as HTML; HTML in them is shown as text.

    >>> instructions("Be *kind* to <b>.")
    '<p>Be <em>kind</em> to &lt;b&gt;.</p>\\n'
    """
    html: str = MarkdownIt("commonmark", {"html": False}).render(guidelines)
    return html


def preview(guidelines: str, tasks: Sequence[Task], model: Model | None) -> str:
    """The page. `model`: as of the pack; None if it shows no prediction."""
    shown = "".join(_task(n, task, model) for n, task in enumerate(tasks[:SHOWN], 1))
    return f"{_BEFORE}<main>\n{instructions(guidelines)}\n{shown}</main>\n</body>\n</html>\n"


def _task(number: int, task: Task, model: Model | None) -> str:
    chosen = "" if model is None else model.prediction(task)[0]
    marks = {label: " checked" if label == chosen else "" for label in LABELS}
    labels = "".join(
        f'<label><input type="radio" name="{number}"{mark}> {label}</label>\n'
        for label, mark in marks.items()
    )
    return (
        f'<article>\n<h2 dir="auto">{escape(task.question)}</h2>\n<p dir="auto">{escape(task.sentence)}</p>\n'
        f"<fieldset>\n<legend>{WORDING}</legend>\n{labels}</fieldset>\n{marked_html(task)}\n</article>\n"
    )
