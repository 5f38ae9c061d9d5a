"""Commands that look at single questions of a run."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, TextIO

from cyclopts import Group, Parameter

from pipelines.cli.parameters import JobFile, Overrides, Run, write_lines
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


def ask(
    run: Run,
    *questions: Annotated[str, Parameter(help="The questions; without one they are read from stdin, a line each.")],
    job: Annotated[
        JobFile | None, Parameter(help="Take the plan, [retrieve] and [rerank], of this job file in place of the run's own.")
    ] = None,
    settings: Overrides = (),
    answers: Annotated[int, Parameter(help="Number of answers to show for each question.")] = 3,
    json: Annotated[bool, Parameter(negative=(), help="Print one JSON object a question.")] = False,
) -> None:
    """Answer questions from a run's shards, by its plan: what `run` would answer them, at the terminal.

    For trying a job out: new questions, or another plan over the same shards, with --job or --set:

    answermill ask RUN "Why is the sea salty?" --set rerank.stages.2.keep=50

    Indexes and models are loaded once, and a line on stderr says how long that took; another one says it of each question. The
    run needs shards/; its plan is read from its manifests, and the files that the plan names are looked for beside the run.
    Nothing is written.
    """
    import time

    began = time.perf_counter()
    if answers < 1:
        raise JobError(f"--answers {answers}: give 1 or more", USAGE)
    from pipelines.ask.ask import answer_questions

    write_lines(
        answer_questions(run, questions or question_lines(sys.stdin), job, settings, answers, json, time.perf_counter() - began)
    )


def question_lines(stream: TextIO) -> Iterator[str]:
    """The lines of stdin; at a terminal with a prompt before each."""
    while True:
        if stream.isatty():
            sys.stderr.write("question> ")
            sys.stderr.flush()
        line = stream.readline()
        if not line:
            return
        yield line


def commands() -> list[Callable[..., object]]:
    """All commands of this module."""
    return [ask, explain]
