"""Commands that look at single questions of a run."""

from __future__ import annotations

import json as json_format
from collections.abc import Callable
from typing import Annotated

from cyclopts import Group, Parameter

from pipelines.cli.parameters import Run, write_lines
from pipelines.errors import USAGE, JobError

GROUP = Group("Questions", sort_key=1)


def explain(
    run: Run,
    question: Annotated[str, Parameter(help="Id of a question of the run, or its text.")],
    *,
    gold: Annotated[
        str | None,
        Parameter(help="Words of the right answer, in place of the run's labels; letter case and blanks are folded."),
    ] = None,
    first: Annotated[
        int, Parameter(help="Number of candidates to show, the best of the plan; right ones are always shown.")
    ] = 10,
    all: Annotated[bool, Parameter(negative=(), help="Show every candidate.")] = False,
    json: Annotated[bool, Parameter(negative=(), help="Print one JSON object in place of the table.")] = False,
) -> None:
    """Show the way of a question's candidates through retrieval and stages, and where the right answer was lost.

    For each right answer it says what became of it: not in the corpus; not retrieved; retrieved, but no sentence of the list;
    dropped by a stage, at which place of how many, and what its score lacked to the last one that stayed; or kept, at which
    rank. What is right is said by labels/, which `propagate` writes, or by --gold:

    answermill explain RUN q17 --gold "completed in 1970"

    In the table #3 is a rank, beside the score of the index or stage; `exit 1` says that a candidate left within a stage.
    Works on runs that are not finished, as far as they have come, and on runs in an object store.
    """
    if first < 0:
        raise JobError(f"--first {first}: give 0 or more", USAGE)
    from pipelines.explain.explain import explain as explanation_of

    explanation = explanation_of(run, question, gold)
    if json:
        write_lines([json_format.dumps(explanation.json(first, all), ensure_ascii=False)])
    else:
        write_lines(explanation.lines(first, all))


def commands() -> list[Callable[..., object]]:
    """All commands of this module."""
    return [explain]
