"""Commands beside a run: a plan of its costs, answers to other questions, and the path of an answer."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TextIO

from cyclopts import Group, Parameter

from answermill.pipelines.cli.parameters import PLACE, JobFile, Overrides, Run, write_lines
from answermill.pipelines.errors import USAGE, JobError
from answermill.pipelines.specs.registry import job_steps

GROUP = Group("Plan, ask, explain", sort_key=1)


def explain(
    run: Run,
    question: Annotated[str, Parameter(help="Id of a question of the run, or its text.")],
    *,
    gold: Annotated[
        str | None,
        Parameter(
            help="Words of the right answer, in place of the run's labels; letter case and blanks are folded."
        ),
    ] = None,
    first: Annotated[
        int,
        Parameter(help="Number of candidates to show, the best of the plan; right ones are always shown."),
    ] = 10,
    all: Annotated[bool, Parameter(negative=(), help="Show every candidate.")] = False,
    json: Annotated[
        bool, Parameter(negative=(), help="Print one JSON object in place of the table.")
    ] = False,
) -> None:
    """Show a question's candidates through retrieval and stages, and where the right one was lost.

    For each right answer it says what became of it: not in the corpus; not retrieved; retrieved, but no
    sentence of the list; dropped by a stage, at which place of how many, and what its score lacked to the
    last one that stayed; or kept, at which rank. What is right is said by labels/, which `propagate` writes,
    or by --gold:

    answermill explain RUN q17 --gold "completed in 1970"

    In the table #3 is a rank, beside the score of the index or stage; `exit 1` says that a candidate left
    within a stage. Works on runs that are not finished, as far as they have come, and on runs in an object
    store.
    """
    if first < 0:
        raise JobError(f"--first {first}: give 0 or more", USAGE)
    from answermill.pipelines.look.explain.explain import explain as explanation_of

    explanation = explanation_of(run, question, gold)
    if json:
        write_lines([json_format.dumps(explanation.json(first, all), ensure_ascii=False)])
    else:
        write_lines(explanation.lines(first, all))


def plan(
    job: JobFile,
    *,
    out: Annotated[
        Path | None,
        PLACE,
        Parameter(
            help="Folder of the run to be: the plan is written there, as plan.json, to be compared with "
            "what comes."
        ),
    ] = None,
    rates: Annotated[
        Path | None,
        Parameter(
            help="Throughputs of the machine that will run the job, from --save-rates, in place of this "
            "one's."
        ),
    ] = None,
    save_rates: Annotated[
        Path | None, Parameter(help="Write this machine's throughputs into this file.")
    ] = None,
    price_per_hour: Annotated[
        float | None, Parameter(help="Price of an hour of the machine, for what the run will cost.")
    ] = None,
    json: Annotated[
        bool, Parameter(negative=(), help="Print one JSON object in place of the tables.")
    ] = False,
    settings: Overrides = (),
) -> None:
    """Say what a job will take before it is started: counts, hours, bytes, memory and money.

    Some pages and questions are drawn by hash, and the job's own steps run on them in a temporary folder, for
    about a minute of one core. What they became is scaled to the whole input, and what they cost to
    `workers.processes`. It says what it assumes:

    answermill plan JOB.toml --price-per-hour 0.40

    For another machine: run it there with --save-rates FILE, and here with --rates FILE.
    """
    from answermill.pipelines.config.input_files import check_files
    from answermill.pipelines.config.job_file import load

    checked = load(job, settings)
    check_files(checked, list(job_steps()))
    from answermill.pipelines.engine.runner import configure_logging
    from answermill.pipelines.look.estimate.plan import plan_of

    configure_logging()
    predicted, measured = plan_of(checked, rates, price_per_hour)
    if save_rates is not None:
        measured.save(save_rates)
    if out is not None:
        predicted.save(out)
    write_lines([json_format.dumps(asdict(predicted))] if json else predicted.lines())


def ask(
    run: Run,
    *questions: Annotated[
        str, Parameter(help="The questions; without one they are read from stdin, a line each.")
    ],
    job: Annotated[
        JobFile | None,
        Parameter(help="Take the plan, [retrieve] and [rerank], of this job file in place of the run's own."),
    ] = None,
    settings: Overrides = (),
    answers: Annotated[int, Parameter(help="Number of answers to show for each question.")] = 3,
    json: Annotated[bool, Parameter(negative=(), help="Print one JSON object a question.")] = False,
) -> None:
    """Answer questions from a run's shards, by its plan: what `run` would answer them, at the terminal.

    For trying a job out: new questions, or another plan over the same shards, with --job or --set:

    answermill ask RUN "Why is the sea salty?" --set rerank.stages.2.keep=50

    Indexes and models are loaded once, and a line on stderr says how long that took; another one says it of
    each question. The run needs shards/; its plan is read from its manifests, and the files that the plan
    names are looked for beside the run. Nothing is written.
    """
    import time

    began = time.perf_counter()
    if answers < 1:
        raise JobError(f"--answers {answers}: give 1 or more", USAGE)
    from answermill.pipelines.look.ask.ask import answer_questions

    imported = time.perf_counter() - began
    texts = questions or question_lines(sys.stdin)
    write_lines(answer_questions(run, texts, job, settings, answers=answers, as_json=json, imported=imported))


def question_lines(stream: TextIO) -> Iterator[str]:
    """Lines of stdin; at a terminal with a prompt before each."""
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
    return [plan, ask, explain]
