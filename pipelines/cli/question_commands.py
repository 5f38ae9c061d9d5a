"""Commands beside a run: a plan of its costs, answers to other questions, the path of an answer, and other
settings of BM25."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, TextIO

from cyclopts import Group, Parameter

from answermill.pipelines.cli.parameters.arguments import (
    NEW_FOLDER,
    PLACE,
    ColumnNames,
    JobFile,
    NewFile,
    Overrides,
    Price,
    Run,
    Seed,
    check_there,
    parse_columns,
)
from answermill.pipelines.cli.streams import are_collected, write_lines
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
    explain_plan: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Say what each stage of the plan reads, keeps and costs, in words and a table, and run "
            "nothing. With --rates also its time.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        PLACE,
        NEW_FOLDER,
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
    save_rates: Annotated[NewFile, Parameter(help="Write this machine's throughputs into this file.")] = None,
    price_per_hour: Annotated[
        Price, Parameter(help="Price of an hour of the machine, for what the run will cost.")
    ] = None,
    json: Annotated[
        bool, Parameter(negative=(), help="Print one JSON object in place of the tables.")
    ] = False,
    settings: Overrides = (),
) -> None:
    """Say what a job will take before it is started: counts, hours, bytes, memory and money.

    Some pages and questions are drawn by hash, and the job's own steps run on them in a temporary folder, on
    one core: the longer, the more stages the plan has. What they became is scaled to the whole input, and
    what they cost to `workers.processes`. It says what it assumes:

    answermill plan JOB.toml --price-per-hour 0.40

    For another machine: run it there with --save-rates FILE, and here with --rates FILE.
    """
    from answermill.pipelines.config.input_files import check_files
    from answermill.pipelines.config.job_file import load

    checked = load(job, settings)
    if explain_plan:
        if (save_rates, out, price_per_hour) != (None, None, None) or json:
            raise JobError(
                "--explain-plan runs nothing; of the other options it takes --rates and --set", USAGE
            )
        check_files(checked, ["rerank"])
        from answermill.pipelines.look.estimate.plan_in_words import plan_lines
        from answermill.pipelines.look.estimate.rates import Rates

        write_lines(plan_lines(checked, Rates.read(rates) if rates is not None else None))
        return

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
    if not questions and are_collected():
        raise JobError("no question is given; write one or several", USAGE)
    if not all(isinstance(text, str) and text.strip() for text in questions):
        raise JobError("a question is empty; write its words, in quotes", USAGE)
    from answermill.pipelines.look.ask.ask import answer_questions

    imported = time.perf_counter() - began
    texts = questions or question_lines(sys.stdin)
    write_lines(answer_questions(run, texts, job, settings, answers=answers, as_json=json, imported=imported))


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25Trials:
    """Values of BM25's settings to try, all with all, and the metric of the best."""

    k1: Annotated[str, Parameter(help="Values of retrieve.k1, with commas.")] = "0.3,0.6,0.9,1.2,1.6,2"
    b: Annotated[str, Parameter(help="Values of retrieve.b.")] = "0.1,0.25,0.4,0.55,0.75,0.9"
    title_weight: Annotated[
        str,
        Parameter(help="Values of retrieve.title_weight, e.g. 0,0.5,1; the job's own alone if not named."),
    ] = ""
    metric: Annotated[str, Parameter(help="MRR, or recall@K with any K.")] = "MRR"
    seed: Annotated[Seed, Parameter(help="Seed of the bootstrap.")] = 0


def tune_bm25(
    job: JobFile,
    *,
    out: Annotated[
        Path,
        PLACE,
        Parameter(help="Folder of the job's run, or its URL; it needs shards/, and is not changed."),
    ],
    labels: Annotated[
        Path,
        PLACE,
        Parameter(help="Labels of a dev set: a file as of propagate.labels, or a folder below labels/."),
    ],
    columns: ColumnNames = (),
    trials: Bm25Trials = Bm25Trials(),
    json: Annotated[NewFile, Parameter(help="Write all figures as JSON.")] = None,
    settings: Overrides = (),
) -> None:
    """Choose BM25's k1, b and title weight for labelled questions, and print the lines for the job.

    Every setting searches the run's shards, which are not built again. Figures are of the first passage that
    holds a right answer. A setting is advised only if the 95 % interval of its gain over the job's own, which
    holds for all settings together, is above 0; else the job's own stays. For questions of another file:

    answermill tune-bm25 JOB.toml --out RUN --labels dev.tsv --set retrieve.questions=dev_questions.tsv
    """
    from answermill.pipelines.config.job_file import load

    loaded = load(job, settings)
    check_there(out, labels)
    from answermill.pipelines.learn.evaluate.tune_bm25 import Trials, numbers
    from answermill.pipelines.learn.evaluate.tune_bm25 import tune_bm25 as tune

    k1, b, weights = (numbers(name, getattr(trials, name)) for name in ("k1", "b", "title_weight"))
    chosen = Trials(k1, b, weights, trials.metric, trials.seed)
    result = tune(loaded, out.absolute(), labels, chosen, parse_columns(columns))
    if json:
        result.write(json)
    write_lines(result.lines())


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
    return [plan, ask, explain, tune_bm25]
